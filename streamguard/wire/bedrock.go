package wire

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
)

// newBedrock is the Converse and Invoke methods of Amazon Bedrock. What a model
// gets and gives by Invoke is its vendor's business; its streams are known by
// what Bedrock adds and by the end marks of the usual vendors.
func newBedrock() *Format {
	return &Format{
		name: "bedrock", operation: "chat", generative: true, pathStream: true, anyBody: true,
		match: matchBedrock, framing: func(byte) framing { return frameFraming{} }, shape: bedrockShape,
		judge: bedrockJudge, errorBody: bedrockError, errorName: exceptionHeader,
	}
}

// bedrockEmbeddings is an embedding model that is invoked.
var bedrockEmbeddings = &Format{
	name: "embeddings", operation: "embeddings", endless: true, anyBody: true, pathStream: true,
	match: matchBedrockEmbeddings, judge: bedrockJudge, errorBody: bedrockError, errorName: exceptionHeader,
}

func matchBedrock(method string, u *url.URL) (string, bool) {
	i := strings.LastIndex(u.Path, "/model/")
	if method != http.MethodPost || i < 0 {
		return "", false
	}
	rest := u.Path[i+len("/model/"):]
	j := strings.LastIndexByte(rest, '/')
	if j <= 0 {
		return "", false
	}
	switch rest[j+1:] {
	case "converse", "converse-stream", "invoke", "invoke-with-response-stream":
		return u.Path[i:], true
	}
	return "", false
}

// matchBedrockEmbeddings knows embedding models by their names:
// amazon.titan-embed-text-v2:0, cohere.embed-english-v3.
func matchBedrockEmbeddings(method string, u *url.URL) (string, bool) {
	e, ok := matchBedrock(method, u)
	return e, ok && strings.HasSuffix(e, "/invoke") && strings.Contains(e, "embed")
}

// bedrockShape goes by the label, or by the first byte: frames of less than
// 16 MiB begin with a zero.
func bedrockShape(head []byte, contentType string, stream bool) Shape {
	if mediaType(contentType) == "application/vnd.amazon.eventstream" ||
		stream && len(head) > 0 && head[0] <= 1 {
		return ShapeEvents
	}
	return Sniff(head)
}

// bedrock judges one frame.
func (s *Stream) bedrock(h *frameHead, payload []byte) Mark {
	if !h.tells() {
		return s.fail(bedrockProblem(h, inspect(payload)))
	}
	if string(h.eventType) == "chunk" {
		return s.bedrockChunk(payload)
	}
	said, stop, ok := readConverse(payload)
	if !ok {
		return MarkMalformed
	}
	return s.converse(h.eventType, said, stop)
}

// readConverse reads the payload of an event of ConverseStream: whether its
// delta says something, and its stopReason.
func readConverse(payload []byte) (said bool, stop []byte, ok bool) {
	if len(payload) == 0 {
		return false, nil, true
	}
	p := parse(payload)
	for in := p.intoObject(); in && p.member(); {
		switch string(p.name) {
		case "delta":
			_, said = p.said()
		case "stopReason":
			stop = text(p.raw())
		default:
			p.skip()
		}
	}
	return said, stop, p.end()
}

// converse gives the marks of an event of ConverseStream. The usage comes
// behind the end.
func (s *Stream) converse(eventType []byte, said bool, stop []byte) Mark {
	switch string(eventType) {
	case "messageStart", "contentBlockStart", "contentBlockStop":
		return MarkData
	case "contentBlockDelta":
		if said {
			return MarkData | MarkContent
		}
		return MarkData
	case "messageStop":
		if failedFinish(stop) {
			return s.failFinish(string(stop))
		}
		s.ended = true
		return MarkData | MarkEnd
	case "metadata":
		if s.ended {
			return MarkData | MarkFinal
		}
		return MarkAside
	}
	return 0
}

// bedrockChunk judges an event of InvokeModelWithResponseStream, which holds the
// model's own event in base64.
func (s *Stream) bedrockChunk(payload []byte) Mark {
	var encoded []byte
	p := parse(payload)
	for ok := p.object(); ok && p.member(); {
		if string(p.name) == "bytes" {
			encoded = text(p.raw())
			continue
		}
		p.skip()
	}
	if !p.end() {
		return MarkMalformed
	}
	event, err := base64.StdEncoding.AppendDecode(s.join[:0], encoded)
	if s.join = event[:0]; err != nil {
		return MarkMalformed
	}
	n := readModelEvent(event)
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
		return MarkData | MarkContent
	case n.idle:
		return 0
	}
	return MarkData
}

// A modelEvent is what a model's own event says, whoever's it is.
type modelEvent struct {
	malformed, failed, ended, content, idle bool

	stopFailed string // a stop reason that names a failure
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
			n.ended = p.filled() || n.ended
		case "completionReason", "stop_reason", "finish_reason":
			n.reason(&p)
		case "is_finished":
			n.ended = string(p.raw()) == "true" || n.ended
		case "delta", "messageStop":
			n.piece(&p)
		case "choices", "outputs":
			n.list(&p)
		case "error":
			n.failed = p.filled() || n.failed
		case "id", "generation_id", "object", "model", "role", "event_type", "message", "content_block",
			"messageStart", "contentBlockStart", "contentBlockStop", "usage":
			p.skip()
		default:
			_, said := p.said()
			n.content = n.content || said
		}
	}
	n.malformed = !p.end()
	return n
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
		c.piece(p)
		if c.ended {
			finished++
		} else {
			open++
		}
		n.content = n.content || c.content
		if c.stopFailed != "" {
			n.stopFailed = c.stopFailed
		}
	}
	n.ended = n.ended || finished > 0 && open == 0
}

// piece reads an object that is a piece of the answer or tells why it ended.
func (n *modelEvent) piece(p *parser) {
	for ok := p.intoObject(); ok && p.member(); {
		switch {
		case bytes.HasSuffix(p.name, []byte("_reason")), string(p.name) == "stopReason":
			n.reason(p)
		case string(p.name) == "type", string(p.name) == "role":
			p.skip()
		default:
			_, said := p.said()
			n.content = n.content || said
		}
	}
}

// bedrockLarge judges a frame that flowed through. p is what its payload says,
// or, of a chunk, what the model's event says.
func (s *Stream) bedrockLarge(h *frameHead, p *problem) Mark {
	if !h.tells() {
		return s.fail(bedrockProblem(h, p))
	}
	switch {
	case string(h.eventType) != "chunk":
		return s.converse(h.eventType, true, nil)
	case p.topError || p.eventType == "error":
		return s.fail(p)
	case p.metrics || p.eventType == "message_stop" || p.stopReason != "" || p.states.done():
		s.ended = true
		return MarkData | MarkContent | MarkEnd
	}
	return MarkData | MarkContent
}

// A chunkReader takes the model's event out of a chunk's payload that comes in
// pieces.
type chunkReader struct {
	key   int // how much of chunkKey was seen
	over  bool
	group [4]byte // of base64
	n     int
}

const chunkKey = `"bytes":"`

// feed gives what the pieces of payload hold to take.
func (r *chunkReader) feed(b []byte, take func([]byte)) {
	for _, c := range b {
		switch {
		case r.over:
			return
		case r.key < len(chunkKey):
			switch c {
			case chunkKey[r.key]:
				r.key++
			case chunkKey[0]:
				r.key = 1
			default:
				r.key = 0
			}
		case c == '"':
			r.over = true
		default:
			r.group[r.n] = c
			if r.n++; r.n == len(r.group) {
				r.n = 0
				var out [3]byte
				n, _ := base64.StdEncoding.Decode(out[:], r.group[:]) // an error ends the text
				take(out[:n])
			}
		}
	}
}

// tells reports whether the frame is an event, and no error.
func (h *frameHead) tells() bool {
	return string(h.messageType) != "exception" && string(h.messageType) != "error"
}

// bedrockProblem gives p the name of the exception.
func bedrockProblem(h *frameHead, p *problem) *problem {
	p.hasError = true
	if p.kind = string(h.exceptionType); p.kind == "" {
		p.kind = string(h.errorCode)
	}
	if p.message == "" {
		p.message = string(h.errorMessage)
	}
	if p.nested == "" {
		p.nested = p.kind
	}
	return p
}
