package breaker_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
)

// pair is one call in both worlds.
type pair struct {
	permit *breaker.Permit
	call   *refCall
}

func randomPolicy(r *rand.Rand) breaker.Policy {
	p := breaker.Policy{
		Scope:            breaker.ScopeModel,
		FailureThreshold: 1 + r.IntN(4),
		SuccessThreshold: 1 + r.IntN(3),
		Timeout:          time.Duration(1+r.IntN(3)) * time.Second,
	}
	switch r.IntN(3) {
	case 0:
		p.TimeoutFactor, p.MaxTimeout = []float64{1, 1.5, 2, 1e300}[r.IntN(4)], time.Duration(r.IntN(4))*7*time.Second
	case 1:
		p.TimeoutFactor, p.Jitter = 2, []float64{0.1, 1}[r.IntN(2)]
	}
	if r.IntN(2) == 0 {
		p.SlowCallThreshold = time.Duration(1+r.IntN(3)) * 700 * time.Millisecond
	}
	return p
}

// randomPause picks moments right at, before and after the interesting ones.
func randomPause(r *rand.Rand, p breaker.Policy) time.Duration {
	near := []time.Duration{p.Timeout, p.SlowCallThreshold, p.Timeout / 2}
	switch r.IntN(4) {
	case 0:
		return time.Duration(r.IntN(3))
	case 1:
		return time.Duration(r.Int64N(int64(p.Timeout)))
	}
	return max(0, near[r.IntN(len(near))]+time.Duration(r.IntN(3)-1))
}

func errorOf(err error) *breaker.OpenError {
	if err == nil {
		return nil
	}
	return err.(*breaker.OpenError) //nolint:errorlint // the exact type is promised
}

// The comparisons below spare reflection where all is well: there are millions.

func sameError(t *testing.T, want, got *breaker.OpenError) {
	if want == nil && got == nil || want != nil && got != nil && *want == *got {
		return
	}
	t.Helper()
	require.Equal(t, want, got)
}

func sameMap(t *testing.T, want *refMap, got *breaker.Map) {
	if w, g := want.snapshots(), got.Snapshots(); !slices.Equal(w, g) {
		t.Helper()
		require.Equal(t, w, g)
	}
}

func randomVerdict(r *rand.Rand, failing int) breaker.Verdict {
	if r.IntN(100) < failing {
		return breaker.Failure
	}
	return []breaker.Verdict{breaker.Success, breaker.Success, breaker.Neutral, breaker.Pending}[r.IntN(4)]
}

// A breaker agrees with the reference in every answer, every snapshot and every
// change, under random schedules with calls that overlap and settle late or
// never.
func TestBreakerAgreesWithReference(t *testing.T) {
	for seed := range uint64(80) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { breakerSchedule(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func breakerSchedule(t *testing.T, r *rand.Rand) {
	policy := randomPolicy(r)
	var got, want []refChange
	b, err := breaker.New(breaker.Config{
		Policy: policy, Provider: "acme",
		OnStateChange: func(key string, from, to breaker.State) { got = append(got, refChange{key, from, to}) },
	})
	require.NoError(t, err)
	ref := newRefBreaker("", policy, &want)
	var calls []pair
	failing := 20 + r.IntN(60)
	for step := range 400 {
		switch op := r.IntN(20); {
		case op < 6:
			sameError(t, ref.rejection(), b.Peek())
			c := pair{permit: new(breaker.Permit)}
			if len(calls) > 0 && r.IntN(3) == 0 { // a permit used again settles what it held
				i := r.IntN(len(calls))
				c.permit = calls[i].permit
				ref.settle(calls[i].call, breaker.Neutral)
				calls = slices.Delete(calls, i, i+1)
			}
			wantErr := ref.rejection()
			sameError(t, wantErr, errorOf(b.Admit(c.permit)))
			if wantErr == nil {
				c.call = ref.admit()
				require.Equal(t, c.call.probe, c.permit.Probe(), "step %d: probe", step)
				calls = append(calls, c)
			}
		case op < 14 && len(calls) > 0:
			c := calls[r.IntN(len(calls))]
			act(r, failing, c, ref)
			require.Equal(t, c.call.settled, c.permit.Settled(), "step %d: settled", step)
		case op == 14 && r.IntN(4) == 0:
			d := time.Duration(r.IntN(3)) * policy.Timeout
			b.ForceOpen(d)
			ref.forceOpen(d)
		case op == 15 && r.IntN(4) == 0:
			b.Reset()
			ref.enter(breaker.Closed, breaker.CauseOperator, time.Time{})
		case op == 16 && len(calls) > 20:
			calls = calls[10:] // lost for good
		default:
			time.Sleep(randomPause(r, policy))
		}
		require.True(t, ref.draw(b.Snapshot().RetryAfter), "step %d: open time", step)
		if ref.snapshot() != b.Snapshot() || !slices.Equal(want, got) {
			require.Equal(t, ref.snapshot(), b.Snapshot(), "step %d: snapshot", step)
			require.Equal(t, want, got, "step %d: changes", step)
		}
	}
	// Never stuck: with no call to come back it lets a probe in after one
	// open time, at most 5 minutes and their jitter, and one lease.
	time.Sleep(11 * time.Minute)
	require.Nil(t, b.Peek())
	for range policy.SuccessThreshold {
		var p breaker.Permit
		require.NoError(t, b.Admit(&p))
		p.Settle(breaker.Success)
	}
	require.Equal(t, breaker.Closed, b.State())
}

// act does something random to a call in both worlds.
func act(r *rand.Rand, failing int, c pair, ref *refBreaker) {
	switch r.IntN(6) {
	case 0:
		c.permit.FirstEvent()
		ref.firstEvent(c.call)
	case 1:
		c.permit.Answered()
		c.call.answered()
	default:
		v := randomVerdict(r, failing)
		c.permit.Settle(v)
		if v != breaker.Pending {
			ref.settle(c.call, v)
		}
	}
}

// A map agrees with the reference, across expiry, eviction and exhaustion: one
// of the true size, and more of a sixteenth of it, at a sixteenth of the cost.
func TestMapAgreesWithReference(t *testing.T) {
	for seed := range uint64(9) {
		most := 64
		if seed == 0 {
			most = 1024
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { mapSchedule(t, rand.New(rand.NewPCG(seed, 2)), most) })
		})
	}
}

// A phase is how the traffic of a map schedule looks for a while.
type phase struct {
	keys    int // how many models are asked for, where there is room for 1,024
	hold    int // per cent of calls that stay in flight
	failing int // per cent of verdicts that are failures
	pause   time.Duration
}

var phases = []phase{
	{keys: 1100, hold: 0, failing: 0},
	{keys: 1100, hold: 2, failing: 5},
	{keys: 1100, hold: 0, failing: 100},
	{keys: 1300, hold: 100},
	{keys: 30, hold: 20, failing: 40, pause: time.Second},
	{keys: 1500, hold: 1, failing: 30, pause: time.Second},
	{keys: 4000, hold: 0, failing: 10, pause: 2 * time.Second},
}

func mapSchedule(t *testing.T, r *rand.Rand, most int) {
	policy := randomPolicy(r)
	policy.FailureThreshold = 1 + r.IntN(2)
	if r.IntN(3) == 0 {
		policy.Timeout = 15 * time.Minute // idle for longer than it may be idle, but open
	}
	var got []refChange
	m, err := breaker.NewMap(breaker.Config{
		Policy: policy, Provider: "acme",
		OnStateChange: func(key string, from, to breaker.State) { got = append(got, refChange{key, from, to}) },
	})
	require.NoError(t, err)
	m.SetMost(most)
	w := &mapWorld{t: t, r: r, m: m, ref: newRefMap(policy), policy: policy}
	w.ref.most = most
	for range 6 {
		w.phase = phases[r.IntN(len(phases))]
		for step := range max(400, 1500*most/1024) {
			w.step()
			if step%100 == 0 {
				sameMap(t, w.ref, m)
				if !slices.Equal(w.ref.changes, got) {
					require.Equal(t, w.ref.changes, got)
				}
			}
		}
		switch r.IntN(4) {
		case 0:
			w.settleAll()
		case 1:
			w.settleAll()
			time.Sleep(10*time.Minute - time.Duration(r.IntN(2)))
		}
	}
	w.settleAll()
	sameMap(t, w.ref, m)
	t.Logf("rejected %d, of these for want of room %d; %d breakers", w.rejected, w.full, len(w.ref.models))
}

type mapWorld struct {
	t              *testing.T
	r              *rand.Rand
	m              *breaker.Map
	ref            *refMap
	policy         breaker.Policy
	phase          phase
	calls          []pair
	rejected, full int
}

func (w *mapWorld) key() string {
	if w.r.IntN(20) == 0 {
		return ""
	}
	return fmt.Sprintf("m%d", w.r.IntN(max(2, w.phase.keys*w.ref.most/1024)))
}

func (w *mapWorld) step() {
	switch op := w.r.IntN(100); {
	case op < 85:
		w.call(w.key())
	case op < 90 && len(w.calls) > 0:
		w.settle(w.r.IntN(len(w.calls)), randomVerdict(w.r, w.phase.failing))
	case op == 90 && w.r.IntN(5) == 0:
		w.operate(w.key(), time.Duration(w.r.IntN(3))*10*time.Minute)
	case op == 91:
		w.reset(w.key())
	case op < 95 && w.phase.pause > 0:
		time.Sleep(time.Duration(w.r.Int64N(int64(w.phase.pause))))
	}
}

// operate and reset do what an operator does, which is a use.
func (w *mapWorld) operate(key string, d time.Duration) {
	w.m.ForceOpen(key, d)
	if key == "" {
		w.ref.own.forceOpen(d)
	} else if e := w.ref.lookup(key); e != nil {
		e.forceOpen(d)
		w.ref.endUse(e)
	}
}

func (w *mapWorld) reset(key string) {
	w.m.Reset(key)
	if key == "" {
		w.ref.own.enter(breaker.Closed, breaker.CauseOperator, time.Time{})
	} else if e := w.ref.find(key); e != nil {
		e.enter(breaker.Closed, breaker.CauseOperator, time.Time{})
		w.ref.endUse(e)
	}
}

func (w *mapWorld) call(key string) {
	c := pair{permit: new(breaker.Permit)}
	if w.r.IntN(4) == 0 {
		sameError(w.t, w.ref.peek(key), w.m.Peek(key))
	}
	err := errorOf(w.m.Admit(key, c.permit))
	var want *breaker.OpenError
	c.call, want = w.ref.admit(key)
	sameError(w.t, want, err)
	if err != nil {
		w.rejected++
		if err.Full {
			w.full++
		}
		return
	}
	w.calls = append(w.calls, c)
	if w.r.IntN(100) >= w.phase.hold {
		w.settle(len(w.calls)-1, randomVerdict(w.r, w.phase.failing))
	}
}

func (w *mapWorld) settle(i int, v breaker.Verdict) {
	c := w.calls[i]
	if w.r.IntN(10) == 0 {
		c.permit.FirstEvent()
		w.ref.after(c.call, func(b *refBreaker) { b.firstEvent(c.call) })
		w.draw(w.ref.of(c.call))
	}
	c.permit.Settle(v)
	if v != breaker.Pending {
		w.ref.after(c.call, func(b *refBreaker) { b.settle(c.call, v) })
		w.draw(w.ref.of(c.call))
		w.calls = slices.Delete(w.calls, i, i+1)
	}
}

// draw takes over the open time that a breaker has drawn.
func (w *mapWorld) draw(b *refBreaker) {
	if !b.now().drawn {
		return
	}
	err := w.m.Peek(b.key)
	require.NotNil(w.t, err)
	require.True(w.t, b.draw(err.RetryAfter), "open time %v", err.RetryAfter)
}

func (w *mapWorld) settleAll() {
	for len(w.calls) > 0 {
		w.settle(w.r.IntN(len(w.calls)), breaker.Verdict(w.r.IntN(3)))
	}
}
