package resilience

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/retry"
	"github.com/surefoot-go/surefoot/streamguard"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// This file is what the layers ask and tell: the call's own methods are their
// hooks, see [breaker.Call], [retry.Call] and [streamguard.Call].

// Key is the model where each has a breaker of its own.
func (c *call) Key() string {
	if c.t.policy.CircuitBreaker.Scope != breaker.ScopeModel {
		return ""
	}
	return c.wire.Model
}

// Permit is kept in the call.
func (c *call) Permit() *breaker.Permit { return &c.permit }

// Pending reports whether a good answer has a body that nobody has judged: the
// verdict then comes with its end.
func (c *call) Pending(resp *http.Response) bool {
	if resp.StatusCode >= http.StatusBadRequest || resp.Body == nil || resp.Body == http.NoBody {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.judged
}

// Under is the context that the attempts run under. Where nothing else bounds the
// call, its limit is for the wait for headers.
func (c *call) Under() context.Context {
	if !c.limited && c.t.headers {
		if _, ok := c.caller.Deadline(); !ok {
			c.limited = true
			c.limit.Open(c)
		}
	}
	return c.within()
}

// Replayable says how freely the call's attempts may be repeated.
func (c *call) Replayable() retry.Replay {
	if !c.replayable || c.permit.Probe() {
		return retry.ReplayNever
	}
	p := &c.t.policy.Retry
	safe := retry.Safe(c.sent)
	switch {
	case !safe && !c.wire.Format.Inference():
		return retry.ReplayNever
	case !safe && p.Replay == retry.ReplaySafeOnly:
		return retry.ReplayUnsent
	case c.wire.Stream && p.Streams != retry.StreamsHeldBack:
		return retry.ReplayUnsent
	}
	return retry.ReplayAlways
}

// Advise reads what the body of a failed answer says about another attempt.
func (c *call) Advise(resp *http.Response, head []byte) retry.Advice {
	status := resp.StatusCode
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.failure == nil || c.failure.Status != status {
		if !mayAdvise(status, head) {
			header := wire.Failure{Status: status}
			if limit, _ := header.ReadLimit(resp.Header, now); limit.Wait == 0 {
				return retry.Advice{}
			}
		}
		f := c.t.words.ParseFailure(status, head)
		c.failure = &f
	}
	limit, _ := c.failure.ReadLimit(resp.Header, now)
	return retry.Advice{
		Stop: limit.Kind == wire.LimitNeverFits || c.failure.Quota && status == http.StatusTooManyRequests,
		Wait: limit.Wait,
	}
}

// mayAdvise reports whether it is worth parsing the body of a failed answer. A
// 413 says enough by itself, and a 429 may speak of a quota in words; waits, and
// limits that a request exceeds, take numbers, and where the status tells of no
// limit only a retryDelay or a retry_after counts.
func mayAdvise(status int, head []byte) bool {
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusRequestEntityTooLarge:
		return true
	case !bytes.ContainsAny(head, "0123456789"):
		return false
	}
	return wire.TellsOfLimit(status) || bytes.Contains(head, []byte("etry"))
}

// MayRetry says whether the call may go on with another attempt: its breaker may
// have opened since it was admitted, or its key be held (contract 3, 11).
func (c *call) MayRetry() bool {
	reason := ending.ReasonCircuitOpen
	if c.permit.BreakerClosed() {
		open := c.held()
		if open == nil {
			return true
		}
		reason = rejectionReason(open)
	}
	c.noRetry(reason)
	return false
}

// MayWait says whether the call may begin a wait: a chain above has something
// better to do where another target could be tried (contract 11).
func (c *call) MayWait(resp *http.Response, wait time.Duration) (longest time.Duration, ok bool) {
	p := patienceOf(c.caller)
	if p == nil {
		return math.MaxInt64, true
	}
	if longest, ok = p.MayWait(c.orig, resp, wait); !ok {
		c.noRetry(ending.ReasonMovedOn)
	}
	return longest, ok
}

// noRetry records why a retry that the policy allows was not made.
func (c *call) noRetry(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rec.NoRetry = reason
}

// maxGrown bounds the room that is made for attempts ahead of them.
const maxGrown = 8

// OnAttempt records an attempt.
func (c *call) OnAttempt(a retry.Attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch len(c.rec.Attempts) {
	case 0: // one is the rule
		c.rec.Attempts = c.attempts[:0]
	case len(c.attempts): // then make room for all
		c.rec.Attempts = slices.Grow(c.rec.Attempts, min(c.t.policy.Retry.MaxRetries, maxGrown))
	}
	c.rec.Attempts = append(c.rec.Attempts, a)
	if inc, ok := errors.AsType[*streamguard.IncompleteError](a.Err); ok { // while it was held back
		c.spend(inc.Usage)
	}
	if a.Number > 1 {
		c.t.metrics.retry(c)
	}
}

// OnRetry sets what is known of the answer aside that is dropped for another.
func (c *call) OnRetry(a retry.Attempt, wait time.Duration) {
	c.mu.Lock()
	c.setAside()
	c.mu.Unlock()
	if p := patienceOf(c.caller); p != nil {
		p.Waits(c.orig, wait)
	}
	c.t.log.retry(c, a, wait)
}

// Inspect hands down what was read of the request.
func (c *call) Inspect() wire.Request {
	if c.passthrough {
		return wire.Request{Format: wire.Unknown}
	}
	return c.wire
}

// Lenient is what [WithLenient] asks for.
func (c *call) Lenient() bool { return flag(c.caller, lenientKey{}) }

// spend adds what an attempt took. mu is held.
func (c *call) spend(u wire.Usage) {
	s := &c.rec.Usage
	s.Input, s.Output = s.Input+u.Input, s.Output+u.Output
	s.CacheRead, s.CacheWrite, s.Reasoning = s.CacheRead+u.CacheRead, s.CacheWrite+u.CacheWrite, s.Reasoning+u.Reasoning
}

// OnVerdict hears what the unmasker, or the guard while it held a stream back,
// made of a 2xx.
func (c *call) OnVerdict(r streamguard.Report) {
	c.mu.Lock()
	c.judged = true
	if r.Stream { // also an answer to a call that asked for none
		c.wire.Stream, c.rec.Stream = true, true
	}
	c.rec.Empty, c.rec.Accepted = r.Empty, r.Accepted
	c.spend(r.Usage)
	if r.Failure != nil {
		c.failure = r.Failure
		c.rec.Unmasked, c.rec.Original = true, r.Original
	}
	c.mu.Unlock()
	if r.Empty != "" {
		c.t.log.empty(c, r.Empty)
		c.t.metrics.empty(c, r.Empty)
	}
}

// OnStream hears of an answer that is a stream, whether or not the request
// asked for one: what holds for streaming calls holds for this one from then on.
func (c *call) OnStream() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wire.Stream, c.rec.Stream = true, true
}

// OnFirst hears of a stream's first data event.
func (c *call) OnFirst() {
	c.mu.Lock()
	c.rec.Stream = true
	if c.rec.FirstEvent == 0 {
		c.rec.FirstEvent = c.t.now().Sub(c.rec.Start)
	}
	c.mu.Unlock()
	c.chunks = c.t.metrics.clock(c, c.t.now())
	c.permit.FirstEvent()
}

// OnEnd hears how a guarded stream ended. The call ends with its body.
func (c *call) OnEnd(end streamguard.End) {
	c.mu.Lock()
	c.end = &end
	if end.Usage != nil {
		c.spend(*end.Usage)
	}
	c.rec.Stream = true
	c.rec.Events = end.Events
	c.mu.Unlock()
}

// stateHook tells the caller's hook of a breaker's change, nil if there is
// none. The breaker itself logs it.
func (t *Transport) stateHook(hook func(provider, key string, from, to breaker.State)) func(string, breaker.State, breaker.State) {
	if hook == nil {
		return nil
	}
	return func(key string, from, to breaker.State) { hook(t.provider, key, from, to) }
}

func (t *Transport) onRejected(c *call, open *breaker.OpenError) {
	t.log.rejected(c, open)
	t.metrics.rejected(c, open)
}

// ended tells metrics, log and OnCall of a call that is over.
func (t *Transport) ended(c *call) {
	if t.metrics == nil && t.log.l == nil && t.onCall == nil {
		return
	}
	rec := c.snapshot()
	t.metrics.ended(c, rec)
	t.log.ended(c, rec)
	if t.onCall == nil {
		return
	}
	layer.Hook(t.log.l, "OnCall", func() { t.onCall(context.WithoutCancel(c.caller), rec) }, "provider", t.provider)
}
