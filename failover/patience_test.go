package failover_test

import (
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

const (
	all        = 4                     // requests of a target that waits as if there were no other
	allAtLeast = 63 * time.Second / 10 // 1, 2 and 4 s, less a tenth
)

func limited(after string) reply {
	return reply{status: 429, header: http.Header{"Retry-After": {after}}, body: `{"error":{"message":"x"}}`}
}

// timed asks and returns how long that took.
func timed(t *testing.T, rt http.RoundTripper, req *http.Request) (answer, time.Duration) {
	t.Helper()
	start := time.Now()
	got, err := do(t, rt, req)
	require.NoError(t, err)
	return got, time.Since(start)
}

func named(name string, rt http.RoundTripper) failover.Target {
	return failover.Target{Name: name, Provider: name, Transport: rt}
}

// Nobody waits where another target could answer: the default policies, and
// how long the first call takes to the backup's answer (contract 11).
func TestPatience(t *testing.T) {
	for name, tc := range map[string]struct {
		patience time.Duration
		primary  reply
		requests int
		from, to time.Duration
		moved    bool
	}{
		"a limit that ends in 20 s":         {3500 * time.Millisecond, limited("20"), 1, 0, 0, true},
		"a limit that ends in 2 s":          {3500 * time.Millisecond, limited("2"), 2, 2 * time.Second, 2200 * time.Millisecond, true},
		"a wish just within it":             {3500 * time.Millisecond, limited("3.4"), 2, 3400 * time.Millisecond, 3500 * time.Millisecond, true},
		"all of it":                         {3500 * time.Millisecond, limited("3.5"), 2, 3500 * time.Millisecond, 3500 * time.Millisecond, true},
		"a bare 503":                        {3500 * time.Millisecond, reply{status: 503, body: "{}"}, 3, 2700 * time.Millisecond, 3300 * time.Millisecond, true},
		"a refused connection":              {3500 * time.Millisecond, reply{err: syscall.ECONNREFUSED}, 3, 2700 * time.Millisecond, 3300 * time.Millisecond, true},
		"a wish in the body":                {3500 * time.Millisecond, reply{status: 429, body: `{"error":{"message":"x","retry_after":20}}`}, 1, 0, 0, true},
		"a failure behind a 200":            {3500 * time.Millisecond, reply{status: 200, body: `{"error":{"code":503,"message":"x"}}`}, 3, 2700 * time.Millisecond, 3300 * time.Millisecond, true},
		"what is never retried":             {3500 * time.Millisecond, reply{status: 500, body: "{}"}, 1, 0, 0, false},
		"a wish beyond max_backoff":         {3500 * time.Millisecond, limited("3600"), 1, 0, 0, false},
		"none":                              {0, reply{status: 503, body: "{}"}, 1, 0, 0, true},
		"none, and the smallest wish":       {0, limited("0.0001"), 1, 0, 0, true},
		"off":                               {failover.PatienceOff, reply{status: 503, body: "{}"}, all, allAtLeast, 77 * time.Second / 10, false},
		"off, and a limit that ends in 2 s": {failover.PatienceOff, limited("2"), all, 6 * time.Second, 66 * time.Second / 10, false},
		"more than the retries need":        {time.Minute, reply{status: 503, body: "{}"}, all, allAtLeast, 77 * time.Second / 10, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := newUpstream(tc.primary), healthy()
				var rec []resilience.Call
				sa, err := resilience.Builder{Base: a, OnCall: func(_ context.Context, c resilience.Call) { rec = append(rec, c) }}.
					Build("a", resilience.DefaultPolicy())
				require.NoError(t, err)
				p := failover.DefaultPolicy()
				p.Patience = tc.patience
				c := chain(t, p, named("a", sa), named("b", stack(t, "b", b, resilience.DefaultPolicy())))
				got, took := timed(t, c, post(t, chatURL, chatBody("m")))
				assert.Equal(t, 200, got.StatusCode)
				assert.Equal(t, tc.requests, a.count())
				assert.GreaterOrEqual(t, took, tc.from)
				assert.LessOrEqual(t, took, tc.to)
				attempts := failover.AttemptsOf(got.Response)
				require.Len(t, attempts, 2)
				assert.Equal(t, tc.moved, attempts[0].MovedOn)
				assert.False(t, attempts[1].MovedOn)
				require.Len(t, rec, 1)
				assert.Equal(t, map[bool]string{true: "moved_on"}[tc.moved], rec[0].NoRetry)
			})
		})
	}
}

// Where no other target could be tried, a target waits as it would alone.
func TestPatienceIsForCallsThatCanMoveOn(t *testing.T) {
	const embeddings = "https://a.example/v1/embeddings"
	bare := reply{status: 503, body: `{"error":{"message":"x"}}`}
	d := failover.DefaultPolicy()
	with := func(change func(*failover.Policy)) failover.Policy {
		p := failover.DefaultPolicy()
		change(&p)
		return p
	}
	for name, tc := range map[string]struct {
		policy  failover.Policy
		change  func(b *failover.Target, s *resilience.Transport)
		context func(context.Context) context.Context
		url     string
		reply   reply
		want    int
	}{
		"another":                   {policy: d, want: 3},
		"another is disabled":       {policy: d, change: func(b *failover.Target, _ *resilience.Transport) { b.Disabled = true }, want: all},
		"another is not allowed":    {policy: d, change: func(b *failover.Target, _ *resilience.Transport) { b.Allow = func(*http.Request) bool { return false } }, want: all},
		"another is not available":  {policy: d, change: func(b *failover.Target, _ *resilience.Transport) { b.Available = func() bool { return false } }, want: all},
		"another is open":           {policy: d, change: func(_ *failover.Target, s *resilience.Transport) { s.ForceOpen("", time.Hour) }, want: all},
		"no failover in the chain":  {policy: with(func(p *failover.Policy) { p.Disabled = true }), want: all},
		"no failover for the call":  {policy: d, context: failover.WithoutFailover, want: all},
		"embeddings":                {policy: d, url: embeddings, want: all},
		"a status that moves none":  {policy: with(func(p *failover.Policy) { p.RetryOnStatuses = []string{"500"} }), want: all},
		"a phrase that moves it":    {policy: with(func(p *failover.Policy) { p.RetryOnStatuses = []string{"500"} }), reply: reply{status: 503, body: `{"error":{"message":"model not available"}}`}, want: 3},
		"transport errors move all": {policy: with(func(p *failover.Policy) { p.RetryOnStatuses = []string{"500"} }), reply: reply{err: syscall.ECONNRESET}, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tc.reply.status == 0 && tc.reply.err == nil {
					tc.reply = bare
				}
				if tc.url == "" {
					tc.url = chatURL
				}
				a, b := newUpstream(tc.reply), healthy()
				s := stack(t, "b", b, resilience.DefaultPolicy())
				backup := named("b", s)
				if tc.change != nil {
					tc.change(&backup, s)
				}
				c := chain(t, tc.policy, named("a", stack(t, "a", a, resilience.DefaultPolicy())), backup)
				req := post(t, tc.url, chatBody("m"))
				if tc.context != nil {
					req = req.WithContext(tc.context(req.Context()))
				}
				_, err := do(t, c, req)
				require.NoError(t, err)
				assert.Equal(t, tc.want, a.count())
			})
		})
	}
}

func TestTheLastTargetKeepsItsWholeBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := failing(503), failing(503), failing(503)
		p := resilience.DefaultPolicy()
		ch := chain(t, failover.DefaultPolicy(), named("a", stack(t, "a", a, p)), named("b", stack(t, "b", b, p)), named("c", stack(t, "c", c, p)))
		got := ask(t, ch, "m")
		assert.Equal(t, 503, got.StatusCode)
		assert.Equal(t, []int{3, 3, all}, []int{a.count(), b.count(), c.count()}, "each has a patience of its own")
		attempts := failover.AttemptsOf(got.Response)
		assert.True(t, attempts[0].MovedOn)
		assert.True(t, attempts[1].MovedOn)
		assert.False(t, attempts[2].MovedOn)

		p2 := failover.DefaultPolicy()
		p2.MaxAttempts = 1
		ch = chain(t, p2, named("a", stack(t, "a", a, p)), named("b", stack(t, "b", b, p)), named("c", stack(t, "c", c, p)))
		for _, u := range []*upstream{a, b, c} {
			u.set(reply{status: 503, body: "{}"})
		}
		ask(t, ch, "m")
		assert.Equal(t, []int{3, all, 0}, []int{a.count(), b.count(), c.count()}, "the cap makes b the last")
	})
}

// The worked example of a 524, with the default backoffs.
func TestTwoModelsOfOneProviderWithDefaultBackoffs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cf := newUpstream(reply{status: 522, body: "x"}, reply{status: 524, body: "x"}, reply{status: 522, body: "x"},
			reply{status: 524, body: "x"}, reply{status: 200, body: okJSON})
		p := resilience.DefaultPolicy()
		p.CircuitBreaker.Scope = "model"
		s := stack(t, "cloudflare", cf, p)
		c := chain(t, failover.DefaultPolicy(),
			failover.Target{Name: "cloudflare/model1", Provider: "cloudflare", Model: "model1", Transport: s},
			failover.Target{Name: "cloudflare/model2", Provider: "cloudflare", Model: "model2", Transport: s})
		got := ask(t, c, "model1")
		assert.Equal(t, 200, got.StatusCode)
		assert.Equal(t, "cloudflare/model1:524 cloudflare/model2:ok", strings.Replace(trail(failover.AttemptsOf(got.Response)), "522", "524", 1))
		var models []string
		for _, r := range cf.requests() {
			models = append(models, r.body[len(`{"model":"`):len(`{"model":"model1`)])
		}
		assert.Equal(t, []string{"model1", "model1", "model1", "model2", "model2"}, models)
	})
}

// What another target is like is found out anew before each wait.
func TestPatienceIsJudgedBeforeEachWait(t *testing.T) {
	for name, tc := range map[string]struct {
		at   int // request of a at which b changes
		open bool
		want int
	}{
		"opens during the first wait":   {2, true, all},
		"opens during the second wait":  {3, true, all},
		"closes during the second wait": {3, false, 3},
		"closes during the third wait":  {4, false, all},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := failing(503), healthy()
				s := stack(t, "b", b, resilience.DefaultPolicy())
				if !tc.open {
					s.ForceOpen("", time.Hour)
				}
				n := 0
				a.hook = func(*http.Request) {
					if n++; n != tc.at {
						return
					}
					if s.Reset(""); tc.open {
						s.ForceOpen("", time.Hour)
					}
				}
				c := chain(t, failover.DefaultPolicy(), named("a", stack(t, "a", a, resilience.DefaultPolicy())), named("b", s))
				got := ask(t, c, "m")
				assert.Equal(t, tc.want, a.count())
				assert.Equal(t, map[bool]int{true: 503, false: 200}[tc.open], got.StatusCode)
			})
		})
	}
}

// Targets of chains above count, each chain with its own patience, and a chain
// below waits on its targets as if they stood in the one above.
func TestPatienceOfNestedChains(t *testing.T) {
	type stacks struct{ a, b, c http.RoundTripper }
	d := failover.DefaultPolicy()
	hasty, calm := d, d
	hasty.Patience, calm.Patience = 1500*time.Millisecond, failover.PatienceOff
	for name, tc := range map[string]struct {
		build func(t *testing.T, s stacks) http.RoundTripper
		want  []int
	}{
		"flat": {func(t *testing.T, s stacks) http.RoundTripper {
			return chain(t, d, named("a", s.a), named("b", s.b), named("c", s.c))
		}, []int{3, 3, all}},
		"a chain, then a target": {func(t *testing.T, s stacks) http.RoundTripper {
			return chain(t, d, named("ab", chain(t, d, named("a", s.a), named("b", s.b))), named("c", s.c))
		}, []int{3, 3, all}},
		"behind a layer": {func(t *testing.T, s stacks) http.RoundTripper {
			return chain(t, d, named("ab", traced{chain(t, d, named("a", s.a), named("b", traced{s.b}))}), named("c", s.c))
		}, []int{3, 3, all}},
		"a target, then a chain": {func(t *testing.T, s stacks) http.RoundTripper {
			return chain(t, d, named("a", s.a), named("bc", chain(t, d, named("b", s.b), named("c", s.c))))
		}, []int{3, 3, all}},
		"the hastier of two decides": {func(t *testing.T, s stacks) http.RoundTripper {
			return chain(t, hasty, named("ab", chain(t, d, named("a", s.a), named("b", s.b))), named("c", s.c))
		}, []int{2, 2, all}},
		"the chain above has none left": {func(t *testing.T, s stacks) http.RoundTripper {
			return chain(t, hasty, named("c", s.c), named("ab", chain(t, d, named("a", s.a), named("b", s.b))))
		}, []int{3, all, 2}},
		"one of them waits": {func(t *testing.T, s stacks) http.RoundTripper {
			return chain(t, d, named("ab", chain(t, calm, named("a", s.a), named("b", s.b))), named("c", s.c))
		}, []int{3, 3, all}},
		"no failover within": {func(t *testing.T, s stacks) http.RoundTripper {
			return chain(t, d, named("ab", chain(t, failover.Policy{Disabled: true}, named("a", s.a), named("b", s.b))), named("c", s.c))
		}, []int{3, 0, all}},
		"virtual models": {func(t *testing.T, s stacks) http.RoundTripper {
			b := failover.Target{Name: "b", Provider: "b", Model: "m-b", Transport: s.b}
			r, err := failover.NewRouter(map[string]*failover.Chain{
				"m":    chain(t, d, failover.Target{Model: "fast"}, failover.Target{Name: "c", Provider: "c", Model: "m-c", Transport: s.c}),
				"fast": chain(t, d, failover.Target{Name: "a", Provider: "a", Model: "m-a", Transport: s.a}, b),
			}, nil)
			require.NoError(t, err)
			return r
		}, []int{3, 3, all}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b, c := failing(503), failing(503), failing(503)
				p := resilience.DefaultPolicy()
				rt := tc.build(t, stacks{stack(t, "a", a, p), stack(t, "b", b, p), stack(t, "c", c, p)})
				ask(t, rt, "m")
				assert.Equal(t, tc.want, []int{a.count(), b.count(), c.count()})
			})
		})
	}
}

// traced is a layer that clones the request.
type traced struct{ http.RoundTripper }

func (l traced) RoundTrip(req *http.Request) (*http.Response, error) {
	type key struct{}
	return l.RoundTripper.RoundTrip(req.WithContext(context.WithValue(req.Context(), key{}, 1)))
}

// A layer that sends the request again does not make the waits begin anew.
func TestPatienceIsOfATargetAndNotOfASend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := failing(503), healthy()
		s := stack(t, "a", a, resilience.DefaultPolicy())
		again := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			first := req.Clone(req.Context())
			first.Body, _ = req.GetBody()
			resp, err := s.RoundTrip(first)
			if err != nil {
				return nil, err
			}
			_ = resp.Body.Close()
			return s.RoundTrip(req)
		})
		_, took := timed(t, chain(t, failover.DefaultPolicy(), named("a", again), named("b", b)), post(t, chatURL, chatBody("m")))
		assert.LessOrEqual(t, took, 3500*time.Millisecond)
		assert.LessOrEqual(t, a.count(), all)
	})
}

// A function's requests are calls of their own: no chain waits for them.
func TestPatienceIsNotForAFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := failing(503), healthy()
		c := chain(t, failover.DefaultPolicy(), named("a", stack(t, "a", a, resilience.DefaultPolicy())), named("b", b))
		_, err := failover.Call(t.Context(), c, func(ctx context.Context, tg failover.Target) (int, error) {
			got, err := do(t, tg.Transport, post(t, chatURL, chatBody("m")).WithContext(ctx))
			if err == nil && got.StatusCode != 200 {
				err = assert.AnError
			}
			return got.StatusCode, err
		})
		require.NoError(t, err)
		assert.Equal(t, all, a.count())
	})
}

// A layer may return before its transport has: what goes on below asks a walk
// that has moved on.
func TestPatienceBesideAWalkThatHasMovedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := failing(503), failing(503)
		s := stack(t, "a", a, resilience.DefaultPolicy())
		impatient := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				if resp, err := s.RoundTrip(req); err == nil {
					_ = resp.Body.Close()
				}
			}()
			select {
			case <-done:
			case <-time.After(500 * time.Millisecond):
			}
			return nil, syscall.ECONNRESET
		})
		c := chain(t, failover.DefaultPolicy(), named("a", impatient), named("b", stack(t, "b", b, resilience.DefaultPolicy())))
		for range 3 {
			ask(t, c, "m")
		}
		assert.Positive(t, a.count())
	})
}

func TestPatienceIsValidated(t *testing.T) {
	for want, p := range map[string]failover.Policy{
		"failover.patience: -2ns is negative, want 0 (never wait where another target could answer) or more, or off": {Patience: -2},
		"failover.wait_for: -1ns is negative, want 0 (off) or more":                                                  {WaitFor: -1},
		`failover.bound: unknown "x", want account or ignore`:                                                        {Bound: "x"},
	} {
		_, err := failover.NewChain(p, named("a", healthy()))
		assert.ErrorContains(t, err, want)
	}
	_, err := failover.NewChain(failover.Policy{Patience: failover.PatienceOff, Bound: failover.BoundIgnore}, named("a", healthy()))
	assert.NoError(t, err)
}
