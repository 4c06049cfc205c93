package resilience_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
	ut "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

func TestCaseC1_AbsurdRetryAfter(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		header string
		parked bool // asks for more than max_backoff: the 429 goes back at once
	}{
		{"86400", true}, {"9999999999", false}, {"-5", false}, {"Wed, 21 Oct 2015 07:28:00 GMT", false},
		{"NaN", false}, {"1e400", false}, {"", false}, {"soon", false}, {"2", true},
	} {
		t.Run(v.header, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))) // a bubble begins in 2000
				up, tr, rec := inMemory(t, nil)
				defer up.Close()
				up.Default(ut.Status(429).Header("Retry-After", v.header), ut.OK("hi"))
				start := time.Now()
				status, _, err := do(t, tr, ask(t, up, chatPath, plainBody))
				require.NoError(t, err)
				took := time.Since(start)
				if v.header == "9999999999" { // over the cap or absurd: either way nobody is parked
					v.parked = status == 429
				}
				if v.parked {
					assert.Equal(t, 429, status)
					assert.Equal(t, 1, up.Count())
					assert.Zero(t, took)
					return
				}
				require.Equal(t, 200, status)
				require.Equal(t, 2, up.Count())
				assert.InDelta(t, 10*time.Millisecond, took, float64(time.Millisecond), "own backoff and its jitter")
				assert.Equal(t, took, rec.last(t).Attempts[1].Wait)
			})
		})
	}
}

func TestCaseC3_WorkersSpread(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name  string
		step  ut.Step
		least time.Duration
	}{
		{"Retry-After", ut.Status(429).RetryAfter(time.Second), time.Second},
		{"own backoff", ut.Status(503), 450 * time.Millisecond},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(p *resilience.Policy) { p.Retry.InitialBackoff = 500 * time.Millisecond })
			const workers = 20
			var wg sync.WaitGroup
			for i := range workers {
				model := fmt.Sprintf("w%d", i)
				r.up.Model(model, v.step, ut.OK("hi"))
				wg.Go(func() {
					resp, err := r.tr.RoundTrip(r.request(t, t.Context(), http.MethodPost, chatPath, `{"model":"`+model+`","messages":[]}`))
					if assert.NoError(t, err) {
						_, _ = io.Copy(io.Discard, resp.Body)
						assert.Equal(t, 200, resp.StatusCode)
						assert.NoError(t, resp.Body.Close())
					}
				})
			}
			wg.Wait()
			require.Equal(t, 2*workers, r.up.Count())
			first := map[string]time.Time{}
			var waits []time.Duration
			for _, req := range r.up.Requests() {
				if at, again := first[req.Model]; again {
					assert.GreaterOrEqual(t, req.Time.Sub(at), v.least)
				} else {
					first[req.Model] = req.Time
				}
			}
			for _, call := range r.calls.list() {
				require.Len(t, call.Attempts, 2)
				waits = append(waits, call.Attempts[1].Wait)
			}
			// A busy machine may lump the arrivals; the waits are what was decided.
			assert.GreaterOrEqual(t, slices.Min(waits), v.least)
			assert.Greater(t, slices.Max(waits)-slices.Min(waits), 10*time.Millisecond)
			slices.Sort(waits)
			assert.Greater(t, len(slices.Compact(waits)), workers/2, "each has its own delay")
		})
	}
}

func TestCaseC4_TheSameBodyAgain(t *testing.T) {
	t.Parallel()
	big := "hello" + strings.Repeat("x", 9<<20)
	plain := func(r *http.Request) { r.GetBody = nil }
	piped := func(body string) func(*http.Request) {
		return func(r *http.Request) {
			pr, pw := io.Pipe()
			go func() {
				_, err := io.WriteString(pw, body)
				_ = pw.CloseWithError(err)
			}()
			r.Body, r.GetBody, r.ContentLength = pr, nil, -1
		}
	}
	for _, v := range []struct {
		name   string
		path   string
		body   string
		change func(*http.Request)
		reqs   int
	}{
		{"GetBody", chatPath, "hello", func(*http.Request) {}, 2},
		{"no GetBody", chatPath, "hello", plain, 2},
		{"pipe", chatPath, "hello", piped("hello"), 2},
		{"no length", chatPath, "hello", func(r *http.Request) { r.ContentLength, r.GetBody = -1, nil }, 2},
		{"no length with GetBody", chatPath, "hello", func(r *http.Request) { r.ContentLength = -1 }, 2},
		{"9 MiB", chatPath, big, func(*http.Request) {}, 2},
		{"9 MiB, no GetBody", chatPath, big, plain, 1},
		{"9 MiB, pipe", chatPath, big, piped(big), 1},
		{"unknown format, key, GetBody", "/echo", "hello", func(r *http.Request) { r.Header.Set("Idempotency-Key", "k") }, 2},
		{"unknown format, key, no GetBody", "/echo", "hello", func(r *http.Request) { r.Header.Set("Idempotency-Key", "k"); r.GetBody = nil }, 1},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(p *resilience.Policy) { p.Retry.AttemptTimeout = patience })
			r.up.Default(ut.Status(503), ut.Body("text/plain", "fine").Code(200))
			if v.path == chatPath {
				r.up.Default(ut.Status(503), ut.Body(jsonType, okJSON))
			}
			req := r.request(t, t.Context(), http.MethodPost, v.path, v.body)
			v.change(req)
			a := r.send(t, req)
			require.NoError(t, a.err)
			require.NoError(t, a.read)
			all := r.up.Requests()
			require.Len(t, all, v.reqs)
			if v.reqs == 1 {
				assert.Equal(t, 503, a.status)
			} else {
				assert.Equal(t, 200, a.status)
			}
			for _, got := range all {
				assert.Equal(t, int64(len(v.body)), got.Size)
				assert.Equal(t, all[0].Sum, got.Sum)
				assert.Equal(t, all[0].Length, got.Length)
				assert.True(t, strings.HasPrefix(v.body, string(got.Body)))
			}
			assert.Zero(t, r.up.Partial())
		})
	}
}

func TestCaseC6_DroppedAnswers(t *testing.T) {
	t.Parallel()
	t.Run("small", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		small := ut.Status(503).Body("text/plain", strings.Repeat("x", 20))
		r.up.Default(ut.Cycle(small.Times(2), ut.Body(jsonType, okJSON)))
		for range 30 {
			a := r.post(t, chatPath, plainBody)
			require.Equal(t, 200, a.status)
		}
		assert.Equal(t, 90, r.up.Count())
		assert.Equal(t, 1, r.up.Connections())
	})
	t.Run("endless", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		r.up.Default(ut.Status(503).At(-1, ut.Pings(0, -1)), ut.Body(jsonType, okJSON))
		a := r.post(t, chatPath, plainBody)
		assert.Equal(t, 200, a.status)
		assert.True(t, eventually(func() bool { return r.up.Aborted() == 1 }), "it was closed")
	})
	t.Run("endless and slow", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		r.up.Default(ut.Status(503).At(-1, ut.Pings(20*time.Millisecond, -1)), ut.Body(jsonType, okJSON))
		a := r.post(t, chatPath, plainBody)
		assert.Equal(t, 200, a.status)
		assert.True(t, eventually(func() bool { return r.up.Aborted() == 1 }), "it was closed")
	})
}

func TestCaseC7_AcceptedThenDropped(t *testing.T) {
	t.Parallel()
	safeOnly := func(p *resilience.Policy) { p.Retry.Replay = "safe_only" }
	drop := ut.Drop().Reset().Delay(100 * time.Millisecond)
	for _, v := range []struct {
		name   string
		change func(*resilience.Policy)
		method string
		path   string
		body   string
		step   ut.Step
		reqs   int
	}{
		{"inference", nil, "POST", chatPath, plainBody, drop, 3},
		{"inference FIN", nil, "POST", chatPath, plainBody, ut.Drop(), 3},
		{"safe only", safeOnly, "POST", chatPath, plainBody, drop, 1},
		{"safe only FIN", safeOnly, "POST", chatPath, plainBody, ut.Drop(), 1},
		{"unknown POST", nil, "POST", "/v1/files", plainBody, drop, 1},
		{"stream", nil, "POST", chatPath, streamBody, drop, 1},
		{"stream held back", heldBack, "POST", chatPath, streamBody, drop, 3},
		{"GET", safeOnly, "GET", "/v1/files", "", drop, 3},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, v.change)
			r.prime(t)
			r.tr.CloseIdleConnections() // the case is that of a fresh connection
			r.up.Default(v.step)
			a := r.send(t, r.request(t, t.Context(), v.method, v.path, v.body))
			require.Error(t, a.err)
			assert.Equal(t, 502, a.seen())
			assert.Equal(t, v.reqs, r.up.Count()-1)
			assert.Equal(t, wordFail, r.word(t))
		})
	}
}

func TestCaseC7_AttemptTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(p *resilience.Policy) { p.Retry.AttemptTimeout = 100 * time.Millisecond })
	r.prime(t)
	r.up.Default(ut.Silence())
	a := r.post(t, chatPath, plainBody)
	require.Error(t, a.err)
	assert.Equal(t, 504, a.seen())
	assert.Equal(t, 1, r.up.Count()-1)
	assert.Equal(t, wordFail, r.word(t))
}

// What reached no connection may be sent again whatever the policy says.
func TestCaseC7_DialRefused(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		change func(*resilience.Policy)
		body   string
	}{
		"inference": {nil, plainBody},
		"safe only": {func(p *resilience.Policy) { p.Retry.Replay = "safe_only" }, plainBody},
		"stream":    {nil, streamBody},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gone := ut.New() // its port refuses once it is closed
			gone.Close()
			r := newRig(t, v.change)
			r.dial = func(n int64, addr string) string {
				if n == 1 {
					return strings.TrimPrefix(gone.URL, "http://")
				}
				return addr
			}
			a := r.post(t, chatPath, v.body)
			require.NoError(t, a.err)
			assert.Equal(t, 200, a.status)
			assert.Equal(t, 1, r.up.Count())
			require.Len(t, r.calls.last(t).Attempts, 2)
			assert.False(t, r.calls.last(t).Attempts[0].Sent)
		})
	}
}

// On a used connection net/http itself sends a request with a key again, in
// one attempt.
func TestCaseC7_NetHTTPSendsAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(p *resilience.Policy) { p.Retry.MaxRetries = 0 })
	require.Equal(t, 200, r.post(t, chatPath, plainBody).status)
	r.up.Next(ut.Drop().Reset())
	req := r.request(t, t.Context(), http.MethodPost, chatPath, plainBody)
	req.Header.Set("Idempotency-Key", "k")
	a := r.send(t, req)
	require.NoError(t, a.err)
	assert.Equal(t, 200, a.status)
	assert.Len(t, a.call.Attempts, 1)
	assert.Equal(t, 3, r.up.Count(), "the server read it twice")
	for _, got := range r.up.Requests()[1:] {
		assert.Equal(t, "k", got.Header.Get("Idempotency-Key"))
	}
}

func TestCaseC8_StaleConnections(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*ut.Upstream){"FIN": (*ut.Upstream).CloseIdle, "RST": (*ut.Upstream).ResetIdle} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(p *resilience.Policy) { p.Retry.Replay = "safe_only" })
			r.prime(t)
			end(r.up)
			require.True(t, eventually(func() bool { return r.conns.Load() == 0 }), "the client saw it")
			a := r.post(t, chatPath, plainBody)
			require.NoError(t, a.err)
			assert.Equal(t, 200, a.status)
			assert.Len(t, a.call.Attempts, 1, "no backoff")
			assert.Equal(t, 2, r.up.Count())
			assert.Equal(t, 2, r.up.Connections())
			assert.Equal(t, wordOK, r.word(t))
		})
	}
	t.Run("race", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		r.up.Next(ut.OK("one").ResetOnReuse())
		require.Equal(t, 200, r.post(t, chatPath, plainBody).status)
		a := r.post(t, chatPath, plainBody)
		require.NoError(t, a.err)
		assert.Equal(t, 200, a.status)
		assert.Equal(t, 2, r.up.Count(), "the reset one was not read")
	})
	t.Run("race, safe only", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(p *resilience.Policy) { p.Retry.Replay = "safe_only" })
		r.up.Next(ut.OK("one").ResetOnReuse())
		require.Equal(t, 200, r.post(t, chatPath, plainBody).status)
		a := r.post(t, chatPath, plainBody)
		require.Error(t, a.err)
		assert.Equal(t, 502, a.seen())
		assert.Equal(t, 1, r.up.Count())
	})
}

func TestCaseC10_QuotaIsNoRateLimit(t *testing.T) {
	t.Parallel()
	const quota = `{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"x"}}`
	const rate = `{"error":{"code":"rate_limit_exceeded"}}`
	run(t, []row{
		{name: "quota", steps: []ut.Step{ut.Status(429).Body(jsonType, quota)}, seen: 429, body: quota, reqs: 1, word: wordFail},
		{name: "hidden quota", steps: []ut.Step{ut.Body(jsonType, quota)}, seen: 429, body: quota, reqs: 1, word: wordFail},
		{name: "rate", steps: []ut.Step{ut.Status(429).Body(jsonType, rate)}, seen: 429, body: rate, reqs: 3, word: wordFail},
	})
}

func TestCaseC11_WhichStatuses(t *testing.T) {
	t.Parallel()
	const overloaded = `{"type":"error","error":{"type":"overloaded_error"}}`
	all := func(p *resilience.Policy) {
		p.Retry.RetryOnStatuses = []string{"529", "520", "522", "524", "408", "425"}
	}
	var rows []row
	for status, v := range map[int]struct {
		listed bool // by default
		word   string
	}{529: {false, wordFail}, 520: {false, wordFail}, 522: {true, wordFail}, 524: {true, wordFail}, 408: {false, wordNeutral}, 425: {false, wordNeutral}} {
		step, good := ut.Status(status).Body(jsonType, overloaded), ut.Body(jsonType, okJSON)
		name := fmt.Sprint(status)
		rows = append(rows,
			row{name: name + " listed then good", change: all, steps: []ut.Step{step, good}, seen: 200, body: okJSON, reqs: 2, word: wordOK},
			row{name: name + " listed", change: all, steps: []ut.Step{step}, seen: status, body: overloaded, reqs: 3, word: v.word})
		if v.listed {
			rows = append(rows, row{name: name + " by default", steps: []ut.Step{step, good}, seen: 200, body: okJSON, reqs: 2, word: wordOK})
		} else {
			rows = append(rows, row{name: name + " by default", steps: []ut.Step{step, good}, seen: status, body: overloaded, reqs: 1, word: v.word})
		}
	}
	for _, status := range []int{400, 401, 404, 413, 422} {
		rows = append(rows, row{name: fmt.Sprint(status), change: all, steps: []ut.Step{ut.Status(status)}, seen: status, reqs: 1, word: wordNeutral})
	}
	run(t, rows)
}

func TestCaseC12_CallerGaveUp(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name    string
		backoff time.Duration
		steps   []ut.Step
		reqs    int
	}{
		{"in the wait", time.Second, []ut.Step{ut.Status(503)}, 1},
		{"in attempt 2", 10 * time.Millisecond, []ut.Step{ut.Status(503), ut.Silence()}, 2},
		{"in attempt 2's body", 10 * time.Millisecond, []ut.Step{ut.Status(503), ut.Body(jsonType, okJSON).CutBytes(10).Stall()}, 2},
	} {
		t.Run(v.name+", exact", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				up, tr, _ := inMemory(t, func(p *resilience.Policy) { p.Retry.InitialBackoff = v.backoff })
				defer up.Close()
				up.Default(v.steps...)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(50*time.Millisecond, cancel)
				start := time.Now()
				_, _, err := do(t, tr, ask(t, up, chatPath, plainBody).WithContext(ctx))
				require.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, 50*time.Millisecond, time.Since(start))
				assert.Equal(t, 0, resilience.StatusOf(err))
				time.Sleep(time.Minute)
				assert.Equal(t, v.reqs, up.Count(), "no request after it")
				assert.Equal(t, 0, up.InFlight())
				assert.Equal(t, 0, tr.Breakers()[0].Failures)
			})
		})
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(p *resilience.Policy) { p.Retry.InitialBackoff = v.backoff })
			r.prime(t)
			r.up.Default(v.steps...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				_ = r.up.Wait(ctx, func() bool { return r.up.Count() == v.reqs+1 })
				time.Sleep(50 * time.Millisecond)
				cancel()
			}()
			a := r.send(t, r.request(t, ctx, http.MethodPost, chatPath, plainBody))
			require.ErrorIs(t, a.err, context.Canceled)
			assert.Equal(t, v.reqs, r.up.Count()-1)
			assert.Equal(t, wordNeutral, r.word(t))
			assert.Equal(t, resilience.OutcomeCanceled, r.calls.last(t).Outcome)
		})
	}
}

// sdk is what an SDK with two retries of its own makes of the stack: it obeys
// x-should-retry and retries a 429 or a 5xx.
func sdk(t *testing.T, r *rig) (tries int, last answer) {
	t.Helper()
	for tries = 1; ; tries++ {
		last = r.post(t, chatPath, plainBody)
		require.NoError(t, last.err)
		failed := last.status == 429 || last.status >= 500
		if v := last.header.Get("X-Should-Retry"); !failed || v == "false" || tries == 3 {
			return tries, last
		}
	}
}

func TestCaseC14_AttemptsDoNotMultiply(t *testing.T) {
	t.Parallel()
	t.Run("three attempts", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		r.up.Default(ut.Status(429))
		tries, last := sdk(t, r)
		assert.Equal(t, 1, tries)
		assert.Equal(t, 429, last.status)
		assert.Equal(t, 3, r.up.Count())
	})
	t.Run("one attempt", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(p *resilience.Policy) { p.Retry.MaxRetries = 0 })
		r.up.Default(ut.Status(429))
		tries, last := sdk(t, r)
		assert.Equal(t, 3, tries)
		assert.Equal(t, 429, last.status)
		assert.Equal(t, 3, r.up.Count())
	})
	t.Run("the upstream's own wish", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(p *resilience.Policy) { p.Retry.RetryOnStatuses = []string{"5xx"} })
		r.up.Default(ut.Status(500).Header("x-should-retry", "false"))
		tries, last := sdk(t, r)
		assert.Equal(t, 1, tries)
		assert.Equal(t, 500, last.status)
		assert.Equal(t, 1, r.up.Count())
	})
	t.Run("switched off", func(t *testing.T) {
		t.Parallel()
		r := newRigWith(t, func(p *resilience.Policy) { p.CircuitBreaker.Disabled = true }, func(b *resilience.Builder) { b.OmitShouldRetry = true })
		r.up.Default(ut.Status(429))
		tries, _ := sdk(t, r)
		assert.Equal(t, 3, tries)
		assert.Equal(t, 9, r.up.Count())
	})
}
