package upstreamtest

import "fmt"

var messagesFormat = &format{
	sse: true, mime: sseType, frame: sseFrame,
	whole: messagesWhole, events: messagesEvents, errorBody: messagesError, errorEvent: messagesErrorEvent,
}

func messagesWhole(r *Request, a answer) string {
	block := fmt.Sprintf(`{"type":"text","text":%s}`, quote(a.text()))
	if a.tool != "" {
		input := a.args
		if input == "" {
			input = "{}"
		}
		block = fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":%s,"input":%s}`, r.Seq, quote(a.tool), input)
	}
	in, out := a.tokens()
	return fmt.Sprintf(`{"id":"msg_%d","type":"message","role":"assistant","model":%s,"content":[%s],"stop_reason":%s,"stop_sequence":null,"usage":{"input_tokens":%d,"output_tokens":%d}}`,
		r.Seq, quote(r.Model), block, quote(a.reason("end_turn", "tool_use")), in, out)
}

func messagesEvents(r *Request, a answer) []event {
	in, outTokens := a.tokens()
	block, deltaType, field, deltas := `{"type":"text","text":""}`, "text_delta", "text", a.texts
	if a.tool != "" {
		block = fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":%s,"input":{}}`, r.Seq, quote(a.tool))
		deltaType, field, deltas = "input_json_delta", "partial_json", a.halves()
	}
	out := []event{
		{data: named("message_start", `{"type":"message_start","message":{"id":"msg_%d","type":"message","role":"assistant","model":%s,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":%d,"output_tokens":0}}}`,
			r.Seq, quote(r.Model), in)},
		{data: named("content_block_start", `{"type":"content_block_start","index":0,"content_block":%s}`, block)},
	}
	for _, d := range deltas {
		out = append(out, event{text: true, data: named("content_block_delta",
			`{"type":"content_block_delta","index":0,"delta":{"type":%s,%s:%s}}`, quote(deltaType), quote(field), quote(d))})
	}
	return append(out,
		event{data: named("content_block_stop", `{"type":"content_block_stop","index":0}`)},
		event{data: named("message_delta", `{"type":"message_delta","delta":{"stop_reason":%s,"stop_sequence":null},"usage":{"output_tokens":%d}}`,
			quote(a.reason("end_turn", "tool_use")), outTokens)},
		event{done: true, data: named("message_stop", `{"type":"message_stop"}`)})
}

func messagesError(r *Request, w words) string {
	return fmt.Sprintf(`{"type":"error","error":{"type":%s,"message":%s},"request_id":"req_%d"}`, quote(w.anth), quote(w.message), r.Seq)
}

// messagesErrorEvent names the status by its type: the format has no number.
func messagesErrorEvent(_ *Request, status, _ int) []byte {
	w := wordsOf(status)
	return named("error", `{"type":"error","error":{"type":%s,"message":%s}}`, quote(w.anth), quote(w.message))
}
