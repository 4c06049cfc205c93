package wire

import (
	"bytes"
)

// sseFraming is the event-stream format of the WHATWG HTML standard, read with
// some patience: an event at the end of the body needs no blank line, and two
// fields of the field are known: llama.cpp's "error: {…}" and DashScope's
// comment ":HTTP_STATUS/429".
type sseFraming struct {
	line  int       // where the current line of the event that next looks for begins
	pos   int       // up to where it was searched
	start bool      // a byte order mark was looked for
	cr    bool      // the last event ended with a CR whose LF may follow
	tail  bool      // the last event is that LF
	eol   string    // the stream's first line end
	large *sseLarge // nil unless an event flows through
}

// window is how far lineEnd looks for an LF before it looks for a CR, so that
// neither of the two searches runs far past the other's hit.
const window = 512

// lineEnd returns the index of the first LF or CR from i on, -1 without one.
func lineEnd(b []byte, i int) int {
	for i < len(b) {
		w := b[i:min(i+window, len(b))]
		lf := bytes.IndexByte(w, '\n')
		if lf >= 0 {
			w = w[:lf]
		}
		if cr := bytes.IndexByte(w, '\r'); cr >= 0 {
			return i + cr
		}
		if lf >= 0 {
			return i + lf
		}
		i += len(w)
	}
	return -1
}

func (t *sseFraming) next(_ *Stream, buf []byte) int {
	if t.cr {
		t.cr = false
		if buf[0] == '\n' {
			t.tail = true
			return 1
		}
	}
	t.tail = false
	if !t.start {
		if len(buf) < len(bom) && string(buf) == bom[:len(buf)] {
			return 0
		}
		t.start = true
		if bytes.HasPrefix(buf, []byte(bom)) {
			t.line, t.pos = len(bom), len(bom)
		}
	}
	for {
		j := lineEnd(buf, t.pos)
		if j < 0 {
			t.pos = len(buf)
			return 0
		}
		n := 1
		if buf[j] == '\r' {
			switch {
			case j+1 < len(buf):
				if buf[j+1] == '\n' {
					n = 2
				}
			case j == t.line: // the blank line; its LF may still follow
				t.cr = true
			default:
				t.pos = j
				return 0
			}
		}
		if t.eol == "" && !t.cr {
			t.eol = lineEndOf(buf[j : j+n])
		}
		if j == t.line {
			t.line, t.pos = 0, 0
			return j + n
		}
		t.line, t.pos = j+n, j+n
	}
}

func lineEndOf(b []byte) string {
	switch {
	case len(b) == 2:
		return "\r\n"
	case b[0] == '\r':
		return "\r"
	}
	return "\n"
}

// begun reports whether a line begins in b that is not a comment.
func (*sseFraming) begun(b []byte) bool {
	b = bytes.TrimPrefix(b, []byte(bom))
	for len(b) > 0 {
		j := lineEnd(b, 0)
		if j < 0 {
			j = len(b)
		}
		if j > 0 && b[0] != ':' {
			return true
		}
		b = b[min(len(b), j+1):]
	}
	return false
}

func (t *sseFraming) frame(name string, data []byte) []byte {
	eol := t.lineEnd()
	var b []byte
	if t.cr && eol != "\r" {
		// The body ended within the last blank line's CR LF. Many decoders split
		// at LF alone: to them there was no blank line yet.
		b = append(b, '\n')
	}
	if name != "" {
		b = append(append(append(b, "event: "...), name...), eol...)
	}
	b = append(append(append(b, "data: "...), data...), eol...)
	return append(b, eol...)
}

func (t *sseFraming) lineEnd() string {
	switch {
	case t.eol != "":
		return t.eol
	case t.cr:
		return "\r"
	}
	return "\n"
}

// closeLarge ends the line and then the event: if the line was just over, the
// first of the two line ends is the blank line and the second one more, which
// says nothing.
func (t *sseFraming) closeLarge() []byte {
	eol := t.lineEnd()
	if t.large != nil && t.large.lineLen == 0 {
		if t.large.cr && eol != "\r" {
			return []byte("\n" + eol) // the LF of the line's own CR LF
		}
		return []byte(eol)
	}
	return []byte(eol + eol)
}

// Comments reports whether the stream's framing has comments: lines that begin
// with a colon.
func (s *Stream) Comments() bool {
	_, ok := s.framing.(*sseFraming)
	return ok
}
