package retry

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// call is one RoundTrip, in one piece of memory.
type call struct {
	t     *Transport
	above Call // nil: the layer is used alone
	ctx   context.Context
	orig  *http.Request // as given
	req   *http.Request // without an Idempotency-Key that is none
	body  *payload      // nil for none, and for one that cannot be had again
	once  bool          // there is a body that cannot be had again
	timed bool          // somebody wants to know times

	hand  *http.Response // between two attempts
	next  io.ReadCloser  // body of the next attempt, until it begins
	timer *time.Timer    // of the waits; nil: there was none

	payload payload // what body points to
	first   flight  // of the first attempt
}

// outcome is an attempt with what came of it.
type outcome struct {
	Attempt
	resp *http.Response
	end  ending.By
}

func newCall(t *Transport, req *http.Request) *call {
	c := &call{t: t, ctx: req.Context(), orig: req, req: req}
	if t.Call != nil {
		if c.above = t.Call(req); c.above != nil {
			c.ctx = c.above.Under()
		}
	}
	c.timed = c.above != nil || t.OnAttempt != nil || t.OnRetry != nil
	if h := dropInvalidKey(req.Header); len(h) != len(req.Header) {
		c.req = req.WithContext(req.Context())
		c.req.Header = h
	}
	// Also where it is not retried, net/http may ask a GetBody which code above
	// has left behind.
	if (t.set.maxRetries > 0 || c.above != nil && layer.Known(req.Body)) && c.payload.of(c) {
		c.body = &c.payload
	}
	c.once = c.body == nil && req.Body != nil && req.Body != http.NoBody
	return c
}

// watched reports whether somebody needs to know what an attempt has sent.
func (c *call) watched() bool {
	return c.above != nil || c.t.OnAttempt != nil || c.t.set.maxRetries > 0 && !c.once
}

// flight returns what watches attempt n, nil for nothing.
func (c *call) flight(n int) *flight {
	switch {
	case !c.watched():
		return nil
	case n == 1:
		c.first.number = n
		return &c.first
	}
	return &flight{number: n}
}

// attempt makes attempt n. body is the one that another returned, nil for the
// first, which sends the request's own.
func (c *call) attempt(n int, wait time.Duration, body io.ReadCloser) outcome {
	t := c.t
	o := outcome{Attempt: Attempt{Number: n, Wait: wait}}
	r, ctx := c.req, c.ctx
	var l *layer.Limit
	f := c.flight(n)
	if f != nil || c.body != nil || t.set.attemptTimeout > 0 {
		if t.set.attemptTimeout > 0 {
			l = layer.NewLimit(ctx, t.set.attemptTimeout, &ending.TimeoutError{What: "attempt_timeout", After: t.set.attemptTimeout})
			ctx = l
		}
		if f != nil {
			ctx = f.watch(ctx)
		}
		r = r.WithContext(ctx)
		switch {
		case c.body == nil:
		case n == 1:
			c.body.own(r)
		default:
			c.body.copy(r, body)
		}
	}
	if c.timed {
		o.Start = time.Now()
	}
	if l != nil {
		o.resp, o.Err = sendWithin(l, t.base, r)
	} else {
		o.resp, o.Err = layer.Send(t.base, r)
	}
	c.hand = o.resp
	if c.timed {
		o.Elapsed = time.Since(o.Start)
	}
	c.settle(&o, r, f)
	c.onAttempt(o.Attempt)
	return o
}

// another returns the body for another attempt, nil if it has none. It is asked
// for while the answer of the attempt before is still in hand, which goes back
// where there is no body (contract 3).
func (c *call) another() (io.ReadCloser, error) {
	if c.body == nil {
		return nil, nil
	}
	return c.body.next()
}

// settle completes the outcome of an attempt: r is the request that it sent, f
// may be nil.
func (c *call) settle(o *outcome, r *http.Request, f *flight) {
	if o.resp != nil {
		o.Status, o.Sent = o.resp.StatusCode, true
		if o.resp.Request == nil || o.resp.Request == r {
			o.resp.Request = c.orig
		}
		return
	}
	connected := f == nil || f.connected.Load()
	// With a base that reports nothing, everything may have been sent.
	silent := f != nil && !f.asked.Load()
	if connected && f != nil && f.overHTTP2() && ending.UnsendableHTTP2(c.req, o.Err) {
		o.Err = ending.AsRequestError(o.Err)
	}
	e := c.ending(o.Err)
	o.Sent = connected || silent && !ending.Unsendable(c.req)
	o.end, o.Err = e.By, e.Explain(o.Err)
	o.Timeout = o.end.Timeout()
}

// decide says whether another attempt follows, and after which wait. Each
// reason against it leaves the answer whole.
func (c *call) decide(o *outcome) (wait time.Duration, again bool) {
	t := c.t
	if o.Number > t.set.maxRetries || c.once || o.end != ending.Upstream || hopeless(o.Err) {
		return 0, false
	}
	if o.resp != nil && !c.retryable(o.resp) {
		return 0, false
	}
	// Replay: only what the caller or the method declares safe, or what no
	// upstream has seen.
	switch c.replayable() {
	case ReplayAlways:
	case ReplayUnsent:
		if o.Sent {
			return 0, false
		}
	default:
		return 0, false
	}
	return c.wait(o)
}

// wait returns how long to wait before the next attempt, if that may be.
func (c *call) wait(o *outcome) (wait time.Duration, ok bool) {
	var wish time.Duration
	if o.resp != nil {
		if wish, ok = c.wish(o.resp); !ok {
			return 0, false
		}
	}
	if wait = wish; wish == 0 {
		if wait = c.t.set.backoff(o.Number); wait >= c.room() {
			return 0, false
		}
	}
	room := c.room()
	if c.above != nil {
		longest, ok := c.above.MayWait(o.resp, wait)
		if !ok {
			return 0, false
		}
		if longest < room {
			room = longest + 1
		}
	}
	if wish > 0 {
		wait = c.t.set.obey(wish, room)
	}
	return wait, true
}

// wish returns the wait that the upstream asks for, in the headers of its answer
// or in its body; 0 is none. ok is false where the answer goes back instead, so
// that a chain can move on to another target in the meantime.
func (c *call) wish(resp *http.Response) (wish time.Duration, ok bool) {
	wait, _ := layer.ParseWait(resp.Header, time.Now())
	if wish = atLeast(wait); !c.fits(wish) {
		return 0, false
	}
	if c.judged() {
		head := layer.Peek(resp, layer.PeekBytes, min(layer.PeekTime, c.room())).Head()
		advice := c.advise(resp, head)
		if advice.Stop {
			return 0, false
		}
		wish = max(wish, atLeast(advice.Wait))
	}
	return wish, c.fits(wish)
}

// minWish is what a shorter wish counts as: there is no tight loop on an
// upstream's word (contract 3).
const minWish = 10 * time.Millisecond

// atLeast is the wait that a wish stands for, whatever it was read from: 0 for
// one that is no wish.
func atLeast(wish time.Duration) time.Duration {
	if wish <= 0 {
		return 0
	}
	return max(wish, minWish)
}

// retryable reports whether the answer, by its status and headers, is one that
// another attempt may replace.
func (c *call) retryable(resp *http.Response) bool {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return false // the connection is the caller's now
	}
	if !c.t.set.heldBack && resp.StatusCode/100 == 2 && isEventStream(resp.Header["Content-Type"]) {
		return false // a streaming call, by its answer; a failure is none, whatever its label
	}
	yes, no := shouldRetry(resp.Header)
	// "true" makes a failure worth a retry, it makes no failure of a success.
	return !no && (yes && resp.StatusCode >= 400 || c.t.set.statuses.Has(resp.StatusCode))
}

// fits reports whether the policy and the time that is left allow the wait.
func (c *call) fits(wish time.Duration) bool {
	return wish <= max(c.t.set.max, minWish) && wish < c.room()
}

// room is the time until the call's deadline.
func (c *call) room() time.Duration { return layer.Until(c.ctx) }

// ending is who ended the call, or an attempt that failed with err; nil asks for
// the call, whatever its attempts made of its end.
func (c *call) ending(err error) ending.Ending { return ending.Within(c.ctx, c.req, err) }

// pause takes the answer off its connection, which is then free for the next
// attempt, and waits. What is kept of the answer goes back if no attempt follows
// after all. An error means that the call has ended meanwhile.
func (c *call) pause(o *outcome, wait time.Duration) error {
	until := time.Now().Add(wait)
	c.onRetry(o.Attempt, wait)
	if o.resp != nil {
		// A slow drain must not use up the time that the attempt needs.
		layer.Keep(o.resp, min(layer.DrainTime, c.room()-wait))
	}
	if d := time.Until(until); d > 0 && c.ending(nil).By == ending.Upstream {
		if c.timer == nil {
			c.timer = time.NewTimer(d)
		} else {
			c.timer.Reset(d)
		}
		defer c.timer.Stop()
		select {
		case <-c.timer.C:
		case <-c.ctx.Done():
		case <-c.req.Cancel:
		}
	}
	if e := c.ending(nil); e.By != ending.Upstream {
		return e.Explain(nil)
	}
	return nil
}
