package streamguard

import (
	"cmp"
	"errors"
	"io"
	"net/http"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// A holder holds a stream back until the policy says that it may be handed out.
// It knows what each event means for what follows: see note. It has no lock.
type holder struct {
	scanner
	g        *Guard
	call     Call // nil: the layer is used alone
	req      *http.Request
	format   *wire.Format
	first    *firstEvent // nil without a limit
	seen     bool        // a data event came
	kept     bool        // the vendor keeps the stream, see [wire.Request.Resumable]
	chunked  bool        // the call hears of each data event
	comments int32       // bytes of comments that HoldComplete holds
}

func (h *holder) init(g *Guard, call Call, req *http.Request, resp *http.Response, f *wire.Format) {
	h.g, h.call, h.req, h.format, h.chunks = g, call, req, f, &g.chunks
	h.src.body = withIdle(resp, g.Policy.IdleTimeout)
}

// load starts the stream with what was read of it.
func (h *holder) load(read opening) {
	o := wire.StreamOptions{Lenient: h.lenient(), Words: h.g.Words, Resumable: h.kept}
	if h.kept {
		o.Answer = h.format.Answer(h.req.Method, h.req.URL)
	}
	h.st = h.format.NewStream(o)
	h.resumes = h.kept && h.g.Policy.Resume == ResumeOn
	h.endless = h.st.Complete()
	h.chunked = h.call != nil && h.call.Chunks()
	h.strip = h.g.Policy.StripComments
	h.chunk().b = read.head
	h.src.err = read.err
	h.src.pace = newPace(h.g.Policy)
	if d := h.g.Policy.EventTimeout; d > 0 {
		h.src.limit, h.src.left, h.src.eventTimeout = limitEvent, d, d
	}
}

// note takes up what an event with marks m means for what follows it.
func (h *holder) note(m wire.Mark) {
	if m&wire.MarkData != 0 && !h.seen {
		h.seen = true
		h.first.stop()
		h.onFirst()
	} else if h.chunked && m&wire.MarkData != 0 {
		h.onChunk()
	}
	if h.src.pace != nil && m&wire.MarkContent != 0 {
		h.src.pace.heard(h.st.Said())
	}
	switch {
	case m&(wire.MarkFinal|wire.MarkFailed) != 0:
		h.src.expectEnd(limitLinger, lingerTime)
	case m&(wire.MarkData|wire.MarkAside) != 0:
		h.src.heardEvent()
	}
}

// A release says what becomes of a stream that was held back. The zero release
// hands it out; what was read waits in the chunk.
type release struct {
	failure *wire.Failure // a response tells it instead
	err     error         // there is no answer
	ended   error         // it is handed out, and its body has ended with this
}

// hold reads until the stream may be handed out, or has turned out to be a
// failure or an error.
func (h *holder) hold() release {
	defer func() { h.c.close() }()
	for !h.full() {
		e := h.next(h.tail())
		switch {
		case e.n > 0 && e.whole:
			if r, done := h.weigh(e); done {
				return r
			}
		case e.n > 0:
			h.admit(e)
		case h.outgrown(h.tail()):
			f := h.large()
			if f != flowOut && h.st.Comments() && onlyComments(h.tail()) {
				f = flowSifted // they commit nothing, and no more of them is held
			} else if f != flowOut && h.g.Policy.HoldUntil != HoldComplete {
				return release{} // it goes by, and the stream with it
			}
			h.flow, h.filter = f, commentFilter{}
		default:
			h.c.close()
			if n, err := h.refill(); n == 0 && err != nil && !h.resumed(err) {
				return h.ended(err)
			}
		}
	}
	return release{failure: h.st.Failure()}
}

// refuse is for a stream that is not handed out: it is closed, and what it stands
// for is returned.
func (h *holder) refuse(resp *http.Response, j *judge, r release) (*http.Response, error) {
	_ = h.src.close()
	h.first.release()
	defer h.drop()
	if r.err != nil {
		return nil, r.err
	}
	j.usage = h.usage()
	return j.fail(h.req, resp, r.failure, h.held(), true), nil
}

// usage is what the stream has said so far that it takes.
func (h *holder) usage() (u wire.Usage) {
	if said := h.st.Usage(); said != nil {
		u = *said
	}
	return u
}

// full reports whether so much data waits that the stream is handed out as it is.
func (h *holder) full() bool {
	if h.g.Policy.HoldUntil != HoldComplete {
		return h.c.judged > maxEvent
	}
	return int64(len(h.c.b)-h.c.gap) > cmp.Or(h.g.Policy.HoldLimit, DefaultHoldLimit)
}

// weigh takes up one event. done says that holding ends.
func (h *holder) weigh(e event) (r release, done bool) {
	if e.mark&(wire.MarkMalformed|wire.MarkFailed) == 0 && h.leaves(e, h.overfull(e)) {
		h.c.leave(e.n)
		return r, false
	}
	if e.mark&wire.MarkMalformed != 0 {
		h.c.close()
		h.c.cut()
		switch f := h.st.Failure(); {
		case f != nil:
			return release{failure: f}, true
		case h.seen && h.complete():
			return release{ended: errMalformed}, true
		}
		return release{failure: malformed(h.format, h.g.Provider, "malformed stream event")}, true
	}
	h.admit(e)
	if f := h.st.Failure(); f != nil {
		if !h.st.Vague() {
			return release{failure: f}, true
		}
		// The next event may say more, which often is there already.
		h.src.expectEnd(limitDetail, detailTime)
		h.first.stop()
		return r, false
	}
	h.note(e.mark)
	if e.mark&wire.MarkFinal != 0 && !h.seen {
		return h.nothing(), true
	}
	return r, h.shown(e.mark)
}

// admit takes the bytes of an event over from the tail.
func (h *holder) admit(e event) {
	h.c.close()
	k := h.sift(h.tail()[:e.n], e)
	h.c.judged += k
	h.c.leave(e.n - k)
}

// overfull reports whether an event that is not a data event is one too many to
// hold. Where the whole answer is held, Policy.HoldLimit is for everything but
// comments.
func (h *holder) overfull(e event) bool {
	switch {
	case e.mark&^wire.MarkComment != 0 || e.isLineEnd():
		return false
	case h.g.Policy.HoldUntil != HoldComplete:
		return h.c.judged+e.n > maxEvent
	case e.mark == 0:
		return false
	}
	h.comments += int32(e.n) //nolint:gosec // an event that is held is short; an open stream costs less so
	return h.comments > maxEvent
}

// shown reports whether the policy hands out the stream after an event with
// marks m.
func (h *holder) shown(m wire.Mark) bool {
	switch h.g.Policy.HoldUntil {
	case HoldComplete:
		return false
	case HoldFirstContent:
		// A stream that ended without content has nothing more to show.
		return h.seen && (m&wire.MarkContent != 0 || h.endless || h.complete())
	default:
		return h.seen
	}
}

// ended judges a stream whose body ended with err while it was held back.
func (h *holder) ended(err error) release {
	_ = h.src.close()
	m := h.rest()
	h.note(m)
	if f := h.st.Failure(); f != nil {
		return release{failure: f}
	}
	if !h.seen {
		if done := callerDone(h.req, err); done != nil {
			return release{err: done}
		}
		if err != io.EOF {
			return release{err: err}
		}
		return h.nothing()
	}
	fate := h.fate(err)
	if fate == nil || h.shown(m) {
		return release{ended: err}
	}
	var inc *IncompleteError
	if errors.As(fate, &inc) && inc.Timeout() && inc.Resume == nil {
		fate = inc.Err
	}
	return release{err: fate}
}

// nothing is for a stream without a data event.
func (h *holder) nothing() release {
	return release{failure: h.format.Failure(http.StatusBadGateway, wire.ReasonEmptyStream, "provider returned an empty stream")}
}
