package breaker_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
)

var (
	schedules = flag.Uint64("schedules", 2000, "how many schedules of holds and breakers together are compared")
	firstSeed = flag.Uint64("first-seed", 0, "of these schedules")
)

// Holds, permits and the breakers of a map agree with their references, used the
// way a stack uses them: a held key admits nobody, and a limit is no failure.
// What happens at one instant comes from several goroutines. There is room for
// fewer models than are asked for.
func TestHoldsAndBreakersTogetherAgreeWithReference(t *testing.T) {
	const inBubble = 20 // a bubble costs more than a schedule
	workers := uint64(runtime.GOMAXPROCS(0))
	for worker := range workers {
		t.Run(fmt.Sprint("worker ", worker), func(t *testing.T) {
			t.Parallel()
			end := *firstSeed + *schedules
			for first := *firstSeed + worker*inBubble; first < end && !t.Failed(); first += workers * inBubble {
				synctest.Test(t, func(t *testing.T) {
					for seed := first; seed < min(first+inBubble, end); seed++ {
						togetherSchedule(t, seed)
					}
				})
			}
		})
	}
}

// togetherKeys are the account's and its models'.
var togetherKeys = []string{"", "a", "b", "c", "d"}

type together struct {
	mapWorld
	seed     uint64
	hot      string // the key that is used most
	failing  int    // per cent of the verdicts
	changes  []refChange
	holds    *breaker.Holds
	refHolds refHolds
}

func togetherSchedule(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 4))
	policy := randomPolicy(r)
	policy.FailureThreshold, policy.SuccessThreshold = 1+r.IntN(3), 1+r.IntN(2)
	most := 2 + r.IntN(4)
	w := &together{
		mapWorld: mapWorld{t: t, r: r, ref: newRefMap(policy), policy: policy},
		seed:     seed, hot: togetherKeys[r.IntN(len(togetherKeys))], failing: 20 + r.IntN(70),
		holds: breaker.NewHolds(10 * time.Second), refHolds: refHolds{longest: 10 * time.Second, most: most},
	}
	w.ref.most = most
	var err error
	w.m, err = breaker.NewMap(breaker.Config{Policy: policy, Provider: "acme", OnStateChange: func(key string, from, to breaker.State) {
		w.changes = append(w.changes, refChange{key, from, to})
	}})
	if err != nil {
		require.NoError(t, err)
	}
	w.m.SetMost(most)
	w.holds.SetMost(most)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	for i := range 24 {
		key := w.hot
		if r.IntN(2) > 0 {
			key = togetherKeys[r.IntN(len(togetherKeys))]
		}
		w.step(key)
		w.compareKey(key)
		if i%8 == 7 {
			w.compare()
		}
	}
	w.end()
}

func (w *together) step(key string) {
	switch op := w.r.IntN(30); {
	case op < 4:
		w.hold(key)
	case op < 6:
		w.holds.Release(key)
		w.refHolds.release(key)
	case op < 13:
		w.burst(key)
	case op < 22 && len(w.calls) > 0:
		w.act(w.r.IntN(len(w.calls)))
	case op == 22 && len(w.calls) > 0:
		w.again(w.r.IntN(len(w.calls)))
	case op == 23 && w.r.IntN(3) == 0:
		w.calls = w.calls[len(w.calls)/2:] // lost for good
	case op == 24:
		d := []time.Duration{0, w.policy.Timeout, 2 * w.policy.Timeout, 15 * time.Minute}[w.r.IntN(4)]
		w.operate(key, d)
	case op == 25:
		w.reset(key)
	case op == 26 && w.r.IntN(3) == 0: // idle for so long a breaker goes
		time.Sleep(10*time.Minute + time.Duration(w.r.IntN(3)-1))
	default:
		time.Sleep(randomPause(w.r, w.policy))
	}
}

// atOnce runs f on n goroutines at one instant.
func atOnce(n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var all sync.WaitGroup
	for i := range n - 1 {
		all.Go(func() { f(i) })
	}
	f(n - 1)
	all.Wait()
}

// several is how many goroutines do something: one as a rule, since they cost
// more than all else that a schedule does.
func (w *together) several(most int) int {
	if w.r.IntN(6) > 0 {
		return 1
	}
	return 2 + w.r.IntN(most-1)
}

// hold sets up to three holds of the key at one instant; the latest end wins.
// Where another has to make room their order matters, so there is one.
func (w *together) hold(key string) {
	n := 1
	if w.refHolds.free(key) {
		n = w.several(3)
	}
	kind := []string{rateKind, quotaKind, billingKind}[w.r.IntN(3)]
	// Models' holds that are cut to the longest would end together, and which of
	// them goes first is nobody's business.
	longest := w.refHolds.longest - time.Second
	if key == "" {
		longest *= 2
	}
	first, guess := time.Duration(w.r.Int64N(int64(longest)))-time.Second/2, w.r.IntN(4)
	wait := func(i int) time.Duration { return first + time.Duration(i)*time.Second/2 }
	for i := range n {
		w.refHolds.hold(key, kind, wait(i), i == guess)
	}
	atOnce(n, func(i int) { w.holds.Hold(key, kind, wait(i), i == guess) })
}

// burst lets up to four calls of the key come at one instant. Only their number
// can be foretold, not which of them is let in.
func (w *together) burst(key string) {
	var permits [4]*breaker.Permit
	n := w.several(len(permits))
	atOnce(n, func(i int) {
		if _, held := w.holds.Held(key, true); held {
			return
		}
		p := new(breaker.Permit)
		if w.m.Admit(key, p) == nil {
			permits[i] = p
		}
	})
	got := slices.DeleteFunc(permits[:n], func(p *breaker.Permit) bool { return p == nil })
	if _, held := w.refHolds.held(true, "", key); held {
		w.same(0, len(got), "calls of a held key let in")
		return
	}
	var want []*refCall
	for range n {
		if c, rejected := w.ref.admit(key); rejected == nil {
			want = append(want, c)
		}
	}
	w.same(len(want), len(got), "calls let in")
	for i, p := range got {
		w.same(want[i].probe, p.Probe(), "a probe")
		w.calls = append(w.calls, pair{permit: p, call: want[i]})
	}
}

// act does something to a call, up to three times at one instant: only the
// first counts.
func (w *together) act(i int) {
	c := w.calls[i]
	v := randomVerdict(w.r, w.failing)
	f, ref := func() { c.permit.Settle(v) }, func(b *refBreaker) { b.settle(c.call, v) }
	switch w.r.IntN(8) {
	case 0:
		f, ref = c.permit.FirstEvent, func(b *refBreaker) { b.firstEvent(c.call) }
	case 1:
		f, ref = c.permit.Answered, func(*refBreaker) { c.call.answered() }
	default:
		if v == breaker.Pending {
			ref = func(*refBreaker) {}
		}
	}
	atOnce(w.several(3), func(int) { f() })
	w.ref.after(c.call, ref)
	w.draw(w.ref.of(c.call))
	w.same(c.call.settled, c.permit.Settled(), "settled")
	w.same(w.ref.of(c.call).now().state == breaker.Closed, c.permit.BreakerClosed(), "its breaker is closed")
	if c.call.settled && w.r.IntN(4) > 0 { // else it is tried once more
		w.calls = slices.Delete(w.calls, i, i+1)
	}
}

// again admits another call with a permit that was used, which settles what it
// held as neutral.
func (w *together) again(i int) {
	c := w.calls[i]
	w.calls = slices.Delete(w.calls, i, i+1)
	key := togetherKeys[w.r.IntN(len(togetherKeys))]
	err := errorOf(w.m.Admit(key, c.permit))
	w.ref.after(c.call, func(b *refBreaker) { b.settle(c.call, breaker.Neutral) })
	call, want := w.ref.admit(key)
	sameError(w.t, want, err)
	if want == nil {
		w.calls = append(w.calls, pair{permit: c.permit, call: call})
	}
}

func (w *together) compare() {
	sameMap(w.t, w.ref, w.m)
	if !slices.Equal(w.ref.changes, w.changes) {
		require.Equal(w.t, w.ref.changes, w.changes)
	}
	for _, key := range togetherKeys {
		w.compareKey(key)
	}
	if want, got := w.refHolds.snapshot(togetherKeys), w.holds.Snapshot(); !slices.Equal(want, got) {
		require.Equal(w.t, want, got)
	}
}

func (w *together) compareKey(key string) {
	sameError(w.t, w.ref.peek(key), w.m.Peek(key))
	for _, guesses := range []bool{true, false} {
		want, wantOK := w.refHolds.held(guesses, "", key)
		got, ok := w.holds.Held(key, guesses)
		if wantOK != ok || want != got {
			require.Equal(w.t, want, got, "guesses %t", guesses)
			require.Equal(w.t, wantOK, ok)
		}
	}
}

// end requires that nothing is stuck: every hold ends, and every breaker lets
// somebody in again, however many probes were lost.
func (w *together) end() {
	for len(w.calls) > 0 {
		w.act(0)
	}
	time.Sleep(16 * time.Minute)
	w.compare()
	w.same(0, len(w.holds.Snapshot()), "holds that never end")
	for _, s := range w.m.Snapshots() {
		w.same(time.Duration(0), s.RetryAfter, "a breaker that never lets anybody in")
	}
}

// same spares reflection where all is well.
func (w *together) same(want, got any, what string) {
	if want != got {
		require.Equal(w.t, want, got, what)
	}
}
