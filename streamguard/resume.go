package streamguard

import (
	"bytes"
	"cmp"
	"context"
	"hash/maphash"
	"io"
	"net/http"
	"slices"

	"github.com/surefoot-go/surefoot/resilience/layer"
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
	body := h.reopen(ctx, cancel, at)
	if body == nil {
		cancel()
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
	req := h.format.Resumption(ctx, h.req, at)
	if req == nil || !h.src.suspend(cancel) {
		return nil
	}
	var resp *http.Response
	var err error
	if h.call != nil {
		resp, err = h.call.Resume(req, &reconnect{h})
	} else {
		resp, err = (&reconnect{h}).RoundTrip(req)
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

// A splice finds the place in a new body where the stream goes on.
type splice struct {
	h      *holder
	resp   *http.Response
	body   io.Reader
	probe  *wire.Stream // tells the events of the new body apart
	onByte func()       // nil is none
	data   []byte       // read, and nothing is known of it yet
	err    error        // what the body ended with
	empty  int          // Reads in a row that returned nothing
	large  bool         // an event that is too large to hold is left out
}

// find reads on until data begins with what comes next.
func (s *splice) find() error {
	if !judgeable(s.h.format, s.h.req, s.resp) {
		return &ResumeError{Reason: ReasonGap}
	}
	for {
		if found, err := s.scan(); found || err != nil {
			return err
		}
		if err := s.more(); err != nil {
			return err
		}
	}
}

// more reads.
func (s *splice) more() error {
	if s.err != nil {
		return &ResumeError{Reason: ReasonNoEvent, Err: s.err}
	}
	n := len(s.data)
	s.data, s.err = readMore(s.body, slices.Grow(s.data, chunkSize/4), &s.empty)
	if len(s.data) > n && s.onByte != nil {
		s.onByte()
		s.onByte = nil
	}
	return nil
}

// scan looks at the events of data and drops those that say nothing new.
func (s *splice) scan() (found bool, err error) {
	for len(s.data) > 0 {
		if s.large {
			n, done, _ := s.probe.Large(s.data)
			s.data, s.large = s.data[n:], !done
			continue
		}
		n := s.probe.Next(s.data)
		if n == 0 && len(s.data) <= maxEvent {
			break
		}
		ev := s.data[:cmp.Or(n, len(s.data))]
		switch next := s.h.st.Continues(ev, n > 0); {
		case next == wire.Repeats && n > 0:
			s.data = s.data[n:]
		case next == wire.Repeats:
			s.large = true
		case next == wire.Older:
			return false, &ResumeError{Reason: ReasonOlder}
		case s.h.flow != flowNone:
			return true, s.verify()
		case next == wire.Follows:
			s.dropMark()
			return true, nil
		default:
			return false, &ResumeError{Reason: ReasonGap}
		}
	}
	return false, nil
}

// verify takes off the beginning of an event of which that was handed out, if
// its bytes are the same.
func (s *splice) verify() error {
	s.dropMark()
	passed := &s.h.again.passed
	var now maphash.Hash
	now.SetSeed(passed.Seed())
	for left := s.h.again.n; left > 0; {
		if len(s.data) == 0 {
			if err := s.more(); err != nil {
				return err
			}
			continue
		}
		k := min(left, len(s.data))
		_, _ = now.Write(s.data[:k])
		s.data, left = s.data[k:], left-k
	}
	for len(s.data) == 0 { // one byte that is new, at least
		if err := s.more(); err != nil {
			return err
		}
	}
	if now.Sum64() != passed.Sum64() {
		return &ResumeError{Reason: ReasonGap}
	}
	return nil
}

// dropMark takes off the byte order mark of the new body, which is in the middle
// of the stream.
func (s *splice) dropMark() { s.data = bytes.TrimPrefix(s.data, []byte("\xef\xbb\xbf")) }
