package wire

// types say what the events of a format mean that name their own types. In the
// lists of types a star stands for how a type begins or ends.
type types struct {
	member  string   // that names the type
	own     []string // events of the format
	content []string // with a piece of the answer
	stop    []string // that end the answer if they hold a reason
	final   []string // the last ones
	fail    []string // that tell of a failure, beside error
	pieces  []string // the members with a piece of the answer, or a reason to stop
	answer  string   // the member that is the answer, with its status
	holds   string   // a member that holds the usage, if it is not at the top
	goesOn  []string // states in which an answer is not over, whatever its event says
	counter string   // the member that numbers the events
	mark    string   // the member that names them, of a vendor that can go on behind one
	idle    []string // members that mean nothing and change from event to event

	// lifecycle are the events that say that an answer lives, and nothing of it: a
	// vendor that sends the rest of a stream may begin with one again.
	lifecycle []string

	// special judges what the lists do not say; nil is nothing.
	special func(s *Stream, e typedEvent, data []byte) (m Mark, ok bool)
}

// A typedEvent is what an event that names its own type says.
type typedEvent struct {
	typ    []byte // by the data, else the event field
	failed bool   // an error of its own
	status []byte // of the answer that it tells of
	id     []byte // of that answer
	at     []byte // where in the stream the event stands, as JSON; nil if it does not say
	finish []byte // why the answer stops
	pieces
}

// tellsPlace reports whether a member says where in the stream its event stands.
func (t *types) tellsPlace(name []byte) bool {
	return len(name) > 0 && (string(name) == t.counter || string(name) == t.mark)
}

// readTyped judges an event of a format with types.
func readTyped(s *Stream, name, data []byte) Mark {
	t, e := s.by.types, typedEvent{typ: name}
	p := parse(data)
	for ok := p.object(); ok && p.member(); {
		switch {
		case string(p.name) == t.member:
			if typ := text(p.raw()); len(typ) > 0 {
				e.typ = typ
			}
		case string(p.name) == "error":
			e.failed = p.filled() || e.failed
		case string(p.name) == t.answer:
			e.readAnswer(s, &p)
		case t.tellsPlace(p.name):
			e.at = s.template.counting(&p)
		case listed(t.pieces, p.name):
			e.readPiece(s, &p)
		case string(p.name) == "usage":
			s.takeUsage(&p)
		case string(p.name) == t.holds:
			s.usageWithin(&p)
		case listed(t.idle, p.name):
			s.template.heedless(&p)
		}
	}
	if !p.end() {
		return MarkMalformed
	}
	if string(name) == "error" { // whatever type the data has
		e.typ = name
	}
	s.stands(t, &e)
	return s.typed(t, e, data)
}

// readAnswer consumes the object that is the answer and keeps its status and name.
func (e *typedEvent) readAnswer(s *Stream, p *parser) {
	for ok := p.intoObject(); ok && p.member(); {
		switch string(p.name) {
		case "status":
			e.status = text(p.raw())
		case "usage":
			s.takeUsage(p)
		case "id":
			e.id = text(p.raw())
		}
	}
}

// readPiece consumes a piece of the answer, or an object that holds it.
func (e *typedEvent) readPiece(s *Stream, p *parser) {
	if p.kind() != '{' {
		e.piece(p)
		return
	}
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "type", "role":
		case "stop_reason", "finish_reason":
			e.finish = text(p.raw())
		case "usage":
			s.takeUsage(p)
		default:
			e.piece(p)
		}
	}
}

// typed gives the marks of an event.
func (s *Stream) typed(t *types, e typedEvent, data []byte) Mark {
	if t.special != nil {
		if m, ok := t.special(s, e, data); ok {
			return m
		}
	}
	own := listed(t.own, e.typ) && !idles(e.typ)
	switch {
	case e.failed, string(e.typ) == "error", listed(t.fail, e.typ):
		return s.fail(inspect(data))
	case len(e.finish) > 0 && listed(t.stop, e.typ):
		if failedFinish(e.finish) {
			return s.failFinish(string(e.finish))
		}
		s.ended = true
		return MarkData | MarkEnd
	case listed(t.final, e.typ):
		switch {
		case string(e.status) == "failed":
			return s.fail(inspect(data))
		case listed(t.goesOn, e.status):
			return MarkData
		}
		return MarkData | MarkEnd | MarkFinal
	case own && listed(t.content, e.typ):
		return s.answer(&e.pieces)
	case own:
		return MarkData
	}
	if p := inspect(data); p.inBand() {
		return s.fail(p)
	}
	return 0
}

// listed reports whether word is one of list.
func listed(list []string, word []byte) bool {
	for _, w := range list {
		n := len(w) - 1
		switch {
		case w[n] == '*':
			if len(word) >= n && string(word[:n]) == w[:n] {
				return true
			}
		case w[0] == '*':
			if len(word) >= n && string(word[len(word)-n:]) == w[1:] {
				return true
			}
		case w == string(word):
			return true
		}
	}
	return false
}
