package streamguard

import (
	"context"
	"hash/maphash"
	"io"
	"net/http"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// A Resume says where a stream broke off that its vendor keeps: what a caller
// needs to read the rest by himself.
type Resume = wire.Resume

// Reasons of a [ResumeError].
const (
	ReasonGap     = "gap"      // the answer does not show that it goes on with the next event
	ReasonOlder   = "older"    // it goes on with an event that had come before
	ReasonNoEvent = "no_event" // it ended before an event that is new
)

// A ResumeError says why an answer is not the rest of the stream that it was
// asked for. The stream ends in the [*IncompleteError] that it would have ended
// in anyway.
type ResumeError struct {
	Reason string // one of the Reason constants
	Err    error  // what ended the answer, of no_event; else nil
}

// Error says the reason and quotes nothing.
func (e *ResumeError) Error() string { return "stream not resumed: " + e.Reason }

// Unwrap returns what ended the answer.
func (e *ResumeError) Unwrap() error { return e.Err }

// maxTries is how often in a row the rest of a stream may bring no new event.
const maxTries = 3

// An again is what is known of a stream for the time when it has to come again.
type again struct {
	at    Resume // where it was taken up last
	tries int    // how often there in a row
	rest  string // what the request says besides, see [wire.Request.Rest]

	// What has gone by of an event that is too large to hold: a hash and the
	// number of its bytes. It cannot be taken back, so that the same bytes have to
	// come again.
	passed maphash.Hash
	n      int
}

// passes takes bytes of an event down that goes by in pieces, whole if they are
// its last.
func (s *scanner) passes(part []byte, whole bool) {
	if s.again == nil {
		s.again = new(again)
	}
	if whole {
		s.again.passed.Reset()
		s.again.n = 0
		return
	}
	_, _ = s.again.passed.Write(part) // never fails
	s.again.n += len(part)
}

// resumed reports whether the stream goes on although its body ended with err:
// the vendor was asked for the rest of it, and what it sends begins with the next
// event (contract 13).
func (h *holder) resumed(err error) bool {
	if !h.resumes || h.over(err) || h.flow != flowNone && h.flow != flowAll {
		return false
	}
	at, ok := h.st.Resume()
	if !ok || !h.moves(at) {
		return false
	}
	ctx, cancel := context.WithCancel(h.req.Context())
	taken := false
	defer func() {
		if !taken { // the upstream may have panicked
			cancel()
		}
	}()
	body := h.reopen(ctx, cancel, at)
	if body == nil {
		return false
	}
	if h.c != nil { // half of an event, which comes again
		h.c.close()
		h.c.cut()
	}
	if lead := h.st.Rejoin(); len(lead) > 0 {
		h.chunk().add(lead)
	}
	if !h.src.renew(body) {
		_ = body.Close()
		return false
	}
	taken = true
	return true
}

// over reports whether a body that ended with err leaves nothing to be asked
// for: the stream had ended, failed, or lost its caller.
func (h *holder) over(err error) bool {
	return h.st.Failure() != nil || h.complete() || err == io.EOF && h.st.CompleteAtEOF() || callerDone(h.req, err) != nil
}

// moves reports whether the stream may be taken up again at a place: three times
// without an event that is new, since one that goes by in pieces may bring a few
// bytes each time.
func (h *holder) moves(at Resume) bool {
	if h.again == nil {
		h.again = new(again)
	}
	if at != h.again.at {
		h.again.at, h.again.tries = at, 0
	}
	h.again.tries++
	return h.again.tries <= maxTries
}

// reopen returns the body that goes on at the next event, nil for none. cancel
// ends it, and what is done to get it.
func (h *holder) reopen(ctx context.Context, cancel context.CancelFunc, at Resume) io.ReadCloser {
	req := h.format.Resumption(ctx, h.req, at, h.again.rest)
	if req == nil || !h.src.suspend(cancel) {
		return nil
	}
	var resp *http.Response
	var err error
	if h.call != nil {
		resp, err = h.call.Resume(req, &reconnect{h}) //nolint:bodyclose // it becomes the stream's
	} else {
		resp, err = (&reconnect{h}).RoundTrip(req) //nolint:bodyclose // as above
	}
	if err != nil {
		return nil
	}
	if resp.StatusCode/100 != 2 {
		layer.Drain(resp, layer.DrainTime)
		return nil
	}
	return layer.AtEnd(resp.Body, cancel)
}

// A reconnect asks for the rest of a stream, once a request. An answer with a 2xx
// has a body that begins with the next event; one that does not is an error.
type reconnect struct{ h *holder }

// RoundTrip returns the base's answer once it has shown itself.
func (t *reconnect) RoundTrip(req *http.Request) (*http.Response, error) {
	h := t.h
	first, firstByte, out := h.startResume(req)
	resp, err := layer.Send(h.g.below.Of(h.g.Base), out)
	if err != nil {
		return nil, first.end(err)
	}
	if resp.StatusCode/100 != 2 {
		return first.leave(resp), nil
	}
	w := &watch{body: withIdle(resp, h.g.Policy.IdleTimeout)}
	first.watch(w)
	returned := false
	defer func() {
		if !returned { // the upstream's Read panicked
			layer.Abandon(w.close)
			first.release()
		}
	}()
	s := &splice{h: h, resp: resp, body: w.body, probe: h.format.NewStream(wire.StreamOptions{})}
	if firstByte {
		s.onByte = func() { first.stop() }
	}
	err = s.find()
	returned = true
	if late := first.stop(); late || err != nil {
		_ = w.close()
		return nil, first.end(err)
	}
	resp.Body = &layer.Prefix{Head: s.data, Err: s.err, Body: w.body}
	if first != nil {
		resp.Body = layer.AtEnd(resp.Body, first.release)
	}
	return resp, nil
}

// startResume bounds the wait for the next event as that for the first one is
// bounded, and for the event after another; where neither is, up to the first
// byte by the idle timeout, which bounds the rest.
func (h *holder) startResume(req *http.Request) (first *firstEvent, firstByte bool, out *http.Request) {
	p := &h.g.Policy
	d := p.FirstEventTimeout
	if e := p.EventTimeout; e > 0 && (d == 0 || e < d) {
		d = e
	}
	if firstByte = d == 0; firstByte {
		d = p.IdleTimeout
	}
	if d == 0 {
		return nil, false, req
	}
	first, out = startFirstEvent(req, d)
	return first, firstByte, out
}
