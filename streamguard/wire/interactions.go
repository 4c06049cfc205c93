package wire

import (
	"net/url"
	"strings"
)

// Interactions is Google's Interactions API.
var Interactions = &Format{
	name: "interactions", operation: "chat", generative: true,
	bound: interactionsBound, boundPath: resumes,
	carries: []signs{{{name: "event_type", words: []string{"*"}}}, {{name: "object", words: []string{"interaction"}}}},
	errors:  []errorPath{{paths: "interaction.error", as: "response.error"}},
	match:   matchInteractions, types: interactionsTypes, event: readTyped, done: noSentinel,
	judge: wantObject(interactionsJudge), errorBody: interactionsError, abort: interactionsAbort,
	resume: &resumption{after: "last_event_id"},
}

var interactionsTypes = &types{
	member: "event_type", own: []string{"interaction.*", "content.*", "step.*"}, pieces: []string{"delta"},
	content: []string{"*.delta"},
	final:   []string{"interaction.completed", "interaction.complete", "interaction.incomplete", "interaction.cancelled", "interaction.canceled"},
	fail:    []string{"interaction.failed"},
	answer:  "interaction", mark: "event_id",
	lifecycle: []string{"interaction.created", "interaction.start", "interaction.in_progress", "interaction.status_update"},
}

var interactionsBound = []string{
	"previous_interaction_id", "input[](thought).signature",
	"input[].uri has " + googleFile, "input[].content[].uri has " + googleFile,
}

func matchInteractions(method string, u *url.URL) (string, bool) {
	at, ok := resumable(method, u, "/interactions")
	if !ok {
		return "", false
	}
	return u.Path[versionStart(u.Path, at):], true
}

func interactionsJudge(f *Format, a Answer, b []byte) Verdict {
	var status []byte
	usable, usage := false, counter{}
	p := parse(b)
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "status":
			status = text(p.raw())
		case "outputs", "steps":
			usable = p.filled() || usable
		case "usage":
			usage.take(&p)
		}
	}
	if p.end() && string(status) == "failed" {
		return Verdict{Failure: f.told(a.inspect(b), b)}
	}
	if v, done := f.unfit(a, &p, usable, status != nil); done {
		return v
	}
	switch {
	case string(status) != "completed":
		return Verdict{Usable: usable, Usage: usage.Usage}
	case !usable:
		return Verdict{Empty: EmptyOutput, Usage: usage.Usage}
	}
	return delivered(true, usage)
}

// interactionsError has a code that is text, unlike Google's other APIs.
func interactionsError(status int, _, code, message string) []byte {
	if code == "" {
		code = strings.ToLower(googleStatus(status))
	}
	b := append([]byte(`{"error":{"code":`), quote(code)...)
	b = append(append(b, `,"message":`...), quote(message)...)
	return append(b, "}}"...)
}

func interactionsAbort(_ *Stream, _ int, code, message string) (string, []byte) {
	b := append([]byte(`{"event_type":"error",`), interactionsError(0, "", code, message)[1:]...)
	return "error", b
}
