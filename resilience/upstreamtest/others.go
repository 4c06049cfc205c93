package upstreamtest

import (
	"fmt"
	"strings"
)

var geminiFormat = &format{
	sse: true, mime: sseType, lineEnd: CRLF, frame: sseFrame,
	whole: geminiWhole, events: geminiEvents, errorBody: geminiError, errorEvent: geminiErrorEvent,
}

// geminiArrayFormat is what streamGenerateContent sends without alt=sse.
var geminiArrayFormat = &format{
	mime: jsonType, frame: func(data string) []byte { return []byte("," + data + "\n") },
	whole: geminiWhole, events: geminiArray,
	errorBody: func(r *Request, w words) string {
		if r.Stream {
			return "[" + geminiError(r, w) + "]"
		}
		return geminiError(r, w)
	},
	errorEvent: func(r *Request, status, before int) []byte {
		lead := ","
		if before == 0 {
			lead = "["
		}
		return []byte(lead + geminiError(r, wordsOf(status)) + "]\n")
	},
}

// geminiPart is one response object; the last one has a reason and the usage.
func geminiPart(r *Request, a answer, part string, last bool) string {
	if !last {
		return fmt.Sprintf(`{"candidates":[{"content":{"parts":[%s],"role":"model"},"index":0}],"modelVersion":%s,"responseId":"resp_%d"}`,
			part, quote(r.Model), r.Seq)
	}
	in, out := a.tokens()
	return fmt.Sprintf(`{"candidates":[{"content":{"parts":[%s],"role":"model"},"finishReason":%s,"index":0}],"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d,"totalTokenCount":%d},"modelVersion":%s,"responseId":"resp_%d"}`,
		part, quote(a.reason("STOP", "STOP")), in, out, in+out, quote(r.Model), r.Seq)
}

// geminiTool is a functionCall part; a call is never split.
func geminiTool(a answer) string {
	args := a.args
	if args == "" {
		args = "{}"
	}
	return fmt.Sprintf(`{"functionCall":{"name":%s,"args":%s}}`, quote(a.tool), args)
}

func geminiText(t string) string { return fmt.Sprintf(`{"text":%s}`, quote(t)) }

func geminiWhole(r *Request, a answer) string {
	if a.tool != "" {
		return geminiPart(r, a, geminiTool(a), true)
	}
	return geminiPart(r, a, geminiText(a.text()), true)
}

// geminiObjects are the objects of a stream; all but the last carry text.
func geminiObjects(r *Request, a answer) []string {
	var out []string
	for _, t := range a.texts {
		out = append(out, geminiPart(r, a, geminiText(t), false))
	}
	if a.tool != "" {
		out = append(out, geminiPart(r, a, geminiTool(a), false))
	}
	return append(out, geminiPart(r, a, geminiText(""), true))
}

func geminiEvents(r *Request, a answer) []event {
	objects := geminiObjects(r, a)
	out := make([]event, len(objects))
	for i, o := range objects {
		out[i] = event{data: sseFrame(o), text: i < len(objects)-1}
	}
	return out
}

func geminiArray(r *Request, a answer) []event {
	objects := geminiObjects(r, a)
	out := make([]event, len(objects))
	for i, o := range objects {
		lead, tail := ",", "\n"
		if i == 0 {
			lead = "["
		}
		if i == len(objects)-1 {
			tail = "]\n"
		}
		out[i] = event{data: []byte(lead + o + tail), text: i < len(objects)-1}
	}
	return out
}

func geminiError(_ *Request, w words) string {
	return fmt.Sprintf(`{"error":{"code":%d,"message":%s,"status":%s}}`, w.status, quote(w.message), quote(w.goo))
}

func geminiErrorEvent(r *Request, status, _ int) []byte {
	return sseFrame(geminiError(r, wordsOf(status)))
}

var ollamaFormat = &format{
	mime: "application/x-ndjson", frame: func(data string) []byte { return []byte(data + "\n") },
	whole: ollamaWhole, events: ollamaEvents, errorBody: ollamaError,
	errorEvent: func(r *Request, status, _ int) []byte { return []byte(ollamaError(r, wordsOf(status)) + "\n") },
}

const createdText = "2023-11-14T22:13:20Z" // created, as Ollama writes it

// ollamaLine is one object of /api/chat or /api/generate.
func ollamaLine(r *Request, said, more string) string {
	return fmt.Sprintf(`{"model":%s,"created_at":"%s",%s,%s}`, quote(r.Model), createdText, said, more)
}

func ollamaSaid(r *Request, a answer, text string) string {
	switch {
	case strings.HasSuffix(strings.TrimRight(r.Path, "/"), "/generate"):
		return `"response":` + quote(text)
	case a.tool != "":
		args := a.args
		if args == "" {
			args = "{}"
		}
		return fmt.Sprintf(`"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":%s,"arguments":%s}}]}`, quote(a.tool), args)
	}
	return fmt.Sprintf(`"message":{"role":"assistant","content":%s}`, quote(text))
}

func ollamaEnd(a answer) string {
	in, out := a.tokens()
	return fmt.Sprintf(`"done":true,"done_reason":%s,"prompt_eval_count":%d,"eval_count":%d`, quote(a.reason("stop", "stop")), in, out)
}

func ollamaWhole(r *Request, a answer) string {
	return ollamaLine(r, ollamaSaid(r, a, a.text()), ollamaEnd(a))
}

func ollamaEvents(r *Request, a answer) []event {
	var out []event
	texts := a.texts
	if a.tool != "" {
		texts = []string{""}
	}
	for _, t := range texts {
		out = append(out, event{text: true, data: []byte(ollamaLine(r, ollamaSaid(r, a, t), `"done":false`) + "\n")})
	}
	return append(out, event{data: []byte(ollamaLine(r, ollamaSaid(r, answer{}, ""), ollamaEnd(a)) + "\n")})
}

func ollamaError(_ *Request, w words) string { return fmt.Sprintf(`{"error":%s}`, quote(w.message)) }

var cohereFormat = &format{
	sse: true, mime: sseType, frame: sseFrame,
	whole: cohereWhole, events: cohereEvents,
	errorBody: func(r *Request, w words) string {
		return fmt.Sprintf(`{"id":"%d","message":%s}`, r.Seq, quote(w.message))
	},
	errorEvent: func(_ *Request, status, _ int) []byte {
		return named("message-end", `{"type":"message-end","delta":{"finish_reason":"ERROR","error":%s}}`, quote(wordsOf(status).message))
	},
}

func cohereUsage(a answer) string {
	in, out := a.tokens()
	return fmt.Sprintf(`{"tokens":{"input_tokens":%d,"output_tokens":%d}}`, in, out)
}

func cohereWhole(r *Request, a answer) string {
	message := fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":%s}]}`, quote(a.text()))
	if a.tool != "" {
		message = fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":"call_%d","type":"function","function":{"name":%s,"arguments":%s}}]}`,
			r.Seq, quote(a.tool), quote(a.args))
	}
	return fmt.Sprintf(`{"id":"%d","finish_reason":%s,"message":%s,"usage":%s}`, r.Seq, quote(a.reason("COMPLETE", "TOOL_CALL")), message, cohereUsage(a))
}

func cohereEvents(r *Request, a answer) []event {
	out := []event{{data: named("message-start", `{"id":"%d","type":"message-start","delta":{"message":{"role":"assistant","content":[]}}}`, r.Seq)}}
	add := func(text bool, name, fields string, args ...any) {
		out = append(out, event{text: text, data: named(name, `{"type":"%s","index":0%s}`, name, fmt.Sprintf(fields, args...))})
	}
	if a.tool != "" {
		h := a.halves()
		add(true, "tool-call-start", `,"delta":{"message":{"tool_calls":{"id":"call_%d","type":"function","function":{"name":%s,"arguments":%s}}}}`,
			r.Seq, quote(a.tool), quote(h[0]))
		add(true, "tool-call-delta", `,"delta":{"message":{"tool_calls":{"function":{"arguments":%s}}}}`, quote(h[1]))
		add(false, "tool-call-end", "")
	} else {
		add(false, "content-start", `,"delta":{"message":{"content":{"type":"text","text":""}}}`)
		for _, t := range a.texts {
			add(true, "content-delta", `,"delta":{"message":{"content":{"text":%s}}}`, quote(t))
		}
		add(false, "content-end", "")
	}
	return append(out, event{data: named("message-end", `{"type":"message-end","delta":{"finish_reason":%s,"usage":%s}}`,
		quote(a.reason("COMPLETE", "TOOL_CALL")), cohereUsage(a))})
}
