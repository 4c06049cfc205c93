package failover

import (
	"slices"

	"github.com/surefoot-go/surefoot/breaker"
)

// skip tells why a target is not to be tried now, "" if it is. pinned leaves
// its breaker out of it.
func (w *walk) skip(t *target, pinned bool) (string, *breaker.OpenError) {
	switch {
	case t.Disabled:
		return ReasonDisabled, nil
	case t.Allow != nil && !t.Allow(w.ask):
		return ReasonNotAllowed, nil
	case w.embeds && w.modelOf(t, w.model) != w.vectors:
		return ReasonOtherModel, nil
	case w.foreign(t):
		return ReasonBound, nil
	case w.call.wasTried(t, w.model):
		return ReasonTried, nil
	case t.Available != nil && !t.Available():
		return ReasonUnavailable, nil
	}
	if sub := t.chain(); sub != nil {
		return w.skipChain(sub, pinned)
	}
	if w.chain.rules.length && w.call.outgrew(t.model(w.model)) {
		return ReasonTooLong, nil
	}
	if open := w.open(t); open != nil && !pinned {
		return rejectedBy(open), open
	}
	return "", nil
}

// skipChain tells why a chain as a target is not to be tried: none of its own
// targets is. The reason is the one that is nearest to a try.
func (w *walk) skipChain(c *Chain, pinned bool) (reason string, open *breaker.OpenError) {
	for _, t := range c.targets {
		why, o := w.skip(t, pinned)
		if why == "" {
			return "", nil
		}
		if rank(why) > rank(reason) {
			reason = why
		}
		if o != nil && (open == nil || o.RetryAfter < open.RetryAfter) {
			open = o
		}
	}
	return reason, open
}

func rank(reason string) int {
	return slices.Index([]string{
		"", ReasonDisabled, ReasonNotAllowed, ReasonOtherModel, ReasonBound, ReasonTried, ReasonTooLong, ReasonCircuitOpen, ReasonRateLimited, ReasonConcurrency, ReasonUnavailable,
	}, reason)
}

// open returns the rejection that the target's breaker would give now.
func (w *walk) open(t *target) *breaker.OpenError {
	if t.peek == nil {
		return nil
	}
	return t.peek(t.model(w.model))
}

// rejectedBy is the reason of a rejection: a breaker, a hold or no free place.
func rejectedBy(open *breaker.OpenError) string {
	switch open.Limit {
	case "":
		return ReasonCircuitOpen
	case ReasonConcurrency:
		return ReasonConcurrency
	}
	return ReasonRateLimited
}
