package wire

import (
	"bytes"
	"strconv"
)

// This file is about what one event of an event stream holds.

// parts are the fields of one event.
type parts struct {
	name, data, failure []byte
	bare                []byte // a line that begins as JSON where a field is due
	at                  int    // where data begins in the event, -1 if it was put together
	lines               int    // of data
	id                  span
}

// take applies one line, given without its end; start is where it begins.
func (e *parts) take(s *Stream, line []byte, start int) {
	colon := bytes.IndexByte(line, ':')
	if colon == 0 {
		s.comment(line[1:])
		return
	}
	field, value := line, line[len(line):]
	at := start + len(line)
	if colon > 0 {
		field, value = line[:colon], line[colon+1:]
		at = start + colon + 1
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
			at++
		}
	}
	switch string(field) {
	case "data":
		e.lines++
		switch e.lines {
		case 1:
			e.data, e.at = value, at
			return
		case 2:
			s.join = append(s.join[:0], e.data...)
		}
		s.join = append(append(s.join, '\n'), value...)
		e.data, e.at = s.join, -1
	case "event":
		e.name = value
	case "id":
		e.id = span{at, at + len(value)}
	case "error":
		e.failure = value
	default:
		if line[0] == '{' || line[0] == '[' {
			e.bare = line
		}
	}
}

// comment reads DashScope's, which tells the status of an error that follows.
func (s *Stream) comment(b []byte) {
	rest, ok := bytes.CutPrefix(b, []byte("HTTP_STATUS/"))
	if !ok || len(rest) > 3 {
		return
	}
	s.template.forget() // an event that is skipped would not take it back
	s.status = 0
	if n, err := strconv.Atoi(string(rest)); err == nil && n >= 400 && n <= 599 {
		s.status = n
	}
}

// splitEvent takes an event apart; its last line needs no end.
func splitEvent(s *Stream, ev []byte) parts {
	var e parts
	start := 0
	if len(ev) >= len(bom) && string(ev[:len(bom)]) == bom {
		start = len(bom)
	}
	for start < len(ev) {
		j := lineEnd(ev, start)
		if j < 0 {
			j = len(ev)
		}
		if j > start {
			e.take(s, ev[start:j], start)
		}
		start = j + 1
	}
	return e
}

func (t *sseFraming) event(s *Stream, ev []byte) Mark {
	if t.tail && string(ev) == "\n" {
		return 0
	}
	if isBare(ev) && !s.f.endless {
		if m, ok := s.bare(ev); ok {
			return m
		}
		return MarkComment
	}
	e := splitEvent(s, ev)
	if len(e.failure) > 0 && !s.f.endless {
		return s.failureField(e.failure)
	}
	if m, found := s.fields(&e, ev); found {
		return m
	}
	return MarkComment
}

// fields judges an event's data and then what stands beside it without a field;
// found is false if there is nothing to judge.
func (s *Stream) fields(e *parts, ev []byte) (m Mark, found bool) {
	if len(trim(e.data)) > 0 {
		if e.id.to <= e.at { // it changes from event to event and means nothing
			s.template.pass(span{e.id.from - e.at, e.id.to - e.at})
		}
		m, found = s.judge(e.name, e.data, ev, e.at), true
	}
	if e.bare != nil && !s.f.endless && m&MarkMalformed == 0 {
		if f, ok := s.bare(e.bare); ok {
			m, found = m|f, true
		}
	}
	return m, found
}

// isBare reports whether an event begins as JSON where a field is due.
func isBare(ev []byte) bool {
	b := trimStart(ev)
	return len(b) > 0 && (b[0] == '{' || b[0] == '[')
}

// bare judges JSON without a field, in a line or as the whole event, which is
// how gateways and Google tell of an error in the middle of a stream
// (googleapis/js-genai#1973); ok is false if it is no error.
func (s *Stream) bare(ev []byte) (m Mark, ok bool) {
	b := trim(trimStart(ev))
	if i := lineEnd(b, 0); i >= 0 && valid(b[:i]) {
		b = b[:i]
	}
	if s.final || b[0] == '[' && !oneObject(b) || !valid(b) {
		return 0, false
	}
	p := inspect(b)
	if !p.plainError() {
		return 0, false
	}
	m = s.fail(p)
	s.count(m)
	return m, true
}

// failureField judges llama.cpp's error field, whose value is the error object
// itself (ggml-org/llama.cpp#16104).
func (s *Stream) failureField(b []byte) Mark {
	if s.final {
		return 0
	}
	p := inspect(b)
	p.hasError = true
	m := s.fail(p)
	s.count(m)
	return m
}

func (*sseFraming) rest(s *Stream, b []byte) (Mark, bool) {
	if isBare(b) && !s.f.endless {
		return s.bare(b)
	}
	e := splitEvent(s, b)
	if len(e.failure) > 0 && !s.f.endless && valid(e.failure) {
		return s.failureField(e.failure), true
	}
	if data := trim(e.data); len(data) > 0 && string(data) != "[DONE]" && !valid(data) {
		return 0, false
	}
	return s.fields(&e, b)
}
