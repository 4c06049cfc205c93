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

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// Whoever was told when to come back does not knock before (contract 11): with
// the default policies, calls into a limit of 20 s make one request, cost the
// callers no time, and are no failures of the breaker.
func TestFiveCallsIntoALimitMakeOneRequest(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]reply{
		"Retry-After":     limited("20"),
		"in the body":     {status: 429, body: `{"error":{"message":"x","retry_after":20}}`},
		"in words":        {status: 429, body: `{"error":{"message":"Please try again in 20s."}}`},
		"hidden in a 200": {status: 200, body: `{"error":{"code":429,"message":"Please try again in 20s."}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a, b := newUpstream(answer), healthy()
				d := resilience.DefaultPolicy()
				s := stack(t, "a", a, d)
				c := chain(t, failover.DefaultPolicy(), named("a", s), named("b", stack(t, "b", b, d)))
				start := time.Now()
				trails := make([]string, 5)
				for i := range trails {
					got := ask(t, c, "m")
					assert.Equal(t, 200, got.StatusCode)
					trails[i] = trail(failover.AttemptsOf(got.Response))
				}
				assert.Zero(t, time.Since(start))
				assert.Equal(t, []string{"a:429 b:ok", "a:-rate_limited b:ok", "a:-rate_limited b:ok", "a:-rate_limited b:ok", "a:-rate_limited b:ok"}, trails)
				assert.Equal(t, 1, a.count())
				assert.Equal(t, 5, b.count())
				assert.Equal(t, 1, s.Breakers()[0].Failures, "the upstream's own 429, and no call after it")

				a.set(reply{status: 200, body: okJSON})
				time.Sleep(20 * time.Second)
				assert.Equal(t, "a:ok", trail(failover.AttemptsOf(ask(t, c, "m").Response)), "the first call after it just goes")
			})
		})
	}
}

// A list of models uses no limit up: it goes to a held target as to any other,
// and an open breaker is another matter.
func TestAListGoesToAHeldTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := newUpstream(limited("600"), reply{status: 200, body: `{"object":"list","data":[]}`}), healthy()
		d := resilience.DefaultPolicy()
		s := stack(t, "a", a, d)
		c := chain(t, failover.DefaultPolicy(), named("a", s), named("b", stack(t, "b", b, d)))
		ask(t, c, "m")
		list := func() string {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example/v1/models", nil)
			require.NoError(t, err)
			got, err := do(t, c, req)
			require.NoError(t, err)
			return trail(failover.AttemptsOf(got.Response))
		}
		assert.Equal(t, "a:ok", list())
		s.ForceOpen("", time.Hour)
		assert.Equal(t, "a:-circuit_open b:ok", list())
	})
}

// Who waits for a place moves on when patience is over, and that says so; where
// no other target could be tried it goes on waiting, in its place in the queue.
func TestPatienceOfAWaitForAPlace(t *testing.T) {
	t.Parallel()
	const free = 10 * time.Second // when the place is given back
	off, calm, hasty := failover.DefaultPolicy(), failover.DefaultPolicy(), failover.DefaultPolicy()
	off.Disabled, calm.Patience, hasty.Patience = true, failover.PatienceOff, 0
	for name, tc := range map[string]struct {
		policy failover.Policy
		open   time.Duration // of the backup, from the start; 0: closed
		trail  string
		took   time.Duration
	}{
		"the default":                {failover.DefaultPolicy(), 0, "a:-concurrency! b:ok", 3500 * time.Millisecond},
		"none":                       {hasty, 0, "a:-concurrency! b:ok", 0},
		"off":                        {calm, 0, "a:ok", free},
		"no failover":                {off, 0, "a:ok", free},
		"the backup is open":         {failover.DefaultPolicy(), time.Hour, "a:ok", free},
		"the backup opens meanwhile": {failover.DefaultPolicy(), -time.Second, "a:ok", free},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := once()
				p.Limits.MaxConcurrent = 1
				p.Stream.IdleTimeout = time.Hour
				a, backup := stack(t, "a", healthy(), p), stack(t, "b", healthy(), once())
				c := chain(t, tc.policy, named("a", a), named("b", backup))
				first, err := a.RoundTrip(post(t, chatURL, chatBody("m")))
				require.NoError(t, err)
				time.AfterFunc(free, func() { assert.NoError(t, first.Body.Close()) })
				if tc.open > 0 {
					backup.ForceOpen("", tc.open)
				} else if tc.open < 0 {
					time.AfterFunc(-tc.open, func() { backup.ForceOpen("", time.Hour) })
				}
				got, took := timed(t, c, post(t, chatURL, chatBody("m")))
				attempts := failover.AttemptsOf(got.Response)
				said := trail(attempts)
				if attempts[0].MovedOn {
					said = trail(attempts[:1]) + "! " + trail(attempts[1:])
				}
				assert.Equal(t, tc.trail, said)
				assert.Equal(t, tc.took, took)
				time.Sleep(free)
				synctest.Wait()
				assert.Zero(t, a.InUse())
			})
		})
	}
}

// A deadline that ends a wait for a place is no patience that does.
func TestADeadlineInTheQueueIsNotPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := once()
		p.Limits.MaxConcurrent = 1
		p.Stream.IdleTimeout = time.Hour
		a := stack(t, "a", healthy(), p)
		first, err := a.RoundTrip(post(t, chatURL, chatBody("m")))
		require.NoError(t, err)
		defer func() { assert.NoError(t, first.Body.Close()) }()
		target := named("a", a)
		target.Timeout = time.Second
		c := chain(t, failover.DefaultPolicy(), target, named("b", stack(t, "b", healthy(), once())))
		ctx, trace := failover.WithTrace(t.Context())
		resp, err := c.RoundTrip(post(t, chatURL, chatBody("m")).WithContext(ctx))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Len(t, trace.Attempts(), 2)
		assert.False(t, trace.Attempts()[0].MovedOn)
		assert.NotErrorIs(t, trace.Attempts()[0].Err, context.Canceled)
	})
}

// A hold whose end is a guess keeps a chain from its target only while another
// could answer: where all are passed over, it is asked, since it alone may.
func TestAGuessIsTheLastResort(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		b      reply // what it answers first
		open   time.Duration
		first  string // which target is listed first
		trail  string
		waits  time.Duration
		took   time.Duration
		status int
	}{
		"the other is open":                 {first: "a", open: time.Minute, trail: "a:-rate_limited b:-circuit_open a:ok", status: 200},
		"in another order":                  {first: "b", open: time.Second, trail: "b:-circuit_open a:-rate_limited a:ok", status: 200},
		"the other is held by a named time": {first: "a", b: limited("60"), trail: "a:-rate_limited b:-rate_limited a:ok", status: 200},
		"the other comes back soon enough":  {first: "a", open: time.Second, waits: 2 * time.Second, trail: "a:-rate_limited b:ok", took: time.Second, status: 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := once()
				p.Limits.Hold = true
				good := reply{status: 200, body: okJSON}
				a, b := newUpstream(reply{status: 402}, good), newUpstream(good)
				if tc.b.status != 0 {
					b = newUpstream(tc.b, good)
				}
				sa, sb := stack(t, "a", a, p), stack(t, "b", b, p)
				ask(t, sa, "m") // no credit, and nobody says until when
				require.Len(t, sa.Holds(), 1)
				if tc.b.status != 0 {
					ask(t, sb, "m")
				}
				if tc.open > 0 {
					sb.ForceOpen("", tc.open)
				}
				targets := []failover.Target{named("a", sa), named("b", sb)}
				if tc.first == "b" {
					targets[0], targets[1] = targets[1], targets[0]
				}
				got, took := timed(t, chain(t, waits(tc.waits), targets...), post(t, chatURL, chatBody("m")))
				assert.Equal(t, tc.status, got.StatusCode)
				assert.Equal(t, tc.trail, trail(failover.AttemptsOf(got.Response)))
				assert.GreaterOrEqual(t, took, tc.took)
				assert.LessOrEqual(t, took, tc.took+tc.took/10)
			})
		})
	}
}

// A function's SDK tells a stack's local 429 as an error of its own, or as text:
// it is a rejection still, and no answer of the target's.
func TestAFunctionIsToldOfLimits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fill   func(t *testing.T, s *resilience.Transport) // has calls of s rejected
		reason string
	}{
		"a held key": {func(t *testing.T, s *resilience.Transport) { ask(t, s, "m") }, "rate_limited"},
		"no place": {func(t *testing.T, s *resilience.Transport) {
			resp, err := s.RoundTrip(post(t, chatURL, chatBody("m"))) // the answer to it is left lying
			require.NoError(t, err)
			t.Cleanup(func() { _ = resp.Body.Close() })
		}, "concurrency"},
	} {
		for sdk, told := range map[string]func(resp *http.Response) error{
			"text":            func(resp *http.Response) error { return errors.New("API returned " + resp.Status) },
			"status and code": func(resp *http.Response) error { return &openAIError{StatusCode: resp.StatusCode, Code: tc.reason} },
		} {
			t.Run(name+"/"+sdk, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					p := once()
					p.Limits.Hold, p.Limits.MaxConcurrent = true, 1
					p.Stream.IdleTimeout = time.Hour
					up := newUpstream(limited("600"))
					if tc.reason == "concurrency" {
						up = healthy()
					}
					s := stack(t, "a", up, p)
					tc.fill(t, s)
					hidden := named("a", traced{s}) // it cannot be asked beforehand
					ctx, trace := failover.WithTrace(t.Context())
					c := chain(t, failover.DefaultPolicy(), hidden, named("b", stack(t, "b", healthy(), once())))
					_, err := failover.Call(ctx, c, func(ctx context.Context, tg failover.Target) (int, error) {
						ctx, cancel := context.WithTimeout(ctx, time.Second)
						defer cancel()
						got, err := do(t, tg.Transport, post(t, chatURL, chatBody("m")).WithContext(ctx))
						require.NoError(t, err)
						if got.StatusCode != 200 {
							return 0, told(got.Response)
						}
						return got.StatusCode, nil
					})
					require.NoError(t, err)
					assert.Equal(t, "a:-"+tc.reason+" b:ok", trail(trace.Attempts()))
				})
			})
		}
	}
}
