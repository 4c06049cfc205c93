package failover

import (
	"context"
	"slices"
	"sync"

	"github.com/surefoot-go/surefoot/resilience/ending"
)

// call is one logical request through a chain and all chains below it.
type call struct {
	trace *Trace // nil: none
	room  int    // how many attempts may come of the outermost chain

	mu       sync.Mutex
	attempts []Attempt   // guarded by mu
	tried    []triedMark // guarded by mu
	swept    bool        // guarded by mu: it has moved on once
	over     bool        // guarded by mu: the outermost chain has returned
}

// triedMark is a concrete target: an entry, and the model it was asked for.
type triedMark struct {
	target *target
	model  string
}

// callFor returns the call that ctx belongs to, and the leg of it, where a
// chain is the target of another; else a new one.
func callFor(ctx context.Context) (*call, *leg) {
	if l := legFrom(ctx); l != nil && l.call.running() {
		return l.call, l
	}
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return &call{trace: t}, nil
}

// maxRoom bounds what is set aside for attempts that may never come.
const maxRoom = 16

func (c *call) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.over
}

func (c *call) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

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
	c.mu.Unlock()
	if c.trace != nil {
		c.trace.add(a)
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

func (c *call) mark(t *target, model string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried = append(c.tried, triedMark{t, t.model(model)})
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

func (c *call) anyTried() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tried) > 0
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
