package resilience_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience"
)

// holding is a policy that waits for no limit and holds every one.
func holding() resilience.Policy {
	p := quick()
	p.Retry.MaxRetries = 0
	p.Limits.Hold = true
	return p
}

func TestAHeldKeyIsNotAsked(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		answer reply
		kind   string
		key    string
		wait   time.Duration
	}{
		"rate, the model":     {reply{status: 429, header: http.Header{"Retry-After": {"20"}}}, "rate", "m1", 20 * time.Second},
		"quota, the account":  {reply{status: 429, body: `{"error":{"type":"usage_limit_reached","resets_in_seconds":600}}`}, "quota", "", 600 * time.Second},
		"hidden in a 200":     {reply{status: 200, body: `{"error":{"code":429,"message":"try again in 7.5s"}}`}, "rate", "m1", 7500 * time.Millisecond},
		"max_hold":            {reply{status: 429, header: http.Header{"Retry-After": {"86400"}}}, "rate", "m1", time.Hour},
		"service unavailable": {reply{status: 503, header: http.Header{"Retry-After": {"30"}}}, "rate", "m1", 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				up := &counted{base: play(row.answer, reply{status: 200, body: okJSON})}
				p := holding()
				p.CircuitBreaker.FailureThreshold = 1000
				tr, rec := build(t, up, p)
				first, _, err := do(t, tr, chat(t, t.Context(), plainBody))
				require.NoError(t, err)
				require.GreaterOrEqual(t, first, 400)
				failures := tr.Breakers()[0].Failures
				for range 4 {
					resp, err := tr.RoundTrip(chat(t, t.Context(), plainBody))
					require.NoError(t, err)
					assert.Equal(t, 429, resp.StatusCode)
					assert.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
					assert.NotEmpty(t, resp.Header.Get("Retry-After"))
					open, ok := resilience.Rejection(resp, nil)
					require.True(t, ok)
					assert.Equal(t, row.kind, open.Limit)
					assert.Equal(t, row.key, open.Key)
					body, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					assert.Contains(t, string(body), `"rate_limited"`)
					require.NoError(t, resp.Body.Close())
				}
				assert.Equal(t, "rate_limited", rec.last(t).Reason)
				assert.Equal(t, resilience.OutcomeRejected, rec.last(t).Outcome)
				assert.Equal(t, 1, up.count(), "five calls make one request")
				assert.Equal(t, failures, tr.Breakers()[0].Failures, "a hold is no failure")
				require.NotNil(t, tr.Peek("m1"))
				assert.Equal(t, row.key == "", tr.Peek("m2") != nil, "a quota is the account's")
				require.Len(t, tr.Holds(), 1)

				time.Sleep(row.wait)
				assert.Nil(t, tr.Peek("m1"), "it ends by itself")
				status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
				require.NoError(t, err)
				assert.Equal(t, 200, status, "the first call after it just goes")
			})
		})
	}
}

// What is waited out is nothing to keep other calls away for, and neither is
// what never fits or clears in seconds.
func TestWhatIsNotHeld(t *testing.T) {
	t.Parallel()
	wait := http.Header{"Retry-After": {"1"}}
	for name, row := range map[string]struct {
		answer reply
		change func(*resilience.Policy)
	}{
		"waited out":         {reply{status: 429, header: wait}, func(p *resilience.Policy) { p.Retry.MaxRetries, p.Retry.MaxBackoff = 2, time.Minute }},
		"no time":            {reply{status: 429}, nil},
		"never fits":         {reply{status: 413, header: wait}, nil},
		"concurrency":        {reply{status: 429, header: wait, body: `{"error":{"message":"too many concurrent requests"}}`}, nil},
		"switched off":       {reply{status: 429, header: wait}, func(p *resilience.Policy) { p.Limits.Hold = false }},
		"no status of limit": {reply{status: 500, header: wait}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := holding()
				if row.change != nil {
					row.change(&p)
				}
				tr, _ := build(t, play(row.answer), p)
				_, _, err := do(t, tr, chat(t, t.Context(), plainBody))
				require.NoError(t, err)
				assert.Empty(t, tr.Holds())
			})
		})
	}
}

// What an answer says is read whatever it says it in: words alone, a status, a
// header.
func TestAnAnswerInWordsAloneAdvises(t *testing.T) {
	t.Parallel()
	const words = `{"error":{"message":"%s","type":"server_error","code":null}}`
	wait := http.Header{"Retry-After": {"120"}}
	reset := http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"2m0s"}}
	for name, row := range map[string]struct {
		status   int
		header   http.Header
		message  string
		requests int
	}{
		"an overload":                       {503, nil, "The server is overloaded.", 3},
		"a wait in the body":                {503, nil, "Please try again in 120s.", 1},
		"a wait in the header":              {503, wait, "The server is overloaded.", 1},
		"a reset in the header":             {503, reset, "The server is overloaded.", 1},
		"a request that never fits":         {413, nil, "The request is too large.", 1},
		"a quota in words":                  {429, nil, "You have exceeded your monthly quota.", 1},
		"a rate in words":                   {429, nil, "You are sending too fast.", 3},
		"a status that tells of no limit":   {502, nil, "Please try again in 120s.", 3},
		"such a status, a wait in a header": {502, wait, "The gateway is down.", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := resilience.DefaultPolicy()
				p.Retry.MaxRetries, p.Retry.RetryOnStatuses = 2, []string{"default", "413"}
				body := fmt.Sprintf(words, row.message)
				if row.status == 429 && row.requests == 1 {
					body = strings.Replace(body, "server_error", "insufficient_quota", 1)
				}
				base := play(reply{status: row.status, header: row.header, body: body})
				tr, _ := build(t, base, p)
				status, got, err := do(t, tr, chat(t, t.Context(), plainBody))
				require.NoError(t, err)
				assert.Equal(t, row.status, status)
				assert.JSONEq(t, body, got)
				assert.Equal(t, row.requests, base.count())
			})
		})
	}
}

// An account without credit is held for five minutes where no time was named: a
// reason for a chain to ask somebody else, and none to refuse a call.
func TestAGuessIsForChainsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := &counted{base: play(reply{status: 402, body: `{"error":{"code":"insufficient_credits","message":"x"}}`})}
		tr, _ := build(t, up, holding())
		for range 2 {
			status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
			require.NoError(t, err)
			assert.Equal(t, 402, status)
		}
		assert.Equal(t, 2, up.count())
		open := tr.Peek("m1")
		require.NotNil(t, open)
		assert.Equal(t, "billing", open.Limit)
		assert.Equal(t, 5*time.Minute, open.RetryAfter)
		assert.True(t, open.Guess)
		require.ErrorIs(t, open, breaker.ErrLimited)
		require.NotErrorIs(t, open, breaker.ErrOpen)
		assert.Equal(t, 429, resilience.StatusOf(open))
		tr.ReleaseHold("")
		assert.Nil(t, tr.Peek("m1"))
	})
}

func TestPreemptHoldsWhenNothingRemains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		spent := http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"12s"}}
		p := holding()
		p.Limits.Preempt = true
		tr, _ := build(t, play(reply{status: 200, body: okJSON, header: spent}), p)
		status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		assert.Equal(t, 200, status)
		open := tr.Peek("m1")
		require.NotNil(t, open)
		assert.Equal(t, 12*time.Second, open.RetryAfter)
	})
}

// counted counts what reaches the upstream, and how much of it at once.
type counted struct {
	base http.RoundTripper
	mu   sync.Mutex
	n    int
}

func (c *counted) RoundTrip(req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	return c.base.RoundTrip(req)
}

func (c *counted) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func TestPlacesAreHeldUntilTheBodyEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quick()
		p.Stream.IdleTimeout = time.Hour
		p.Limits.MaxConcurrent = 1
		up := &counted{base: play(reply{status: 200, body: okJSON})}
		tr, _ := build(t, up, p)
		resp, err := tr.RoundTrip(chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		assert.Equal(t, 1, tr.InUse())

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		full, err := tr.RoundTrip(chat(t, ctx, plainBody))
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(start), "it waits within its deadline")
		assert.Equal(t, 429, full.StatusCode)
		body, err := io.ReadAll(full.Body)
		require.NoError(t, err)
		require.NoError(t, full.Body.Close())
		assert.Contains(t, string(body), `"concurrency"`)
		open, ok := resilience.Rejection(full, nil)
		require.True(t, ok)
		assert.Equal(t, "concurrency", open.Limit)
		assert.Equal(t, 1, up.count())
		assert.Zero(t, tr.Breakers()[0].Failures)

		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		_, err = tr.RoundTrip(chat(t, gone, plainBody))
		require.ErrorIs(t, err, context.Canceled)

		time.AfterFunc(time.Second, func() { assert.NoError(t, resp.Body.Close()) })
		start = time.Now()
		status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		assert.Equal(t, 200, status)
		assert.Equal(t, time.Second, time.Since(start), "until the place is free")
		assert.Zero(t, tr.InUse())
	})
}

// Whatever ends a call gives its place back: an error, a rejection, a panic, a
// body that is left lying.
func TestEveryPlaceIsReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quick()
		p.Limits.MaxConcurrent = 1
		p.Stream.IdleTimeout = time.Minute
		for name, base := range map[string]http.RoundTripper{
			"an error":  play(reply{err: io.ErrUnexpectedEOF}),
			"an answer": play(reply{status: 400, body: `{}`}),
			"a panic":   play(reply{panic: "boom"}),
		} {
			tr, _ := build(t, base, p)
			for range 3 {
				func() {
					defer func() { _ = recover() }()
					_, _, _ = do(t, tr, chat(t, t.Context(), plainBody))
				}()
				assert.Zero(t, tr.InUse(), name)
			}
		}
		tr, _ := build(t, play(reply{status: 200, body: okJSON}), p)
		resp, err := tr.RoundTrip(chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Zero(t, tr.InUse(), "abandoned")
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, okJSON, strings.TrimSpace(string(body)))
		require.NoError(t, resp.Body.Close())
		assert.Zero(t, tr.InUse())
	})
}

// A key that is held while a call waits, for a place or for its retry, is not
// asked by that call either.
func TestACallThatWaitsDoesNotGoToAHeldKey(t *testing.T) {
	t.Parallel()
	t.Run("for a place", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			limited := play(reply{status: 429, header: http.Header{"Retry-After": {"60"}}})
			up := &counted{base: roundTrip(func(req *http.Request) (*http.Response, error) {
				time.Sleep(time.Second)
				return limited.RoundTrip(req)
			})}
			p := holding()
			p.Limits.MaxConcurrent = 1
			tr, _ := build(t, up, p)
			var wg sync.WaitGroup
			for range 3 { // the second and third wait behind the first
				wg.Go(func() {
					status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
					assert.NoError(t, err)
					assert.Equal(t, 429, status)
				})
			}
			wg.Wait()
			assert.Equal(t, 1, up.count())
			assert.Zero(t, tr.InUse())
		})
	})
	t.Run("for its retry", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			up := &counted{base: play(reply{status: 503}, reply{status: 429, header: http.Header{"Retry-After": {"60"}}}, reply{status: 200, body: okJSON})}
			p := quick()
			p.Limits.Hold = true
			p.Retry.InitialBackoff, p.Retry.MaxBackoff = time.Second, 2*time.Second
			tr, rec := build(t, up, p)
			time.AfterFunc(500*time.Millisecond, func() { _, _, _ = do(t, tr, chat(t, t.Context(), plainBody)) })
			status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
			require.NoError(t, err)
			assert.Equal(t, 503, status, "the answer in hand")
			assert.Equal(t, 2, up.count())
			assert.Equal(t, "rate_limited", rec.last(t).NoRetry)
		})
	})
	t.Run("the timeout bounds the wait", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := quick()
			p.Limits.MaxConcurrent, p.Timeout, p.Stream.IdleTimeout = 1, time.Second, time.Hour
			tr, _ := build(t, play(reply{status: 200, body: okJSON}), p)
			first, err := tr.RoundTrip(chat(t, t.Context(), plainBody))
			require.NoError(t, err)
			start := time.Now()
			status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
			require.NoError(t, err)
			assert.Equal(t, 429, status)
			assert.Equal(t, time.Second, time.Since(start))
			require.NoError(t, first.Body.Close())
		})
	})
}
