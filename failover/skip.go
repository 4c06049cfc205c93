package failover

import (
	"slices"

	"github.com/surefoot-go/surefoot/breaker"
)

// A rejection is what a target's stack would answer now in place of its upstream.
// The zero rejection lets the call through.
type rejection struct {
	breaker.OpenError
	is bool
}

// skip tells why a target is not to be tried now, "" if it is, and which
// rejection is the reason. pinned leaves its breaker out of it. Both cost no
// allocation, however many targets are passed over.
func (w *walk) skip(t *target, pinned bool) (reason string, open rejection) {
	switch {
	case t.Disabled:
		return ReasonDisabled, open
	case t.Allow != nil && !t.Allow(w.ask):
		return ReasonNotAllowed, open
	case w.embeds && w.modelOf(t, w.model) != w.vectors:
		return ReasonOtherModel, open
	case w.foreign(t):
		return ReasonBound, open
	case w.call.wasTried(t, w.model):
		return ReasonTried, open
	case t.Available != nil && !t.Available():
		return ReasonUnavailable, open
	}
	if sub := t.chain(); sub != nil {
		return w.skipChain(sub, pinned)
	}
	if w.chain.rules.length && w.call.outgrew(t.model(w.model)) {
		return ReasonTooLong, open
	}
	if pinned {
		return "", open
	}
	if open = w.open(t); open.is {
		return rejectedBy(&open.OpenError), open
	}
	return "", open
}

// skipChain tells why a chain as a target is not to be tried: none of its own
// targets is. The reason is the one that is nearest to a try.
func (w *walk) skipChain(c *Chain, pinned bool) (reason string, open rejection) {
	for _, t := range c.targets {
		why, o := w.skip(t, pinned)
		if why == "" {
			return "", rejection{}
		}
		if rank(why) > rank(reason) {
			reason = why
		}
		if o.is && (!open.is || o.RetryAfter < open.RetryAfter) {
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

// open returns the rejection that the target's stack would give now.
func (w *walk) open(t *target) (r rejection) {
	if t.keeper != nil {
		r.OpenError, r.is = t.keeper.Rejects(t.word, t.model(w.model), !w.plain)
	}
	return r
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
