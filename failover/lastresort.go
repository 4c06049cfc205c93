package failover

import (
	"context"
	"time"
)

// lastResort gives an honest answer where every target was passed over: the
// first that is merely unavailable is really tried, else the rejection with
// the shortest wait is fetched from its own stack.
func (w *walk) lastResort(first int) {
	w.next = len(w.chain.targets)
	best, wait := -1, time.Duration(0)
	for k := range w.chain.targets {
		i := at(k, w.front)
		reason, open := w.skip(w.chain.targets[i], w.pinned)
		if reason == ReasonUnavailable && !w.pinned {
			open = w.open(w.chain.targets[i])
		}
		switch {
		case reason == "", reason == ReasonUnavailable && !open.is:
			w.try(w.chain.targets[i], i == first)
			return
		case open.is && (best < 0 || open.RetryAfter < wait):
			best, wait = i, open.RetryAfter
		}
	}
	if best >= 0 {
		w.listed = true
		w.try(w.chain.targets[best], best == first)
	}
}

// nothing is the result of a walk in which no target was tried.
func (w *walk) nothing() result {
	if !gone(w.ctx) && w.left() { // by the request's Cancel
		return result{err: context.Canceled, canceled: true, reason: ReasonCanceled}
	}
	if gone(w.ctx) {
		r := result{err: ctxError(w.ctx, nil)}
		r.canceled, r.reason = canceled(w.ctx), ReasonTimeout
		if r.canceled {
			r.reason = ReasonCanceled
		}
		return r
	}
	if w.unfit != nil {
		return *w.unfit
	}
	if w.call.triedSoFar() > 0 {
		return result{err: errNoneLeft, reason: ReasonUnavailable, empty: true}
	}
	return result{err: errNoTarget, reason: ReasonUnavailable}
}
