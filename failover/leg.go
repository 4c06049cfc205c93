package failover

import (
	"context"
	"net/url"
	"time"
)

// leg is one target's part of a call. It is the context of the target's
// request, through which a response finds back to its attempts.
type leg struct {
	context.Context
	call    *call
	target  *target
	backup  bool     // not the target that the strategy put first
	first   bool     // the chain's first: the one that gets the Idempotency-Key
	sent    *url.URL // where its request went, redirects aside
	asked   *url.URL // the caller's own URL
	foreign bool     // sent is on another host than asked
	limit   *limit   // nil: none
}

type legKey struct{}

// Value returns the leg itself for its own key.
func (l *leg) Value(key any) any {
	if key == (legKey{}) {
		return l
	}
	return l.Context.Value(key)
}

// Deadline is that of the target's time limit while it runs, so that a stack
// starts no wait that it cannot outlive.
func (l *leg) Deadline() (time.Time, bool) {
	d, ok := l.Context.Deadline()
	if lim := l.limit; lim != nil && !lim.lifted.Load() && (!ok || lim.at.Before(d)) {
		return lim.at, true
	}
	return d, ok
}

func legFrom(ctx context.Context) *leg {
	l, _ := ctx.Value(legKey{}).(*leg)
	return l
}
