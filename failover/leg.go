package failover

import (
	"context"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/surefoot-go/surefoot/resilience"
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
	foreign bool     // sent is on another host than what the caller asked for
	limit   *limit   // nil: none
	before  int      // how many targets were tried up to this one

	walk  *walk // nil for a redirect's
	next  int   // where the walk would go on, in the order that begins at front
	front int
	tried int // how many targets its chain has tried before
	wait  atomic.Int64
	moved atomic.Bool // a wait was not begun

	asked *http.Request                // the caller's own
	below *http.Request                // whose answer it was, where another call's or nobody's below gave it
	out   atomic.Pointer[http.Request] // what was sent, while the target's transport has it
}

type legKey struct{}

// Value returns the leg itself for its own key, and as its stack's patience, and
// the word for the account of a target that shares its stack with another's.
func (l *leg) Value(key any) any {
	switch key.(type) {
	case legKey, resilience.PatienceKey:
		return l
	case resilience.AccountKey:
		if l.target.word != "" {
			return l.target.word
		}
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

// carries reports whether req is the request that the leg has sent, and not
// one that somebody makes under its context: a function's in [Call], or the
// look-up of a transport. Layers between may have cloned it (tracing does) or
// rebuffered its body; what they changed more than that is another request.
func (l *leg) carries(req *http.Request) bool {
	out := l.out.Load()
	if out == nil || out == req {
		return out != nil
	}
	return out.Method == req.Method && out.ContentLength == req.ContentLength &&
		(out.URL == req.URL || out.URL.String() == req.URL.String())
}

// namedModel returns the model that the context of req names explicitly. The
// one that a leg has put there is for the leg's own request: another call
// under it names its own.
func namedModel(req *http.Request) string {
	ctx := req.Context()
	model := resilience.ModelOf(ctx)
	if l := legFrom(ctx); l != nil && model == l.target.Model && !l.carries(req) {
		return ""
	}
	return model
}
