package streamguard

import (
	"bytes"
	"sync"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// A scanner finds the events in the bytes of one stream and has each judged.
// What waits to be handed out, or for its event to be whole, is in its chunk. It
// has no lock: RoundTrip uses it first, Read later.
type scanner struct {
	src      source
	st       *wire.Stream
	endless  bool       // the format has no end mark: a clean end of the body is one
	strip    bool       // comment lines are left out
	chunks   *sync.Pool // of *chunk
	c        *chunk
	flow     flow          // of the event under way
	filter   commentFilter // of flowSifted
	leftOut  bool          // the event before was left out
	unclosed []byte        // what must come before an event that is added
	resumes  bool          // the rest of the stream may be asked for
	again    *again        // nil unless it was, or an event has gone by in pieces
}

// A flow is how an event goes by.
type flow uint8

const (
	flowNone   flow = iota // it is held until it is whole
	flowAll                // too large to hold, it goes by in pieces as they come
	flowSifted             // in pieces, without their comment lines
	flowOut                // in pieces, all of which are left out
)

// An event is what begins the bytes at hand: n of them, 0 if it is not whole
// yet. Of one too large to hold they are a piece; mark is known with the last.
type event struct {
	n     int
	mark  wire.Mark
	whole bool
	flow  flow
}

// isLineEnd reports whether the event is the LF of a blank line whose CR came
// before.
func (e event) isLineEnd() bool { return e.n == 1 && e.mark == 0 && e.flow == flowNone }

// next judges the event at the start of data.
func (s *scanner) next(data []byte) (e event) {
	switch {
	case len(data) == 0:
	case s.flow != flowNone:
		e.flow = s.flow
		e.n, e.whole, e.mark = s.st.Large(data)
		if s.resumes && s.flow == flowAll {
			s.passes(data[:e.n], e.whole)
		}
		if e.whole {
			s.flow = flowNone
		} else if s.st.LargeData() {
			s.src.heardEvent() // it is under way
		}
	default:
		if e.n = s.st.Next(data); e.n > 0 {
			e.mark, e.whole = s.st.Event(data[:e.n]), true
		}
	}
	return e
}

// outgrown reports whether data, the beginning of an event, is too much to hold.
func (s *scanner) outgrown(data []byte) bool { return s.flow == flowNone && len(data) > maxEvent }

// large is how an event that is too large to hold goes by. Behind a failure it
// shows what it is when it is too late to leave it out.
func (s *scanner) large() flow {
	switch {
	case s.st.Failure() != nil:
		return flowOut
	case s.strip && s.st.Comments():
		return flowSifted
	}
	return flowAll
}

// sift takes out of ev, the bytes of e, what is left out. What stays is at the
// front of ev; its length is returned.
func (s *scanner) sift(ev []byte, e event) int {
	switch {
	case e.flow == flowOut:
		s.leftOut = e.whole
		return 0
	case e.flow == flowSifted:
		n := s.filter.drop(ev)
		s.leftOut = e.whole && !s.filter.last
		return n
	case e.flow == flowAll || !s.strip || len(ev) == 0 || !s.st.Comments() || !hasComment(ev):
		return len(ev)
	}
	var f commentFilter
	return f.drop(ev)
}

// leaves reports whether a whole event is left out: one that must be, a comment
// by the policy, and the rest of either's blank line.
func (s *scanner) leaves(e event, must bool) bool {
	s.leftOut = e.isLineEnd() && s.leftOut || must || e.mark&wire.MarkComment != 0 && s.strip
	return s.leftOut
}

// untrue reports whether an event with marks m says that the answer is over and
// well, behind a failure of the stream's own. It is left out: clients exist that
// take no notice of an error event and stop reading at [DONE], before the error
// from Read (contract 6.11).
func (s *scanner) untrue(m wire.Mark) bool {
	return m&(wire.MarkEnd|wire.MarkFinal) != 0 && m&wire.MarkFailed == 0 && s.st.Failure() != nil
}

// complete reports whether the stream has ended by what it said itself.
func (s *scanner) complete() bool {
	return s.st.Complete() && (!s.endless || s.st.Failure() != nil)
}

// rest judges what is pending at the end of the body: what counts as whole may
// be handed out as it came, the rest is dropped.
func (s *scanner) rest() wire.Mark {
	s.unclosed = s.openEnd()
	m, whole := s.st.Rest(s.tail())
	s.flow = flowNone
	if s.c == nil {
		return m
	}
	if !whole || m&wire.MarkMalformed != 0 || s.untrue(m) {
		s.c.cut()
		return 0
	}
	if s.unclosed == nil {
		s.unclosed = lineEndBehind(s.c.b, s.st.CloseLarge())
	}
	n := s.sift(s.tail(), event{})
	s.c.b = s.c.b[:s.c.judged+n]
	s.c.judged = len(s.c.b)
	return m
}

// openEnd returns what ends a large event of which only a part was handed out,
// or less of it if the last line was left out.
func (s *scanner) openEnd() []byte {
	if s.flow == flowNone {
		return nil
	}
	closing := s.st.CloseLarge()
	switch {
	case s.flow != flowSifted:
		return closing
	case !s.filter.kept:
		return nil
	case s.filter.inLine && s.filter.comment:
		return closing[len(closing)/2:]
	}
	return closing
}

// lineEndBehind returns how much of closing, two line ends, makes a blank line
// behind b: one if the line has ended. Where lines end with an LF, a CR's own LF
// comes first: it would be the line's, and to decoders that split at LF alone
// the line has not ended without it.
func lineEndBehind(b, closing []byte) []byte {
	one := closing[len(closing)/2:]
	switch last := b[len(b)-1]; {
	case last == '\n':
		return one
	case last != '\r' || len(closing) < 2: // the latter of no event stream
		return closing
	case bytes.HasSuffix(one, []byte("\n")):
		return append([]byte("\n"), one...)
	}
	return one
}

// refill reads more into the chunk.
func (s *scanner) refill() (int, error) {
	c := s.chunk()
	n, err := s.src.Read(c.room(chunkSize / 4))
	c.b = c.b[:len(c.b)+n]
	return n, err
}

// chunk returns the stream's chunk, a new one if it has none.
func (s *scanner) chunk() *chunk {
	if s.c == nil {
		c, ok := s.chunks.Get().(*chunk)
		if !ok {
			c = &chunk{b: make([]byte, 0, chunkSize)}
		}
		s.c = c
	}
	return s.c
}

// drop gives the chunk back with all that is in it.
func (s *scanner) drop() {
	c := s.c
	if s.c = nil; c != nil && cap(c.b) <= maxChunk {
		c.b, c.off, c.judged, c.gap = c.b[:0], 0, 0, 0
		s.chunks.Put(c)
	}
}

// take hands out judged bytes.
func (s *scanner) take(p []byte) int {
	c := s.c
	if c == nil || c.off == c.judged {
		return 0
	}
	n := copy(p, c.b[c.off:c.judged])
	if c.off += n; c.off == len(c.b) {
		s.drop()
	}
	return n
}

// tail returns the bytes that are not judged.
func (s *scanner) tail() []byte {
	if s.c == nil {
		return nil
	}
	return s.c.b[s.c.judged+s.c.gap:]
}

// held returns all that waits in the chunk, judged or not. It is valid until
// the next use of s.
func (s *scanner) held() []byte {
	if s.c == nil {
		return nil
	}
	return s.c.b[s.c.off:]
}

// keep stores bytes that are not judged; the chunk must be empty.
func (s *scanner) keep(tail []byte) {
	if len(tail) > 0 {
		c := s.chunk()
		c.b = append(c.b, tail...)
	}
}
