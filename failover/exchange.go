package failover

import (
	"errors"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// exchange is a call over HTTP.
type exchange struct {
	req *http.Request // the caller's
	pl  *payload
}

// serve walks the chain for one request. preferred is the target that the
// request names, nil for none.
func (c *Chain) serve(req *http.Request, pl *payload, preferred *target) (*http.Response, error) {
	ctx := req.Context()
	call, parent, err := callFor(req)
	if parent == nil {
		call.room = len(c.targets)
	}
	off := c.policy.Disabled || failoverOff(ctx)
	f := pl.Format
	embeds := f.Inference() && !f.Generative()
	x := &exchange{req: req, pl: pl}
	w := &walk{
		chain: c, call: call, ctx: ctx, ask: c.question(req), model: pl.model, runner: x,
		cancel:    req.Cancel, //nolint:staticcheck // deprecated, but net/http still obeys it
		may:       !off && f.Generative() && pl.Repeats(),
		pinned:    off || embeds,
		plain:     !f.Inference() || req.Method != http.MethodPost,
		embeds:    embeds,
		keyed:     true,
		backup:    parent != nil && parent.backup,
		preferred: preferred,
		repeats:   pl.Repeats(),
		above:     parent,
	}
	if err != nil {
		x.release()
		return nil, &Error{Err: err}
	}
	done := false
	defer func() {
		// A panic of a transport or of a target's func passes on, but nothing
		// stays open behind it.
		if !done {
			defer w.abandon()
			x.release()
		}
	}()
	if pl.Bound {
		w.owner = w.bindTo(preferred)
	}
	r := w.do()
	x.release()
	if parent == nil {
		c.tele.ended(ctx, call, &r)
	}
	done = true
	switch {
	case r.err == nil:
		if l := legOf(r.resp); l != nil {
			ownResponse(r.resp, req.URL, l.sent)
		}
		if r.ok && parent == nil {
			call.watch(req, r.resp)
		}
		return r.resp, nil
	case r.empty && parent != nil:
		return nil, errNothingLeft
	}
	return nil, call.failed(parent, ending.Under(ctx, w.cancel, nil), r.err)
}

// failed is the error of a call that no target answered. What the caller itself
// ended comes back as it is (contract 10), and a chain above adds the attempts.
func (c *call) failed(parent *leg, e ending.Ending, err error) error {
	err = e.Explain(err)
	if parent != nil || e.By == ending.Caller || e.By == ending.Deadline {
		return err
	}
	return c.failure(err)
}

// errNothingLeft tells the chain above that all targets were tried already.
var errNothingLeft = errors.New("every target was tried already")

// unread is the error of a request whose body could not be read: no target was
// tried.
func unread(req *http.Request, err error) error {
	e := ending.Of(req, nil)
	return new(call).failed(nil, e, err)
}

// question is the request as Allow sees it: without the body, which is not
// for it to read. It is nil where nobody asks.
func (c *Chain) question(req *http.Request) *http.Request {
	if !c.asks {
		return nil
	}
	ask := req.WithContext(req.Context())
	ask.Body, ask.GetBody = http.NoBody, nil
	return ask
}

// release closes the caller's body where no target got it.
func (x *exchange) release() {
	if !x.pl.handed {
		x.pl.handed = true // once
		x.pl.Discard(x.req)
	}
}

// sub implements runner.
func (x *exchange) sub(t *target) *link { return t.virtual }

// affinity implements runner.
func (x *exchange) affinity(w *walk) string {
	return w.chain.policy.Affinity.of(w.ctx, x.req.Header, x.pl.Bytes())
}

// run implements runner: one target, over its own stack.
func (x *exchange) run(w *walk, l *leg) result {
	out, err := x.request(l)
	if err != nil {
		r := x.failed(w, l, err)
		if r.reason == ReasonTransportError {
			r.reason = ReasonNotSent
		}
		return r
	}
	// Replay: the call is a generative one with a body of its own for every
	// target, and the answer before it was a failure that nobody has seen.
	resp, err := send(l.target, l, out) //nolint:bodyclose // it goes back, or drop closes it
	if err != nil {
		return x.failed(w, l, err)
	}
	r := result{resp: resp, status: resp.StatusCode, ok: resp.StatusCode < http.StatusBadRequest}
	if r.ok {
		return r
	}
	r.reason = strconv.Itoa(r.status)
	if open, ok := resilience.Rejection(resp, nil); ok {
		r.rejected, r.wait, r.reason = true, open.RetryAfter, rejectedBy(open)
		return r
	}
	if rec, ok := resilience.CallOf(resp); ok { // an error that its stack renders as a response
		r.certain = rec.Outcome == resilience.OutcomeTransportError || rec.Outcome == resilience.OutcomeTimeout
	}
	return r
}

// failed is the result of a target that gave no response.
func (x *exchange) failed(w *walk, l *leg, err error) result {
	r := result{err: err}
	open, rejected := resilience.Rejection(nil, err)
	_, unfit := errors.AsType[*BodyError](err)
	switch {
	case unfit:
		r.unfit, r.reason = true, ReasonUnfit
	case errors.Is(err, errNothingLeft):
		r.empty, r.reason = true, ReasonTried
	case rejected:
		r.rejected, r.wait, r.reason = true, open.RetryAfter, rejectedBy(open)
	case gone(l) && !canceled(l):
		r.blame(ending.Timer)
	default:
		r.blame(ending.Under(w.ctx, w.cancel, err).By)
	}
	return r
}

// blame completes the result of a target that gave no response. The fault of
// the request itself is no reason to ask another target.
func (r *result) blame(by ending.By) {
	switch {
	case by == ending.Caller:
		r.canceled, r.certain, r.reason = true, false, ReasonCanceled
	case by == ending.Request:
		r.certain, r.reason = false, ReasonRequestError
	case by.Timeout():
		r.certain, r.reason = true, ReasonTimeout
	default:
		r.certain, r.reason = true, ReasonTransportError
	}
}

// text implements runner. What the stack has read of the failure is not read
// again.
func (x *exchange) text(r *result) (code, message string) {
	if r.resp == nil {
		return "", ""
	}
	f, ok := resilience.FailureOf(r.resp)
	if !ok || f.Code == "" && f.Type == "" && f.Message == "" {
		head := layer.Peek(r.resp, layer.PeekBytes, layer.PeekTime).Head()
		read := wire.ParseFailure(r.status, head)
		if f = &read; f.Code == "" && f.Type == "" && f.Message == "" {
			f.Message = plainText(r.resp.Header.Get("Content-Type"), head)
		}
	}
	switch {
	case f.Code == "":
		return f.Type, f.Message // Anthropic's code is the type
	case digits(f.Code):
		return f.Code + " " + f.Type, f.Message // the status again: the type is the code
	}
	return f.Code, f.Message
}

// maxText bounds an error that is plain text: a longer one is a document.
const maxText = 4 << 10

// plainText returns the body of an error that is its message, as http.Error
// writes it; "" for any other.
func plainText(contentType string, body []byte) string {
	mt, _, err := mime.ParseMediaType(contentType)
	if err != nil || mt != "text/plain" || len(body) > maxText || wire.Sniff(body) == wire.ShapeHTML {
		return ""
	}
	return string(body)
}

// holdTime is how long the next target waits for the answer before it to come
// whole, so that its connection is free.
const holdTime = 100 * time.Millisecond

// hold implements runner. A small body that comes at once is read to its end, so
// that its connection is free for the next target; any can still go back whole.
func (x *exchange) hold(r *result) {
	if r.resp != nil {
		layer.Peek(r.resp, layer.PeekBytes+1, holdTime)
	}
}

// drop implements runner.
func (x *exchange) drop(r *result) {
	if r.resp != nil {
		layer.Drain(r.resp, holdTime)
	}
}
