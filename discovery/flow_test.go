package discovery_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

func flowRegistry(t *testing.T, p discovery.Provider) *discovery.Registry {
	t.Helper()
	r, err := discovery.NewRegistry(discovery.Config{})
	require.NoError(t, err)
	p.Name, p.Models, p.Mode = "p", []string{"m"}, discovery.ModeAllowlist
	require.NoError(t, r.Add(p))
	return r
}

// Tokens, first tokens and broken streams are those of the last ten minutes.
func TestWhatPassedThroughAProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := flowRegistry(t, discovery.Provider{Places: func() (int, int) { return 3, 8 }})
		assert.Nil(t, r.Status()[0].Flow)
		assert.Equal(t, &discovery.PlacesStatus{Used: 3, Most: 8}, r.Status()[0].Places)
		see := func(c resilience.Call) {
			c.Provider, c.Model = "p", "m"
			r.Observe(t.Context(), c)
		}
		see(resilience.Call{Outcome: resilience.OutcomeSuccess, Usage: wire.Usage{Input: 600, Output: 60}})
		see(resilience.Call{Outcome: resilience.OutcomeStreamError, Usage: wire.Usage{Input: 400, Output: 40}, Resumes: 2})
		f := *r.Status()[0].Flow
		assert.Equal(t, discovery.FlowStatus{InputTokens: 1000, OutputTokens: 100, Resumed: 2, Incomplete: 1}, f, "of the first minute")
		time.Sleep(4 * time.Minute)
		assert.Equal(t, 250.0, r.Status()[0].Flow.InputTokens)
		time.Sleep(5 * time.Minute)
		assert.InDelta(t, 1000.0/9, r.Status()[0].Flow.InputTokens, 1)
		time.Sleep(time.Minute)
		assert.Nil(t, r.Status()[0].Flow, "they have left the window")
		see(resilience.Call{Outcome: resilience.OutcomeCanceled, Usage: wire.Usage{Input: 5}})
		assert.Nil(t, r.Status()[0].Flow, "the caller's own ending is not in the window")
	})
}

// A quantile is within a fifth of the true one, for any times.
func TestTheTimesToTheFirstToken(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		r := flowRegistry(t, discovery.Provider{})
		var all []time.Duration
		for range 1 + rnd.IntN(500) {
			d := time.Duration(float64(20*time.Millisecond) * (1 + rnd.ExpFloat64()*float64(1+rnd.IntN(100))))
			d = min(d, 30*time.Second)
			all = append(all, d)
			r.Observe(t.Context(), resilience.Call{Provider: "p", Model: "m", Outcome: resilience.OutcomeSuccess, FirstEvent: d})
		}
		slices.Sort(all)
		f := r.Status()[0].Flow
		for share, got := range map[float64]int64{0.5: f.FirstTokenP50, 0.95: f.FirstTokenP95} {
			want := all[max(0, int(float64(len(all))*share+0.9999)-1)].Milliseconds()
			assert.InEpsilon(t, want, got, 0.2, "seed %d, %v of %d", seed, share, len(all))
		}
	}
}

// From a cache in the next room to a model that thinks for minutes: right to a tenth.
func TestTheTimesToTheFirstTokenOfAnySize(t *testing.T) {
	for d := time.Millisecond; d < 15*time.Minute; d += d/7 + 1 {
		r := flowRegistry(t, discovery.Provider{})
		r.Observe(t.Context(), resilience.Call{Provider: "p", Model: "m", Outcome: resilience.OutcomeSuccess, FirstEvent: d})
		f := r.Status()[0].Flow
		assert.InDelta(t, d.Milliseconds(), f.FirstTokenP50, max(1, 0.1*float64(d.Milliseconds())), d)
		assert.Equal(t, f.FirstTokenP50, f.FirstTokenP95)
	}
	for _, d := range []time.Duration{1, time.Microsecond, math.MaxInt64} {
		r := flowRegistry(t, discovery.Provider{})
		r.Observe(t.Context(), resilience.Call{Provider: "p", Model: "m", Outcome: resilience.OutcomeSuccess, FirstEvent: d})
		assert.Positive(t, r.Status()[0].Flow.FirstTokenP50, d)
	}
}

// Three digits are enough, whatever is rounded up.
func TestTokensAreWrittenShort(t *testing.T) {
	for n, want := range map[int64]string{
		1: "1", 999: "999", 1000: "1.0k", 9940: "9.9k", 9960: "10k", 999_400: "999k", 999_600: "1.0M", 9_960_000: "10M", 999_600_000: "1.0G", 1 << 40: "1100G",
	} {
		r := flowRegistry(t, discovery.Provider{})
		r.Observe(t.Context(), resilience.Call{Provider: "p", Model: "m", Outcome: resilience.OutcomeSuccess, Usage: wire.Usage{Input: n}})
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		assert.Contains(t, w.Body.String(), "<dd>"+want+" in, 0 out</dd>")
	}
}

// The last ten failovers, the latest first; equal ones are one, and texts are
// bounded.
func TestTheLastFailovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := flowRegistry(t, discovery.Provider{})
		assert.Nil(t, r.Failovers())
		for i := range 15 {
			r.ObserveFailover(discovery.Failover{From: fmt.Sprint("a", i), To: "b", Reason: "503"})
			time.Sleep(time.Second)
		}
		require.Len(t, r.Failovers(), 10)
		assert.Equal(t, "a14", r.Failovers()[0].From)
		r.ObserveFailover(discovery.Failover{From: "a9", To: "b", Reason: "503"})
		first := r.Failovers()[0]
		assert.Equal(t, "a9", first.From)
		assert.Equal(t, 2, first.Times)
		assert.Equal(t, time.Now().UTC(), first.Time)
		require.Len(t, r.Failovers(), 10)
		r.ObserveFailover(discovery.Failover{From: strings.Repeat("x", 9000), To: "<b>", Reason: "<script>"})
		assert.Less(t, len(r.Failovers()[0].From), 300)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := range 100 {
					r.ObserveFailover(discovery.Failover{From: fmt.Sprint(i % 12), Reason: "x"})
					_ = r.Failovers()
				}
			})
		}
		wg.Wait()
		assert.Len(t, r.Failovers(), 10)
	})
}
