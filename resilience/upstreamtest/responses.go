package upstreamtest

import "fmt"

var responsesFormat = &format{
	sse: true, mime: sseType, frame: sseFrame,
	whole: responsesWhole, events: responsesEvents, errorBody: openAIError, errorEvent: responsesErrorEvent,
}

// responseItem is the one output item of a response.
func responseItem(r *Request, a answer, status, text, args string) string {
	if a.tool != "" {
		return fmt.Sprintf(`{"id":"fc_%d","type":"function_call","status":%s,"call_id":"call_%d","name":%s,"arguments":%s}`,
			r.Seq, quote(status), r.Seq, quote(a.tool), quote(args))
	}
	content := ""
	if status == "completed" {
		content = fmt.Sprintf(`{"type":"output_text","text":%s,"annotations":[]}`, quote(text))
	}
	return fmt.Sprintf(`{"id":"msg_%d","type":"message","status":%s,"role":"assistant","content":[%s]}`, r.Seq, quote(status), content)
}

// responseState is the status that a response ends in, and why.
func responseState(a answer) (status, failure, details string) {
	switch a.finish {
	case "", "completed", "cancelled":
		if status = a.finish; status == "" {
			status = "completed"
		}
		return status, "null", "null"
	case "failed":
		return "failed", `{"code":"server_error","message":"scripted failure"}`, "null"
	}
	return "incomplete", "null", fmt.Sprintf(`{"reason":%s}`, quote(a.finish))
}

func responseObject(r *Request, status, failure, details, output, usage string) string {
	return fmt.Sprintf(`{"id":"resp_%d","object":"response","created_at":%d,"status":%s,"error":%s,"incomplete_details":%s,"model":%s,"output":[%s],"usage":%s}`,
		r.Seq, created, quote(status), failure, details, quote(r.Model), output, usage)
}

func responsesWhole(r *Request, a answer) string {
	status, failure, details := responseState(a)
	in, out := a.tokens()
	usage := fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d,"total_tokens":%d}`, in, out, in+out)
	return responseObject(r, status, failure, details, responseItem(r, a, "completed", a.text(), a.args), usage)
}

func responsesEvents(r *Request, a answer) []event {
	var out []event
	add := func(text bool, name, fields string, args ...any) {
		out = append(out, event{text: text, data: named(name, `{"type":%s,"sequence_number":%d,%s}`,
			quote(name), len(out), fmt.Sprintf(fields, args...))})
	}
	begun := responseObject(r, "in_progress", "null", "null", "", "null")
	add(false, "response.created", `"response":%s`, begun)
	add(false, "response.in_progress", `"response":%s`, begun)
	add(false, "response.output_item.added", `"output_index":0,"item":%s`, responseItem(r, a, "in_progress", "", ""))
	if a.tool != "" {
		id := fmt.Sprintf("fc_%d", r.Seq)
		for _, h := range a.halves() {
			add(true, "response.function_call_arguments.delta", `"item_id":%s,"output_index":0,"delta":%s`, quote(id), quote(h))
		}
		add(false, "response.function_call_arguments.done", `"item_id":%s,"output_index":0,"arguments":%s`, quote(id), quote(a.args))
	} else {
		at := fmt.Sprintf(`"item_id":"msg_%d","output_index":0,"content_index":0`, r.Seq)
		add(false, "response.content_part.added", `%s,"part":{"type":"output_text","text":"","annotations":[]}`, at)
		for _, t := range a.texts {
			add(true, "response.output_text.delta", `%s,"delta":%s`, at, quote(t))
		}
		add(false, "response.output_text.done", `%s,"text":%s`, at, quote(a.text()))
		add(false, "response.content_part.done", `%s,"part":{"type":"output_text","text":%s,"annotations":[]}`, at, quote(a.text()))
	}
	add(false, "response.output_item.done", `"output_index":0,"item":%s`, responseItem(r, a, "completed", a.text(), a.args))
	status, _, _ := responseState(a)
	add(false, "response."+status, `"response":%s`, responsesWhole(r, a))
	return out
}

// responsesErrorEvent is the nested shape that OpenAI was seen to send. The
// status is in its words only: the format has no number for it.
func responsesErrorEvent(_ *Request, status, before int) []byte {
	w := wordsOf(status)
	return named("error", `{"type":"error","error":{"type":%s,"code":%s,"message":%s,"param":null},"sequence_number":%d}`,
		quote(w.typ), quote(w.code), quote(w.message), before)
}
