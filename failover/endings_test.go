package failover_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/retry"
	"github.com/surefoot-go/surefoot/streamguard"
)

// saysTimeout, netTimeout and isDeadline are causes that call themselves a
// timeout in three ways.
type saysTimeout struct{}

func (saysTimeout) Error() string { return "says timeout" }
func (saysTimeout) Timeout() bool { return true }

type netTimeout struct{ saysTimeout }

func (netTimeout) Temporary() bool { return true }

type isDeadline struct{}

func (isDeadline) Error() string        { return "is a deadline" }
func (isDeadline) Is(target error) bool { return target == context.DeadlineExceeded }

// endings are contexts that end after a second, and who that is.
var endings = []struct {
	name string
	make func(context.Context) (context.Context, context.CancelFunc)
	by   ending.By
}{
	{"cancelled", cancelWith(nil), ending.Caller},
	{"cancelled with a cause", cancelWith(errors.New("the user left")), ending.Caller},
	{"cancelled with a cause that says Timeout", cancelWith(saysTimeout{}), ending.Caller},
	{"cancelled with a net.Error that says Timeout", cancelWith(netTimeout{}), ending.Caller},
	{"cancelled with a cause that matches DeadlineExceeded", cancelWith(isDeadline{}), ending.Caller},
	{"cancelled by a limit of a layer above", cancelWith(&ending.TimeoutError{What: "timeout of ours", After: time.Second}), ending.Timer},
	{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Second)
	}, ending.Deadline},
	{"deadline with a cause", func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeoutCause(ctx, time.Second, errors.New("too slow"))
	}, ending.Deadline},
}

func cancelWith(cause error) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(ctx)
		timer := time.AfterFunc(time.Second, func() { cancel(cause) })
		return ctx, func() { timer.Stop(); cancel(nil) }
	}
}

// hanging is a base whose answer never comes. HTTP/1 returns the context's
// cause, HTTP/2 its error, and under http.Client.Timeout it is often a text.
func hanging(returns func(context.Context) error) http.RoundTripper {
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, returns(req.Context())
	})
}

// One rule decides in every layer, alone and stacked, who ended a call: the
// context, and not its cause's text or type (contract 0).
func TestEveryLayerAgreesOnWhoEndedACall(t *testing.T) {
	for kind, returns := range map[string]func(context.Context) error{
		"the cause": context.Cause,
		"the error": func(ctx context.Context) error { return ctx.Err() },
		"a text":    func(context.Context) error { return errors.New("net/http: request canceled") },
	} {
		for _, row := range endings {
			for layer, verdict := range layers(returns) {
				t.Run(row.name+", the base returns "+kind+"/"+layer, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						ctx, cancel := row.make(t.Context())
						defer cancel()
						verdict(t, ctx, row.by)
					})
				})
			}
		}
	}
}

type verdict func(t *testing.T, ctx context.Context, by ending.By)

func layers(returns func(context.Context) error) map[string]verdict {
	base := hanging(returns)
	return map[string]verdict{
		"retry": func(t *testing.T, ctx context.Context, by ending.By) {
			var attempts []retry.Attempt
			rt := &retry.Transport{Base: base, Policy: retry.DefaultPolicy(),
				OnAttempt: func(_ *http.Request, a retry.Attempt) { attempts = append(attempts, a) }}
			assertEnding(t, by, failWith(t, rt, ctx))
			if assert.Len(t, attempts, 1) {
				assert.Equal(t, by.Timeout(), attempts[0].Timeout)
			}
		},
		"breaker": func(t *testing.T, ctx context.Context, by ending.By) {
			b := &breaker.Transport{Base: base, Policy: breaker.DefaultPolicy(), Provider: "p"}
			require.Error(t, failWith(t, b, ctx))
			assert.Equal(t, by.Timeout(), b.Breakers()[0].Failures == 1)
		},
		"unmasker": func(t *testing.T, ctx context.Context, by ending.By) {
			u := &streamguard.Unmasker{Base: opened(returns, "application/json", `{"choices":[`)}
			assertEnding(t, by, failWith(t, u, ctx))
		},
		"guard": func(t *testing.T, ctx context.Context, by ending.By) {
			var end streamguard.End
			g := &streamguard.Guard{Base: opened(returns, "text/event-stream", hello), OnEnd: func(_ *http.Request, e streamguard.End) { end = e }}
			assertEnding(t, by, failWith(t, g, ctx))
			assert.Equal(t, by == ending.Caller, end.Closed)
		},
		"stack": func(t *testing.T, ctx context.Context, by ending.By) {
			var call resilience.Call
			s, err := resilience.Builder{Base: base, OnCall: func(_ context.Context, c resilience.Call) { call = c }}.Build("p", resilience.DefaultPolicy())
			require.NoError(t, err)
			assertEnding(t, by, failWith(t, s, ctx))
			assert.Equal(t, map[bool]string{true: "timeout", false: "canceled"}[by.Timeout()], call.Outcome)
			if assert.Len(t, call.Attempts, 1) {
				assert.Equal(t, by.Timeout(), call.Attempts[0].Timeout)
			}
			assert.Equal(t, by.Timeout(), s.Breakers()[0].Failures == 1)
		},
		"stack, within a stream": func(t *testing.T, ctx context.Context, by ending.By) {
			reg, err := discovery.NewRegistry(discovery.Config{})
			require.NoError(t, err)
			require.NoError(t, reg.Add(discovery.Provider{Name: "p", Models: []string{"m"}, Mode: discovery.ModeAllowlist}))
			var call resilience.Call
			s, err := resilience.Builder{Base: opened(returns, "text/event-stream", hello), OnCall: func(ctx context.Context, c resilience.Call) {
				call = c
				reg.Observe(ctx, c)
			}}.Build("p", resilience.DefaultPolicy())
			require.NoError(t, err)
			assertEnding(t, by, failWith(t, s, ctx))
			assert.Equal(t, map[bool]string{true: "stream_error", false: "canceled"}[by.Timeout()], call.Outcome)
			assert.Equal(t, by.Timeout(), s.Breakers()[0].Failures == 1)
			assert.Equal(t, by.Timeout(), reg.Status()[0].Failures == 1, "the health window")
		},
		"stack that renders errors": func(t *testing.T, ctx context.Context, by ending.By) {
			p := resilience.DefaultPolicy()
			p.ErrorsAsResponses = resilience.RenderAll
			s, err := resilience.Builder{Base: base}.Build("p", p)
			require.NoError(t, err)
			resp, err := s.RoundTrip(post(t, chatURL, `{"model":"m"}`).WithContext(ctx))
			if by == ending.Caller {
				assertEnding(t, by, err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
			require.NoError(t, resp.Body.Close())
		},
		"router over two chains over a stack": func(t *testing.T, ctx context.Context, by ending.By) {
			s, err := resilience.Builder{Base: base}.Build("p", resilience.DefaultPolicy())
			require.NoError(t, err)
			ctx, trace := failover.WithTrace(ctx)
			inner := chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: s})
			outer := chain(t, failover.Policy{}, failover.Target{Name: "b", Transport: inner})
			r, err := failover.NewRouter(map[string]*failover.Chain{"m": outer}, nil)
			require.NoError(t, err)
			assertEnding(t, by, failWith(t, r, ctx))
			for _, a := range trace.Attempts() {
				assert.Equal(t, map[bool]string{true: "timeout", false: "canceled"}[by.Timeout()], a.Reason)
			}
		},
		"chain over a stack": func(t *testing.T, ctx context.Context, by ending.By) {
			s, err := resilience.Builder{Base: base}.Build("p", resilience.DefaultPolicy())
			require.NoError(t, err)
			chainVerdict(t, ctx, by, s)
		},
		"chain over a bare base": func(t *testing.T, ctx context.Context, by ending.By) {
			chainVerdict(t, ctx, by, base)
		},
		"function": func(t *testing.T, ctx context.Context, by ending.By) {
			c := chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: base})
			_, err := failover.Call(ctx, c, func(ctx context.Context, target failover.Target) (int, error) {
				return 0, failWith(t, target.Transport, ctx)
			})
			assertEnding(t, by, err)
		},
	}
}

func chainVerdict(t *testing.T, ctx context.Context, by ending.By, base http.RoundTripper) {
	ctx, trace := failover.WithTrace(ctx)
	c := chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: base})
	assertEnding(t, by, failWith(t, c, ctx))
	if attempts := trace.Attempts(); assert.Len(t, attempts, 1) {
		assert.Equal(t, map[bool]string{true: "timeout", false: "canceled"}[by.Timeout()], attempts[0].Reason)
	}
}

// hello is the first event of a stream.
const hello = `data: {"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n"

// opened is a base whose answer hangs after its beginning.
func opened(returns func(context.Context) error, contentType, begin string) http.RoundTripper {
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		r, w := io.Pipe()
		go func() { // ends with the context
			_, _ = io.WriteString(w, begin)
			<-req.Context().Done()
			_ = w.CloseWithError(returns(req.Context()))
		}()
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {contentType}}, Body: r, Request: req}, nil
	})
}

// failWith makes a call and returns what it failed with, in RoundTrip or Read.
func failWith(t *testing.T, rt http.RoundTripper, ctx context.Context) error {
	req := post(t, chatURL, `{"model":"m","stream":true}`).WithContext(ctx)
	resp, err := rt.RoundTrip(req)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, resp.Body.Close())
	}
	return err
}

func assertEnding(t *testing.T, by ending.By, err error) {
	require.Error(t, err)
	if by == ending.Caller {
		require.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, resilience.StatusOf(err))
		return
	}
	assert.True(t, ending.SaysTimeout(err), "%v", err)
	assert.Equal(t, http.StatusGatewayTimeout, resilience.StatusOf(err))
}
