package upstreamtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// converseFormat is Converse and ConverseStream of Amazon Bedrock.
var converseFormat = &format{
	binary: true, mime: eventStreamType, frame: converseFrame,
	whole: converseWhole, events: converseEvents,
	errorBody: bedrockError, errorHeader: bedrockErrorHeader,
	errorEvent: func(_ *Request, status, _ int) []byte { return bedrockErrorEvent(status, false) },
}

// invokeFormat is InvokeModel and InvokeModelWithResponseStream with the body
// and the events of the model's vendor, which the format inner has.
func invokeFormat(inner *format) *format {
	return &format{
		binary: true, mime: eventStreamType, frame: chunkFrame,
		whole: inner.whole,
		events: func(r *Request, a answer) []event {
			return invokeEvents(inner.events(r, a))
		},
		errorBody: bedrockError, errorHeader: bedrockErrorHeader,
		errorEvent: func(_ *Request, status, _ int) []byte { return bedrockErrorEvent(status, true) },
	}
}

var (
	invokeMessages = invokeFormat(messagesFormat)
	invokeChat     = invokeFormat(chatFormat)
)

// bedrockMethod is the last element of a Bedrock path, "" for other paths. A
// model may be an ARN, which has a slash in it.
func bedrockMethod(path string) string {
	_, rest, ok := strings.Cut(path, "/model/")
	i := strings.LastIndexByte(rest, '/')
	if !ok || i <= 0 {
		return ""
	}
	switch m := rest[i+1:]; m {
	case "converse", "converse-stream", "invoke", "invoke-with-response-stream":
		return m
	}
	return ""
}

// bedrockFormat is the look of the answer to r: a model that is invoked gets
// Anthropic's where it is one of theirs or is asked in their way, else the chat
// look, which OpenAI's, DeepSeek's and others have there.
func bedrockFormat(r *Request) *format {
	switch {
	case strings.HasPrefix(bedrockMethod(r.Path), "converse"):
		return converseFormat
	case strings.Contains(r.Model, "anthropic"), bytes.Contains(r.full, []byte(`"anthropic_version"`)):
		return invokeMessages
	}
	return invokeChat
}

func converseUsage(a answer) string {
	in, out := a.tokens()
	return fmt.Sprintf(`"usage":{"inputTokens":%d,"outputTokens":%d,"totalTokens":%d},"metrics":{"latencyMs":1}`, in, out, in+out)
}

func converseWhole(r *Request, a answer) string {
	block := fmt.Sprintf(`{"text":%s}`, quote(a.text()))
	if a.tool != "" {
		input := a.args
		if input == "" {
			input = "{}"
		}
		block = fmt.Sprintf(`{"toolUse":{"toolUseId":"tooluse_%d","name":%s,"input":%s}}`, r.Seq, quote(a.tool), input)
	}
	return fmt.Sprintf(`{"output":{"message":{"role":"assistant","content":[%s]}},"stopReason":%s,%s}`,
		block, quote(a.reason("end_turn", "tool_use")), converseUsage(a))
}

func converseEvents(r *Request, a answer) []event {
	out := []event{{data: eventFrame("messageStart", `{"role":"assistant"}`)}}
	layout, deltas := `{"text":%s}`, a.texts
	if a.tool != "" {
		out = append(out, event{data: eventFrame("contentBlockStart",
			fmt.Sprintf(`{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"tooluse_%d","name":%s}}}`, r.Seq, quote(a.tool)))})
		layout, deltas = `{"toolUse":{"input":%s}}`, a.halves()
	}
	for _, d := range deltas {
		out = append(out, event{text: true, data: eventFrame("contentBlockDelta",
			fmt.Sprintf(`{"contentBlockIndex":0,"delta":%s}`, fmt.Sprintf(layout, quote(d))))})
	}
	return append(out,
		event{data: eventFrame("contentBlockStop", `{"contentBlockIndex":0}`)},
		event{data: eventFrame("messageStop", fmt.Sprintf(`{"stopReason":%s}`, quote(a.reason("end_turn", "tool_use"))))},
		event{data: eventFrame("metadata", "{"+converseUsage(a)+"}")})
}

// converseFrame makes an event of {"messageStop":{…}}: the only member's name
// is its type. Anything else, such as a malformed text, is a delta.
func converseFrame(data string) []byte {
	var one map[string]json.RawMessage
	if json.Unmarshal([]byte(data), &one) == nil && len(one) == 1 {
		for name, payload := range one {
			return eventFrame(name, string(payload))
		}
	}
	return eventFrame("contentBlockDelta", data)
}

// chunkFrame is a model's own event as an invoked model's stream has it.
func chunkFrame(data string) []byte {
	return eventFrame("chunk", `{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(data))+`"}`)
}

// metrics is what Bedrock adds to the last event of a model.
const metrics = `,"amazon-bedrock-invocationMetrics":{"inputTokenCount":1,"outputTokenCount":1,"invocationLatency":1,"firstByteLatency":1}}`

// invokeEvents puts a vendor's events into frames, without event names and
// [DONE], which a stream of frames does not have.
func invokeEvents(events []event) []event {
	out := make([]event, 0, len(events))
	for _, e := range events {
		if string(e.data) == doneEvent {
			continue
		}
		_, data, _ := bytes.Cut(e.data, []byte("data: "))
		e.data = bytes.TrimRight(data, "\n")
		out = append(out, e)
	}
	last := len(out) - 1
	for i, e := range out {
		data := string(e.data)
		if i == last {
			data = strings.TrimSuffix(data, "}") + metrics
		}
		out[i].data = chunkFrame(data)
	}
	return out
}

func bedrockError(_ *Request, w words) string { return `{"message":` + quote(w.message) + `}` }

// bedrockErrorHeader is where Bedrock names the error: its body does not.
func bedrockErrorHeader(w words) []field { return []field{{"X-Amzn-Errortype", w.aws()}} }

// aws is the exception for the status, as an answer with that status names it.
func (w words) aws() string {
	switch w.status {
	case 401, 403:
		return "AccessDeniedException"
	case 404:
		return "ResourceNotFoundException"
	case 408, 504:
		return "ModelTimeoutException"
	case 424:
		return "ModelErrorException"
	case 429:
		return "ThrottlingException"
	case 503, 529:
		return "ServiceUnavailableException"
	}
	if w.status >= 500 {
		return "InternalServerException"
	}
	return "ValidationException"
}

// bedrockErrorEvent is an exception where the stream has one for the status
// (only an invoked model's can time out), else an error.
func bedrockErrorEvent(status int, invoked bool) []byte {
	w := wordsOf(status)
	switch name := w.aws(); name {
	case "AccessDeniedException", "ResourceNotFoundException":
		return errorFrame(name, w.message)
	case "ModelErrorException":
		return exceptionFrame("modelStreamErrorException", w.message)
	case "ModelTimeoutException":
		if invoked {
			return exceptionFrame("modelTimeoutException", w.message)
		}
		return exceptionFrame("internalServerException", w.message)
	default:
		return exceptionFrame(strings.ToLower(name[:1])+name[1:], w.message)
	}
}
