package wire

import (
	"bytes"
	"net/http"
)

// This file is about what the data of an event is (contract 6).

// judge is called by a framing with the data of one event, which is not empty.
// at is where data begins in ev, -1 if it is no part of it.
func (s *Stream) judge(name, data, ev []byte, at int) Mark {
	b := trim(data)
	if s.final {
		return s.detail(name, data, b)
	}
	if string(b) == "[DONE]" {
		return s.sentinel()
	}
	m := s.read(name, data, b)
	s.count(m)
	// An event that is not told from the one before by its text alone may change
	// what that one means, so that it has to be parsed again.
	if m == MarkData|MarkContent && at >= 0 {
		s.template.remember(ev, at)
	} else {
		s.template.forget()
	}
	s.template.begin()
	return m
}

// read gives the marks of data; b is data without white space around it.
func (s *Stream) read(name, data, b []byte) Mark {
	switch {
	case b[0] == '[' && !isMarker(b):
		return s.array(b)
	case b[0] != '{':
		return s.plain(name, b)
	case s.f.event == nil:
		return s.endless(name, b)
	}
	m := s.by.event(s, name, data)
	switch {
	case m&MarkData != 0:
		s.strange = false
	case s.strange && m&MarkMalformed != 0:
		return 0 // relayed as it is
	case m == 0 && (!s.data || s.strange):
		return s.stray(name, data)
	}
	return m
}

// detail looks into an event behind the last one. Behind a failure it may still
// say more of that, or that the answer is over, as if nothing had happened
// (contract 6.11); behind a good end nothing counts.
func (s *Stream) detail(name, data, b []byte) Mark {
	if s.over() {
		return 0
	}
	if bytes.HasSuffix(b, []byte("[DONE]")) { // in a line of its own it is one to readers of lines
		return s.sentinel()
	}
	m := s.read(name, data, b)
	s.template.begin()
	return m & behindFailure
}

// over reports whether the stream ended well by a final mark.
func (s *Stream) over() bool { return s.final && s.failure == nil }

// behindFailure are the marks that mean something behind a failure.
const behindFailure = MarkFailed | MarkEnd | MarkFinal | MarkMalformed

func (s *Stream) count(m Mark) {
	if m&(MarkData|MarkAside|MarkFailed) != 0 {
		s.events++
	}
	s.data = s.data || m&MarkData != 0
	s.content = s.content || m&MarkContent != 0
	s.final = s.final || m&MarkFinal != 0
	s.ended = s.ended || m&(MarkFinal|MarkEnd) == MarkFinal|MarkEnd
	if m&(MarkEnd|MarkFinal|MarkFailed) != 0 {
		s.template.forget()
	}
}

func (s *Stream) sentinel() Mark {
	s.template.forget()
	s.vague = false // nothing more is said
	if s.final {    // behind a failure
		return MarkFinal
	}
	s.final = true
	if s.by.done != nil {
		return s.by.done(s)
	}
	if !s.data {
		return MarkFinal
	}
	s.ended = true
	return MarkEnd | MarkFinal
}

// plain judges data that is no object and no list: it is relayed, unless it is
// an error by its event's name or its own first word.
func (s *Stream) plain(name, b []byte) Mark {
	if s.f.event == nil {
		return 0
	}
	text := b
	if b[0] == '"' && valid(b) {
		text = []byte(unquote(b))
	}
	if string(name) == "error" || saysError(text) {
		return s.fail(&problem{hasError: true, message: string(text[:min(len(text), maxToken)])})
	}
	return 0
}

// isMarker reports whether b is a word in brackets, as in [ERROR], which no JSON
// begins with.
func isMarker(b []byte) bool { return len(b) > 1 && b[1] >= 'A' && b[1] <= 'Z' }

// saysError reports whether a text begins as engines write their errors:
// "error: …", "Error: …", "[ERROR] …".
func saysError(b []byte) bool {
	const word = "error"
	if len(b) > 0 && b[0] == '[' {
		b = b[1:]
	}
	if len(b) < len(word) || !bytes.EqualFold(b[:len(word)], []byte(word)) {
		return false
	}
	return len(b) == len(word) || b[len(word)] == ':' || b[len(word)] == ']' || isSpace(b[len(word)])
}

// array judges an array: Google's way to wrap an error, or what no format has.
func (s *Stream) array(b []byte) Mark {
	if s.f.event == nil {
		return 0
	}
	if !valid(b) {
		return MarkMalformed
	}
	if oneObject(b) {
		if p := inspect(b); p.hasError {
			return s.fail(p)
		}
	}
	return 0
}

// fail ends the stream with the failure that p tells of. The first that has a
// code or a type stands.
func (s *Stream) fail(p *problem) Mark {
	if vague := p.vague(); s.failure == nil || s.vague && !vague {
		p.words = s.words
		v := s.f.told(p, nil)
		if v.Status == http.StatusBadGateway && s.status != 0 {
			v.Status = s.status
		}
		s.failure, s.vague = v, vague
	}
	return MarkFailed | MarkEnd | MarkFinal
}
