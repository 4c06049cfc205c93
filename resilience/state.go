package resilience

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/retry"
	"github.com/surefoot-go/surefoot/streamguard"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// call is the state of one call. It is itself the context under which the
// call's attempts run, so that every layer finds it without a look-up table.
type call struct {
	context.Context // the caller's

	t           *Transport
	caller      context.Context
	orig        *http.Request
	canceled    <-chan struct{} // the request's Cancel channel, or nil
	sent        *http.Request   // what the layers below got; nil until then
	wire        wire.Request
	passthrough bool
	replayable  bool
	redirect    bool     // follows a redirect, so it belongs to the call before it
	origin      *url.URL // where the first of them went
	cookies     []string // Cookie headers of those before it
	permit      breaker.Permit
	place       place
	open        *breaker.OpenError // written before the response is handed out
	chunks      *chunkClock        // nil: nobody measures the events; used by who reads the stream

	*exchange      // nil until it goes on to its provider
	limited   bool // exchange.limit is open
	upgraded  bool // the body of a 101 has the limit's context, not the call

	mu      sync.Mutex
	rec     Call             // guarded by mu
	failure *wire.Failure    // guarded by mu; of the answer in hand
	judged  bool             // guarded by mu; the answer was inspected whole
	end     *streamguard.End // guarded by mu; how the guarded stream ended
	done    bool             // guarded by mu
	before  *aside           // guarded by mu; nil: nothing was dropped
}

// exchange is what a call that is not rejected at once needs besides.
type exchange struct {
	reading  Reading     // where nobody above has made one
	limit    layer.Limit // a context under the call
	attempts [1]retry.Attempt
	body     body // of the one response that is handed out
}

// Value makes the call its own context value.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func (t *Transport) newCall(req *http.Request) *call {
	c := &call{
		Context:  req.Context(),
		t:        t,
		caller:   req.Context(),
		orig:     req,
		wire:     wire.Request{Format: wire.Unknown},
		canceled: req.Cancel,
	}
	c.passthrough = t.passthrough || flag(c.caller, passthroughKey{})
	c.rec.Provider = t.provider
	c.rec.Start = t.now() // nobody writes to it any more
	c.remember()
	return c
}

// snapshot copies what is known by now.
func (c *call) snapshot() Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	rec := c.rec
	rec.Attempts = slices.Clone(c.rec.Attempts)
	return rec
}

// aside is what was known of an answer that was dropped for another attempt.
type aside struct {
	attempts   int // by then
	failure    *wire.Failure
	judged     bool
	end        *streamguard.End
	unmasked   bool
	original   []byte
	empty      string
	accepted   bool
	firstEvent time.Duration
}

// setAside makes room for what the next attempt brings. mu is held.
func (c *call) setAside() {
	if c.before == nil {
		c.before = new(aside)
	}
	*c.before = aside{
		len(c.rec.Attempts), c.failure, c.judged, c.end,
		c.rec.Unmasked, c.rec.Original, c.rec.Empty, c.rec.Accepted, c.rec.FirstEvent,
	}
	c.failure, c.judged, c.end = nil, false, nil
	c.rec.Unmasked, c.rec.Original, c.rec.Empty, c.rec.Accepted, c.rec.FirstEvent = false, nil, "", false, 0
}

// takeBack is for a call whose next attempt never came, so that the dropped
// answer goes back after all. mu is held.
func (c *call) takeBack() {
	b := c.before
	if b == nil || b.attempts != len(c.rec.Attempts) {
		return
	}
	c.failure, c.judged, c.end = b.failure, b.judged, b.end
	c.rec.Unmasked, c.rec.Original, c.rec.Empty = b.unmasked, b.original, b.empty
	c.rec.Accepted, c.rec.FirstEvent = b.accepted, b.firstEvent
}

// bound puts the call under Policy.Timeout, until its answer is handed out.
func (c *call) bound() {
	if d := c.t.policy.Timeout; d > 0 {
		c.limited = true
		c.limit.Open(c)
		c.limit.Start(d, c.timeout())
	}
}

// within returns the call's context with its limit, if it has one.
func (c *call) within() context.Context {
	if c.limited {
		return &c.limit
	}
	return c
}

// inTime ends the call's time limit; false if it had passed already.
func (c *call) inTime() bool { return !c.limited || c.limit.Stop() }

// release frees what the call holds.
func (c *call) release() {
	c.place.giveBack()
	if c.limited && !c.upgraded {
		c.limit.Release()
	}
}

// request is the caller's request under the call's context, for responses.
func (c *call) request() *http.Request { return c.orig.WithContext(c) }

// callerGone reports whether the caller has gone: by its context, its deadline
// or Request.Cancel.
func (c *call) callerGone() bool {
	return ending.Under(c.caller, c.canceled, nil).By != ending.Upstream
}

// timeout is the error of Policy.Timeout.
func (c *call) timeout() *ending.TimeoutError {
	return &ending.TimeoutError{What: "timeout", After: c.t.policy.Timeout}
}
