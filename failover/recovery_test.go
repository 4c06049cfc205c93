package failover_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// waits is the default policy with failover.wait_for.
func waits(d time.Duration) failover.Policy {
	p := failover.DefaultPolicy()
	p.WaitFor = d
	return p
}

// openFor is a target whose breaker is open for d; 0: it is not.
func openFor(t *testing.T, name string, base http.RoundTripper, d time.Duration) failover.Target {
	s := stack(t, name, base, once())
	if d > 0 {
		s.ForceOpen("", d)
	}
	return named(name, s)
}

// Where all targets are open, a call waits for the first that comes back, if
// that is soon enough, instead of being rejected (contract 11).
func TestWaitFor(t *testing.T) {
	const s = time.Second
	for name, tc := range map[string]struct {
		waitFor  time.Duration
		open     [2]time.Duration
		change   func(ts []failover.Target)
		deadline time.Duration
		url      string
		status   int
		from, to time.Duration
		trail    string
	}{
		"off":                      {0, [2]time.Duration{3 * s, 5 * s}, nil, 0, chatURL, 503, 0, 0, "a:-circuit_open b:-circuit_open"},
		"the earliest":             {4 * s, [2]time.Duration{5 * s, 3 * s}, nil, 0, chatURL, 200, 3 * s, 3300 * time.Millisecond, "a:-circuit_open b:ok"},
		"all but the last tenth":   {3 * s, [2]time.Duration{5 * s, 3 * s}, nil, 0, chatURL, 200, 3 * s, 3 * s, "a:-circuit_open b:ok"},
		"too late":                 {2 * s, [2]time.Duration{5 * s, 3 * s}, nil, 0, chatURL, 503, 0, 0, "a:-circuit_open b:-circuit_open"},
		"beyond the deadline":      {time.Minute, [2]time.Duration{5 * s, 3 * s}, nil, 2 * s, chatURL, 503, 0, 0, "a:-circuit_open b:-circuit_open"},
		"within the deadline":      {time.Minute, [2]time.Duration{5 * s, 3 * s}, nil, 3050 * time.Millisecond, chatURL, 200, 3 * s, 3050 * time.Millisecond, "a:-circuit_open b:ok"},
		"one can be tried":         {time.Minute, [2]time.Duration{5 * s, 0}, nil, 0, chatURL, 200, 0, 0, "a:-circuit_open b:ok"},
		"another is disabled":      {4 * s, [2]time.Duration{3 * s, 0}, func(ts []failover.Target) { ts[1].Disabled = true }, 0, chatURL, 200, 3 * s, 3300 * time.Millisecond, "a:ok"},
		"another is unavailable":   {4 * s, [2]time.Duration{3 * s, 0}, func(ts []failover.Target) { ts[1].Available = func() bool { return false } }, 0, chatURL, 200, 0, 0, "a:-circuit_open b:-unavailable b:ok"},
		"both, the other is open":  {4 * s, [2]time.Duration{3 * s, 5 * s}, func(ts []failover.Target) { ts[1].Available = func() bool { return false } }, 0, chatURL, 200, 3 * s, 3300 * time.Millisecond, "a:ok"},
		"embeddings, of the first": {4 * s, [2]time.Duration{3 * s, 0}, nil, 0, "https://a.example/v1/embeddings", 200, 3 * s, 3300 * time.Millisecond, "a:ok"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := okJSON
				if tc.url != chatURL {
					body = `{"data":[{"embedding":[1]}]}`
				}
				u := newUpstream(reply{status: 200, body: body})
				targets := []failover.Target{openFor(t, "a", u, tc.open[0]), openFor(t, "b", u, tc.open[1])}
				if tc.change != nil {
					tc.change(targets)
				}
				req := post(t, tc.url, chatBody("m"))
				if tc.deadline > 0 {
					ctx, cancel := context.WithTimeout(req.Context(), tc.deadline)
					defer cancel()
					req = req.WithContext(ctx)
				}
				got, took := timed(t, chain(t, waits(tc.waitFor), targets...), req)
				assert.Equal(t, tc.status, got.StatusCode)
				assert.GreaterOrEqual(t, took, tc.from)
				assert.LessOrEqual(t, took, tc.to)
				all := trail(failover.AttemptsOf(got.Response))
				if len(tc.trail) < len(all) {
					all = all[:len(tc.trail)] // targets after the one that answered
				}
				assert.Equal(t, tc.trail, all)
			})
		})
	}
}

// Held targets are waited for as open ones are: the calls that come first into a
// limit of 3 s are answered when it ends, with no request before.
func TestWaitForAHeldTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newUpstream(limited("5"), reply{status: 200, body: okJSON}), newUpstream(limited("3"), reply{status: 200, body: okJSON})
		c := chain(t, waits(4*time.Second), named("a", stack(t, "a", a, holds())), named("b", stack(t, "b", b, holds())))
		assert.Equal(t, 429, ask(t, c, "m").StatusCode)
		got, took := timed(t, c, post(t, chatURL, chatBody("m")))
		assert.Equal(t, 200, got.StatusCode)
		assert.Equal(t, "a:-rate_limited b:ok", trail(failover.AttemptsOf(got.Response)))
		assert.GreaterOrEqual(t, took, 3*time.Second)
		assert.LessOrEqual(t, took, 3300*time.Millisecond)
		assert.Equal(t, 1, a.count())

		b.set(limited("30"))
		ask(t, c, "m")
		got, took = timed(t, c, post(t, chatURL, chatBody("m"))) // a's 5 s have 2 s left
		assert.Equal(t, 200, got.StatusCode)
		assert.GreaterOrEqual(t, took, time.Second)
		assert.LessOrEqual(t, took, 2200*time.Millisecond)
	})
}

func TestWaitForEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := healthy()
		c := chain(t, waits(time.Minute), openFor(t, "a", u, 30*time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, err := do(t, c, post(t, chatURL, chatBody("m")).WithContext(ctx))
		assert.Equal(t, context.Canceled, err)
		assert.Equal(t, time.Second, time.Since(start))

		req := post(t, chatURL, chatBody("m"))
		gone := make(chan struct{})
		req.Cancel = gone //nolint:staticcheck // net/http still obeys it
		time.AfterFunc(time.Second, func() { close(gone) })
		start = time.Now()
		_, err = do(t, c, req)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, time.Second, time.Since(start))
		assert.Zero(t, u.count())
	})
}

// Of many calls that wait, one is the probe. The others see it succeed long
// before its lease is over, and none is rejected for having been slower.
func TestManyCallsWaitForRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(reply{status: 200, body: okJSON, delay: 300 * time.Millisecond})
		p := resilience.DefaultPolicy()
		s := stack(t, "a", u, p)
		s.ForceOpen("", 3*time.Second)
		c := chain(t, waits(10*time.Second), named("a", s))
		start := time.Now()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { assert.Equal(t, 200, ask(t, c, "m").StatusCode) })
		}
		wg.Wait()
		assert.Less(t, time.Since(start), 6*time.Second)
		assert.Equal(t, 50, u.count())
	})
}

// A chain below does not wait while the chain above has another target.
func TestWaitForOfNestedChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := healthy()
		inner := func() *failover.Chain { return chain(t, waits(10*time.Second), openFor(t, "a", u, 3*time.Second)) }
		got, took := timed(t, chain(t, failover.DefaultPolicy(), named("inner", inner()), named("b", u)), post(t, chatURL, chatBody("m")))
		assert.Equal(t, 200, got.StatusCode)
		assert.Zero(t, took)
		for name, build := range map[string]func() *failover.Chain{
			"below": func() *failover.Chain {
				return chain(t, failover.DefaultPolicy(), named("inner", inner()), openFor(t, "b", u, time.Hour))
			},
			"above": func() *failover.Chain {
				return chain(t, waits(10*time.Second), named("plain", chain(t, failover.DefaultPolicy(), openFor(t, "a", u, 3*time.Second))), openFor(t, "b", u, time.Hour))
			},
		} {
			got, took = timed(t, build(), post(t, chatURL, chatBody("m")))
			assert.Equal(t, 200, got.StatusCode, name)
			assert.InDelta(t, 3150*time.Millisecond, took, float64(150*time.Millisecond), name)
		}
	})
}

// Waiting does not need a body that can be sent twice: nothing was sent.
func TestWaitForOfABodyThatIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := healthy()
		p := waits(10 * time.Second)
		p.MaxBody = 8
		req := post(t, chatURL, chatBody("m"))
		req.GetBody = nil
		got, err := do(t, chain(t, p, openFor(t, "a", u, 3*time.Second)), req)
		require.NoError(t, err)
		assert.Equal(t, 200, got.StatusCode)
		assert.Equal(t, chatBody("m"), u.requests()[0].body)
	})
}

// A breaker that has no place says nothing of when it will have one.
func TestNobodyWaitsForAPlaceAmongBreakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := resilience.DefaultPolicy()
		p.CircuitBreaker.Scope = "model"
		u := healthy()
		s := stack(t, "a", u, p)
		for i := range 1024 {
			s.ForceOpen(fmt.Sprint("m-", i), time.Hour)
		}
		got, took := timed(t, chain(t, waits(time.Minute), named("a", s)), post(t, chatURL, chatBody("m")))
		assert.Equal(t, 503, got.StatusCode)
		assert.Zero(t, took)
		assert.Zero(t, u.count())
	})
}

// A stack behind a layer cannot be asked beforehand: its rejection says when.
func TestWaitForBehindALayer(t *testing.T) {
	for name, tc := range map[string]struct {
		open   time.Duration
		status int
		from   time.Duration
	}{
		"soon":     {3 * time.Second, 200, 3 * time.Second},
		"too late": {20 * time.Second, 503, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := healthy()
				hidden := openFor(t, "a", u, tc.open)
				hidden.Transport = traced{hidden.Transport}
				got, took := timed(t, chain(t, waits(10*time.Second), hidden), post(t, chatURL, chatBody("m")))
				assert.Equal(t, tc.status, got.StatusCode)
				assert.GreaterOrEqual(t, took, tc.from)
				assert.LessOrEqual(t, took, tc.from+tc.from/10)
				require.Len(t, failover.AttemptsOf(got.Response), map[int]int{200: 2, 503: 1}[tc.status], "rejected, then tried")
			})
		})
	}
}
