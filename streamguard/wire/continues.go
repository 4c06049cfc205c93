package wire

// A Continuation says what an event of a stream that was taken up again is to
// what came before.
type Continuation uint8

const (
	// Lost is an event that is not the next one, or does not show that it is.
	Lost Continuation = iota
	// Older is one that came before.
	Older
	// Repeats is an event that says again that the answer lives, or has nothing
	// of the answer.
	Repeats
	// Follows is the next event.
	Follows
)

// Continues tells what an event is to the stream so far, which [Stream.Resume]
// must know the place of, without taking it up.
// Of one that is too large to hold, and so not whole, ev is the beginning.
func (s *Stream) Continues(ev []byte, whole bool) Continuation {
	var scratch Stream
	e := splitEvent(&scratch, ev)
	data := trim(e.data)
	switch {
	case e.bare != nil, len(e.failure) > 0:
		return Lost
	case len(data) == 0 || data[0] != '{':
		return Repeats // a comment, a ping, a mark of the end
	}
	typ, at := s.by.types.place(e.name, data, whole)
	alive := listed(s.by.types.lifecycle, typ)
	switch {
	case at == nil && alive && s.position.begun:
		return Repeats
	case at == nil && (alive || !whole || listed(s.by.types.own, typ) && !idles(typ)):
		return Lost
	case at == nil:
		if p := inspect(data); p.inBand() {
			return Lost
		}
		return Repeats
	case s.by.types.counter != "":
		return s.counts(number(at), alive || idles(typ))
	}
	return s.names(at, alive)
}

// place reads the type of an event and the value that says where it stands, nil
// for none, from data that may be cut off.
func (t *types) place(typ, data []byte, whole bool) (_, at []byte) {
	for i := 1; ; {
		i = skipCommas(data, i)
		name, from := looseName(data, i)
		if from < 0 {
			return typ, at
		}
		end := looseValue(data, from)
		if end <= from || end == len(data) && !whole {
			return typ, at
		}
		switch value := data[from:end]; {
		case string(name) == t.member:
			typ = text(value)
		case t.tellsPlace(name):
			at = value
		}
		i = end
	}
}

// counts is Continues by the number n of an event; alive says that the event
// tells nothing but that the answer lives.
func (s *Stream) counts(n int64, alive bool) Continuation {
	switch {
	case n < 0:
		return Lost
	case alive && (s.position.begun || n <= s.seq):
		return Repeats
	case n <= s.seq:
		return Older
	case n == s.seq+1:
		return Follows
	}
	return Lost
}

// names is Continues by the name of an event, as JSON. Names have no order: that
// none is missing is the vendor's word.
func (s *Stream) names(raw []byte, alive bool) Continuation {
	p := s.position
	switch {
	case len(text(raw)) == 0 || len(raw) > maxEventID:
		return Lost
	case p.knows(raw) && alive:
		return Repeats
	case p.knows(raw):
		return Older
	case alive && p.begun:
		return Lost
	}
	return Follows
}
