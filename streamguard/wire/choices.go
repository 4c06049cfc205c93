package wire

import (
	"bytes"
	"strconv"
)

// This file holds what the events of several formats have in common.

// pieces gathers what an event holds of an answer.
type pieces struct {
	content bool
	text    span // the last piece in the data, if that is a string
	said    int  // bytes of all that is text
}

// piece consumes a value that is content if it says something.
func (c *pieces) piece(p *parser) bool {
	before := p.texts
	text, ok := p.said()
	if ok {
		c.content, c.text = true, text
		c.said += p.texts - before
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
	s.said += int64(c.said)
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

// failFinish ends the stream for a finish reason that names a failure, which is
// never the request's fault. A [DONE] may follow, or an event with more to say.
func (s *Stream) failFinish(reason string) Mark {
	return s.fail(&problem{nested: reason, status: "502", unnamed: true}) &^ MarkFinal
}

// maxChoice bounds the choice indexes that are told apart; those from here on
// are one.
const maxChoice = 255

// choiceStates remembers which choices were seen and which have finished.
type choiceStates struct {
	seen, finished [4]uint64
}

// saw notes a choice and reports whether its finish_reason names a failure.
func (c *choiceStates) saw(index int, finish []byte) bool {
	w, bit := index>>6, uint64(1)<<(index&63)
	c.seen[w] |= bit
	// Ollama and SGLang once sent "" for null, DashScope the text "null".
	if len(finish) == 0 || string(finish) == "null" {
		return false
	}
	c.finished[w] |= bit
	return failedFinish(finish)
}

// resume takes back that a choice has finished.
func (c *choiceStates) resume(index int) { c.finished[index>>6] &^= 1 << (index & 63) }

func (c *choiceStates) done() bool {
	return c.seen == c.finished && c.seen != [4]uint64{}
}

// failedFinish knows the finish reasons that name a failure: OpenRouter,
// Mistral and vLLM error, SGLang abort, Zhipu network_error, DeepSeek
// insufficient_system_resource, Bedrock malformed_tool_use and
// malformed_model_output. A content filter is not an outage.
func failedFinish(b []byte) bool {
	switch string(b) {
	case "error", "abort", "network_error", "insufficient_system_resource":
		return true
	}
	return bytes.HasPrefix(b, []byte("malformed_"))
}

func choiceIndex(raw []byte) int {
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n < 0 {
		return 0
	}
	return int(min(n, maxChoice))
}

// smallIndex is choiceIndex without a conversion for the usual digit.
func smallIndex(raw []byte) int {
	if len(raw) == 1 {
		if n := int(raw[0] - '0'); n <= 9 {
			return n
		}
	}
	return choiceIndex(raw)
}
