package wire

import "bytes"

// A largeEvent is an SSE event that is read in pieces: its lines are told
// apart byte by byte, its data goes to a reader of fields.
type largeEvent struct {
	problem problem
	fields  fields

	head    [16]byte // the field's name, then of its data the first bytes
	n       int
	part    linePart
	lineLen int  // bytes of the current line
	cr      bool // the last byte was a CR
	begun   bool // the byte order mark, if any, is behind
	bom     int
	first   [8]byte // the data's first bytes that are no white space
	firstN  int
	lines   int
	name    []byte
	frame   *largeFrame // of binary framing
}

type linePart uint8

const (
	inField linePart = iota
	afterColon
	inData
	inName
	inOther
)

func newLargeEvent() *largeEvent {
	l := &largeEvent{problem: problem{sequence: -1, states: &choiceStates{}}}
	l.fields = fields{edges: problemEdges, sink: &l.problem}
	return l
}

func (sseFraming) large(s *Stream, part []byte) (int, bool) {
	l := s.big
	for i := 0; i < len(part); {
		if !l.begun {
			if part[i] == bom[l.bom] {
				if l.bom++; l.bom == len(bom) {
					l.begun = true
				}
				i++
				continue
			}
			l.begun = true
		}
		l.learnEnd(s, part[i])
		switch c := part[i]; {
		case c == '\n' && l.cr:
			l.cr = false
			i++
		case c == '\n' || c == '\r':
			l.cr = c == '\r'
			blank := l.lineLen == 0
			l.endLine()
			i++
			if blank {
				i += l.afterBlank(s, part[i:])
				return i, true
			}
		default:
			l.cr = false
			n := len(part) - i
			if j := lineEnd(part, i); j >= 0 {
				n = j - i
			}
			l.take(part[i : i+n])
			i += n
		}
	}
	return len(part), false
}

// learnEnd sets the stream's line end, if it is not known, by c: whether a CR is
// all of it shows in the byte behind.
func (l *largeEvent) learnEnd(s *Stream, c byte) {
	switch {
	case s.split.eol != "":
	case l.cr && c == '\n':
		s.split.eol = "\r\n"
	case l.cr:
		s.split.eol = "\r"
	case c == '\n':
		s.split.eol = "\n"
	}
}

// afterBlank takes the LF of a blank line's CR LF, or has Next do so.
func (l *largeEvent) afterBlank(s *Stream, rest []byte) int {
	s.split.line, s.split.pos, s.split.begun = 0, 0, true
	if !l.cr {
		return 0
	}
	if len(rest) == 0 {
		s.split.cr = true
		return 0
	}
	if rest[0] == '\n' {
		return 1
	}
	return 0
}

// take reads bytes of one line, without a line end.
func (l *largeEvent) take(b []byte) {
	l.lineLen += len(b)
	for len(b) > 0 {
		switch l.part {
		case inField:
			c := b[0]
			b = b[1:]
			if c == ':' {
				l.part = afterColon
			} else if l.n < len(l.head) {
				l.head[l.n] = c
				l.n++
			}
		case afterColon:
			l.startValue()
			if b[0] == ' ' {
				b = b[1:]
			}
		case inData:
			l.data(b)
			return
		case inName:
			l.name = append(l.name, b[:min(len(b), maxKey-len(l.name))]...)
			return
		default:
			return
		}
	}
}

func (l *largeEvent) startValue() {
	switch string(l.head[:l.n]) {
	case "data":
		if l.lines++; l.lines > 1 {
			l.data([]byte{'\n'})
		}
		l.part = inData
	case "event":
		l.name = l.name[:0]
		l.part = inName
	default:
		l.part = inOther
	}
}

func (l *largeEvent) data(b []byte) {
	l.fields.feed(b)
	for l.firstN < len(l.first) && len(b) > 0 {
		if c := b[0]; l.firstN > 0 || bytes.IndexByte([]byte(" \t\r\n"), c) < 0 {
			l.first[l.firstN] = c
			l.firstN++
		}
		b = b[1:]
	}
}

func (l *largeEvent) endLine() {
	if l.part == afterColon {
		l.startValue()
	}
	l.n, l.lineLen, l.part = 0, 0, inField
}

func (l *largeEvent) atLineStart() bool { return l.lineLen == 0 }

func (l *largeEvent) sentinel() bool {
	return string(bytes.TrimRight(l.first[:l.firstN], " \t\r\n")) == "[DONE]"
}

// whole reports whether the event can be taken for whole where the body ends.
func (l *largeEvent) whole() bool { return l.frame == nil && (l.sentinel() || l.fields.ended) }

// blank reports whether the event has had nothing but comments.
func (l *largeEvent) blank() bool {
	return l.frame == nil && l.lines == 0 && l.firstN == 0 && l.name == nil &&
		l.n == 0 && (l.part != inField || l.lineLen == 0)
}

// LargeData reports whether a large event is under way that has data, and not
// just a comment.
func (s *Stream) LargeData() bool { return s.big != nil && s.big.firstN > 0 }

// endLarge judges the large event that is over.
func (s *Stream) endLarge() Mark {
	l := s.big
	s.big = nil
	s.template.forget()
	if l.frame != nil {
		return s.endFrame(l)
	}
	if l.firstN == 0 {
		if s.list.place == behindArray {
			return s.closeArray()
		}
		return MarkComment
	}
	if s.final {
		return 0
	}
	if l.sentinel() {
		return s.sentinel()
	}
	m := Mark(0)
	switch {
	case s.f.event == nil && s.f.large == nil:
		m = MarkData
	case l.first[0] == '{' && s.by.large != nil:
		if m = s.by.large(s, l.name, &l.problem); m == 0 && (!s.data || s.strange) {
			s.strange = true // so much is not a notice
			if m = MarkData | MarkContent; l.problem.stop {
				m |= MarkEnd | MarkFinal
			}
		}
	}
	s.count(m)
	return m
}
