package wire

import "bytes"

// lineFraming is newline-delimited JSON: one value a line, as Ollama sends it.
// A line at the end of the body needs no line end.
type lineFraming struct{}

func (lineFraming) next(s *Stream, buf []byte) int {
	t := &s.split
	i := bytes.IndexByte(buf[t.pos:], '\n')
	if i < 0 {
		t.pos = len(buf)
		return 0
	}
	n := t.pos + i + 1
	t.pos = 0
	return n
}

func (lineFraming) event(s *Stream, ev []byte) Mark {
	data := trimStart(ev)
	if len(data) == 0 {
		return MarkComment
	}
	return s.judge(nil, data, ev, len(ev)-len(data))
}

func (lineFraming) rest(s *Stream, b []byte) (Mark, bool) {
	data := trimStart(b)
	if len(data) == 0 || string(trim(data)) != "[DONE]" && !valid(data) {
		return 0, false
	}
	return s.judge(nil, data, b, len(b)-len(data)), true
}

func (lineFraming) begun(b []byte) bool { return len(trimStart(b)) > 0 }

func (lineFraming) large(s *Stream, part []byte) (int, bool) {
	i := bytes.IndexByte(part, '\n')
	if i < 0 {
		s.big.data(part)
		return len(part), false
	}
	s.big.data(part[:i])
	s.split.pos = 0
	return i + 1, true
}

func (lineFraming) frame(_ *Stream, _ string, data []byte) []byte {
	return append(append(make([]byte, 0, len(data)+1), data...), '\n')
}

func (lineFraming) closeLarge(*Stream) []byte { return []byte{'\n'} }
