package wire

// This file is about what the library adds to an event stream.

func (sseFraming) frame(s *Stream, name string, data []byte) []byte {
	eol := s.lineEnd()
	var b []byte
	if s.split.cr && eol != "\r" {
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

func (s *Stream) lineEnd() string {
	switch {
	case s.split.eol != "":
		return s.split.eol
	case s.split.cr:
		return "\r"
	}
	return "\n"
}

// closeLarge ends the line and then the event: if the line was just over, the
// first of the two line ends is the blank line and the second one more, which
// says nothing.
func (sseFraming) closeLarge(s *Stream) []byte {
	eol := s.lineEnd()
	if s.big != nil && s.big.atLineStart() {
		if s.big.cr && eol != "\r" {
			return []byte("\n" + eol) // the LF of the line's own CR LF
		}
		return []byte(eol)
	}
	return []byte(eol + eol)
}

// Comments reports whether the stream's framing has comments: lines that begin
// with a colon.
func (s *Stream) Comments() bool {
	_, ok := s.framing.(sseFraming)
	return ok
}
