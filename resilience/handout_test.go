package resilience_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/streamguard"
)

// drip is a base that sends headers at once, then a piece each 50 ms: first
// what is in pieces, then the last of them again and again. Its body heeds the
// request's context, as that of net/http does.
type drip struct {
	contentType string
	pieces      []string // the last one is repeated; "": silence
	ends        bool     // after the pieces
}

func (d drip) RoundTrip(req *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, req.Body)
	_ = req.Body.Close()
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {d.contentType}}, ContentLength: -1,
		Request: req, Body: &dripping{drip: d, req: req, left: slices.Clone(d.pieces), closed: make(chan struct{})},
	}, nil
}

type dripping struct {
	drip
	req    *http.Request
	left   []string
	once   sync.Once
	closed chan struct{}
}

func (d *dripping) Read(p []byte) (int, error) {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	for {
		select {
		case <-d.req.Context().Done():
			return 0, d.req.Context().Err()
		case <-d.closed:
			return 0, http.ErrBodyReadAfterClose
		case <-timer.C:
		}
		if len(d.left) == 0 {
			return 0, io.EOF
		}
		piece := d.left[0]
		if len(d.left) > 1 || d.ends {
			d.left = d.left[1:]
		}
		if piece != "" {
			return copy(p, piece), nil
		}
		timer.Reset(50 * time.Millisecond)
	}
}

func (d *dripping) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

// G76, G77: a server that sends headers and then nothing, or nothing of use, is
// bounded by each time limit of a call, since none ends before the answer is
// handed out (contract 1).
func TestTimeLimitsEndWithTheHandOut(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	limits := map[string]func(*resilience.Policy){
		"timeout":         func(p *resilience.Policy) { p.Timeout = limit },
		"attempt_timeout": func(p *resilience.Policy) { p.Retry.AttemptTimeout = limit },
	}
	for name, base := range map[string]drip{
		"headers alone":       {"application/json", []string{""}, false},
		"blank lines":         {"application/json", []string{"\n"}, false},
		"half an answer":      {"application/json", []string{`{"choices":[{"index":0,`, " "}, false},
		"headers of a stream": {"text/event-stream", []string{""}, false},
		"comments":            {"text/event-stream", []string{": keep-alive\n\n"}, false},
		"blank lines, stream": {"text/event-stream", []string{"\n"}, false},
	} {
		for which, set := range limits {
			for asked, body := range map[string]string{"plain": plainBody, "stream": streamBody} {
				t.Run(name+"/"+which+"/"+asked, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						p := quick()
						p.Stream.IdleTimeout = time.Minute
						set(&p)
						tr, rec := build(t, base, p)
						start := time.Now()
						_, _, err := do(t, tr, chat(t, t.Context(), body))
						assert.Equal(t, http.StatusGatewayTimeout, resilience.StatusOf(err))
						assert.Equal(t, limit, time.Since(start))
						assert.Equal(t, resilience.OutcomeTimeout, rec.last(t).Outcome)
						assert.Len(t, rec.last(t).Attempts, 1, "a local timeout is not retried")
						assert.Equal(t, 1, tr.Breakers()[0].Failures)
					})
				})
			}
		}
	}
}

// What was handed out is not cut any more: a stream from its first data event
// on, an answer of unknown format from its headers on.
func TestTimeLimitsDoNotCutWhatWasHandedOut(t *testing.T) {
	t.Parallel()
	long := slices.Concat(slices.Repeat([]string{evA}, 30), []string{evStop, "data: [DONE]\n\n"})
	for name, c := range map[string]struct {
		base drip
		path string
		body string
	}{
		"a stream":             {drip{"text/event-stream", long, true}, "/v1/chat/completions", streamBody},
		"an unasked stream":    {drip{"text/event-stream", long, true}, "/v1/chat/completions", plainBody},
		"another call's bytes": {drip{"application/octet-stream", slices.Repeat([]string{"x"}, 30), true}, "/v1/files/f", plainBody},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := quick()
				p.Timeout, p.Retry.AttemptTimeout = 300*time.Millisecond, 200*time.Millisecond
				tr, rec := build(t, c.base, p)
				status, got, err := do(t, tr, post(t, t.Context(), "http://up.test"+c.path, c.body))
				require.NoError(t, err)
				assert.Equal(t, 200, status)
				assert.Equal(t, strings.Join(c.base.pieces, ""), got)
				assert.Equal(t, resilience.OutcomeSuccess, rec.last(t).Outcome)
			})
		})
	}
}

// A stream that is held back whole is handed out at its end, and the limits hold
// until then.
func TestTimeLimitsOfAStreamThatIsHeldWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quick()
		p.Timeout = 300 * time.Millisecond
		p.Stream.HoldUntil = streamguard.HoldComplete
		tr, rec := build(t, drip{"text/event-stream", []string{evA}, false}, p)
		start := time.Now()
		_, _, err := do(t, tr, chat(t, t.Context(), streamBody))
		assert.Equal(t, http.StatusGatewayTimeout, resilience.StatusOf(err))
		assert.Equal(t, 300*time.Millisecond, time.Since(start))
		assert.Equal(t, resilience.OutcomeTimeout, rec.last(t).Outcome)
	})
}

// A server that begins a page and then falls silent is no reason to wait: the
// page is a failure whatever follows.
func TestAPageThatHangsIsAFailureSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quick()
		p.Retry.MaxRetries = 0
		tr, _ := build(t, drip{"text/html", []string{"<!DOCTYPE html><html>", ""}, false}, p)
		start := time.Now()
		status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		assert.Equal(t, 502, status)
		assert.LessOrEqual(t, time.Since(start), time.Second)
	})
}

// A failure is no stream, whatever its label: it is retried like any other.
func TestAFailureLabelledAsAStreamIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr, rec := build(t, play(
			reply{status: 503, body: "event: error\n\n", header: http.Header{"Content-Type": {"text/event-stream"}}},
			reply{status: 200, body: okJSON},
		), quick())
		status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		assert.Equal(t, 200, status)
		assert.Len(t, rec.last(t).Attempts, 2)
	})
}

// A breaker that opens before or during the wait ends the retries of the calls
// under way. The answer in hand goes back, with all that is known of it.
func TestABreakerThatOpensEndsTheRetries(t *testing.T) {
	t.Parallel()
	for name, opens := range map[string]time.Duration{"before the wait": 0, "during the wait": 5 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var tr *resilience.Transport
				base := roundTrip(func(r *http.Request) (*http.Response, error) {
					if opens == 0 {
						tr.ForceOpen("", time.Minute)
					} else {
						time.AfterFunc(opens, func() { tr.ForceOpen("", time.Minute) })
					}
					return play(reply{status: 200, body: `{"choices":[]}`}).RoundTrip(r)
				})
				var rec *calls
				tr, rec = build(t, base, quick())
				start := time.Now()
				resp, err := tr.RoundTrip(chat(t, t.Context(), plainBody))
				require.NoError(t, err)
				if opens == 0 {
					assert.Zero(t, time.Since(start), "no wait is begun")
				}
				_, err = io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, 502, resp.StatusCode)
				_, rejected := resilience.Rejection(resp, nil)
				assert.False(t, rejected, "it is the upstream's answer")
				c := rec.last(t)
				assert.Len(t, c.Attempts, 1)
				assert.Equal(t, "circuit_open", c.NoRetry)
				assert.True(t, c.Unmasked)
				assert.Equal(t, `{"choices":[]}`, string(c.Original))
				assert.Equal(t, "no_choices", c.Empty)
				assert.Equal(t, resilience.OutcomeError, c.Outcome)
			})
		})
	}
}
