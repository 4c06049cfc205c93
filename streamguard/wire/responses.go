package wire

import (
	"net/url"
	"strconv"
)

// Responses is OpenAI's Responses API.
var Responses = &Format{
	name: "responses", operation: "chat", generative: true,
	bound: responsesBound, boundPath: resumes,
	carries: []signs{{{name: "type", words: []string{"response.*"}}}, {{name: "object", words: []string{"response"}}}},
	errors:  responsesErrors,
	match:   matchResponses, types: responsesTypes, event: readTyped, done: noSentinel,
	judge: wantObject(responsesJudge), abort: responsesAbort,
	resume: &resumption{after: "starting_after", background: true, rest: responsesRest},
}

var responsesTypes = &types{
	member: "type", own: []string{"response.*"}, pieces: []string{"delta", "partial_image_b64"},
	content: []string{"*.delta", "*.partial_image"},
	final:   []string{"response.completed", "response.done", "response.incomplete", "response.cancelled", "response.canceled"},
	fail:    []string{"response.failed", "response.error"},
	answer:  "response", goesOn: []string{"in_progress", "queued"},
	counter: "sequence_number", idle: []string{"obfuscation"},
	lifecycle: []string{"response.created", "response.queued", "response.in_progress"},
}

var responsesBound = []string{
	"previous_response_id", "conversation", "conversation.id", "prompt.id",
	"input[](reasoning).encrypted_content", "input[](compaction).encrypted_content", "input[](item_reference).id",
	"input[].content[].file_id", "input[].output.file_id", "input[].output[].file_id",
	"tools[](code_interpreter).container", "tools[](code_interpreter).container.file_ids[]",
	"tools[](file_search).vector_store_ids[]", "tools[](image_generation).input_image_mask.file_id",
}

var responsesErrors = []errorPath{
	{says: anObject, paths: "response.error"},
	{says: aCode, paths: "response.error.code"},
	{says: aKind, paths: "response.error.type"},
	{says: aMessage, paths: "response.error.message"},
	{says: aWord, paths: "incomplete_details.reason response.incomplete_details.reason"},
	// Where details stand beside "error": null.
	{paths: "last_error response.last_error status_details.error response.status_details.error", as: "response.error"},
}

// responsesRest asks for the members that the request had included, which the rest
// of the stream has only where it is asked for them again.
func responsesRest(c *included) string {
	q := url.Values{}
	p := parse([]byte(c.include))
	for ok := p.array(); ok && p.element(); {
		if member := text(p.raw()); len(member) > 0 {
			q.Add("include[]", string(member))
		}
	}
	p = parse([]byte(c.options))
	for ok := p.object(); ok && p.member(); {
		if string(p.name) == "include_obfuscation" && string(p.raw()) == "false" {
			q.Set("include_obfuscation", "false")
		}
	}
	return q.Encode()
}

func matchResponses(method string, u *url.URL) (string, bool) {
	at, ok := resumable(method, u, "/responses")
	if !ok {
		return "", false
	}
	return u.Path[at:], true
}

// noSentinel judges [DONE] where it is no end mark: some gateways write it at
// any close.
func noSentinel(*Stream) Mark { return MarkFinal }

// A responseBody is what a whole response says.
type responseBody struct {
	drift              string
	status             []byte
	output, background bool
	usage              counter
}

func (r *responseBody) read(p *parser) {
	for ok := p.object(); ok && p.member(); {
		k := p.kind()
		switch string(p.name) {
		case "output":
			if k != '[' && k != 'n' {
				r.drift = "output: want array"
			}
			r.output = p.filled()
		case "status":
			if k != '"' && k != 'n' && r.drift == "" {
				r.drift = "status: want string"
			}
			r.status = text(p.raw())
		case "usage":
			r.usage.take(p)
		case "background":
			r.background = string(p.raw()) == "true"
		}
	}
}

func responsesJudge(f *Format, a Answer, b []byte) Verdict {
	var r responseBody
	p := parse(b)
	r.read(&p)
	if p.end() && string(r.status) == "failed" {
		return Verdict{Failure: f.told(a.inspect(b), b)}
	}
	if v, done := f.unfit(a, &p, r.output, r.status != nil || r.drift != ""); done {
		return v
	}
	switch {
	case r.drift != "":
		return f.drift(a, r.drift, ReasonDrift)
	case !r.background && string(r.status) == "completed" && !r.output:
		return Verdict{Empty: EmptyOutput, Usage: r.usage.Usage}
	case !r.background && r.output && responseOver(r.status):
		return delivered(true, r.usage)
	}
	return Verdict{Usable: r.output, Usage: r.usage.Usage}
}

// responseOver reports whether a response with this status, nil for none, is an
// answer whose usage is due.
func responseOver(status []byte) bool {
	switch string(status) {
	case "completed", "incomplete":
		return true
	}
	return status == nil
}

// responsesAbort carries the documented flat shape and, nested, the one the
// official SDK raises on.
func responsesAbort(s *Stream, status int, code, message string) (string, []byte) {
	seq := s.seq + 1
	if s.seq < 0 {
		seq = int64(s.events)
	}
	b := append([]byte(`{"type":"error","code":`), quote(code)...)
	b = append(append(b, `,"message":`...), quote(message)...)
	b = append(b, `,"param":null,"sequence_number":`...)
	b = strconv.AppendInt(b, seq, 10)
	b = append(append(b, `,"error":`...), chatError("server_error", code, message)...)
	return "error", append(b, '}')
}
