package failover

import "context"

// lastResort gives an honest answer where every target was passed over: the
// first that is merely unavailable is really tried, else the first whose limit
// may be over by now, else the rejection with the shortest wait is fetched from
// its own stack.
func (w *walk) lastResort(first int) {
	w.next = len(w.chain.targets)
	var best rejection
	chosen := -1
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
		case open.is && (!best.is || open.before(best)):
			chosen, best = i, open
		}
	}
	if best.is {
		w.listed = true
		w.try(w.chain.targets[chosen], chosen == first)
	}
}

// before reports whether it is better to ask the target of r than that of o,
// where both are passed over.
func (r rejection) before(o rejection) bool {
	if r.Guess || o.Guess {
		return r.Guess && !o.Guess
	}
	return r.RetryAfter < o.RetryAfter
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
