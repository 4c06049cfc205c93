package failover

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience"
)

// Bounds of one pause of a recovery.
const (
	minPause   = 10 * time.Millisecond  // nobody asks in a tight loop
	probePause = 250 * time.Millisecond // a probe may be over long before its lease is
)

// recovery is the waiting of one walk for its targets ([Policy.WaitFor]).
type recovery struct {
	w      *walk
	until  time.Time // when the call is rejected after all
	before int       // how many targets the call had tried before the walk
	logged bool
}

func newRecovery(w *walk) recovery {
	return recovery{w: w, until: time.Now().Add(w.chain.policy.WaitFor), before: w.call.triedSoFar()}
}

// wait returns when a target can be tried, or when waiting is of no use.
func (r *recovery) wait() {
	for {
		if open, free := r.w.earliest(); free || !r.pause(open) {
			return
		}
	}
}

// again reports whether the targets are to be asked once more: all rejected the
// call, although they seemed ready, since other calls were faster.
func (r *recovery) again(last *result) bool {
	w := r.w
	if !last.rejected || !w.repeats {
		return false
	}
	w.call.forget(r.before) // nothing was sent to them
	open, free := w.earliest()
	if free { // or it cannot be asked beforehand
		open = rejection{OpenError: breaker.OpenError{State: breaker.HalfOpen, RetryAfter: probePause}, is: true}
		if told, ok := resilience.Rejection(last.resp, last.err); ok {
			open.OpenError = *told
		}
	}
	if !r.pause(open) {
		return false
	}
	w.runner.drop(last)
	w.last, w.have, w.listed, w.again = result{}, false, false, true
	return true
}

// pause waits as long as open says and up to a tenth more, so that the calls
// that wait do not come back all at once. It reports false where that would be
// too long, where another target could be tried, or where nobody waits any more.
func (r *recovery) pause(open rejection) bool {
	w := r.w
	if !open.is || open.Full || w.elsewhere() {
		return false
	}
	d := max(open.RetryAfter, minPause)
	if open.State == breaker.HalfOpen {
		d = min(d, probePause)
	}
	room := time.Until(r.until)
	if at, ok := w.ctx.Deadline(); ok {
		room = min(room, time.Until(at)-1)
	}
	if d > room {
		return false
	}
	d += rand.N(min(d/10, room-d) + 1)
	if !r.logged {
		r.logged = true
		w.chain.tele.waiting(w.ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.ctx.Done():
	case <-w.cancel:
	}
	return !w.left()
}

// elsewhere reports whether a chain above has an answer in hand, or another
// target that could be tried now.
func (w *walk) elsewhere() bool {
	for l := w.above; l != nil && l.walk != nil; l = l.walk.above {
		if l.tried > 0 || l.walk.may && l.walk.another(l) {
			return true
		}
	}
	return false
}

// earliest returns what keeps the target that is ready first from being tried,
// none if none will be. free says that one can be tried now.
func (w *walk) earliest() (first rejection, free bool) {
	for k := range w.chain.targets {
		t := w.chain.targets[w.listedAt(k)]
		reason, open := w.skip(t, false)
		if reason == ReasonUnavailable && !w.pinned {
			open = w.open(t) // the last resort tries it, if that lets it through
		}
		switch {
		case reason == "", reason == ReasonUnavailable && !open.is && !w.pinned:
			return rejection{}, true
		case open.is && !open.Full && (!first.is || open.RetryAfter < first.RetryAfter):
			first = open
		}
		if open.is && w.pinned {
			break // no other target is asked
		}
	}
	return first, false
}

// listedAt returns the index of the k-th target, the one that the request names
// first.
func (w *walk) listedAt(k int) int {
	if w.preferred == nil {
		return k
	}
	return at(k, max(0, slices.Index(w.chain.targets, w.preferred)))
}
