package wire

// sseLarge is where an event is that is read in pieces: its lines are told
// apart byte by byte, its data goes to the condenser.
type sseLarge struct {
	field   [16]byte
	n       int // of field
	part    linePart
	lineLen int  // bytes of the current line
	cr      bool // the last byte was a CR
	begun   bool // the byte order mark, if any, is behind
	bom     int
	lines   int // of data
	name    []byte
	filled  bool // there was more than comments
}

type linePart uint8

const (
	inField linePart = iota
	afterColon
	inData
	inName
	inOther
)

func (t *sseFraming) flow(s *Stream, part []byte) (int, bool) {
	if t.large == nil {
		t.large = &sseLarge{}
	}
	l := t.large
	for i := 0; i < len(part); {
		if !l.begun {
			if part[i] == bom[l.bom] {
				l.bom++
				l.begun = l.bom == len(bom)
				i++
				continue
			}
			l.begun = true
		}
		t.learnEnd(part[i])
		switch c := part[i]; {
		case c == '\n' && l.cr:
			l.cr = false
			i++
		case c == '\n' || c == '\r':
			l.cr = c == '\r'
			blank := l.lineLen == 0
			l.endLine(s.large)
			i++
			if blank {
				return i + t.afterBlank(part[i:]), true
			}
		default:
			l.cr = false
			n := len(part) - i
			if j := lineEnd(part, i); j >= 0 {
				n = j - i
			}
			l.take(s.large, part[i:i+n])
			i += n
		}
	}
	return len(part), false
}

// learnEnd sets the stream's line end, if it is not known, by c: whether a CR is
// all of it shows in the byte behind.
func (t *sseFraming) learnEnd(c byte) {
	switch cr := t.large.cr; {
	case t.eol != "":
	case cr && c == '\n':
		t.eol = "\r\n"
	case cr:
		t.eol = "\r"
	case c == '\n':
		t.eol = "\n"
	}
}

// afterBlank takes the LF of a blank line's CR LF, or has next do so.
func (t *sseFraming) afterBlank(rest []byte) int {
	t.line, t.pos, t.start = 0, 0, true
	switch {
	case !t.large.cr:
	case len(rest) == 0:
		t.cr = true
	case rest[0] == '\n':
		return 1
	}
	return 0
}

// take reads bytes of one line, without a line end.
func (l *sseLarge) take(doc *condenser, b []byte) {
	l.lineLen += len(b)
	for len(b) > 0 {
		switch l.part {
		case inField:
			c := b[0]
			b = b[1:]
			if c == ':' {
				l.part = afterColon
			} else if l.n < len(l.field) {
				l.field[l.n] = c
				l.n++
			}
		case afterColon:
			l.startValue(doc)
			if b[0] == ' ' {
				b = b[1:]
			}
		case inData:
			doc.feed(b)
			return
		case inName:
			l.name = append(l.name, b[:min(len(b), maxKey-len(l.name))]...)
			return
		default:
			return
		}
	}
}

func (l *sseLarge) startValue(doc *condenser) {
	l.filled = l.filled || l.n > 0
	switch string(l.field[:l.n]) {
	case "data":
		if l.lines++; l.lines > 1 {
			doc.feed([]byte{'\n'})
		}
		l.part = inData
	case "event":
		l.name = l.name[:0]
		l.part = inName
	default:
		l.part = inOther
	}
}

func (l *sseLarge) endLine(doc *condenser) {
	if l.part == afterColon {
		l.startValue(doc)
	}
	l.filled = l.filled || l.n > 0
	l.n, l.lineLen, l.part = 0, 0, inField
}

func (t *sseFraming) flowEnd(s *Stream, doc []byte) Mark {
	name := t.large.name
	t.large = nil
	return s.judgeLarge(name, doc)
}

// pending takes data that is a whole value for a whole event, and what is more
// than a comment for half of one.
func (t *sseFraming) pending(doc *condenser) (whole, half bool) {
	return doc.ended, t.large.filled || t.large.n > 0
}
