package resilience

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/resilience/layer"
	"github.com/surefoot-go/surefoot/retry"
	"github.com/surefoot-go/surefoot/streamguard"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// This file is what the layers ask and tell: the funcs that Builder.stack
// hands them. Each finds its call in the request's context.

// key is the breaker's key of a call.
func (t *Transport) key(req *http.Request) string {
	if t.policy.CircuitBreaker.Scope != breaker.ScopeModel {
		return ""
	}
	if c := callOf(req.Context()); c != nil {
		return c.wire.Model
	}
	return ""
}

// judge is the breaker's verdict as far as RoundTrip knows it. A body that is
// still to be watched settles the permit later.
func (t *Transport) judge(req *http.Request, resp *http.Response, err error) breaker.Verdict {
	c := callOf(req.Context())
	if c == nil {
		return breaker.Neutral
	}
	if err != nil {
		by := c.ending(err).By
		if len(c.rec.Attempts) == 0 || by == ending.Caller || by == ending.Request {
			return breaker.Neutral // it was not sent, or it was nobody's fault
		}
		return breaker.Failure
	}
	if v := t.breaker.JudgeStatus(resp.StatusCode, c.permit.Probe()); v != breaker.Success || resp.StatusCode >= 400 {
		return v
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.judged || resp.Body == nil || resp.Body == http.NoBody {
		return breaker.Success
	}
	return breaker.Pending
}

// replay is how freely the call's attempts may be repeated.
func (t *Transport) replay(req *http.Request) retry.Replay {
	c := callOf(req.Context())
	if c == nil || !c.replayable || c.permit.Probe() {
		return retry.ReplayNever
	}
	safe := retry.Safe(req)
	switch {
	case !safe && !c.wire.Format.Inference():
		return retry.ReplayNever
	case !safe && t.policy.Retry.Replay == retry.ReplaySafeOnly:
		return retry.ReplayUnsent
	case c.wire.Stream && t.policy.Retry.Streams != retry.StreamsHeldBack:
		return retry.ReplayUnsent
	}
	return retry.ReplayAlways
}

// advise reads what the body of a failed answer says about another attempt.
func (t *Transport) advise(req *http.Request, resp *http.Response, head []byte) retry.Advice {
	c := callOf(req.Context())
	if c == nil {
		return retry.Advice{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil || c.failure.Status != resp.StatusCode {
		// Elsewhere only a retryDelay or retry_after counts.
		if !wire.TellsOfLimit(resp.StatusCode) && !bytes.Contains(head, []byte("etry")) {
			return retry.Advice{}
		}
		f := t.words.ParseFailure(resp.StatusCode, head)
		c.failure = &f
	}
	limit, _ := c.failure.ReadLimit(resp.Header, time.Now())
	return retry.Advice{
		Stop: limit.Kind == wire.LimitNeverFits || c.failure.Quota && resp.StatusCode == http.StatusTooManyRequests,
		Wait: limit.Wait,
	}
}

// maxGrown bounds the room that is made for attempts ahead of them.
const maxGrown = 8

func (t *Transport) onAttempt(req *http.Request, a retry.Attempt) {
	c := callOf(req.Context())
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rec.Attempts) == len(c.attempts) { // one is the rule; then make room for all
		c.rec.Attempts = slices.Grow(c.rec.Attempts, min(t.policy.Retry.MaxRetries, maxGrown))
	}
	c.rec.Attempts = append(c.rec.Attempts, a)
	if a.Number > 1 {
		t.metrics.retry(c)
	}
}

// permitted says whether a call may go on with another attempt: its breaker may
// have opened since it was admitted, or its key be held (contract 3, 11).
func (t *Transport) permitted(req *http.Request) bool {
	c := callOf(req.Context())
	if c == nil {
		return true
	}
	reason := ending.ReasonCircuitOpen
	if c.permit.BreakerClosed() {
		open := c.held()
		if open == nil {
			return true
		}
		reason = rejectionReason(open)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rec.NoRetry = reason
	return false
}

// patience says whether a call may begin a wait: a chain above has something
// better to do where another target could be tried (contract 11).
func patience(req *http.Request, resp *http.Response, wait time.Duration) (longest time.Duration, ok bool) {
	c := callOf(req.Context())
	if c == nil {
		return math.MaxInt64, true
	}
	p := patienceOf(c.caller)
	if p == nil {
		return math.MaxInt64, true
	}
	if longest, ok = p.MayWait(c.orig, resp, wait); !ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.rec.NoRetry = ending.ReasonMovedOn
	}
	return longest, ok
}

func (t *Transport) onRetry(req *http.Request, a retry.Attempt, wait time.Duration) {
	c := callOf(req.Context())
	if c == nil {
		return
	}
	c.mu.Lock()
	c.setAside()
	c.mu.Unlock()
	if p := patienceOf(c.caller); p != nil {
		p.Waits(c.orig, wait)
	}
	t.log.retry(c, a, wait)
}

// onVerdict hears what the unmasker, or the guard while it held a stream
// back, made of a 2xx.
func (t *Transport) onVerdict(req *http.Request, _ *http.Response, r streamguard.Report) {
	c := callOf(req.Context())
	if c == nil {
		return
	}
	c.mu.Lock()
	c.judged = true
	if r.Stream { // also an answer to a call that asked for none
		c.wire.Stream, c.rec.Stream = true, true
	}
	c.rec.Empty, c.rec.Accepted = r.Empty, r.Accepted
	if r.Failure != nil {
		c.failure = r.Failure
		c.rec.Unmasked, c.rec.Original = true, r.Original
	}
	c.mu.Unlock()
	if r.Empty != "" {
		t.log.empty(c, r.Empty)
		t.metrics.empty(c, r.Empty)
	}
}

// onStream hears of an answer that is a stream, whether or not the request
// asked for one: what holds for streaming calls holds for this one from then on.
func (t *Transport) onStream(req *http.Request) {
	c := callOf(req.Context())
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wire.Stream, c.rec.Stream = true, true
}

// onFirst hears of a stream's first data event.
func (t *Transport) onFirst(req *http.Request) {
	c := callOf(req.Context())
	if c == nil {
		return
	}
	c.mu.Lock()
	c.rec.Stream = true
	if c.rec.FirstEvent == 0 {
		c.rec.FirstEvent = t.now().Sub(c.start)
	}
	c.mu.Unlock()
	c.permit.FirstEvent()
}

// onEnd hears how a guarded stream ended. The call ends with its body.
func (t *Transport) onEnd(req *http.Request, end streamguard.End) {
	c := callOf(req.Context())
	if c == nil {
		return
	}
	c.mu.Lock()
	c.end = &end
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
