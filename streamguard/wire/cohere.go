package wire

import (
	"bytes"
	"net/http"
)

// Cohere is Cohere's chat, version 2.
var Cohere = &Format{
	name: "cohere", operation: "chat", generative: true,
	carries: []signs{
		{{name: "type", words: cohereEvents}},
		{{name: "message", kinds: "{"}, {name: "finish_reason", kinds: `"`}},
	},
	errors: []errorPath{{says: aMessage, paths: "delta.error"}},
	match:  postTo("/v2/chat"), types: cohereTypes, event: readTyped, done: noSentinel,
	judge: wantObject(cohereJudge), errorBody: cohereError, abort: cohereAbort,
}

var cohereTypes = &types{
	member: "type", own: []string{"message-*", "content-*", "tool-*", "citation-*"}, pieces: []string{"delta"},
	content: []string{"content-delta", "tool-plan-delta", "tool-call-start", "tool-call-delta"},
	final:   []string{"message-end"},
	special: cohereSpecial,
}

var cohereEvents = []string{
	"message-start", "message-end", "content-start", "content-delta", "content-end", "tool-plan-delta",
	"tool-call-start", "tool-call-delta", "tool-call-end", "citation-start", "citation-end",
}

// cohereEmbeddings is Cohere's own embeddings.
var cohereEmbeddings = &Format{
	name: "embeddings", operation: "embeddings", endless: true, match: postTo("/v2/embed"),
	judge: embeddingsJudge, errorBody: cohereError,
}

// cohereSpecial judges an error, which has a message and an id and nothing else to
// tell it, and an end that names a failure.
func cohereSpecial(s *Stream, e typedEvent, data []byte) (Mark, bool) {
	switch {
	case len(e.typ) == 0:
		if q := inspect(data); q.bareMessage() && q.id {
			return s.fail(q), true
		}
	case string(e.typ) == "message-end" && cohereFailed(e.finish):
		return s.fail(cohereProblem(inspect(data), string(e.finish))), true
	}
	return 0, false
}

// cohereFailed knows the finish reasons that name a failure.
func cohereFailed(b []byte) bool {
	switch string(b) {
	case "ERROR", "TIMEOUT", "ERROR_LIMIT", "ERROR_TOXIC":
		return true
	}
	return false
}

// cohereProblem adds the finish reason to what the event says of its failure.
func cohereProblem(p *problem, reason string) *problem {
	p.hasError = true
	p.nested = reason
	if reason == "TIMEOUT" {
		p.status = "504"
	}
	return p
}

func cohereJudge(f *Format, a Answer, b []byte) Verdict {
	var finish []byte
	message, usable, usage := false, false, counter{}
	p := parse(b)
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "message":
			if p.kind() != '{' { // text is an error's
				continue
			}
			message = true
			usable = cohereMessage(&p)
		case "finish_reason":
			finish = text(p.raw())
		case "usage":
			usage.take(&p)
		}
	}
	if p.end() && cohereFailed(finish) {
		return Verdict{Failure: f.told(cohereProblem(a.inspect(b), string(finish)), b)}
	}
	if v, done := f.unfit(a, &p, usable, message); done {
		return v
	}
	return delivered(usable, usage)
}

// cohereMessage reports whether a message holds anything but its role.
func cohereMessage(p *parser) (usable bool) {
	for ok := p.object(); ok && p.member(); {
		role := bytes.Equal(p.name, []byte("role"))
		usable = p.filled() && !role || usable
	}
	return usable
}

func cohereError(_ int, _, code, message string) []byte {
	b := append([]byte(`{"message":`), quote(message)...)
	if code != "" {
		b = append(append(b, `,"code":`...), quote(code)...)
	}
	return append(b, '}')
}

// cohereAbort is the event by which Cohere itself tells of an error in the
// middle of a stream; it knows no other.
func cohereAbort(_ *Stream, status int, _, message string) (string, []byte) {
	reason := "ERROR"
	if status == http.StatusGatewayTimeout {
		reason = "TIMEOUT"
	}
	b := append([]byte(`{"type":"message-end","delta":{"finish_reason":"`), reason...)
	b = append(append(b, `","error":`...), quote(message)...)
	return "message-end", append(b, "}}"...)
}
