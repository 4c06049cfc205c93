package wire

import "bytes"

// arrayFraming is a stream that is one JSON array, an event an element, as
// Google's streaming methods send it without alt=sse. An element's event begins
// with what must come before it: the bracket that opens the array, or a comma.
// White space between events is an event a byte. The closing bracket is the
// end: nobody can parse an array without it.
type arrayFraming struct {
	pos   int        // up to where next has read
	place arrayPlace // where the next event begins
	now   arrayPlace // up to where was read
	in    balance    // of the element under way
	bad   bool       // what was read cannot be in an array of objects
	large bool       // an element flows through
	half  bool       // it did not end
}

type arrayPlace uint8

const (
	beforeArray   arrayPlace = iota
	beforeFirst              // element, or the closing bracket
	beforeElement            // behind a comma
	behindElement
	behindArray
)

// A balance finds the end of a JSON object that comes in pieces. It follows
// quotes and brackets only.
type balance struct {
	depth           int
	inText, escaped bool
}

// scan returns how many bytes of p belong to the object, and whether it ends
// with them.
func (a *balance) scan(p []byte) (int, bool) {
	for i := 0; i < len(p); i++ {
		if a.inText {
			if i = a.text(p, i); a.inText {
				return len(p), false
			}
			continue
		}
		switch p[i] {
		case '"':
			a.inText = true
		case '{', '[':
			a.depth++
		case '}', ']':
			if a.depth--; a.depth == 0 {
				return i + 1, true
			}
		}
	}
	return len(p), false
}

// text goes on in a string and returns where its closing quote is, if it is.
func (a *balance) text(p []byte, i int) int {
	for ; i < len(p); i++ {
		if a.escaped {
			a.escaped = false
			continue
		}
		if i = stringStop(p, i); i == len(p) {
			break
		}
		switch p[i] {
		case '"':
			a.inText = false
			return i
		case '\\':
			a.escaped = true
		}
	}
	return i
}

// step reads p up to the end of the event, if it is there. p[from:to] belongs
// to the element.
func (t *arrayFraming) step(p []byte) (from, to int, done bool) {
	for t.in.depth == 0 {
		if from == len(p) {
			return from, from, false
		}
		c := p[from]
		if c == '{' && (t.now == beforeFirst || t.now == beforeElement) {
			break
		}
		from++
		if t.separates(c) {
			return from, from, true
		}
	}
	n, done := t.in.scan(p[from:])
	if done {
		t.now = behindElement
	}
	return from, from + n, done
}

// separates takes a byte between elements and reports whether it ends an event
// that has no element: the closing bracket, or what cannot be.
func (t *arrayFraming) separates(c byte) bool {
	switch {
	case isSpace(c), t.now == beforeArray && c >= 0x80: // a byte order mark
	case t.now == beforeArray && c == '[':
		t.now = beforeFirst
	case t.now == behindElement && c == ',':
		t.now = beforeElement
	case c == ']' && (t.now == behindElement || t.now == beforeFirst):
		t.now = behindArray
		return true
	default:
		t.bad = true
		return true
	}
	return false
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func (t *arrayFraming) next(s *Stream, buf []byte) int {
	s.open = s.open || t.place == beforeArray
	if t.pos == 0 && isSpace(buf[0]) {
		return 1
	}
	_, n, done := t.step(buf[t.pos:])
	if t.pos += n; !done {
		return 0
	}
	n, t.pos = t.pos, 0
	t.place = t.now
	return n
}

func (t *arrayFraming) event(s *Stream, ev []byte) Mark {
	switch {
	case len(ev) == 1 && isSpace(ev[0]):
		return MarkComment
	case t.bad:
		return MarkMalformed
	case t.place == behindArray:
		return s.closeArray()
	}
	at := bytes.IndexByte(ev, '{')
	return s.judge(nil, ev[at:], ev, at)
}

// closeArray judges the closing bracket.
func (s *Stream) closeArray() Mark {
	s.open = false
	return s.sentinel()
}

// rest finds nothing: the last event of a whole array is whole with its last
// byte.
func (*arrayFraming) rest(*Stream, []byte) (Mark, bool) { return 0, false }

// begun reports whether an element, or the comma before it, begins in b.
func (*arrayFraming) begun(b []byte) bool { return len(trimStart(b)) > 0 }

func (t *arrayFraming) flow(s *Stream, part []byte) (int, bool) {
	if !t.large {
		t.large, t.now, t.in, t.pos = true, t.place, balance{}, 0
	}
	from, n, done := t.step(part)
	s.large.feed(part[from:n])
	if done {
		t.place = t.now
	}
	return n, done
}

func (t *arrayFraming) flowEnd(s *Stream, doc []byte) Mark {
	t.large = false
	if len(doc) == 0 && t.place == behindArray {
		return s.closeArray()
	}
	return s.judgeLarge(nil, doc)
}

func (*arrayFraming) pending(doc *condenser) (whole, half bool) { return doc.ended, len(doc.out) > 0 }

// frame leaves the array open: its bracket is the mark that the answer is whole,
// and a reader exists that passes over an element which it does not know
// (contract 6.2). Who decodes element by element meets the error and then the
// missing end, who parses all at once the missing end.
func (t *arrayFraming) frame(_ string, data []byte) []byte {
	if t.half || t.place == behindArray {
		return nil
	}
	lead := ",\n"
	if t.place == beforeArray || t.place == beforeFirst {
		lead = "["
	}
	return append([]byte(lead), data...)
}

// closeLarge leaves half an element as it is: to close its brackets would be to
// make up an answer. Nothing can follow it then.
func (t *arrayFraming) closeLarge() []byte {
	t.half = t.half || t.large
	return nil
}
