package failover_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

const (
	responsesURL = "https://a.example/v1/responses"
	boundBody    = `{"model":"m","previous_response_id":"resp_1","input":"hi"}`
	freeBody     = `{"model":"m","input":"hi"}`
	okResponse   = `{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}]}`
)

func bearer(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }

// A request that names what only its account knows goes to targets of that
// account alone: the same provider with the same credentials (contract 11).
func TestABoundRequestStaysWithItsAccount(t *testing.T) {
	target := func(name, provider string, h http.Header, rt http.RoundTripper) failover.Target {
		return failover.Target{Name: name, Provider: provider, Model: "m-" + name, BaseURL: "https://" + name + ".example/v1", Header: h, Transport: rt}
	}
	bad, good := failing(500), newUpstream(reply{status: 200, body: okResponse})
	a := target("a", "openai", bearer("1"), bad)
	d := failover.DefaultPolicy()
	ignore, balanced := d, d
	ignore.Bound = failover.BoundIgnore
	balanced.Strategy = failover.StrategyRoundRobin
	withHeader := func(h http.Header, key, value string) http.Header {
		h.Set(key, value)
		return h
	}
	for name, tc := range map[string]struct {
		policy  failover.Policy
		targets []failover.Target
		want    string
	}{
		"another provider":                 {d, []failover.Target{a, target("b", "azure", bearer("1"), good)}, "a:500 b:-bound"},
		"other credentials":                {d, []failover.Target{a, target("b", "openai", bearer("2"), good)}, "a:500 b:-bound"},
		"another project":                  {d, []failover.Target{a, target("b", "openai", withHeader(bearer("1"), "OpenAI-Project", "p"), good)}, "a:500 b:-bound"},
		"the same account":                 {d, []failover.Target{a, target("b", "openai", bearer("1"), good)}, "a:500 b:ok"},
		"a header that is no credential":   {d, []failover.Target{a, target("b", "openai", withHeader(bearer("1"), "X-Region", "eu"), good)}, "a:500 b:ok"},
		"the same account further down":    {d, []failover.Target{a, target("b", "azure", nil, good), target("c", "openai", bearer("1"), good)}, "a:500 b:-bound c:ok"},
		"both with the caller's":           {d, []failover.Target{target("a", "openai", nil, bad), target("b", "openai", nil, good)}, "a:500 b:ok"},
		"targets without a provider":       {d, []failover.Target{target("a", "", nil, bad), target("b", "", nil, good)}, "a:500 b:-bound"},
		"ignored":                          {ignore, []failover.Target{a, target("b", "azure", bearer("1"), good)}, "a:500 b:ok"},
		"round robin begins there as well": {balanced, []failover.Target{a, target("b", "azure", nil, good)}, "a:500 b:-bound"},
		"the first is disabled": {d, func() []failover.Target {
			off := a
			off.Disabled = true
			return []failover.Target{off, target("b", "azure", nil, bad), target("c", "openai", bearer("1"), good)}
		}(), "a:-disabled b:500 c:-bound"},
		"the first is another caller's": {d, func() []failover.Target {
			off := a
			off.Allow = func(*http.Request) bool { return false }
			return []failover.Target{off, target("b", "azure", nil, bad), target("c", "openai", bearer("1"), good)}
		}(), "a:-not_allowed b:500 c:-bound"},
		"keys in the query": {d, func() []failover.Target {
			x, y, z := target("a", "g", nil, bad), target("b", "g", nil, good), target("c", "g", nil, good)
			x.Query, y.Query, z.Query = url.Values{"key": {"1"}}, url.Values{"key": {"2"}}, url.Values{"key": {"1"}, "api-version": {"2"}}
			return []failover.Target{x, y, z}
		}(), "a:500 b:-bound c:ok"},
		"a user in the base URL": {d, func() []failover.Target {
			x, y := target("a", "g", nil, bad), target("b", "g", nil, good)
			y.BaseURL = "https://u:p@b.example/v1"
			return []failover.Target{x, y}
		}(), "a:500 b:-bound"},
		"in a chain below": {d, []failover.Target{named("ab", chain(t, d, a, target("b", "azure", nil, good))), target("c", "openai", bearer("1"), good)}, "a:500 b:-bound c:ok"},
		"a chain below of others": {d, []failover.Target{a, named("bc", chain(t, ignore, target("b", "azure", nil, good), target("c", "azure", bearer("1"), good)))},
			"a:500 bc:-bound"},
		"the policy of the first chain decides": {ignore, []failover.Target{named("ab", chain(t, d, a, target("b", "azure", nil, good)))}, "a:500 b:ok"},
		"behind a layer":                        {d, []failover.Target{named("ab", traced{chain(t, d, a, target("b", "azure", nil, good))}), target("c", "openai", bearer("1"), good)}, "a:500 b:-bound c:-bound"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := do(t, chain(t, tc.policy, tc.targets...), post(t, responsesURL, boundBody))
			require.NoError(t, err)
			assert.Equal(t, tc.want, trail(failover.AttemptsOf(got.Response)))
			free, err := do(t, chain(t, tc.policy, tc.targets...), post(t, responsesURL, freeBody))
			require.NoError(t, err)
			assert.NotContains(t, trail(failover.AttemptsOf(free.Response)), "bound")
		})
	}
}

// A request that names its provider is bound to that one.
func TestABoundRequestThatNamesItsProvider(t *testing.T) {
	bad := failing(500)
	target := func(p string) failover.Target {
		return failover.Target{Name: p, Provider: p, Model: "m", Transport: bad}
	}
	r, err := failover.NewRouter(map[string]*failover.Chain{"m": chain(t, failover.DefaultPolicy(), target("a"), target("b"), target("c"))}, nil)
	require.NoError(t, err)
	got, err := do(t, r, post(t, responsesURL, `{"model":"b/m","conversation":"conv_1","input":"hi"}`))
	require.NoError(t, err)
	assert.Equal(t, "b:500 a:-bound c:-bound", trail(failover.AttemptsOf(got.Response)))
	got, err = do(t, r, post(t, responsesURL, `{"model":"m","conversation":"conv_1","input":"hi"}`))
	require.NoError(t, err)
	assert.Equal(t, "a:500 b:-bound c:-bound", trail(failover.AttemptsOf(got.Response)))
}

// A virtual model as the first target: its chain's first is the account.
func TestABoundRequestThroughVirtualModels(t *testing.T) {
	bad, good := failing(500), newUpstream(reply{status: 200, body: okResponse})
	a := failover.Target{Name: "a", Provider: "a", Model: "m-a", Transport: bad}
	r, err := failover.NewRouter(map[string]*failover.Chain{
		"m":    chain(t, failover.DefaultPolicy(), failover.Target{Model: "fast"}, failover.Target{Name: "c", Provider: "c", Model: "m-c", Transport: good}),
		"fast": chain(t, failover.DefaultPolicy(), a, failover.Target{Name: "a2", Provider: "a", Model: "m-a2", Transport: good}),
	}, nil)
	require.NoError(t, err)
	got, err := do(t, r, post(t, responsesURL, boundBody))
	require.NoError(t, err)
	assert.Equal(t, "a:500 a2:ok", trail(failover.AttemptsOf(got.Response)))
}

// Targets of other accounts are no reason to hurry, and none to wait for.
func TestABoundRequestHasThePatienceOfItsAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := failing(503), newUpstream(reply{status: 200, body: okResponse})
		s := stack(t, "a", a, resilience.DefaultPolicy())
		c := chain(t, waits(4*time.Second), named("a", s), named("b", b))
		got, err := do(t, c, post(t, responsesURL, boundBody))
		require.NoError(t, err)
		assert.Equal(t, 503, got.StatusCode)
		assert.Equal(t, all, a.count())

		a.set(reply{status: 200, body: okResponse})
		s.ForceOpen("", 3*time.Second)
		got, took := timed(t, c, post(t, responsesURL, boundBody))
		assert.Equal(t, 200, got.StatusCode)
		assert.GreaterOrEqual(t, took, 3*time.Second)
		assert.Zero(t, b.count())
	})
}

// A function has no request that could be bound.
func TestAFunctionIsNotBound(t *testing.T) {
	c := chain(t, failover.DefaultPolicy(), named("a", failing(500)), named("b", healthy()))
	name, err := failover.Call(t.Context(), c, func(_ context.Context, tg failover.Target) (string, error) {
		if tg.Name == "a" {
			return "", assert.AnError
		}
		return tg.Name, nil
	})
	require.NoError(t, err)
	assert.Equal(t, "b", name)
}
