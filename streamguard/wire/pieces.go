package wire

// This file holds what the events of several formats have in common.

// pieces gathers what an event holds of an answer.
type pieces struct {
	content bool
	text    span // the last piece in the data, if that is a string
}

// piece consumes a value that is content if it says something.
func (c *pieces) piece(p *parser) bool {
	text, ok := p.said()
	if ok {
		c.content, c.text = true, text
	}
	return ok
}

// message consumes an object in which any member but the role is content.
func (c *pieces) message(p *parser) {
	for ok := p.intoObject(); ok && p.member(); {
		if string(p.name) == "role" {
			continue
		}
		c.piece(p)
	}
}

// answer gives the marks of an event that is a part of an answer.
func (s *Stream) answer(c *pieces) Mark {
	if !c.content {
		return MarkData
	}
	s.template.mark(c.text)
	return MarkData | MarkContent
}

// noAnswer judges an event without a part of an answer, or with an error beside
// it: it fails the stream if it has an error, is called one or looks like one.
// aside says that it has members that only events of the format have.
func (s *Stream) noAnswer(name []byte, failed, aside bool, p *problem) Mark {
	switch {
	case failed || string(name) == "error" || p.inBand():
		p.hasError = true
		return s.fail(p)
	case aside:
		return MarkAside
	}
	return 0
}

// advance takes over the choices as they are now: MarkEnd if that was the last
// to finish.
func (s *Stream) advance(now choiceStates) Mark {
	was := s.choices.done()
	s.choices = now
	if !was && now.done() {
		return MarkEnd
	}
	return 0
}
