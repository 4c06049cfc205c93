package wire

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
)

// frameFraming is application/vnd.amazon.eventstream: binary frames, each with
// a prelude (length of the frame, length of its headers, CRC of these two), its
// headers, a payload and a CRC of all of it. Numbers are big endian.
type frameFraming struct {
	large *largeFrame // nil unless one flows through
}

const (
	preludeSize = 12
	frameExtra  = preludeSize + 4 // what a frame has beside headers and payload
	// maxFrame is the format's own limit: 16 MiB of payload, 128 KiB of headers.
	maxFrame   = 16<<20 + maxHeaders + frameExtra
	maxHeaders = 128 << 10
)

// frameSize returns the length of the frame that begins with b and of its
// headers; it is not ok if no frame can begin so.
func frameSize(b []byte) (size, headers int, ok bool) {
	size = int(binary.BigEndian.Uint32(b))
	headers = int(binary.BigEndian.Uint32(b[4:]))
	ok = headers <= maxHeaders && size >= frameExtra && size <= maxFrame && headers <= size-frameExtra &&
		crc32.ChecksumIEEE(b[:8]) == binary.BigEndian.Uint32(b[8:])
	return size, headers, ok
}

// next finds a frame by its prelude. Where none can begin, that is an event,
// which event finds to be malformed.
func (*frameFraming) next(_ *Stream, buf []byte) int {
	if len(buf) < preludeSize {
		return 0
	}
	size, _, ok := frameSize(buf)
	switch {
	case !ok:
		return preludeSize
	case size > len(buf):
		return 0
	}
	return size
}

func (*frameFraming) event(s *Stream, ev []byte) Mark {
	if len(ev) < frameExtra {
		return MarkMalformed
	}
	size, headers, ok := frameSize(ev)
	if !ok || size != len(ev) || crc32.ChecksumIEEE(ev[:size-4]) != binary.BigEndian.Uint32(ev[size-4:]) {
		return MarkMalformed
	}
	body := ev[preludeSize : size-4]
	if s.template.head == headers && s.template.matches(body) {
		s.events++
		s.repeat()
		return MarkData | MarkContent
	}
	h, ok := readFrameHead(body[:headers])
	if !ok {
		return MarkMalformed
	}
	if s.over() {
		return 0
	}
	m := s.f.frame(s, h, body[headers:], false)
	if s.final {
		s.template.forget()
		s.template.begin()
		return m & behindFailure
	}
	s.count(m)
	switch {
	case m != MarkData|MarkContent:
		s.template.forget()
	case s.template.head != inChunk:
		s.template.remember(body, headers)
		s.template.head = headers
	}
	s.template.begin()
	return m
}

// rest finds nothing: a frame is whole with its last byte.
func (*frameFraming) rest(*Stream, []byte) (Mark, bool) { return 0, false }

func (*frameFraming) begun(b []byte) bool { return len(b) > 0 }

// frame adds nothing: the reader of such a stream sees the error of Read.
func (*frameFraming) frame(string, []byte) []byte { return nil }

func (*frameFraming) closeLarge() []byte { return nil }

// A frameHead holds the headers that tell what a frame is.
type frameHead struct {
	messageType   []byte // event, exception, error
	eventType     []byte
	exceptionType []byte
	errorCode     []byte
	errorMessage  []byte
}

// headerSizes are the lengths of the values by their type: true, false, byte,
// short, integer, long, bytes, text, timestamp, UUID; -1 is told by two bytes.
var headerSizes = [...]int{0, 0, 1, 2, 4, 8, -1, -1, 8, 16}

// readFrameHead reads headers: a length byte and a name, a type byte and a
// value, for bytes (6) and text (7) with a length of two bytes.
func readFrameHead(b []byte) (h frameHead, ok bool) {
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n+1 {
			return h, false
		}
		name, kind := b[1:1+n], int(b[1+n])
		b = b[2+n:]
		if kind >= len(headerSizes) {
			return h, false
		}
		size := headerSizes[kind]
		if size < 0 {
			if len(b) < 2 {
				return h, false
			}
			size = int(binary.BigEndian.Uint16(b))
			b = b[2:]
		}
		if len(b) < size {
			return h, false
		}
		h.set(name, b[:size])
		b = b[size:]
	}
	return h, true
}

func (h *frameHead) set(name, value []byte) {
	switch string(name) {
	case ":message-type":
		h.messageType = value
	case ":event-type":
		h.eventType = value
	case ":exception-type":
		h.exceptionType = value
	case ":error-code":
		h.errorCode = value
	case ":error-message":
		h.errorMessage = value
	}
}

// tells reports whether the frame is an event, and no error.
func (h *frameHead) tells() bool {
	return string(h.messageType) != "exception" && string(h.messageType) != "error"
}

// A largeFrame is a frame that flows through: its beginning is kept for its
// headers, its payload goes by.
type largeFrame struct {
	head    []byte // prelude and headers
	size    int    // of the frame
	headers int
	seen    int
	sum     uint32 // CRC of all but the last four bytes
	last    [4]byte
	bad     bool // it cannot be a frame
	inner   *base64Member
}

// flow takes a frame as it comes. One that cannot be a frame never ends.
func (t *frameFraming) flow(s *Stream, part []byte) (int, bool) {
	if t.large == nil {
		t.large = &largeFrame{}
	}
	l, i := t.large, 0
	for ; len(l.head) < preludeSize && i < len(part); i++ {
		l.head = append(l.head, part[i])
	}
	if l.size == 0 && len(l.head) == preludeSize {
		var ok bool
		if l.size, l.headers, ok = frameSize(l.head); !ok {
			l.size, l.headers, l.bad = maxFrame, 0, true
		}
		l.sum, l.seen = crc32.ChecksumIEEE(l.head), preludeSize
	}
	if l.size == 0 {
		return i, false
	}
	n := min(len(part)-i, l.size-l.seen)
	l.take(s, part[i:i+n])
	return i + n, l.seen == l.size || l.bad
}

// take reads bytes behind the prelude.
func (l *largeFrame) take(s *Stream, b []byte) {
	at := l.seen
	l.seen += len(b)
	body := b[:max(0, min(len(b), l.size-4-at))]
	copy(l.last[max(0, at-(l.size-4)):], b[len(body):])
	l.sum = crc32.Update(l.sum, crc32.IEEETable, body)
	if want := preludeSize + l.headers - at; want > 0 {
		n := min(want, len(body))
		l.head = append(l.head, body[:n]...)
		if body = body[n:]; n == want {
			h, _ := readFrameHead(l.head[preludeSize:])
			l.inner = s.f.unwrap(h)
		}
	}
	if l.inner != nil {
		l.inner.feed(body, s.large)
		return
	}
	s.large.feed(body)
}

// flowEnd judges the frame that is over by its headers and what is left of its
// payload or, of a chunk, of the event within.
func (t *frameFraming) flowEnd(s *Stream, doc []byte) Mark {
	l := t.large
	t.large = nil
	h, ok := readFrameHead(l.head[preludeSize:])
	if !ok || l.bad || l.sum != binary.BigEndian.Uint32(l.last[:]) {
		return MarkMalformed
	}
	if s.over() {
		return 0
	}
	m := s.f.frame(s, h, doc, l.inner != nil)
	if m == MarkMalformed {
		m = MarkData | MarkContent // nobody validates so much
	}
	if s.final {
		return m & behindFailure
	}
	s.count(m)
	return m
}

// pending finds nothing whole, as rest does.
func (*frameFraming) pending(*condenser) (whole, half bool) { return false, true }

// A base64Member takes what a member of an object holds in base64 out of a
// document that comes in pieces, without white space around its colon.
type base64Member struct {
	name  string
	key   int // how much of the member's beginning was seen
	over  bool
	group [4]byte // of base64
	n     int
}

// feed gives doc what the pieces of payload hold.
func (r *base64Member) feed(b []byte, doc *condenser) {
	start := `"` + r.name + `":"`
	for _, c := range b {
		switch {
		case r.over:
			return
		case r.key < len(start):
			switch c {
			case start[r.key]:
				r.key++
			case start[0]:
				r.key = 1
			default:
				r.key = 0
			}
		case c == '"':
			r.over = true
		default:
			r.group[r.n] = c
			if r.n++; r.n == len(r.group) {
				r.n = 0
				var out [3]byte
				n, _ := base64.StdEncoding.Decode(out[:], r.group[:]) // an error ends the text
				doc.feed(out[:n])
			}
		}
	}
}
