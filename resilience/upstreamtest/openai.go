package upstreamtest

import (
	"fmt"
	"strings"
)

var chatFormat = &format{
	sse: true, mime: sseType, done: doneEvent, frame: sseFrame,
	whole: chatWhole, events: chatEvents, errorBody: openAIError, errorEvent: openAIErrorEvent,
}

var completionsFormat = &format{
	sse: true, mime: sseType, done: doneEvent, frame: sseFrame,
	whole: completionsWhole, events: completionsEvents, errorBody: openAIError, errorEvent: openAIErrorEvent,
}

const doneEvent = "data: [DONE]\n\n"

func openAIUsage(a answer) string {
	in, out := a.tokens()
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, in, out, in+out)
}

func chatWhole(r *Request, a answer) string {
	message := fmt.Sprintf(`{"role":"assistant","content":%s}`, quote(a.text()))
	if a.tool != "" {
		message = fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":%s,"arguments":%s}}]}`,
			r.Seq, quote(a.tool), quote(a.args))
	}
	return fmt.Sprintf(`{"id":"chatcmpl-%d","object":"chat.completion","created":%d,"model":%s,"choices":[{"index":0,"message":%s,"finish_reason":%s}],"usage":%s}`,
		r.Seq, created, quote(r.Model), message, quote(a.reason("stop", "tool_calls")), openAIUsage(a))
}

func chatEvents(r *Request, a answer) []event {
	chunk := func(choices, more string) []byte {
		return fmt.Appendf(nil, `data: {"id":"chatcmpl-%d","object":"chat.completion.chunk","created":%d,"model":%s,"choices":[%s]%s}`+"\n\n",
			r.Seq, created, quote(r.Model), choices, more)
	}
	role := `"role":"assistant",`
	var out []event
	delta := func(fields string) {
		out = append(out, event{text: true,
			data: chunk(fmt.Sprintf(`{"index":0,"delta":{%s%s},"finish_reason":null}`, role, fields), "")})
		role = ""
	}
	for _, t := range a.texts {
		delta(`"content":` + quote(t))
	}
	if a.tool != "" {
		h := a.halves()
		delta(fmt.Sprintf(`"tool_calls":[{"index":0,"id":"call_%d","type":"function","function":{"name":%s,"arguments":%s}}]`, r.Seq, quote(a.tool), quote(h[0])))
		delta(fmt.Sprintf(`"tool_calls":[{"index":0,"function":{"arguments":%s}}]`, quote(h[1])))
	}
	out = append(out, event{data: chunk(fmt.Sprintf(`{"index":0,"delta":{},"finish_reason":%s}`, quote(a.reason("stop", "tool_calls"))), "")})
	if r.usage || a.usage {
		out = append(out, event{data: chunk("", `,"usage":`+openAIUsage(a))})
	}
	return append(out, event{data: []byte(doneEvent), done: true})
}

func completionsWhole(r *Request, a answer) string {
	return fmt.Sprintf(`{"id":"cmpl-%d","object":"text_completion","created":%d,"model":%s,"choices":[{"index":0,"text":%s,"finish_reason":%s}],"usage":%s}`,
		r.Seq, created, quote(r.Model), quote(a.text()), quote(a.reason("stop", "stop")), openAIUsage(a))
}

func completionsEvents(r *Request, a answer) []event {
	var out []event
	chunk := func(text, finish string, isText bool) {
		out = append(out, event{text: isText, data: fmt.Appendf(nil,
			`data: {"id":"cmpl-%d","object":"text_completion","created":%d,"model":%s,"choices":[{"index":0,"text":%s,"finish_reason":%s}]}`+"\n\n",
			r.Seq, created, quote(r.Model), quote(text), finish)})
	}
	for _, t := range a.texts {
		chunk(t, "null", true)
	}
	chunk("", quote(a.reason("stop", "stop")), false)
	return append(out, event{data: []byte(doneEvent), done: true})
}

func openAIError(_ *Request, w words) string {
	return fmt.Sprintf(`{"error":{"message":%s,"type":%s,"param":null,"code":%s}}`, quote(w.message), quote(w.typ), quote(w.code))
}

// openAIErrorEvent carries the status as a number, as vLLM and OpenRouter do.
func openAIErrorEvent(_ *Request, status, _ int) []byte {
	w := wordsOf(status)
	return fmt.Appendf(nil, `data: {"error":{"message":%s,"type":%s,"param":null,"code":%d}}`+"\n\n", quote(w.message), quote(w.typ), status)
}

// embeddings answers with one small vector for each input.
func embeddings(r *Request, a answer) []byte {
	var items []string
	for i := range max(r.inputs, 1) {
		items = append(items, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[%d,0.5,-0.5]}`, i, i))
	}
	in, _ := a.tokens()
	return fmt.Appendf(nil, `{"object":"list","data":[%s],"model":%s,"usage":{"prompt_tokens":%d,"total_tokens":%d}}`,
		strings.Join(items, ","), quote(r.Model), in, in)
}
