package breaker_test

import (
	"flag"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
)

var schedules = flag.Int("schedules", 1000, "how many schedules of holds and breakers together are compared")

// Holds and breakers of one account agree with their references, used the way a
// stack uses them: a held key admits nobody, and a limit is no failure. Bursts
// of calls at one instant come from several goroutines.
func TestHoldsAndBreakersTogetherAgreeWithReference(t *testing.T) {
	for seed := range uint64(*schedules) {
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			}()
			togetherSchedule(t, rand.New(rand.NewPCG(seed, 4)))
		})
		if t.Failed() {
			return
		}
	}
}

func togetherSchedule(t *testing.T, r *rand.Rand) {
	policy := randomPolicy(r)
	m, err := breaker.NewMap(breaker.Config{Policy: policy, Provider: "acme"})
	require.NoError(t, err)
	w := &together{
		mapWorld: mapWorld{t: t, r: r, m: m, ref: newRefMap(policy), policy: policy},
		holds:    breaker.NewHolds(10 * time.Second), refHolds: refHolds{longest: 10 * time.Second},
	}
	for range 25 {
		key := []string{"", "a", "b"}[r.IntN(3)]
		switch r.IntN(6) {
		case 0:
			w.hold(key)
		case 1, 2:
			w.burst(key)
		case 3, 4:
			if len(w.calls) > 0 {
				w.settle(r.IntN(len(w.calls)), randomVerdict(r, 60))
			}
		default:
			time.Sleep(randomPause(r, policy))
		}
		w.compare()
	}
	w.settleAll()
	w.compare()
	time.Sleep(11 * time.Minute)
	require.Empty(t, w.holds.Snapshot(), "every hold ends")
	for _, key := range []string{"", "a", "b"} {
		require.Nil(t, m.Peek(key), "every breaker lets somebody in again")
	}
}

type together struct {
	mapWorld
	holds    *breaker.Holds
	refHolds refHolds
}

// hold sets up to three holds of the key at one instant; the latest end wins.
func (w *together) hold(key string) {
	var all sync.WaitGroup
	first := 1 + w.r.IntN(12)
	for i := range 1 + w.r.IntN(3) {
		wait := time.Duration(first+i) * time.Second / 2
		w.refHolds.all = append(w.refHolds.all, refHold{key, rateKind, time.Now().Add(wait), i == 1})
		all.Go(func() { w.holds.Hold(key, rateKind, wait, i == 1) })
	}
	all.Wait()
}

// burst lets up to four calls of the key come at one instant. Only their number
// can be foretold, not which of them is let in.
func (w *together) burst(key string) {
	n := 1 + w.r.IntN(4)
	permits := make([]*breaker.Permit, n)
	var admitted atomic.Int32
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if _, held := w.holds.Held(key, true); held {
				return
			}
			p := new(breaker.Permit)
			if w.m.Admit(key, p) == nil {
				admitted.Add(1)
				permits[i] = p
			}
		})
	}
	all.Wait()
	if _, held := w.refHolds.held(true, "", key); held {
		require.Zero(w.t, admitted.Load(), "a held key")
		return
	}
	want := 0
	var calls []*refCall
	for range n {
		if c, rejected := w.ref.admit(key); rejected == nil {
			want++
			calls = append(calls, c)
		}
	}
	require.EqualValues(w.t, want, admitted.Load(), "calls let in")
	for _, p := range permits {
		if p != nil {
			w.calls = append(w.calls, pair{permit: p, call: calls[0]})
			calls = calls[1:]
		}
	}
}

func (w *together) compare() {
	sameMap(w.t, w.ref, w.m)
	for _, key := range []string{"", "a", "b"} {
		want, wantOK := w.refHolds.held(true, "", key)
		got, ok := w.holds.Held(key, true)
		require.Equal(w.t, wantOK, ok)
		if want != got {
			require.Equal(w.t, want, got)
		}
	}
}
