package wire

import (
	"bytes"
	"encoding/base64"
)

// bedrockChunk judges an event of InvokeModelWithResponseStream, which holds the
// model's own event in base64.
func bedrockChunk(s *Stream, payload []byte) Mark {
	var encoded []byte
	p := parse(payload)
	for ok := p.object(); ok && p.member(); {
		if string(p.name) == chunkMember {
			encoded = text(p.raw())
			continue
		}
	}
	if !p.end() {
		return MarkMalformed
	}
	event, err := base64.StdEncoding.AppendDecode(s.join[:0], encoded)
	if s.join = event[:0]; err != nil {
		return MarkMalformed
	}
	if s.template.head == inChunk && s.template.matches(event) {
		s.repeat()
		return MarkData | MarkContent
	}
	return modelMarks(s, event)
}

// modelMarks judges a model's own event.
func modelMarks(s *Stream, event []byte) Mark {
	n := readModelEvent(event)
	s.addUsage(n.usage)
	switch {
	case n.malformed:
		return MarkMalformed
	case n.failed:
		return s.fail(inspect(event))
	case n.stopFailed != "":
		return s.failFinish(n.stopFailed)
	case n.ended:
		s.ended = true
		return MarkData | MarkEnd
	case n.content:
		s.template.mark(n.text)
		s.said += int64(n.said)
		s.template.remember(event, 0)
		s.template.head = inChunk
		return MarkData | MarkContent
	case n.idle:
		return 0
	}
	return MarkData
}

// A modelEvent is what a model's own event says, whoever's it is.
type modelEvent struct {
	malformed, failed, ended, idle bool

	pieces
	stopFailed string // a stop reason that names a failure
	usage      Usage
}

// readModelEvent knows the end by the metrics that Bedrock adds to a model's
// last event, and by the vendors' own marks: Anthropic's message_stop, Nova's
// messageStop, Titan's completionReason, Llama's stop_reason, Cohere's
// is_finished, and finish_reason and stop_reason in choices and outputs.
func readModelEvent(b []byte) modelEvent {
	var n modelEvent
	p := parse(b)
	if p.kind() != '{' {
		return modelEvent{idle: true}
	}
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "type":
			t := text(p.raw())
			n.ended = n.ended || string(t) == "message_stop"
			n.failed = n.failed || string(t) == "error"
			n.idle = idles(t)
		case "amazon-bedrock-invocationMetrics", "metadata":
			n.metrics(&p)
		case "usage":
			n.usage.take(&p)
		case "message":
			for in := p.intoObject(); in && p.member(); {
				if string(p.name) == "usage" {
					n.usage.take(&p)
				}
			}
		case "completionReason", "stop_reason", "finish_reason":
			n.reason(&p)
		case "is_finished":
			n.ended = string(p.raw()) == "true" || n.ended
		case "delta", "messageStop":
			n.part(&p)
		case "choices", "outputs":
			n.list(&p)
		case "error":
			n.failed = p.filled() || n.failed
		case "id", "generation_id", "object", "model", "role", "event_type", "content_block",
			"messageStart", "contentBlockStart", "contentBlockStop":
			p.skip()
		default:
			n.piece(&p)
		}
	}
	n.malformed = !p.end()
	return n
}

// metrics consumes what stands in a model's last event, and keeps its numbers.
func (n *modelEvent) metrics(p *parser) {
	raw := p.raw()
	n.ended = filled(raw) || n.ended
	n.usage.read(raw)
	n.usage.beside(raw)
}

// reason consumes why the answer ended, if it has.
func (n *modelEvent) reason(p *parser) {
	t := text(p.raw())
	if len(t) == 0 {
		return
	}
	n.ended = true
	if failedFinish(t) {
		n.stopFailed = string(t)
	}
}

// list reads the choices; the answer has ended if each of them has.
func (n *modelEvent) list(p *parser) {
	finished, open := 0, 0
	for ok := p.intoArray(); ok && p.element(); {
		c := modelEvent{}
		c.part(p)
		if c.ended {
			finished++
		} else {
			open++
		}
		if c.content {
			n.pieces = c.pieces
		}
		if c.stopFailed != "" {
			n.stopFailed = c.stopFailed
		}
	}
	n.ended = n.ended || finished > 0 && open == 0
}

// part reads an object that is a piece of the answer or tells why it ended.
func (n *modelEvent) part(p *parser) {
	for ok := p.intoObject(); ok && p.member(); {
		switch {
		case bytes.HasSuffix(p.name, []byte("_reason")), string(p.name) == "stopReason":
			n.reason(p)
		case string(p.name) == "type", string(p.name) == "role":
			p.skip()
		default:
			n.piece(p)
		}
	}
}
