package resilience

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/retry"
	"github.com/surefoot-go/surefoot/streamguard"
)

// maxReconnects is how often in a row the rest of a stream is asked for without
// an event that is new (contract 13).
const maxReconnects = 3

// errBreakerOpen is why the rest of a stream is not asked for.
var errBreakerOpen = errors.New("the circuit breaker is not closed")

// Resume asks for the rest of the call's stream. Each request is an attempt of a
// retry of its own, with the waits of the policy; it is of the same call, so that
// breaker and patience are asked and no other verdict comes of it.
func (c *call) Resume(req *http.Request, base http.RoundTripper) (*http.Response, error) {
	r := &resumption{call: c, ctx: req.Context()}
	resp, err := r.run(req, base)
	reason := r.reason(resp, err)
	c.mu.Lock()
	if reason == "" {
		c.rec.Resumes++
	} else {
		c.rec.NoResume = reason
	}
	c.mu.Unlock()
	c.t.log.resume(c, reason, r.last.Number)
	c.t.metrics.resume(c, reason)
	return resp, err
}

// A resumption is one search for the rest of a stream: what stands above its
// retry. It is no part of the call's own attempts.
type resumption struct {
	*call

	ctx  context.Context // of the request
	last retry.Attempt
}

func (r *resumption) run(req *http.Request, base http.RoundTripper) (*http.Response, error) {
	if !r.MayRetry() {
		return nil, errBreakerOpen
	}
	attempts := &retry.Transport{
		Base: base, Policy: reconnects(r.t.policy.Retry), KeepShouldRetry: true,
		Call: func(*http.Request) retry.Call { return r },
	}
	return attempts.RoundTrip(req)
}

// reconnects is the policy p for the reconnects of a stream, whose number is not
// the policy's; one without retries may have no backoff.
func reconnects(p retry.Policy) retry.Policy {
	usual := retry.DefaultPolicy()
	p.MaxRetries = maxReconnects - 1
	p.InitialBackoff = cmp.Or(p.InitialBackoff, usual.InitialBackoff)
	p.MaxBackoff = max(p.InitialBackoff, cmp.Or(p.MaxBackoff, usual.MaxBackoff))
	p.BackoffFactor = cmp.Or(p.BackoffFactor, usual.BackoffFactor)
	return p
}

// Under is the context of the request, which is one under the call's.
func (r *resumption) Under() context.Context { return r.ctx }

// Replayable says whether another reconnect may follow: not where the answer was
// the client's fault, or was not the rest of the stream.
func (r *resumption) Replayable() retry.Replay {
	lost, told := errors.AsType[*streamguard.ResumeError](r.last.Err)
	if r.last.Status/100 == 4 || told && lost.Reason != streamguard.ReasonNoEvent {
		return retry.ReplayNever
	}
	// Replay: a GET, which only reads what is kept.
	return retry.ReplayAlways
}

// Advise reads the wait that a failed answer asks for.
func (r *resumption) Advise(resp *http.Response, head []byte) retry.Advice {
	f := r.t.words.ParseFailure(resp.StatusCode, head)
	limit, _ := f.ReadLimit(resp.Header, time.Now())
	return retry.Advice{Wait: limit.Wait}
}

// MayRetry asks the breaker. A held key is none of a kept answer's.
func (r *resumption) MayRetry() bool { return r.permit.BreakerClosed() }

// MayWait asks what stands above.
func (r *resumption) MayWait(_ *http.Response, wait time.Duration) (time.Duration, bool) {
	return r.mayWait(wait)
}

// OnAttempt remembers the attempt.
func (r *resumption) OnAttempt(a retry.Attempt) { r.last = a }

// OnRetry tells what stands above of the wait.
func (r *resumption) OnRetry(_ retry.Attempt, wait time.Duration) {
	if p := patienceOf(r.caller); p != nil {
		p.Waits(r.orig, wait)
	}
}

// reason is why the stream was not taken up again, "" if it was.
func (r *resumption) reason(resp *http.Response, err error) string {
	if err == nil {
		if resp.StatusCode/100 == 2 {
			return ""
		}
		return strconv.Itoa(resp.StatusCode)
	}
	lost, told := errors.AsType[*streamguard.ResumeError](err)
	switch by := r.ending(err).By; {
	case errors.Is(err, errBreakerOpen):
		return ending.ReasonCircuitOpen
	case by == ending.Caller, r.ctx.Err() != nil && !by.Timeout(): // the body was closed
		return ending.ReasonCanceled
	case by.Timeout():
		return ending.ReasonTimeout
	case told:
		return lost.Reason
	}
	return ending.ReasonTransportError
}
