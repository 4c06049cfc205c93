package resilience

import (
	"context"
	"net/http"
	"time"
)

// PatienceKey is the key under which a context carries the [Patience] for the
// calls made under it.
type PatienceKey struct{}

// A Patience is what stands above a stack and has something better to do than
// to wait: a failover.Chain that has another target to try. The stack's
// transport finds it by [PatienceKey] in the request's context. It must be safe
// for concurrent use.
type Patience interface {
	// MayWait reports whether a call may begin a wait of at least wait, and
	// returns the longest that the wait may be. req is the request as the stack
	// got it. resp is the answer in hand, nil where there is none; it may be
	// looked at but not be kept or closed.
	MayWait(req *http.Request, resp *http.Response, wait time.Duration) (longest time.Duration, ok bool)
	// Waits is called when a wait begins.
	Waits(req *http.Request, wait time.Duration)
}

// WithPatience has the stacks ask p before they wait in a call made under the
// context.
func WithPatience(ctx context.Context, p Patience) context.Context {
	return context.WithValue(ctx, PatienceKey{}, p)
}

// patienceOf returns the Patience of ctx, nil for none.
func patienceOf(ctx context.Context) Patience {
	p, _ := ctx.Value(PatienceKey{}).(Patience)
	return p
}
