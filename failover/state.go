package failover

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/surefoot-go/surefoot/resilience/ending"
)

// call is one logical request through a chain and all chains below it.
type call struct {
	trace *Trace // nil: none
	room  int    // how many attempts may come of the outermost chain
	depth int    // how many transports' calls it is under

	mu       sync.Mutex
	attempts []Attempt    // guarded by mu
	traced   int          // guarded by mu: number of the last one in the trace
	tried    []triedMark  // guarded by mu
	swept    bool         // guarded by mu: it has moved on once
	small    []string     // guarded by mu: models that the request is too long for
	attached []attachment // of the chains whose target answered; the walk's own
	host     string       // guarded by mu: the host of the last target without an answer
}

// triedMark is a concrete target: an entry, and the model it was asked for.
type triedMark struct {
	target *target
	model  string
}

// callFor returns the call that req belongs to, and the leg of it that sent
// req, where a chain is the target of another. Any other request made under a
// leg is a new call, which may stand in its own way: it ends where such calls
// are nested too deep.
func callFor(req *http.Request) (*call, *leg, error) {
	l := legFrom(req.Context())
	if l != nil && l.carries(req) {
		l.call.forget(l.before)
		return l.call, l, nil
	}
	c := newCall(req.Context())
	if c.depth > maxDepth {
		return c, nil, errTooDeep
	}
	return c, nil, nil
}

// newCall returns a call that somebody makes under ctx.
func newCall(ctx context.Context) *call {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	c := &call{trace: t}
	if l := legFrom(ctx); l != nil {
		c.depth = l.call.depth
		if l.out.Load() != nil { // its transport makes the call
			c.depth++
		}
	}
	return c
}

// maxDepth bounds how deep the look-ups of transports may be nested: one that
// goes over its own chain would make the next one for ever.
const maxDepth = 3

var errTooDeep = fmt.Errorf("more than %d calls under one another, each made by a target's transport", maxDepth)

// maxRoom bounds what is set aside for attempts that may never come.
const maxRoom = 16

func (c *call) add(a Attempt) {
	c.mu.Lock()
	if c.attempts == nil {
		room := 1 // usually there is no second one
		if a.Reason != "" {
			room = max(1, min(c.room, maxRoom))
		}
		c.attempts = make([]Attempt, 0, room)
	}
	c.attempts = append(c.attempts, a)
	if c.trace != nil {
		c.traced = c.trace.add(a)
	}
	c.mu.Unlock()
}

// failure is the error of a call that no target answered.
func (c *call) failure(err error) *Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &Error{Attempts: slices.Clone(c.attempts), Err: err, host: c.host}
}

// failedAt says where the request of a target without an answer went.
func (c *call) failedAt(u *url.URL) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.host = ""
	if u != nil {
		c.host = u.Host
	}
}

func (c *call) list() []Attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.attempts)
}

func (c *call) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.attempts)
}

// recorded reports whether a chain below has recorded, after the first n
// attempts, how its target's leg ended.
func (c *call) recorded(n int, r *result) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.attempts) > n && (c.attempts[len(c.attempts)-1].Reason == "") == r.ok
}

// mark counts t as tried. It returns how many targets are now.
func (c *call) mark(t *target, model string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried = append(c.tried, triedMark{t, t.model(model)})
	return len(c.tried)
}

// forget makes targets after the first n count as not tried: a layer between
// two chains sends the same request again.
func (c *call) forget(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n < len(c.tried) {
		c.tried = c.tried[:n]
	}
}

func (c *call) wasTried(t *target, model string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.tried {
		if m.target == t || m.target.identity == t.identity && m.model == t.model(model) {
			return true
		}
	}
	return false
}

func (c *call) triedSoFar() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tried)
}

func (c *call) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.swept = true
}

func (c *call) sweeping() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.swept
}

// model returns the model that the target is asked for.
func (t *target) model(requested string) string {
	if t.Model != "" {
		return t.Model
	}
	return requested
}

// chain returns the chain that the target stands for, nil for a concrete one.
func (t *target) chain() *Chain {
	if t.virtual != nil {
		return t.virtual.chain
	}
	return t.nested
}

// gone reports whether there is no time left under ctx, or nobody waits.
func gone(ctx context.Context) bool { return ending.Under(ctx, nil, nil).By != ending.Upstream }

// canceled reports whether the caller cancelled ctx.
func canceled(ctx context.Context) bool { return ending.Under(ctx, nil, nil).By == ending.Caller }

// ctxError makes err, the failure of a call whose context is done, match what
// the context says. err may be nil.
func ctxError(ctx context.Context, err error) error {
	return ending.Under(ctx, nil, err).Explain(err)
}
