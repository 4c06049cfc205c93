package failover_test

import (
	"bytes"
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

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/streamguard"
)

// never is a body that says nothing until it is closed.
type never struct{ done chan struct{} }

func (n never) Read([]byte) (int, error) { <-n.done; return 0, errors.New("closed") }
func (n never) Close() error             { close(n.done); return nil }

// A trace says so where an answer broke off after it had begun: the code that
// reads it sees neither response nor error.
func TestTraceOfAnAnswerThatBreaks(t *testing.T) {
	stream, tooSlow := evRole+evA, errors.New("too slow")
	for name, tc := range map[string]struct {
		reply reply
		bare  bool
		leave string // what the caller does after the first byte: "close", "cancel"
		want  string
		is    error
	}{
		"whole":                            {reply: reply{status: 200, body: stream + evStop + evDone}, want: "a:ok"},
		"whole, not read":                  {reply: reply{status: 200, body: stream + evStop + evDone}, leave: "close", want: "a:ok"},
		"ends early":                       {reply: reply{status: 200, body: stream}, want: "a:stream_incomplete", is: streamguard.ErrIncomplete},
		"breaks off":                       {reply: reply{status: 200, body: stream, rest: failingReader{io.ErrUnexpectedEOF}}, want: "a:transport_error", is: streamguard.ErrIncomplete},
		"falls silent":                     {reply: reply{status: 200, body: stream, rest: never{}}, want: "a:idle_timeout", is: streamguard.ErrIncomplete},
		"bare":                             {reply: reply{status: 200, body: stream, rest: failingReader{io.ErrUnexpectedEOF}}, bare: true, want: "a:stream_incomplete", is: io.ErrUnexpectedEOF},
		"bare, by a limit":                 {reply: reply{status: 200, body: stream, rest: failingReader{context.DeadlineExceeded}}, bare: true, want: "a:timeout", is: context.DeadlineExceeded},
		"bare, by a deadline with a cause": {reply: reply{status: 200, body: stream, rest: failingReader{tooSlow}}, bare: true, leave: "deadline", want: "a:timeout", is: tooSlow},
		"bare, by Cancel":                  {reply: reply{status: 200, body: stream, rest: failingReader{errors.New("net/http: request canceled")}}, bare: true, leave: "Cancel", want: "a:ok"},
		"JSON that is cut":                 {reply: reply{status: 200, body: okJSON[:20], rest: failingReader{io.ErrUnexpectedEOF}}, bare: true, want: "a:stream_incomplete", is: io.ErrUnexpectedEOF},
		"the caller closes":                {reply: reply{status: 200, body: stream, rest: never{}}, leave: "close", want: "a:ok"},
		"the caller cancels":               {reply: reply{status: 200, body: stream, rest: failingReader{context.Canceled}}, leave: "cancel", want: "a:ok"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if _, ok := tc.reply.rest.(never); ok {
					tc.reply.rest = never{make(chan struct{})}
				}
				var rt http.RoundTripper = newUpstream(tc.reply)
				if !tc.bare {
					rt = stack(t, "a", rt, once())
				}
				c := chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: rt})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ctx, trace := failover.WithTrace(ctx)
				if tc.leave == "deadline" {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, time.Second)
					defer stop()
				}
				req, left := post(t, chatURL, chatBody("m")).WithContext(ctx), make(chan struct{})
				req.Cancel = left //nolint:staticcheck // deprecated, but net/http still obeys it
				resp, err := c.RoundTrip(req)
				require.NoError(t, err)
				assert.Equal(t, "a:ok", trail(trace.Attempts()), "so far")
				_, err = resp.Body.Read(make([]byte, 1))
				require.NoError(t, err)
				switch tc.leave {
				case "cancel":
					cancel()
				case "Cancel":
					close(left)
				case "deadline":
					<-ctx.Done()
				}
				if tc.leave != "close" {
					_, _ = io.Copy(io.Discard, resp.Body) // the trace says what it ends with
				}
				require.NoError(t, resp.Body.Close())
				got := trace.Attempts()
				assert.Equal(t, tc.want, trail(got))
				assert.Equal(t, 200, got[0].Status)
				if tc.is == nil {
					require.NoError(t, got[0].Err)
					return
				}
				require.ErrorIs(t, got[0].Err, tc.is)
			})
		})
	}
}

// The attempt that a broken answer belongs to is found among many calls.
func TestTraceFindsTheAttempt(t *testing.T) {
	cut := reply{status: 200, body: okJSON[:20], rest: failingReader{io.ErrUnexpectedEOF}}
	c := chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: failing(503)}, failover.Target{Name: "b", Transport: newUpstream(cut)})
	ctx, trace := failover.WithTrace(t.Context())
	var open []*http.Response
	for range 3 {
		resp, err := c.RoundTrip(post(t, chatURL, chatBody("m")).WithContext(ctx))
		require.NoError(t, err)
		open = append(open, resp)
	}
	_, err := io.ReadAll(open[1].Body)
	require.Error(t, err)
	assert.Equal(t, "a:503 b:ok a:503 b:stream_incomplete a:503 b:ok", trail(trace.Attempts()))
	for range 1024 { // the first calls fall out of it
		_, err := do(t, c, post(t, chatURL, chatBody("m")).WithContext(ctx))
		require.NoError(t, err)
	}
	_, err = io.ReadAll(open[0].Body)
	require.Error(t, err)
	assert.Len(t, trace.Attempts(), 1024)
	for _, resp := range open {
		require.NoError(t, resp.Body.Close())
	}
}

// An http.Client puts the URL that the caller asked for before the error; the
// chain's own text says which host failed.
func TestErrorsNameTheHostThatFailed(t *testing.T) {
	boom := errors.New("boom")
	down := func() *upstream { return newUpstream(reply{err: boom}) }
	inner := chain(t, failover.Policy{}, failover.Target{Name: "i", BaseURL: "https://user:pw@inner.example:8443/v1", Transport: down()})
	for name, tc := range map[string]struct {
		last failover.Target
		want string
	}{
		"a backup":           {failover.Target{BaseURL: "https://b.example/v1", Transport: down()}, "(2 tried, 0 skipped): b.example: boom"},
		"the request's host": {failover.Target{Transport: down()}, "(2 tried, 0 skipped): a.example: boom"},
		"a nested chain's":   {failover.Target{BaseURL: "https://b.example/v1", Transport: inner}, "(2 tried, 0 skipped): inner.example:8443: boom"},
		"behind a layer":     {failover.Target{BaseURL: "https://b.example/v1", Transport: tracing(inner)}, "(2 tried, 0 skipped): inner.example:8443: boom"},
		"nothing was sent":   {failover.Target{Rewrite: func(*http.Request) error { return boom }}, "(2 tried, 0 skipped): failover: target b: rewrite: boom"},
		"a stack's":          {failover.Target{BaseURL: "https://b.example/v1", Transport: stack(t, "b", down(), once())}, "(2 tried, 0 skipped): b.example: "},
	} {
		t.Run(name, func(t *testing.T) {
			tc.last.Name = "b"
			c := chain(t, failover.Policy{}, failover.Target{Name: "a", BaseURL: "https://first.example/v1", Transport: down()}, tc.last)
			resp, err := c.Client().Do(post(t, chatURL, chatBody("m")))
			if err == nil {
				_ = resp.Body.Close()
			}
			require.ErrorContains(t, err, tc.want)
			require.ErrorIs(t, err, boom)
			assert.NotContains(t, err.Error(), "pw")
		})
	}
}

// What could not be sent is recorded as that.
func TestWhatWasNotSentIsNoTransportError(t *testing.T) {
	b := healthy()
	c := chain(t, failover.Policy{},
		failover.Target{Name: "a", Transport: b, Rewrite: func(*http.Request) error { return errors.New("no region") }},
		failover.Target{Name: "b", Transport: b})
	got := ask(t, c, "m")
	attempts := failover.AttemptsOf(got.Response)
	assert.Equal(t, "a:not_sent b:ok", trail(attempts))
	require.ErrorContains(t, attempts[0].Err, "no region")
	assert.Equal(t, 1, b.count())
}

// A panic under a nested chain closes what that chain holds.
func TestPanicsInNestedChainsLeaveNothingOpen(t *testing.T) {
	for name, in := range map[string]func(held io.Reader) *failover.Router{
		"virtual": func(held io.Reader) *failover.Router {
			r, err := failover.NewRouter(map[string]*failover.Chain{
				"out": chain(t, failover.Policy{}, failover.Target{Model: "in"}),
				"in": chain(t, failover.Policy{},
					failover.Target{Name: "p/a", Provider: "p", Model: "a", Transport: newUpstream(reply{status: 503, rest: held})},
					failover.Target{Name: "p/b", Provider: "p", Model: "b", Transport: healthy(), Allow: func(*http.Request) bool { panic("boom") }}),
			}, nil)
			require.NoError(t, err)
			return r
		},
		"a transport": func(held io.Reader) *failover.Router {
			inner := chain(t, failover.Policy{},
				failover.Target{Name: "a", Transport: newUpstream(reply{status: 503, rest: held})},
				failover.Target{Name: "b", Transport: healthy(), Rewrite: func(*http.Request) error { panic("boom") }})
			r, err := failover.NewRouter(map[string]*failover.Chain{"out": chain(t, failover.Policy{}, failover.Target{Name: "in", Transport: inner})}, nil)
			require.NoError(t, err)
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			held := &bodyOf{Reader: bytes.NewReader(make([]byte, 1<<20))}
			body := &bodyOf{Reader: strings.NewReader(chatBody("out"))}
			req := post(t, chatURL, "")
			req.Body, req.GetBody, req.ContentLength = body, nil, -1
			assert.PanicsWithValue(t, "boom", func() {
				resp, err := in(held).RoundTrip(req)
				if err == nil {
					_ = resp.Body.Close()
				}
			})
			assert.NotZero(t, held.closed, "the answer in hand")
			assert.NotZero(t, body.closed, "the request's body")
		})
	}
}

// A time limit that ends a nested chain's good answer is what is recorded.
func TestALimitOverANestedChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newUpstream(reply{status: 200, body: okJSON, delay: time.Minute})
		inner := chain(t, failover.Policy{}, failover.Target{Name: "i", Transport: slow})
		c := chain(t, failover.Policy{}, failover.Target{Name: "in", Transport: inner, Timeout: time.Second}, failover.Target{Name: "b", Transport: healthy()})
		got := ask(t, c, "m")
		assert.Equal(t, "i:timeout b:ok", trail(failover.AttemptsOf(got.Response)))
	})
}
