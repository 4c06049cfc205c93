package resilience_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
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
	"github.com/surefoot-go/surefoot/retry"
)

// weather is an upstream that fails as fails says, which depends on the call and
// the attempt and not on when either comes.
type weather struct {
	fails func(call, attempt int, since time.Duration) bool
	start time.Time

	mu       sync.Mutex
	attempts map[int]int
	requests int
}

func (w *weather) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return nil, err
	}
	_ = req.Body.Close()
	var call int
	if _, err := fmt.Sscan(req.Header.Get("X-Call"), &call); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests++
	w.attempts[call]++
	if w.fails(call, w.attempts[call], time.Since(w.start)) {
		return reply{status: 503, body: `{"error":{"message":"x"}}`}.response(req)
	}
	return reply{status: 200, body: okJSON}.response(req)
}

// drive makes n calls, one every interval, and returns how many were answered
// well and how many requests that took.
func drive(t *testing.T, n int, every time.Duration, fails func(call, attempt int, since time.Duration) bool, build func(http.RoundTripper) http.RoundTripper) (good, requests int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &weather{fails: fails, start: time.Now(), attempts: make(map[int]int)}
		rt := build(w)
		var wg sync.WaitGroup
		var mu sync.Mutex
		for call := range n {
			wg.Go(func() {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, chatURL, strings.NewReader(`{"model":"m"}`))
				assert.NoError(t, err)
				req.Header.Set("X-Call", fmt.Sprint(call))
				resp, err := rt.RoundTrip(req)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				mu.Lock()
				defer mu.Unlock()
				if resp.StatusCode == 200 {
					good++
				}
			})
			if every > 0 {
				time.Sleep(every)
			}
		}
		wg.Wait()
		requests = w.requests
	})
	return good, requests
}

// byDefault is the stack with the default policy.
func byDefault(t *testing.T) func(http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper {
		s, err := resilience.Builder{Base: base}.Build("acme", resilience.DefaultPolicy())
		require.NoError(t, err)
		return s
	}
}

// unasked is the same breaker over the same retries, which do not ask it.
func unasked(base http.RoundTripper) http.RoundTripper {
	p := resilience.DefaultPolicy()
	always := func(*http.Request) retry.Replay { return retry.ReplayAlways }
	return &breaker.Transport{Policy: p.CircuitBreaker, Base: &retry.Transport{Policy: p.Retry, Base: base, Replayable: always}}
}

// An open breaker ends the retries of the calls that it had let in (contract 3).
func TestAnOutageIsNotMultiplied(t *testing.T) {
	down := func(_, _ int, since time.Duration) bool { return since < 60*time.Second }
	for name, tc := range map[string]struct {
		calls          int
		every          time.Duration
		asked, unasked int // requests, at most and at least
	}{
		"a burst of 100 calls":       {100, 0, 320, 400},
		"20 calls a second for 60 s": {1200, 50 * time.Millisecond, 420, 520},
	} {
		t.Run(name, func(t *testing.T) {
			_, asked := drive(t, tc.calls, tc.every, down, byDefault(t))
			_, free := drive(t, tc.calls, tc.every, down, unasked)
			t.Logf("%d requests, %d without asking", asked, free)
			assert.LessOrEqual(t, asked, tc.asked)
			assert.GreaterOrEqual(t, free, tc.unasked)
		})
	}
}

// Asking costs no good answers where the upstream is merely unreliable.
func TestAskingTheBreakerCostsNoGoodAnswers(t *testing.T) {
	chance := func(share float64) func(call, attempt int, _ time.Duration) bool {
		return func(call, attempt int, _ time.Duration) bool {
			return rand.New(rand.NewPCG(uint64(call), uint64(attempt))).Float64() < share
		}
	}
	const calls = 4000
	for name, fails := range map[string]func(call, attempt int, since time.Duration) bool{
		"20 % of the requests fail": chance(0.2),
		"50 % of the requests fail": chance(0.5),
		"a blip of 3 s": func(_, _ int, since time.Duration) bool {
			return since > 20*time.Second && since < 23*time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked, _ := drive(t, calls, 50*time.Millisecond, fails, byDefault(t))
			free, _ := drive(t, calls, 50*time.Millisecond, fails, unasked)
			t.Logf("good answers: %.2f %%, %.2f %% without asking", 100*float64(asked)/calls, 100*float64(free)/calls)
			assert.InDelta(t, free, asked, 0.002*calls)
		})
	}
}

// impatience allows waits up to a length and adds up those that begin.
type impatience struct {
	longest, waited time.Duration
	asked           []int // statuses of the answers in hand
}

func (p *impatience) MayWait(req *http.Request, resp *http.Response, wait time.Duration) (time.Duration, bool) {
	if req.URL.String() == chatURL {
		p.asked = append(p.asked, resp.StatusCode)
	}
	return p.longest, wait <= p.longest
}

func (p *impatience) Waits(_ *http.Request, wait time.Duration) { p.waited += wait }

// What stands above a stack limits its waits through the context.
func TestAPatienceInTheContextLimitsTheWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := play(reply{status: 503, body: "{}"})
		tr, rec := build(t, up, resilience.DefaultPolicy())
		p := &impatience{longest: 2500 * time.Millisecond}
		req, err := http.NewRequestWithContext(resilience.WithPatience(t.Context(), p), http.MethodPost, chatURL, strings.NewReader(`{"model":"m"}`))
		require.NoError(t, err)
		start := time.Now()
		resp, err := tr.RoundTrip(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, "{}", string(body))
		assert.Equal(t, 3, up.count())
		assert.Equal(t, []int{503, 503, 503}, p.asked)
		assert.Equal(t, time.Since(start), p.waited)
		assert.Equal(t, "moved_on", rec.last(t).NoRetry)
		assert.Equal(t, "false", resp.Header.Get("X-Should-Retry"))

		req = req.WithContext(context.WithoutCancel(t.Context()))
		req.Body, err = req.GetBody()
		require.NoError(t, err)
		resp, err = tr.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 7, up.count())
		assert.Empty(t, rec.last(t).NoRetry)
	})
}
