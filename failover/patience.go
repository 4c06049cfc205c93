package failover

import (
	"math"
	"net/http"
	"time"
)

// PatienceOff in [Policy.Patience] makes a target wait as if there were no
// other.
const PatienceOff time.Duration = -1

// MayWait implements [resilience.Patience] for the leg's own request. It may run
// beside the walk, under a layer that returns before its transport has: what it
// reads of the walk does not change while the walk goes on.
func (l *leg) MayWait(req *http.Request, resp *http.Response, wait time.Duration) (longest time.Duration, ok bool) {
	longest = math.MaxInt64
	if !l.carries(req) {
		return longest, true
	}
	waited := time.Duration(l.wait.Load())
	for at := l; at != nil && at.walk != nil; at = at.walk.above {
		limit := at.walk.chain.policy.Patience
		if left := max(0, limit-waited); limit != PatienceOff && left < longest && at.wouldMoveOn(resp) {
			longest = left
		}
	}
	if ok = wait <= longest; !ok {
		l.moved.Store(true)
	}
	return longest, ok
}

// Waits implements [resilience.Patience].
func (l *leg) Waits(req *http.Request, wait time.Duration) {
	if l.carries(req) {
		l.wait.Add(int64(wait))
	}
}

// wouldMoveOn reports whether the walk would go on to another target now if the
// leg ended with resp, nil for a transport failure.
func (l *leg) wouldMoveOn(resp *http.Response) bool {
	w := l.walk
	if !w.may || w.full(l.tried+1) || w.left() || !w.another(l) {
		return false
	}
	if resp == nil {
		return true
	}
	return w.eligible(l.tried+1, &result{resp: resp, status: resp.StatusCode})
}

// another reports whether a target after that of l could be tried now.
func (w *walk) another(l *leg) bool {
	for k := l.next; k < len(w.chain.targets); k++ {
		if reason, _ := w.skip(w.chain.targets[at(k, l.front)], w.pinned); reason == "" {
			return true
		}
	}
	return false
}
