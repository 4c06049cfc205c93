package wire

import "bytes"

// A typedEvent is what an event that names its own type says.
type typedEvent struct {
	typ    []byte // by the data, else the event field
	failed bool   // an error of its own
	status []byte // of the answer that it tells of
	said   bool   // a piece of an answer that is not empty
	text   span   // where the last string of that is, if the template may know
}

// readType consumes the member that names the type.
func (e *typedEvent) readType(p *parser) {
	if t := text(p.raw()); len(t) > 0 {
		e.typ = t
	}
}

// readError consumes the member that holds an error.
func (e *typedEvent) readError(p *parser) { e.failed = p.filled() || e.failed }

// readStatus consumes the object that is the answer and keeps its status.
func (e *typedEvent) readStatus(p *parser) {
	for ok := p.intoObject(); ok && p.member(); {
		if string(p.name) == "status" {
			e.status = text(p.raw())
			continue
		}
	}
}

// named lets an event field that calls the event an error win over whatever
// type its data has.
func (e *typedEvent) named(name []byte) {
	if string(name) == "error" {
		e.typ = name
	}
}

// typed gives the marks of an event whose type means nothing special: data of
// the format if its type is one of the format's, unless it has an error of its
// own or looks like one. problem is called where there may be an error.
func (s *Stream) typed(e *typedEvent, problem func() *problem) Mark {
	own := s.by.own(e.typ)
	if !own || e.failed {
		if p := problem(); e.failed || p.inBand() {
			return s.fail(p)
		}
	}
	if own {
		return MarkData
	}
	return 0
}

// typedContent gives the marks of an event whose type is that of a piece of the
// answer.
func (s *Stream) typedContent(e *typedEvent, problem func() *problem) Mark {
	m := s.typed(e, problem)
	if m != MarkData || !e.said {
		return m
	}
	if e.text != (span{}) {
		s.template.mark(e.text)
	}
	return m | MarkContent
}

// isDelta knows the types of the pieces of an answer.
func (e *typedEvent) isDelta() bool { return bytes.HasSuffix(e.typ, []byte(".delta")) }

// readPiece consumes the member that holds a piece of the answer.
func (e *typedEvent) readPiece(p *parser) {
	if t, ok := p.said(); ok {
		e.said, e.text = true, t
	}
}
