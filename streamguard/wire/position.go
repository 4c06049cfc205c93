package wire

import (
	"slices"
	"strings"
)

// This file is about where in its stream an event stands, for vendors that keep
// the stream.

const (
	maxID      = 256 // of an answer
	maxEventID = 512
	firstNames = 3 // how many of the first names of events are remembered
	lastNames  = 9 // and of the last
	cutNames   = 2 // and of those behind the last cuts
)

// A position is where a stream is, in the words of a vendor that keeps it. Other
// streams have none.
type position struct {
	exact bool // the last event said where it stands
	begun bool // an event came that is none of the answer's life

	id     string
	idRoom [80]byte
	idLen  int

	count int // of the events that had a name
	cuts  int
	names [firstNames + lastNames]eventName
	long  []byte // the last name, if that is longer than what is remembered
	// afterCut are the names of the first events behind the last cuts: a vendor that
	// sends the same again and again is told by them.
	afterCut [cutNames]eventName
	cut      bool // the next event is the first behind one
}

// An eventName is the end of an event's name, as JSON. Nothing is done with it
// until a stream has to be resumed.
type eventName struct {
	n uint8
	b [eventNameLen]byte
}

const eventNameLen = 46

func (e *eventName) set(raw []byte) { e.n = uint8(copy(e.b[:], e.end(raw))) }

func (e *eventName) is(raw []byte) bool { return e.n > 0 && string(e.b[:e.n]) == string(e.end(raw)) }

// end returns what is remembered of a name.
func (e *eventName) end(raw []byte) []byte { return raw[max(0, len(raw)-len(e.b)):] }

// moved takes up where an event stands: raw is the value of the format's
// member for that, nil if the event has none.
func (s *Stream) moved(raw []byte) {
	p, exact := s.position, false
	if raw != nil && s.by.types.counter != "" {
		n := number(raw)
		exact = n > s.seq
		s.seq = max(s.seq, n)
	}
	if p == nil {
		return
	}
	if p.exact = exact; raw != nil && s.by.types.counter == "" {
		p.named(raw)
	}
}

// named takes up the name of an event, as JSON.
func (p *position) named(raw []byte) {
	if len(raw) <= len(`""`) || raw[0] != '"' || len(raw) > maxEventID {
		return
	}
	p.exact = true
	if p.cut {
		p.cut = false
		p.afterCut[p.cuts%cutNames].set(raw)
		p.cuts++
	}
	p.names[p.slot(p.count)].set(raw)
	if p.count++; len(raw) > eventNameLen {
		p.long = append(p.long[:0], raw...)
	} else if p.long != nil {
		p.long = nil
	}
}

// slot is where the i-th name is remembered.
func (p *position) slot(i int) int {
	if i < firstNames {
		return i
	}
	return firstNames + (i-firstNames)%lastNames
}

// name returns the last name.
func (p *position) name() []byte {
	if p.long != nil {
		return text(p.long)
	}
	last := &p.names[p.slot(p.count-1)]
	return text(last.b[:last.n])
}

// knows reports whether an event of that name has come, as far as that is
// remembered: the first ones, by which an answer is told that begins anew, the
// last, and the first behind the last cuts.
func (p *position) knows(raw []byte) bool {
	is := func(e eventName) bool { return e.is(raw) }
	return slices.ContainsFunc(p.names[:], is) || slices.ContainsFunc(p.afterCut[:], is)
}

// stands takes up what an event says about where the stream is.
func (s *Stream) stands(t *types, e *typedEvent) {
	if e.at != nil {
		s.moved(e.at)
	}
	p := s.position
	if p == nil {
		return
	}
	if own := listed(t.own, e.typ) && !idles(e.typ); own {
		p.exact = p.exact && e.at != nil
		p.begun = p.begun || !listed(t.lifecycle, e.typ)
	}
	if p.idLen == 0 {
		p.called(e.id)
	}
}

// called takes up the name of the answer, if it is one.
func (p *position) called(id []byte) {
	if !isID(id) {
		return
	}
	p.idLen = len(id)
	if copy(p.idRoom[:], id) < len(id) {
		p.id = string(id)
	}
}

// isID reports whether an answer's name may stand in a path as it is.
func isID(id []byte) bool {
	if len(id) == 0 || len(id) > maxID || string(id) == "." || string(id) == ".." {
		return false
	}
	for _, c := range id {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.~:=+@", rune(c)) {
			return false
		}
	}
	return true
}

// Resume returns where the stream is: what to ask its vendor for to get the
// rest. It is not ok where the vendor does not keep it, where it has not said yet
// what the answer is called or did not say where the last event stands, and
// behind a failure.
func (s *Stream) Resume() (at Resume, ok bool) {
	p := s.position
	if p == nil || !p.exact || p.idLen == 0 || s.failure != nil || s.by != s.f {
		return Resume{}, false
	}
	if at.ID = p.id; at.ID == "" {
		at.ID = string(p.idRoom[:p.idLen])
	}
	if s.by.types.counter != "" {
		at.Sequence = s.seq
	} else {
		at.EventID = string(p.name())
	}
	return at, true
}

// Rejoin readies the stream for a body that goes on with the next event. What
// was half received of one is forgotten, unless it flows by (see [Stream.Large]):
// then that event goes on. lead is what the body before still owes the reader:
// the LF of its last blank line.
func (s *Stream) Rejoin() (lead []byte) {
	s.position.cut = true
	if s.large != nil {
		return nil
	}
	t := &s.sse
	if t.cr && t.lineEnd() != "\r" {
		lead = []byte("\n")
	}
	t.line, t.pos, t.start, t.cr, t.tail = 0, 0, true, false, false
	return lead
}

// A keptStream is a stream with its position, in one piece of memory.
type keptStream struct {
	Stream

	where position
}

// allocate returns the memory of a stream, with a position if the vendor keeps
// it.
func allocate(f *Format, o StreamOptions) *Stream {
	if !o.Resumable || f.resume == nil {
		return new(Stream)
	}
	kept := new(keptStream)
	kept.position = &kept.where
	kept.where.called([]byte(o.Answer))
	return &kept.Stream
}
