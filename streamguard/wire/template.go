package wire

// A template is the last event that was nothing but a piece of content, with
// the content taken out, and with it the values that the format pays no heed
// to and that change from event to event, such as a time. Most events of a
// stream differ from the one before in these alone. If an event has the same
// bytes around a valid, non-empty JSON string and valid values, then it parses
// as the one before did and has the same marks, so it need not be parsed.
type template struct {
	buf     []byte
	room    [usualEvent]byte    // where buf begins
	parts   [maxNeutral + 2]int // where in buf the bytes before each hole end, the last is all
	holes   int
	content int                       // which hole is the content
	head    int                       // of a frame: how long its headers are; inChunk within a chunk
	counter int                       // which hole says where in the stream the event stands, -1 for none
	at      struct{ from, to uint32 } // of the value there in the event that matched last

	usageAt int    // which hole is a usage, -1 for none
	usage   []byte // that of the event that matched last

	text     span // the content in the data of the event at hand
	neutral  [maxNeutral]span
	neutrals int
	used     int // which of these is a usage, from 1 on
	counted  int // which of these says where the event stands, from 1 on
}

// A span is a part of the bytes at hand, the zero span none.
type span struct{ from, to int }

const (
	// maxTemplate bounds what is kept of an event.
	maxTemplate = 4 << 10
	maxNeutral  = 2
	maxUsage    = 1 << 10 // bounds the usage that is kept of an event
	usualEvent  = 320
	// holeDepth stands for how deep a value may lie already. It is too much, so
	// that a value that nests too deeply is never taken for valid.
	holeDepth = 64
)

// mark notes where the contents of the content string of the event at hand lie
// in its data.
func (t *template) mark(text span) { t.text = text }

// heedless consumes a value that has no meaning for the format.
func (t *template) heedless(p *parser) {
	from := p.i
	if p.skip() {
		t.pass(span{from, p.i})
	}
}

// pass notes such a value, by where it lies from the data's beginning on.
func (t *template) pass(at span) {
	if at.from < at.to && t.neutrals < maxNeutral {
		t.neutral[t.neutrals] = at
		t.neutrals++
	}
}

// counting is heedless for a value that says where in the stream the event
// stands, and returns it. An event that matches leaves its own in at.
func (t *template) counting(p *parser) []byte {
	from := p.i
	t.heedless(p)
	if t.neutrals > 0 && t.neutral[t.neutrals-1].from == from {
		t.counted = t.neutrals
	}
	return p.b[from:p.i]
}

// begin forgets what was noted of another event.
func (t *template) begin() { t.text, t.neutrals, t.counted, t.used = span{}, 0, 0, 0 }

// inChunk is the head of a template that is not of a whole frame.
const inChunk = -1

// remember keeps the event ev, whose data begins at ev[at].
func (t *template) remember(ev []byte, at int) {
	if t.text.from == 0 || t.text.to <= t.text.from || len(ev)-(t.text.to-t.text.from) > maxTemplate {
		t.forget()
		return
	}
	if t.buf == nil {
		t.buf = t.room[:0]
	}
	if cap(t.buf) < len(ev) {
		t.buf = make([]byte, 0, len(ev))
	}
	t.buf, t.holes, t.content, t.counter = t.buf[:0], 0, -1, -1
	t.head, t.usageAt = 0, -1
	done := 0
	for i := 0; i <= t.neutrals; i++ {
		if t.content < 0 && (i == t.neutrals || t.neutral[i].from > t.text.from) {
			t.content = t.holes
			done = t.cut(ev, done, at, t.text)
		}
		if i < t.neutrals {
			if i+1 == t.counted {
				t.counter = t.holes
			}
			if i+1 == t.used {
				t.usageAt = t.holes
			}
			done = t.cut(ev, done, at, t.neutral[i])
		}
	}
	t.buf = append(t.buf, ev[done:]...)
	t.parts[t.holes] = len(t.buf)
}

// cut keeps ev from done up to hole, and returns where it goes on.
func (t *template) cut(ev []byte, done, at int, hole span) int {
	t.buf = append(t.buf, ev[done:at+hole.from]...)
	t.parts[t.holes] = len(t.buf)
	t.holes++
	return at + hole.to
}

func (t *template) forget() { t.holes = 0 }

// place returns what the event ev, which matched, says about where it stands, nil
// for nothing.
func (t *template) place(ev []byte) []byte {
	if t.counter < 0 {
		return nil
	}
	return ev[t.at.from:t.at.to]
}

func (t *template) matches(ev []byte) bool {
	if t.holes == 0 {
		return false
	}
	var text span
	from, i := 0, 0
	for k := 0; ; k++ {
		part := t.buf[from:t.parts[k]]
		if len(ev)-i < len(part) || string(ev[i:i+len(part)]) != string(part) {
			return false
		}
		from, i = t.parts[k], i+len(part)
		switch k {
		case t.holes:
			if i != len(ev) {
				return false
			}
			t.text = text
			return true
		case t.content:
			end := skipString(ev, i)
			if end <= i+1 {
				return false
			}
			text = span{i, end - 1}
			i = end - 1
		default:
			end := skipValue(ev, i, holeDepth)
			if end < 0 || lineEnd(ev[i:end], 0) >= 0 { // data over several lines
				return false
			}
			if k == t.counter {
				t.at.from, t.at.to = uint32(i), uint32(end) //nolint:gosec // an event that is held is short
			}
			if k == t.usageAt && end-i <= maxUsage {
				t.usage = append(t.usage[:0], ev[i:end]...)
			}
			i = end
		}
	}
}

// number returns the value of a short whole number, -1 for anything else.
func number(raw []byte) int64 {
	if len(raw) == 0 || len(raw) > 18 {
		return -1
	}
	n := int64(0)
	for _, c := range raw {
		if c-'0' > 9 {
			return -1
		}
		n = n*10 + int64(c-'0')
	}
	return n
}
