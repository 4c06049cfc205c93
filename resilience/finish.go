package resilience

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/streamguard"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// finish turns what the layers returned into what the caller gets.
func (c *call) finish(resp *http.Response, err error) (*http.Response, error) {
	if !c.inTime() && err == nil { // the limit passed while the answer came in
		_ = resp.Body.Close()
		c.permit.Settle(breaker.Failure)
		err = c.timeout()
	}
	if err != nil {
		return c.fail(err)
	}
	if callOfResponse(resp) != c {
		resp.Request = c.request()
	}
	c.mu.Lock()
	c.takeBack()
	c.rec.Status = resp.StatusCode
	c.mu.Unlock()
	if c.t.limits.holds != nil {
		c.learn(resp)
	}
	c.watch(resp)
	return resp, nil
}

// fail ends the call without an upstream's answer: with a typed error, or
// with a response where the policy wants one.
func (c *call) fail(err error) (*http.Response, error) {
	if open, ok := errors.AsType[*breaker.OpenError](err); ok {
		c.open = open
		c.nameModel()
		c.conclude(OutcomeRejected, open.HTTPStatus(), rejectionReason(open), err)
		c.t.onRejected(c, open)
		if c.t.policy.ErrorsAsResponses == RenderNone {
			c.complete()
			return nil, open
		}
		return c.renderRejection(open), nil
	}
	e := c.ending(err)
	err = e.Explain(err)
	switch e.By {
	case ending.Caller:
		c.conclude(OutcomeCanceled, 0, ending.ReasonCanceled, err)
	case ending.Deadline:
		c.conclude(OutcomeTimeout, http.StatusGatewayTimeout, ending.ReasonTimeout, err)
	case ending.Timer:
		err = newError(c.t.provider, http.StatusGatewayTimeout, c.sent, err)
		c.conclude(OutcomeTimeout, http.StatusGatewayTimeout, ending.ReasonTimeout, err)
	default:
		status, reason := http.StatusBadGateway, ending.ReasonTransportError
		if e.By == ending.Request {
			reason, err = ending.ReasonRequestError, ending.AsRequestError(err)
			if tooLarge(err) {
				status = http.StatusRequestEntityTooLarge
			}
		}
		err = newError(c.t.provider, status, c.sent, err)
		c.conclude(OutcomeTransportError, status, reason, err)
	}
	if e.By != ending.Caller && c.t.policy.ErrorsAsResponses == RenderAll {
		return c.renderError(e.By, err), nil
	}
	c.complete()
	return nil, err
}

// nameModel finds the model of a rejected call where somebody listens: the
// health window counts rejections by model. A body that is not in memory stays
// unread (contract 2).
func (c *call) nameModel() {
	req := c.orig
	if c.wire.Model != "" || empty(req) || c.redirect || c.t.onCall == nil && c.t.metrics == nil && c.t.log.l == nil {
		return
	}
	var data []byte
	if c.wire.Format.Inference() && layer.InMemory(req.Body, &data) {
		content := wire.ReadContent(req.Header, data)
		c.wire.Add(&content)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rec.Model, c.rec.Stream = c.wire.Model, c.wire.Stream
}

func rejectionReason(open *breaker.OpenError) string {
	switch {
	case open.Limit == ending.ReasonConcurrency:
		return ending.ReasonConcurrency
	case open.Limit != "":
		return ending.ReasonRateLimited
	case open.Full:
		return ending.ReasonCircuitFull
	}
	return ending.ReasonCircuitOpen
}

// ending is who ended the call, for which the layers below returned err.
func (c *call) ending(err error) ending.Ending {
	ctx := c.caller
	if c.limited && c.limit.Fired() {
		ctx = &c.limit
	}
	return ending.Within(ctx, cmp.Or(c.sent, c.orig), err)
}

// watch wraps the body, so that the call ends with it.
func (c *call) watch(resp *http.Response) {
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols || resp.Body == nil || resp.Body == http.NoBody:
		if c.upgraded = c.limited && resp.StatusCode == http.StatusSwitchingProtocols; c.upgraded {
			resp.Body = layer.AtEnd(resp.Body, c.limit.Release) // the connection may hang on the context
		}
		c.bodyEnded(nil, false, false)
	default:
		var b *body
		if c.exchange == nil { // it was rejected
			b = new(body)
		} else {
			b = &c.body
		}
		b.ReadCloser, b.c, b.stream = resp.Body, c, c.isStream(resp)
		if resp.StatusCode >= http.StatusBadRequest {
			// The upstream's work is done, and a chain keeps the answer in hand
			// while its next target, of this stack perhaps, waits for a place.
			c.place.giveBack()
		}
		c.place.touch()
		resp.Body = b
	}
}

// isStream tells whether a body is one of events. That of a redirect is not,
// whatever was asked for: its reader need not read it.
func (c *call) isStream(resp *http.Response) bool {
	return resp.StatusCode/100 == 2 && (c.wire.Stream || !c.judged && eventStream(resp.Header.Get("Content-Type")))
}

// bodyEnded settles the call when its body has: err is what Read ended with,
// nil for its end; closed says that the caller closed it before; stream that
// it was one of events.
func (c *call) bodyEnded(err error, closed, stream bool) {
	c.mu.Lock()
	end, status, judged := c.end, c.rec.Status, c.judged
	c.mu.Unlock()
	switch {
	case end != nil:
		c.streamEnded(*end)
	case status >= 400:
		c.permit.Settle(breaker.Neutral) // settled before, by its status
		c.conclude(OutcomeError, status, strconv.Itoa(status), nil)
	case err == nil && (!closed || judged):
		c.permit.Settle(breaker.Success)
		c.conclude(OutcomeSuccess, status, "", nil)
	case closed:
		c.permit.Settle(breaker.Neutral)
		c.conclude(OutcomeCanceled, status, ending.ReasonClosed, nil)
	default:
		c.brokenOff(err, stream)
	}
	c.complete()
}

// brokenOff settles a body that nobody judged and whose Read failed.
func (c *call) brokenOff(err error, stream bool) {
	outcome, reason, verdict := OutcomeTransportError, ending.ReasonTransportError, breaker.Failure
	switch by := c.ending(err).By; {
	case by == ending.Caller:
		outcome, reason, verdict, stream = OutcomeCanceled, ending.ReasonCanceled, breaker.Neutral, false
	case by == ending.Request: // its body failed while the answer came in already
		reason, verdict = ending.ReasonRequestError, breaker.Neutral
	case by.Timeout():
		outcome, reason = OutcomeTimeout, ending.ReasonTimeout
	}
	if stream {
		outcome = OutcomeStreamError
	}
	c.permit.Settle(verdict)
	c.conclude(outcome, c.status(), reason, err)
}

// streamEnded settles a guarded stream.
func (c *call) streamEnded(end streamguard.End) {
	switch {
	case end.Failure != nil:
		c.permit.Settle(c.t.breaker.JudgeStatus(end.Failure.Status, false))
		c.conclude(OutcomeStreamError, c.status(), ending.ReasonInBandError, end.Err)
	case end.Err != nil:
		c.streamBroke(end.Err)
	case end.Complete:
		c.permit.Settle(breaker.Success)
		c.conclude(OutcomeSuccess, c.status(), "", nil)
	default:
		c.permit.Settle(breaker.Neutral)
		c.conclude(OutcomeCanceled, c.status(), ending.ReasonClosed, nil)
	}
}

// streamBroke settles a guarded stream that ended in an error.
func (c *call) streamBroke(err error) {
	switch c.ending(err).By {
	case ending.Caller:
		c.permit.Settle(breaker.Neutral)
		c.conclude(OutcomeCanceled, c.status(), ending.ReasonCanceled, err)
	case ending.Request: // its body failed while the answer came in already
		c.permit.Settle(breaker.Neutral)
		c.conclude(OutcomeStreamError, c.status(), ending.ReasonRequestError, err)
	default:
		c.permit.Settle(breaker.Failure)
		c.conclude(OutcomeStreamError, c.status(), c.streamReason(err), err)
	}
}

func (c *call) status() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rec.Status
}

// conclude writes the call's outcome, once.
func (c *call) conclude(outcome string, status int, reason string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rec.Outcome != "" {
		return
	}
	c.rec.Outcome, c.rec.Status, c.rec.Reason, c.rec.Err = outcome, status, reason, err
}

// complete tells the world that the call is over, once.
func (c *call) complete() {
	c.mu.Lock()
	if c.done {
		c.mu.Unlock()
		return
	}
	c.done = true
	c.rec.Duration = c.t.now().Sub(c.rec.Start)
	c.mu.Unlock()
	c.release()
	c.t.ended(c)
}

// streamReason is the error.type of a stream that broke off.
func (c *call) streamReason(err error) string {
	var inc *streamguard.IncompleteError
	switch {
	case !errors.As(err, &inc) && c.ending(err).By.Timeout():
		return ending.ReasonTimeout // the caller's deadline
	case inc == nil: // below somebody panicked
		return ending.ReasonStreamError
	case inc.Reason == streamguard.ReasonClosed:
		return ending.ReasonIncomplete
	case inc.Reason == streamguard.ReasonTransport:
		return ending.ReasonTransportError
	}
	return inc.Reason
}
