package wire

import "bytes"

// lineFraming is newline-delimited JSON: one value a line, as Ollama sends it.
// A line at the end of the body needs no line end.
type lineFraming struct {
	pos int // up to where next has searched
}

func (t *lineFraming) next(_ *Stream, buf []byte) int {
	i := bytes.IndexByte(buf[t.pos:], '\n')
	if i < 0 {
		t.pos = len(buf)
		return 0
	}
	n := t.pos + i + 1
	t.pos = 0
	return n
}

func (*lineFraming) event(s *Stream, ev []byte) Mark {
	data := trimStart(ev)
	if len(data) == 0 {
		return MarkComment
	}
	return s.judge(nil, data, ev, len(ev)-len(data))
}

func (*lineFraming) rest(s *Stream, b []byte) (Mark, bool) {
	data := trimStart(b)
	if len(data) == 0 || string(trim(data)) != "[DONE]" && !valid(data) {
		return 0, false
	}
	return s.judge(nil, data, b, len(b)-len(data)), true
}

func (*lineFraming) begun(b []byte) bool { return len(trimStart(b)) > 0 }

func (t *lineFraming) flow(s *Stream, part []byte) (int, bool) {
	t.pos = 0
	i := bytes.IndexByte(part, '\n')
	if i < 0 {
		s.large.feed(part)
		return len(part), false
	}
	s.large.feed(part[:i])
	return i + 1, true
}

func (*lineFraming) flowEnd(s *Stream, doc []byte) Mark { return s.judgeLarge(nil, doc) }

func (*lineFraming) pending(doc *condenser) (whole, half bool) { return doc.ended, len(doc.out) > 0 }

func (*lineFraming) frame(_ string, data []byte) []byte {
	return append(append(make([]byte, 0, len(data)+1), data...), '\n')
}

func (*lineFraming) closeLarge() []byte { return []byte{'\n'} }
