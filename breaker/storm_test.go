package breaker_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
)

// serve plays the handlers in turn, the last one for good.
func serve(t *testing.T, handlers ...http.HandlerFunc) *httptest.Server {
	t.Helper()
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers[min(int(calls.Add(1)), len(handlers))-1](w, r)
	}))
	t.Cleanup(server.Close)
	return server
}

// 64 goroutines with every verdict, with an operator and readers in between:
// changes that fit together, and no state it cannot leave.
func TestBreakerStorm(t *testing.T) {
	policy := breaker.Policy{FailureThreshold: 3, SuccessThreshold: 2, Timeout: 2 * time.Millisecond}
	var admitted, probed atomic.Int64
	var last breaker.State // the hook runs one at a time
	b, err := breaker.New(breaker.Config{Policy: policy, OnStateChange: func(_ string, from, to breaker.State) {
		if from != last || from == to {
			t.Errorf("from %v to %v after %v", from, to, last)
		}
		last = to
	}})
	require.NoError(t, err)
	stop := time.Now().Add(300 * time.Millisecond)
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 4))
			var p breaker.Permit
			for time.Now().Before(stop) {
				_ = b.Peek()
				if b.Admit(&p) != nil {
					time.Sleep(100 * time.Microsecond)
					continue
				}
				admitted.Add(1)
				if p.Probe() {
					probed.Add(1)
				}
				if r.IntN(8) > 0 { // the rest is lost
					var inner sync.WaitGroup
					v := breaker.Verdict(r.IntN(3))
					inner.Go(func() { p.FirstEvent(); p.Settle(v) })
					p.Settle(v)
					inner.Wait()
				} else {
					p = breaker.Permit{}
				}
				_ = b.Snapshot()
			}
		})
	}
	wg.Wait()
	t.Logf("%d admitted, %d of them probes", admitted.Load(), probed.Load())
	require.Positive(t, probed.Load())
	recovers(t, b.Admit, policy)
}

// recovers requires that good calls close the breaker within a lease and an
// open time.
func recovers(t *testing.T, admit func(*breaker.Permit) error, policy breaker.Policy) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for good := 0; good <= policy.SuccessThreshold; {
		var p breaker.Permit
		if err := admit(&p); err != nil {
			require.True(t, time.Now().Before(deadline), "stuck: %v", err)
			time.Sleep(policy.Timeout / 4)
			continue
		}
		p.Settle(breaker.Success)
		good++
	}
	var p breaker.Permit
	require.NoError(t, admit(&p))
	require.False(t, p.Probe())
}

// With a lease that never runs out at most one probe is out at any moment.
func TestOneProbeStorm(t *testing.T) {
	b := newBreaker(t, breaker.Policy{FailureThreshold: 1, SuccessThreshold: 1 << 30, Timeout: time.Hour})
	b.ForceOpen(time.Nanosecond)
	var out, total atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 500 {
				var p breaker.Permit
				if b.Admit(&p) != nil {
					continue
				}
				if out.Add(1) != 1 {
					t.Error("two probes at a time")
				}
				total.Add(1)
				out.Add(-1)
				p.Settle(breaker.Verdict(total.Load() % 2))
			}
		})
	}
	wg.Wait()
	require.Positive(t, total.Load())
	require.Equal(t, breaker.HalfOpen, b.State())
}

// 64 goroutines over more models than there is room for. Afterwards nothing is
// in use: every place can be had again.
func TestMapStorm(t *testing.T) {
	policy := modelPolicy()
	policy.FailureThreshold, policy.Timeout = 2, time.Millisecond
	m := newMap(t, policy)
	stop := time.Now().Add(400 * time.Millisecond)
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 5))
			for time.Now().Before(stop) {
				key := fmt.Sprintf("m%d", r.IntN(3000))
				if r.IntN(3) == 0 {
					key = "hot"
				}
				var p breaker.Permit
				_ = m.Peek(key)
				switch r.IntN(40) {
				case 0:
					m.Reset(key)
				case 1:
					if len(m.Snapshots()) > 1025 {
						t.Error("more than 1,024 models")
					}
				default:
					if m.Admit(key, &p) == nil {
						p.Settle(breaker.Verdict(r.IntN(3)))
					}
				}
			}
		})
	}
	wg.Wait()
	for _, s := range m.Snapshots() {
		m.Reset(s.Key)
	}
	for i := range 1024 { // each evicts one, so none is held
		var p breaker.Permit
		require.NoError(t, m.Admit(fmt.Sprintf("new%d", i), &p))
	}
	assert.Len(t, m.Snapshots(), 1025)
	require.Error(t, m.Admit("one more", new(breaker.Permit)))
	recovers(t, func(p *breaker.Permit) error { return m.Admit("new0", p) }, policy)
}
