package failover_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// tracing stands for otelhttp and its like: it clones the request under a
// context of its own and wraps the body.
func tracing(next http.RoundTripper) http.RoundTripper {
	type spanKey struct{}
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		out := req.Clone(context.WithValue(req.Context(), spanKey{}, 1))
		if req.Body != nil {
			out.Body = struct{ io.ReadCloser }{req.Body}
		}
		return next.RoundTrip(out)
	})
}

// lookup makes a request of its own under req's context, as a transport does
// that fetches a token or counts tokens first.
func lookup(t *testing.T, over http.RoundTripper, req *http.Request, url, body string) answer {
	t.Helper()
	ask, err := http.NewRequestWithContext(req.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	ask.Header.Set("Content-Type", "application/json")
	got, err := do(t, over, ask)
	require.NoError(t, err)
	return got
}

// In failover.Call a function's requests are calls of their own, however many
// it makes and over whatever chain (contract 7.8).
func TestAFunctionsRequestsAreCallsOfTheirOwn(t *testing.T) {
	a, b := healthy(), healthy()
	c := two(t, once(), a, b)
	r, err := failover.NewRouter(map[string]*failover.Chain{"a-1": c}, nil)
	require.NoError(t, err)
	for name, over := range map[string]http.RoundTripper{
		"the same chain":  c,
		"through a layer": tracing(c),
		"a router":        r,
		"another chain":   two(t, once(), a, b),
	} {
		t.Run(name, func(t *testing.T) {
			before := a.count()
			ctx, trace := failover.WithTrace(t.Context())
			_, err := failover.Call(ctx, c, func(ctx context.Context, _ failover.Target) (int, error) {
				for range 3 {
					got, err := do(t, over, post(t, chatURL, chatBody("a-1")).WithContext(ctx))
					require.NoError(t, err)
					assert.Equal(t, "a/a-1:ok", trail(failover.AttemptsOf(got.Response)))
					assert.False(t, failover.FromBackup(got.Response))
				}
				return failover.Call(ctx, c, func(context.Context, failover.Target) (int, error) { return 0, nil })
			})
			require.NoError(t, err)
			assert.Equal(t, 3, a.count()-before)
			assert.Zero(t, b.count())
			assert.Equal(t, strings.Repeat("a/a-1:ok ", 4)+"a/a-1:ok", trail(trace.Attempts()))
		})
	}
}

// A function that asks for another model than its target's is given that one.
func TestAFunctionsOtherModelIsTheRequestsOwn(t *testing.T) {
	embed, chat := healthy(), healthy()
	c := chain(t, failover.Policy{}, failover.Target{Name: "p/chat", Provider: "p", Model: "chat", Transport: chat})
	r, err := failover.NewRouter(map[string]*failover.Chain{
		"chat":  c,
		"embed": chain(t, failover.Policy{}, failover.Target{Name: "p/e-1", Provider: "p", Model: "e-1", Transport: embed}),
	}, nil)
	require.NoError(t, err)
	_, err = failover.Call(t.Context(), c, func(ctx context.Context, tg failover.Target) (int, error) {
		for _, model := range []string{"embed", tg.Model} {
			_, err := do(t, r, post(t, chatURL, chatBody(model)).WithContext(ctx))
			require.NoError(t, err)
		}
		_, err := do(t, r, post(t, chatURL, chatBody("x")).WithContext(resilience.WithModel(ctx, "embed")))
		return 0, err
	})
	require.NoError(t, err)
	require.Equal(t, 2, embed.count())
	assert.Equal(t, chatBody("e-1"), embed.requests()[0].body)
	assert.Equal(t, 1, chat.count(), "and what the caller names in the context wins, as ever")
}

// A look-up that a transport makes under its request's context is another
// call: it is served, and the records of the two do not mix.
func TestATransportsLookUpIsAnotherCall(t *testing.T) {
	for name, url := range map[string]string{
		"another path": "https://a.example/v1/completions",
		"another host": "https://c.example/v1/chat/completions",
		"the same URL": chatURL,
	} {
		for _, when := range []string{"before", "after"} {
			t.Run(name+", "+when, func(t *testing.T) {
				other := two(t, once(), failing(503), healthy())
				main := healthy()
				look := func(req *http.Request) {
					got := lookup(t, other, req, url, chatBody("something-else"))
					assert.Equal(t, 200, got.StatusCode)
					assert.Equal(t, "a/a-1:503 b/b-1:ok", trail(failover.AttemptsOf(got.Response)))
				}
				c := chain(t, failover.Policy{}, failover.Target{Name: "x/m", Provider: "x", Model: "m", Transport: roundTripFunc(func(req *http.Request) (*http.Response, error) {
					if when == "before" {
						look(req)
					}
					resp, err := main.RoundTrip(req)
					if when == "after" {
						look(req)
					}
					return resp, err
				})})
				got := ask(t, c, "m")
				assert.Equal(t, "x/m:ok", trail(failover.AttemptsOf(got.Response)))
				assert.False(t, failover.FromBackup(got.Response))
			})
		}
	}
}

// The look-up may come first and go over the very chain that then gets the
// request: neither takes a target from the other.
func TestALookUpOverTheNestedChainItself(t *testing.T) {
	a, b := healthy(), failing(503)
	inner := two(t, once(), b, a)
	outer := chain(t, failover.Policy{},
		failover.Target{Name: "in", Transport: roundTripFunc(func(req *http.Request) (*http.Response, error) {
			got := lookup(t, inner, req, "https://a.example/v1/responses/count", `{"model":"m"}`)
			assert.Equal(t, 503, got.StatusCode, "of unknown format: the first target's answer")
			return inner.RoundTrip(req)
		})},
		failover.Target{Name: "last", Transport: healthy()})
	got := ask(t, outer, "m")
	assert.Equal(t, "a/a-1:503 b/b-1:ok", trail(failover.AttemptsOf(got.Response)))
	assert.True(t, failover.FromBackup(got.Response))
}

// A chain behind a layer is still the target's: one call, one list, each
// target once.
func TestNestedChainBehindALayer(t *testing.T) {
	shared := failing(503)
	target := failover.Target{Name: "p/m", Provider: "p", Model: "m", BaseURL: "https://p.example/v1", Transport: shared}
	for name, layer := range map[string]func(*failover.Chain) http.RoundTripper{
		"directly": func(c *failover.Chain) http.RoundTripper { return c },
		"tracing":  func(c *failover.Chain) http.RoundTripper { return tracing(c) },
		"twice":    func(c *failover.Chain) http.RoundTripper { return tracing(tracing(c)) },
		"a stack":  func(c *failover.Chain) http.RoundTripper { return stack(t, "s", c, once()) },
		"a router": func(c *failover.Chain) http.RoundTripper {
			r, err := failover.NewRouter(map[string]*failover.Chain{"in-1": c}, nil)
			require.NoError(t, err)
			return r
		},
		"a router's next": func(c *failover.Chain) http.RoundTripper {
			r, err := failover.NewRouter(nil, c)
			require.NoError(t, err)
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			shared.set(reply{status: 503, body: `{}`})
			inner := chain(t, failover.Policy{}, target, failover.Target{Name: "q/n", Provider: "q", Model: "n", Transport: failing(500)})
			outer := chain(t, failover.Policy{}, failover.Target{Name: "in", Model: "in-1", Transport: layer(inner)}, target,
				failover.Target{Name: "last", Transport: healthy()})
			got := ask(t, outer, "m")
			assert.Equal(t, "p/m:503 q/n:500 p/m:-already_tried last:ok", trail(failover.AttemptsOf(got.Response)))
			assert.Equal(t, 1, shared.count())
		})
	}
}

// A layer between that retries asks the chain below again, from its beginning.
func TestALayerThatRetriesAChain(t *testing.T) {
	a := newUpstream(reply{status: 503, body: `{}`}, reply{status: 200, body: okJSON})
	inner := two(t, once(), a, failing(503))
	outer := chain(t, failover.Policy{}, failover.Target{Name: "in", Transport: roundTripFunc(func(req *http.Request) (*http.Response, error) {
		resp, err := inner.RoundTrip(req)
		if err != nil || resp.StatusCode < 500 {
			return resp, err
		}
		_ = resp.Body.Close()
		again := req.Clone(req.Context())
		again.Body, err = req.GetBody()
		require.NoError(t, err)
		return inner.RoundTrip(again)
	})})
	got := ask(t, outer, "m")
	assert.Equal(t, 200, got.StatusCode)
	assert.Equal(t, "a/a-1:503 b/b-1:503 a/a-1:ok", trail(failover.AttemptsOf(got.Response)))
}

// A layer that changes the request sends one of its own; what is answered by a
// backup of that call is still a backup's.
func TestALayerThatChangesTheRequest(t *testing.T) {
	inner := two(t, once(), failing(503), healthy())
	outer := chain(t, failover.Policy{}, failover.Target{Name: "in", Transport: roundTripFunc(func(req *http.Request) (*http.Response, error) {
		out := req.Clone(req.Context())
		out.URL.RawQuery = "signed=1"
		return inner.RoundTrip(out)
	})})
	got := ask(t, outer, "m")
	assert.Equal(t, "in:ok", trail(failover.AttemptsOf(got.Response)))
	assert.True(t, failover.FromBackup(got.Response))
}

// What a layer above a nested chain makes of its answer is recorded as well.
func TestALayerThatOverrulesAChain(t *testing.T) {
	boom := errors.New("boom")
	inner := two(t, once(), healthy(), healthy())
	outer := chain(t, failover.Policy{}, failover.Target{Name: "in", Transport: roundTripFunc(func(req *http.Request) (*http.Response, error) {
		resp, err := inner.RoundTrip(req)
		require.NoError(t, err)
		_ = resp.Body.Close()
		return nil, boom
	})}, failover.Target{Name: "b", Transport: healthy()})
	got := ask(t, outer, "m")
	assert.Equal(t, "a/a-1:ok in:transport_error b:ok", trail(failover.AttemptsOf(got.Response)))
}

// A transport whose look-up goes over its own chain, for ever, ends in an
// error.
func TestEndlessLookUps(t *testing.T) {
	var c *failover.Chain
	asked, body := 0, func() string { return `{}` }
	self := roundTripFunc(func(req *http.Request) (*http.Response, error) {
		asked++
		ask := post(t, "https://a.example/v1/token", body()).WithContext(req.Context())
		resp, err := c.RoundTrip(ask)
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
		return nil, errors.New("no token")
	})
	c = chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: self}, failover.Target{Name: "b", Transport: self})
	_, err := do(t, c, post(t, chatURL, chatBody("m")))
	require.ErrorContains(t, err, "no target is left to try", "the same request again")
	assert.Less(t, asked, 10)

	asked, body = 0, func() string { return strings.Repeat(" ", asked) + "{}" }
	_, err = do(t, c, post(t, chatURL, chatBody("m")))
	require.ErrorContains(t, err, "under one another", "another one each time")
	assert.Less(t, asked, 20)

	// A context that outlives its call may be used for any number of others.
	plain := two(t, once(), healthy(), healthy())
	ctx := t.Context()
	for range 20 {
		got, err := do(t, plain, post(t, chatURL, chatBody("m")).WithContext(ctx))
		require.NoError(t, err)
		assert.Equal(t, "a/a-1:ok", trail(failover.AttemptsOf(got.Response)))
		ctx = got.Request.Context()
	}
}
