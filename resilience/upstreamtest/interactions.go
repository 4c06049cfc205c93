package upstreamtest

import "fmt"

var interactionsFormat = &format{
	sse: true, mime: sseType, frame: sseFrame, done: "event: done\ndata: [DONE]\n\n",
	whole: interactionsWhole, events: interactionsEvents, errorBody: interactionsError,
	errorEvent: func(r *Request, status, _ int) []byte {
		return named("error", `{"event_type":"error",%s`, interactionsError(r, wordsOf(status))[1:])
	},
}

func interactionsError(_ *Request, w words) string {
	return fmt.Sprintf(`{"error":{"code":%s,"message":%s}}`, quote(w.code), quote(w.message))
}

// interactionObject is the interaction with its status and what it has to say.
func interactionObject(r *Request, status, more string) string {
	return fmt.Sprintf(`{"id":"v1_%d","object":"interaction","model":%s,"status":%s%s}`, r.Seq, quote(r.Model), quote(status), more)
}

func interactionUsage(a answer) string {
	in, out := a.tokens()
	return fmt.Sprintf(`,"usage":{"total_input_tokens":%d,"total_output_tokens":%d,"total_tokens":%d}`, in, out, in+out)
}

// interactionContent is the one output, what it begins with in a stream.
func interactionContent(r *Request, a answer, text string) string {
	if a.tool == "" {
		return fmt.Sprintf(`{"type":"text","text":%s}`, quote(text))
	}
	args := a.args
	if args == "" {
		args = "{}"
	}
	return fmt.Sprintf(`{"type":"function_call","id":"call_%d","name":%s,"arguments":%s}`, r.Seq, quote(a.tool), args)
}

func interactionsWhole(r *Request, a answer) string {
	return interactionObject(r, a.reason("completed", "requires_action"),
		fmt.Sprintf(`,"outputs":[%s]%s`, interactionContent(r, a, a.text()), interactionUsage(a)))
}

// interactionsEvents have names that count them: evt_0, evt_1, ….
func interactionsEvents(r *Request, a answer) []event {
	var out []event
	add := func(text bool, name, fields string, args ...any) {
		out = append(out, event{text: text, data: named(name, `{"event_type":%s,%s,"event_id":"evt_%d"}`,
			quote(name), fmt.Sprintf(fields, args...), len(out))})
	}
	add(false, "interaction.created", `"interaction":%s`, interactionObject(r, "in_progress", ""))
	add(false, "interaction.status_update", `"interaction_id":"v1_%d","status":"in_progress"`, r.Seq)
	kind := "text"
	if a.tool != "" {
		kind = "function_call"
	}
	add(false, "content.start", `"index":0,"content":{"type":%s}`, quote(kind))
	if a.tool != "" {
		add(true, "content.delta", `"index":0,"delta":%s`, interactionContent(r, a, ""))
	}
	for _, t := range a.texts {
		add(true, "content.delta", `"index":0,"delta":%s`, interactionContent(r, answer{}, t))
	}
	add(false, "content.stop", `"index":0`)
	add(false, "interaction.completed", `"interaction":%s`, interactionObject(r, a.reason("completed", "requires_action"), interactionUsage(a)))
	return append(out, event{done: true, data: []byte("event: done\ndata: [DONE]\n\n")})
}
