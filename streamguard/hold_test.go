package streamguard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience/ending"
	sg "github.com/surefoot-go/surefoot/streamguard"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

const role = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"

const inBand503 = `data: {"error":{"message":"x","code":503}}` + "\n\n"

func TestEmptyStreams(t *testing.T) {
	for name, data := range map[string]string{
		"nothing": "", "blank": "\n\n\n", "comments": ": a\n\n: b\n\n", "done": DONE, "usage and done": U + DONE,
		"done unterminated": "data: [DONE]", "half an event": C("a")[:20], "no data": "event: x\nid: 3\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []string{"", sg.HoldFirstContent, sg.HoldComplete} {
				r := stack(sse(part{data: data}), sg.Policy{HoldUntil: mode})
				resp, got, err := r.readAll(t, streamCall(t, chatPath))
				require.NoError(t, err)
				assert.Equal(t, 502, resp.StatusCode)
				assert.Contains(t, got, "provider returned an empty stream")
				require.Len(t, r.reports, 1)
				assert.Equal(t, wire.ReasonEmptyStream, r.reports[0].Failure.Reason)
				assert.Empty(t, r.ends)
				assert.Zero(t, r.firsts)
			}
		})
	}
}

func TestLoneDoneIsNotWaitedFor(t *testing.T) {
	r := stack(sse(part{data: DONE}, part{hang: true}), sg.Policy{})
	resp, _, err := r.readAll(t, streamCall(t, chatPath))
	require.NoError(t, err)
	assert.Equal(t, 502, resp.StatusCode)
}

func TestHoldReturnsAtTheFirstDataEvent(t *testing.T) {
	for mode, c := range map[string]struct{ before, first string }{
		"":                  {U + ": x\n\n", role},
		sg.HoldFirstContent: {role + U, C("a")},
	} {
		synctest.Test(t, func(t *testing.T) {
			data := c.before + c.first
			r := stack(sse(part{data: c.before}, part{wait: time.Second, data: c.first}, part{wait: time.Hour, data: DONE}), sg.Policy{HoldUntil: mode})
			start := time.Now()
			resp, err := r.guard.RoundTrip(streamCall(t, chatPath))
			require.NoError(t, err)
			assert.Equal(t, time.Second, time.Since(start))
			assert.Equal(t, 1, r.firsts)
			p := make([]byte, len(data))
			_, err = io.ReadFull(resp.Body, p)
			require.NoError(t, err)
			assert.Equal(t, data, string(p))
			assert.Equal(t, time.Second, time.Since(start))
			require.NoError(t, resp.Body.Close())
		})
	}
}

func TestWhatFollowsTheFirstEventIsAfterIt(t *testing.T) {
	// One segment or two: the error is in the stream either way.
	for _, parts := range [][]part{whole(C("a") + inBand503), whole(C("a"), inBand503)} {
		got, r, err := stream(t, chatPath, sg.Policy{}, parts...)
		failedInBand(t, err, 503)
		assert.Equal(t, C("a")+inBand503, got)
		assert.Equal(t, 503, r.end(t).Failure.Status)
	}
}

func TestFailuresWhileHeldBack(t *testing.T) {
	for name, c := range map[string]struct {
		mode, data string
		want       int
	}{
		"first_content, error after the role":      {sg.HoldFirstContent, role + inBand503, 503},
		"first_content, malformed after the role":  {sg.HoldFirstContent, role + "data: {\"x\n\n", 502},
		"complete, error after content":            {sg.HoldComplete, role + C("a") + inBand503 + DONE, 503},
		"complete, failed finish":                  {sg.HoldComplete, C("a") + F("error") + DONE, 502},
		"complete, malformed":                      {sg.HoldComplete, C("a") + "data: {\"x\n\n" + DONE, 502},
		"first_event, malformed first":             {"", "data: {\"x\n\n" + C("a"), 502},
		"complete, error without a blank line":     {sg.HoldComplete, C("a") + strings.TrimSpace(inBand503), 503},
		"first_content, error instead of content":  {sg.HoldFirstContent, inBand503, 503},
		"complete, bytes after a failure go along": {sg.HoldComplete, inBand503 + C("x") + DONE, 503},
	} {
		t.Run(name, func(t *testing.T) {
			r := stack(sse(part{data: c.data}), sg.Policy{HoldUntil: c.mode})
			resp, got, err := r.readAll(t, streamCall(t, chatPath))
			require.NoError(t, err)
			assert.Equal(t, c.want, resp.StatusCode)
			assert.Contains(t, got, `"error":{`)
			assert.NotContains(t, got, "data:")
			assert.Empty(t, r.ends)
			_, ok := sg.Unmasked(resp)
			assert.True(t, ok)
		})
	}
}

func TestBreakOffsWhileHeldBack(t *testing.T) {
	reset := errors.New("reset")
	for name, c := range map[string]struct {
		mode  string
		parts []part
		cause error
	}{
		"complete, clean end":     {sg.HoldComplete, whole(C("a")), io.ErrUnexpectedEOF},
		"complete, reset":         {sg.HoldComplete, []part{{data: C("a"), err: reset}}, reset},
		"first_content, no more":  {sg.HoldFirstContent, whole(role), io.ErrUnexpectedEOF},
		"responses done, no end":  {sg.HoldComplete, whole(C("a")), io.ErrUnexpectedEOF},
		"first_content and reset": {sg.HoldFirstContent, []part{{data: role, err: reset}}, reset},
	} {
		t.Run(name, func(t *testing.T) {
			_, r, err := stream(t, chatPath, sg.Policy{HoldUntil: c.mode}, c.parts...)
			require.ErrorIs(t, err, sg.ErrIncomplete)
			require.ErrorIs(t, err, c.cause)
			assert.Empty(t, r.ends)
		})
	}
	t.Run("stall", func(t *testing.T) {
		for _, mode := range []string{"", sg.HoldFirstContent, sg.HoldComplete} {
			synctest.Test(t, func(t *testing.T) {
				head := role
				if mode == "" {
					head = ": hi\n\n"
				}
				p := idle200
				p.HoldUntil = mode
				start := time.Now()
				_, r, err := stream(t, chatPath, p, part{data: head}, part{hang: true})
				var timeout *ending.TimeoutError
				require.ErrorAs(t, err, &timeout)
				assert.Equal(t, "idle_timeout", timeout.What)
				assert.Equal(t, 200*time.Millisecond, time.Since(start))
				assert.Empty(t, r.ends)
			})
		}
	})
}

func TestHoldComplete(t *testing.T) {
	t.Run("up to the limit", func(t *testing.T) {
		data := strings.Repeat(C("x"), 100)
		got, r, err := stream(t, chatPath, sg.Policy{HoldUntil: sg.HoldComplete, HoldLimit: 1000}, part{data: data})
		aborted(t, got, data) // it was handed out by then
		incomplete(t, r, err, io.ErrUnexpectedEOF, 100)
	})
	t.Run("a large event", func(t *testing.T) {
		big := `data: {"x":"` + strings.Repeat("A", 1<<20) + `"}` + "\n\n"
		complete(t, chatPath, big+C("a")+DONE)
		_, _, err := stream(t, chatPath, sg.Policy{HoldUntil: sg.HoldComplete}, part{data: C("a") + big[:1<<19]})
		require.ErrorIs(t, err, sg.ErrIncomplete)
	})
	t.Run("open connection", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			got, _, err := stream(t, chatPath, sg.Policy{HoldUntil: sg.HoldComplete}, part{data: C("a") + DONE}, part{hang: true})
			require.NoError(t, err)
			assert.Equal(t, C("a")+DONE, got)
			assert.Equal(t, time.Second, time.Since(start))
		})
	})
}

func TestHeldBytesAreBounded(t *testing.T) {
	t.Run("later comments are dropped", func(t *testing.T) {
		comment := ": " + strings.Repeat("c", 1000) + "\n\n"
		for _, mode := range []string{"", sg.HoldFirstContent, sg.HoldComplete} {
			rd := io.MultiReader(strings.NewReader(strings.Repeat(comment, 1000)), strings.NewReader(C("a")+DONE))
			r := stack(answer("text/event-stream", io.NopCloser(rd)), sg.Policy{HoldUntil: mode})
			_, got, err := r.readAll(t, streamCall(t, chatPath))
			require.NoError(t, err)
			assert.True(t, strings.HasSuffix(got, comment+C("a")+DONE))
			assert.LessOrEqual(t, len(got), 64<<10+len(C("a")+DONE))
			assert.Greater(t, len(got), 60<<10)
		}
	})
	t.Run("data is handed out", func(t *testing.T) {
		for _, data := range []string{strings.Repeat(U, 2000), `data: {"usage":"` + strings.Repeat("x", 100<<10)} {
			body := script(part{data: data}, part{hang: true})
			r := stack(answer("text/event-stream", body), sg.Policy{})
			resp, err := r.guard.RoundTrip(streamCall(t, chatPath))
			require.NoError(t, err)
			p := make([]byte, 60<<10)
			_, err = io.ReadFull(resp.Body, p)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Zero(t, r.firsts)
		}
	})
}

func TestFirstEventTimeout(t *testing.T) {
	const limit = 300 * time.Millisecond
	policy := sg.Policy{FirstEventTimeout: limit}
	for name, parts := range map[string][]part{
		"silence":         {{hang: true}},
		"comments only":   {{data: ": x\n\n"}, {wait: 100 * time.Millisecond, data: ": x\n\n"}, {wait: time.Minute, data: C("a")}},
		"json that drags": {{data: `{"choices":`}, {hang: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, r, err := stream(t, chatPath, policy, parts...)
				var timeout *ending.TimeoutError
				require.ErrorAs(t, err, &timeout)
				assert.Equal(t, "first_event_timeout", timeout.What)
				assert.Equal(t, limit, time.Since(start))
				assert.Empty(t, r.ends)
			})
		})
	}
	t.Run("headers that do not come", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := stack(roundTripper(hangs), policy)
			_, _, err := r.readAll(t, streamCall(t, chatPath))
			var timeout *ending.TimeoutError
			require.ErrorAs(t, err, &timeout)
		})
	})
	t.Run("a body that ignores the context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			pr, pw := io.Pipe()
			defer func() { _ = pw.Close() }()
			r := stack(answer("text/event-stream", pr), policy)
			_, _, err := r.readAll(t, streamCall(t, chatPath))
			var timeout *ending.TimeoutError
			require.ErrorAs(t, err, &timeout)
		})
	})
	t.Run("not beyond the first data event", func(t *testing.T) {
		for _, mode := range []string{"", sg.HoldFirstContent, sg.HoldComplete} {
			synctest.Test(t, func(t *testing.T) {
				p := policy
				p.HoldUntil = mode
				var ctx context.Context
				base := sse(part{wait: 200 * time.Millisecond, data: role}, part{wait: time.Hour, data: C("a") + DONE})
				r := stack(roundTripper(func(req *http.Request) (*http.Response, error) {
					ctx = req.Context()
					return base(req)
				}), p)
				_, got, err := r.readAll(t, streamCall(t, chatPath))
				require.NoError(t, err)
				assert.Equal(t, role+C("a")+DONE, got)
				require.Error(t, ctx.Err(), "released")
			})
		}
	})
	t.Run("released with other answers", func(t *testing.T) {
		var ctx context.Context
		base := answer("application/json", pieces(OKJSON))
		for _, status := range []int{200, 429} {
			r := stack(roundTripper(func(req *http.Request) (*http.Response, error) {
				ctx = req.Context()
				resp, err := base(req)
				resp.StatusCode = status
				return resp, err
			}), policy)
			req := streamCall(t, chatPath)
			resp, _, err := r.readAll(t, req)
			require.NoError(t, err)
			assert.Equal(t, req, resp.Request)
			require.Error(t, ctx.Err())
			base = answer("application/json", pieces(OKJSON))
		}
	})
	t.Run("not for other calls", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := stack(answer("application/json", script(part{wait: time.Minute, data: OKJSON})), policy)
			_, got, err := r.readAll(t, plainCall(t, chatPath))
			require.NoError(t, err)
			assert.Equal(t, OKJSON, got)
		})
	})
}

func TestJSONInsteadOfTheStream(t *testing.T) {
	r := stack(answer("application/json", pieces(OKJSON)), sg.Policy{})
	resp, got, err := r.readAll(t, streamCall(t, chatPath))
	require.NoError(t, err)
	assert.Equal(t, 200, resp.StatusCode)
	assert.Equal(t, OKJSON, got)
	assert.Empty(t, r.ends)
	require.Len(t, r.reports, 1)
	assert.False(t, r.reports[0].Stream)
}

func TestStreamsAreToldByTheirBody(t *testing.T) {
	data := C("a") + DONE
	for _, label := range []string{"", "text/plain", "application/octet-stream", "application/json", "text/event-stream; charset=utf-8"} {
		for _, req := range []*http.Request{plainCall(t, chatPath), streamCall(t, chatPath)} {
			r := stack(answer(label, pieces(data[:20], data[20:])), sg.Policy{})
			_, got, err := r.readAll(t, req)
			require.NoError(t, err)
			assert.Equal(t, data, got)
			assert.True(t, r.end(t).Complete, label)

			r = stack(answer(label, pieces(C("a"))), sg.Policy{})
			_, _, err = r.readAll(t, req)
			require.ErrorIs(t, err, sg.ErrIncomplete, label)
		}
	}
}

// Thousands of comments in one Read are left out in one go; what is between
// them stays.
func TestHoldLeavesOutManyComments(t *testing.T) {
	burst := strings.Repeat(":\n\n", 40_000)
	for _, p := range []sg.Policy{{}, {StripComments: true}, {HoldUntil: sg.HoldComplete}, {HoldUntil: sg.HoldComplete, StripComments: true}} {
		body := U + burst + U + burst + "\n" + U + C("a") + burst + F("stop") + DONE
		r := stack(sse(part{data: body}), p)
		_, got, err := r.readAll(t, streamCall(t, chatPath))
		require.NoError(t, err)
		assert.Equal(t, U+U+U+C("a")+F("stop")+DONE, strings.ReplaceAll(strings.ReplaceAll(got, ":\n\n", ""), "\n\n\n", "\n\n"))
		if p.StripComments {
			assert.NotContains(t, got, ":\n\n")
		}
	}
}
