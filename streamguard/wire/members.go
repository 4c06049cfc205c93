package wire

import "bytes"

// members is a set of formats whose members an object carries. A path says
// which format is expected, not which one comes: several vendors share one.
type members uint16

const (
	ofChat members = 1 << iota // completions, too
	ofResponses
	ofMessages
	ofGemini
	ofOllama
	ofCohere
	ofInteractions
	ofDashScope
	ofBedrock
	ofLlamaCpp
)

// byMembers says which format judges what carries the members; the first that
// fits does.
var byMembers = []struct {
	of     members
	format *Format
}{
	{ofChat, Chat},
	{ofResponses, Responses},
	{ofMessages, Messages},
	{ofGemini, Gemini},
	{ofOllama, Ollama},
	{ofCohere, Cohere},
	{ofInteractions, Interactions},
	{ofBedrock, Bedrock},
	{ofDashScope, DashScope},
	{ofLlamaCpp, llamaCpp},
}

// judgedBy returns the format that judges the object b, a whole answer or the
// data of an event, where f is expected: f if b carries members of it, else
// another known format whose members it carries, or nil if it carries none
// (contract 0). An error by itself has no format. It does not allocate.
func (f *Format) judgedBy(b []byte) *Format {
	m := membersOf(b)
	if m&ofChat != 0 && f == Completions {
		return f
	}
	var other *Format
	for i := range byMembers {
		switch e := &byMembers[i]; {
		case m&e.of == 0:
		case e.format == f:
			return f
		case other == nil:
			other = e.format
		}
	}
	return other
}

// A census notes the members that mean something only beside others.
type census struct {
	found members

	messageType, contentList, contentText, stopReason bool
	message, done, doneReason, created, response      bool
	finish, output, stopReasonCamel, requestID, stop  bool
}

// membersOf returns the formats whose members the object b carries, none if b
// is not valid.
func membersOf(b []byte) members {
	var c census
	p := parse(b)
	for ok := p.intoObject(); ok && p.member(); {
		c.member(&p)
	}
	if !p.end() {
		return 0
	}
	return c.sum()
}

func (c *census) member(p *parser) {
	k := p.kind()
	object, word, boolean := k == '{', k == '"', k == 't' || k == 'f'
	switch string(p.name) {
	case "content":
		c.contentList, c.contentText = k == '[', word
	case "stop_reason":
		c.stopReason = word || k == 'n'
	case "message":
		c.message = object
	case "response":
		c.response = word
	case "created_at":
		c.created = word
	case "done":
		c.done = boolean
	case "finish_reason":
		c.finish = word
	case "output":
		c.output = object
	case "request_id":
		c.requestID = word
	case "stop":
		c.stop = boolean
	default:
		c.telling(p)
		return
	}
	p.skip()
}

// telling consumes a member that says by itself what the object is, if any.
func (c *census) telling(p *parser) {
	k := p.kind()
	switch string(p.name) {
	case "choices":
		c.note(k == '[' || k == 'n', ofChat)
	case "candidates":
		c.note(k == '[', ofGemini)
	case "promptFeedback", "usageMetadata":
		c.note(k == '{', ofGemini)
	default:
		c.word(p)
		return
	}
	p.skip()
}

// word consumes a member whose text says what the object is.
func (c *census) word(p *parser) {
	switch string(p.name) {
	case "type":
		c.typed(text(p.raw()))
	case "event_type":
		t := text(p.raw())
		c.note(len(t) > 0 && string(t) != "error", ofInteractions)
	case "object":
		c.object(text(p.raw()))
	case "done_reason":
		c.doneReason = len(text(p.raw())) > 0
	case "stopReason":
		c.stopReasonCamel = len(text(p.raw())) > 0
	}
}

func (c *census) note(found bool, of members) {
	if found {
		c.found |= of
	}
}

func (c *census) typed(t []byte) {
	switch string(t) {
	case "message":
		c.messageType = true
	case "message_start", "message_delta", "message_stop",
		"content_block_start", "content_block_delta", "content_block_stop":
		c.found |= ofMessages
	case "message-start", "message-end", "content-start", "content-delta", "content-end", "tool-plan-delta",
		"tool-call-start", "tool-call-delta", "tool-call-end", "citation-start", "citation-end":
		c.found |= ofCohere
	default:
		c.note(bytes.HasPrefix(t, []byte("response.")), ofResponses)
	}
}

func (c *census) object(t []byte) {
	switch string(t) {
	case "response":
		c.found |= ofResponses
	case "interaction":
		c.found |= ofInteractions
	case "chat.completion", "chat.completion.chunk", "text_completion":
		c.found |= ofChat
	}
}

// sum adds the formats that show only in members taken together.
func (c *census) sum() members {
	c.note(c.contentList && (c.messageType || c.stopReason), ofMessages)
	c.note((c.done || c.doneReason) && (c.message || c.response || c.created), ofOllama)
	c.note(c.message && c.finish, ofCohere)
	c.note(c.output && c.stopReasonCamel, ofBedrock)
	c.note(c.output && c.requestID, ofDashScope)
	c.note(c.contentText && c.stop, ofLlamaCpp)
	return c.found
}
