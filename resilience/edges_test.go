package resilience_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
)

// network is a stack over net/http's own transport, and its upstream.
func network(t *testing.T, p resilience.Policy, h http.HandlerFunc) (tr *resilience.Transport, rec *calls, url string) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	tr, rec = build(t, base, p)
	return tr, rec, srv.URL
}

func post(t *testing.T, ctx context.Context, url, body string) *http.Request { //nolint:revive // t comes first in tests
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	return req
}

// What is no key is ignored, also where net/http would refuse to send it.
func TestAnInvalidIdempotencyKeyIsNoReasonToRefuseACall(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"a\x01b", "a\nb", "ä", "", "a b", strings.Repeat("x", 256)} {
		keys := make(chan []string, 1)
		tr, _, url := network(t, quick(), func(w http.ResponseWriter, r *http.Request) {
			keys <- r.Header["Idempotency-Key"]
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, okJSON)
		})
		req := post(t, t.Context(), url+"/v1/chat/completions", plainBody)
		req.Header["Idempotency-Key"] = []string{key}
		status, _, err := do(t, tr, req)
		require.NoError(t, err, "%q", key)
		assert.Equal(t, 200, status)
		assert.Empty(t, <-keys, "%q", key)
	}
}

func TestGetBodyMayReturnNoBody(t *testing.T) {
	t.Parallel()
	tr, _ := build(t, play(reply{status: 200, body: okJSON}), quick())
	req := chat(t, t.Context(), plainBody)
	req.GetBody = func() (io.ReadCloser, error) { return nil, nil } //nolint:nilnil // what is tested
	status, _, err := do(t, tr, req)
	require.NoError(t, err)
	assert.Equal(t, 200, status)
}

func TestAcceptEncodingIsTakenOffInAnySpelling(t *testing.T) {
	t.Parallel()
	base := play(reply{status: 200, body: okJSON})
	tr, _ := build(t, base, quick())
	req := chat(t, t.Context(), plainBody)
	req.Header["accept-encoding"] = []string{"br"}
	_, _, err := do(t, tr, req)
	require.NoError(t, err)
	assert.NotContains(t, base.headers[0], "accept-encoding")
	assert.Contains(t, req.Header, "accept-encoding", "the caller's request stays as it was")
}

// The timeout of a call holds on through its retries.
func TestPolicyTimeoutGoesOnWithARetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quick()
		p.Timeout = 100 * time.Millisecond
		tr, rec := build(t, play(
			reply{status: 200, body: `{"choices":[]}`},
			reply{status: 200, body: okJSON, delay: time.Hour},
		), p)
		start := time.Now()
		_, _, err := do(t, tr, chat(t, t.Context(), plainBody))
		assert.Equal(t, 504, resilience.StatusOf(err))
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
		assert.Equal(t, resilience.OutcomeTimeout, rec.last(t).Outcome)
		assert.Len(t, rec.last(t).Attempts, 2)
	})
}

// endsLater is a context that its test ends, once the answer has begun: by a
// deadline or by a cancellation, however fast the machine is.
type endsLater struct {
	context.Context
	deadline bool
	over     atomic.Bool
}

func (c *endsLater) Deadline() (time.Time, bool) {
	if c.over.Load() {
		return time.Now().Add(-time.Second), c.deadline
	}
	return time.Now().Add(time.Hour), c.deadline
}

func (c *endsLater) Err() error {
	if err := c.Context.Err(); err == nil || !c.deadline {
		return err
	}
	return context.DeadlineExceeded
}

// HTTP/1 returns the bare cause of a context from Read.
func TestAReadThatTheContextEndedSaysSo(t *testing.T) {
	t.Parallel()
	boom := errors.New("the user left")
	for name, c := range map[string]struct {
		deadline bool
		status   int
	}{
		"cancelled with a cause": {false, 0},
		"deadline with a cause":  {true, 504},
	} {
		for _, path := range []string{"/v1/files/f", "/v1/chat/completions"} {
			t.Run(name+path, func(t *testing.T) {
				t.Parallel()
				p := quick()
				p.Stream.IdleTimeout = 10 * time.Second
				tr, rec, url := network(t, p, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, evA)
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				})
				inner, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				ctx := &endsLater{Context: inner, deadline: c.deadline}
				resp, err := tr.RoundTrip(post(t, ctx, url+path, streamBody))
				require.NoError(t, err)
				assert.Equal(t, 200, resp.StatusCode)
				ctx.over.Store(true)
				cancel(boom)
				_, err = io.ReadAll(resp.Body)
				require.NoError(t, resp.Body.Close())
				require.ErrorIs(t, err, boom)
				assert.Equal(t, c.status, resilience.StatusOf(err))
				failures := 1
				if c.status == 0 {
					failures = 0
					assert.ErrorIs(t, err, context.Canceled)
				}
				assert.Equal(t, failures, tr.Breakers()[0].Failures)
				assert.Len(t, rec.list(), 1)
			})
		}
	}
}

func TestClosingBesideAReadIsNoFailure(t *testing.T) {
	t.Parallel()
	for name, under := range map[string]func(context.Context) context.Context{
		"guarded": func(ctx context.Context) context.Context { return ctx }, "passthrough": resilience.WithPassthrough,
	} {
		for text, outcome := range map[string]string{evA: resilience.OutcomeCanceled, evA + evStop: resilience.OutcomeSuccess} {
			if name != "guarded" {
				outcome = resilience.OutcomeCanceled // nobody looks for the end
			}
			synctest.Test(t, func(t *testing.T) {
				p := quick()
				p.Stream.IdleTimeout = time.Minute
				tr, rec := build(t, play(reply{status: 200, rest: stalled(text), header: http.Header{"Content-Type": {"text/event-stream"}}}), p)
				resp, err := tr.RoundTrip(chat(t, under(t.Context()), streamBody))
				require.NoError(t, err)
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = io.Copy(io.Discard, resp.Body)
				}()
				synctest.Wait() // Read waits
				require.NoError(t, resp.Body.Close())
				<-done
				assert.Equal(t, 0, tr.Breakers()[0].Failures, name)
				require.Len(t, rec.list(), 1)
				assert.Equal(t, outcome, rec.last(t).Outcome, name)
			})
		}
	}
}

func TestReadAfterClose(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]reply{
		"judged": {status: 200, body: okJSON}, "stream": {status: 200, body: evA + evStop + evDone},
		"peeked": {status: 503, body: `{"error":{}}`}, "rendered": {status: 200, body: "<html>"},
	} {
		tr, _ := build(t, play(r), quick())
		resp, err := tr.RoundTrip(chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		n, err := resp.Body.Read(make([]byte, 8))
		assert.Zero(t, n, name)
		require.ErrorIs(t, err, http.ErrBodyReadAfterClose, name)
		require.NoError(t, resp.Body.Close(), name)
	}
}

// A call whose answer is a stream is a streaming call: it was dispatched, so it
// is not sent again.
func TestAStreamThatNobodyAskedForIsNotRetried(t *testing.T) {
	t.Parallel()
	for mode, reqs := range map[string]int{"never": 1, "held_back": 3} {
		p := quick()
		p.Retry.Streams = mode
		p.Retry.InitialBackoff = time.Millisecond
		base := &script{replies: []reply{{}}}
		header := http.Header{"Content-Type": {"text/event-stream"}}
		tr, rec := build(t, roundTrip(func(req *http.Request) (*http.Response, error) {
			base.replies[0] = reply{status: 200, rest: breaking(": ping\n\n", io.ErrUnexpectedEOF), header: header}
			return base.RoundTrip(req)
		}), p)
		_, _, err := do(t, tr, chat(t, t.Context(), plainBody))
		assert.Equal(t, 502, resilience.StatusOf(err))
		assert.Equal(t, reqs, base.count(), mode)
		assert.True(t, rec.last(t).Stream)
	}
}

// net/http closes the body of a redirect without reading much of it.
func TestARedirectOfAStreamIsNoCancelledCall(t *testing.T) {
	t.Parallel()
	tr, rec, url := network(t, quick(), func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if strings.HasPrefix(r.URL.Path, "/old") {
			w.Header().Set("Location", "/v1/chat/completions")
			w.WriteHeader(http.StatusTemporaryRedirect)
			_, _ = io.WriteString(w, strings.Repeat("x", 5000))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, evA+evStop+evDone)
	})
	resp, err := tr.Client().Do(post(t, t.Context(), url+"/old/v1/chat/completions", streamBody))
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, evA+evStop+evDone, string(body))
	for _, call := range rec.list() {
		assert.Equal(t, resilience.OutcomeSuccess, call.Outcome)
	}
}

func TestAPanicOfTheBaseIsATransportError(t *testing.T) {
	t.Parallel()
	tr, rec := build(t, play(reply{panic: "boom"}), quick())
	assert.PanicsWithValue(t, "boom", func() { _, _, _ = do(t, tr, chat(t, t.Context(), plainBody)) })
	require.Len(t, rec.list(), 1)
	assert.Equal(t, resilience.OutcomeTransportError, rec.last(t).Outcome)
	assert.Equal(t, 502, rec.last(t).Status)
	require.Error(t, rec.last(t).Err)
}

// A base may hand out one header map again and again.
func TestABasesHeadersAreNotWrittenTo(t *testing.T) {
	t.Parallel()
	shared := http.Header{"Content-Type": {"application/json"}}
	base := play(reply{status: 503, body: `{}`}, reply{status: 503, body: `{}`}, reply{status: 503, body: `{}`},
		reply{status: 503, body: `{}`}, reply{status: 200, body: okJSON})
	p := quick()
	p.Retry.InitialBackoff = time.Millisecond
	tr, _ := build(t, roundTrip(func(req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if err == nil {
			resp.Header = shared
		}
		return resp, err
	}), p)
	for _, want := range []int{503, 200} {
		resp, err := tr.RoundTrip(chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, want, resp.StatusCode)
		assert.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
	}
	assert.Len(t, shared, 1)
}

func TestPolicyTimeoutHoldsForAStreamThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quick()
		p.Timeout = 100 * time.Millisecond
		p.Stream.IdleTimeout = time.Minute
		tr, rec := build(t, roundTrip(func(req *http.Request) (*http.Response, error) {
			body := stalled(": ping\n\n")
			context.AfterFunc(req.Context(), func() { _ = body.Close() }) // as net/http does
			return reply{status: 200, rest: body, header: http.Header{"Content-Type": {"text/event-stream"}}}.response(req)
		}), p)
		start := time.Now()
		_, _, err := do(t, tr, chat(t, t.Context(), plainBody))
		assert.Equal(t, 504, resilience.StatusOf(err))
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
		assert.Equal(t, resilience.OutcomeTimeout, rec.last(t).Outcome)
	})
}

// watched is a request body that knows whether it was closed.
type watched struct {
	io.Reader
	closed bool
}

func (w *watched) Close() error { w.closed = true; return nil }

func TestTheRequestsBodyIsClosedWhateverHappens(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*resilience.Transport, *http.Request) *http.Request{
		"context done": func(_ *resilience.Transport, req *http.Request) *http.Request {
			ctx, cancel := context.WithCancel(req.Context())
			cancel()
			return req.WithContext(ctx)
		},
		"Read fails": func(_ *resilience.Transport, req *http.Request) *http.Request {
			req.Body.(*watched).Reader = iotest.ErrReader(io.ErrClosedPipe)
			return req
		},
		"Read panics": func(_ *resilience.Transport, req *http.Request) *http.Request {
			req.Body.(*watched).Reader = nil
			return req
		},
		"another length": func(_ *resilience.Transport, req *http.Request) *http.Request {
			req.ContentLength++
			return req
		},
		"rejected": func(tr *resilience.Transport, req *http.Request) *http.Request {
			tr.ForceOpen("", time.Hour)
			return req
		},
		"bad method": func(_ *resilience.Transport, req *http.Request) *http.Request {
			req.Method = "P OST"
			return req
		},
		"no URL": func(_ *resilience.Transport, req *http.Request) *http.Request {
			req.URL = nil
			return req
		},
	} {
		tr, rec := build(t, &http.Transport{}, quick())
		body := &watched{Reader: strings.NewReader(plainBody)}
		req := chat(t, t.Context(), plainBody)
		req.Body = body
		func() {
			defer func() { _ = recover() }()
			_, _, _ = do(t, tr, spoil(tr, req))
		}()
		assert.True(t, body.closed, name)
		assert.Len(t, rec.list(), 1, name)
		assert.Equal(t, 0, tr.Breakers()[0].Failures, name)
	}
}

// first_event_timeout is for streaming calls, and so is a call whose answer is
// a stream.
func TestFirstEventTimeoutOfAStreamThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quick()
		p.Stream.IdleTimeout = time.Minute
		p.Stream.FirstEventTimeout = 100 * time.Millisecond
		events := http.Header{"Content-Type": {"text/event-stream"}}
		for _, text := range []string{"", ": ping\n\n"} {
			tr, rec := build(t, play(reply{status: 200, delay: 30 * time.Millisecond, rest: stalled(text), header: events}), p)
			start := time.Now()
			_, _, err := do(t, tr, chat(t, t.Context(), plainBody))
			assert.Equal(t, 504, resilience.StatusOf(err), "%q", text)
			assert.Equal(t, 100*time.Millisecond, time.Since(start), "%q", text)
			assert.Equal(t, resilience.OutcomeTimeout, rec.last(t).Outcome)
		}
		for _, text := range []string{evA + evStop + evDone, okJSON} {
			tr, _ := build(t, play(reply{status: 200, body: text, header: events}), p)
			resp, err := tr.RoundTrip(chat(t, t.Context(), plainBody))
			require.NoError(t, err)
			time.Sleep(time.Second) // the limit is lifted by then
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, text, string(got))
		}
	})
}

type badHandler struct{ slog.Handler }

func (badHandler) Enabled(context.Context, slog.Level) bool  { return true }
func (badHandler) Handle(context.Context, slog.Record) error { panic("handler") }
func (b badHandler) WithAttrs([]slog.Attr) slog.Handler      { return b }

func TestALogHandlerThatPanicsHarmsNoCall(t *testing.T) {
	t.Parallel()
	p := quick()
	p.Retry.InitialBackoff = time.Millisecond
	p.CircuitBreaker.FailureThreshold = 1
	tr, err := resilience.Builder{
		Base: play(reply{status: 503, body: "{}"}), Logger: slog.New(badHandler{}),
		OnCall: func(context.Context, resilience.Call) { panic("hook") },
	}.Build("p", p)
	require.NoError(t, err)
	for range 2 { // the second is rejected
		status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		assert.Equal(t, 503, status)
	}
}

// A download that the caller cancels and closes says nothing of the upstream.
func TestACancelledDownloadIsNeutral(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{false, true} {
		base := play(reply{status: 500, body: "{}"}, reply{status: 200, rest: stalled("bytes")})
		tr, rec := build(t, base, quick())
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://upstream.invalid/v1/files/f/content", nil)
			require.NoError(t, err)
			resp, err := tr.RoundTrip(req)
			require.NoError(t, err)
			if cancelled && resp.StatusCode == 200 {
				cancel()
			}
			require.NoError(t, resp.Body.Close())
			cancel()
		}
		outcome, failures := resilience.OutcomeSuccess, 0
		if cancelled {
			outcome, failures = resilience.OutcomeCanceled, 1
		}
		assert.Equal(t, outcome, rec.last(t).Outcome)
		assert.Equal(t, failures, tr.Breakers()[0].Failures)
	}
}
