package wire

import (
	"net/url"
	"strings"
)

// Interactions is Google's Interactions API.
var Interactions = &Format{
	name: "interactions", operation: "chat", generative: true,
	bound:   interactionsBound,
	carries: []signs{{{name: "event_type", words: []string{"*"}}}, {{name: "object", words: []string{"interaction"}}}},
	errors:  []errorPath{{paths: "interaction.error", as: "response.error"}},
	match:   matchInteractions, types: []string{"interaction.", "content.", "step."}, event: interactionsEvent, done: noSentinel,
	judge: wantObject(interactionsJudge), errorBody: interactionsError, abort: interactionsAbort,
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

func interactionsEvent(s *Stream, name, data []byte) Mark {
	n := typedEvent{typ: name}
	p := parse(data)
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "event_type":
			n.readType(&p)
		case "error":
			n.readError(&p)
		case "interaction":
			n.readStatus(&p)
		case "delta":
			n.readPiece(&p)
		case "event_id":
			s.template.heedless(&p)
		}
	}
	if !p.end() {
		return MarkMalformed
	}
	n.named(name)
	return s.interactions(&n, func() *problem { return inspect(data) })
}

// interactions gives the marks of an event. problem is called where there may
// be an error.
func (s *Stream) interactions(n *typedEvent, problem func() *problem) Mark {
	switch string(n.typ) {
	case "error", "interaction.failed":
		return s.fail(problem())
	case "interaction.completed", "interaction.complete", "interaction.incomplete", "interaction.cancelled", "interaction.canceled":
		if n.failed || string(n.status) == "failed" {
			return s.fail(problem())
		}
		return MarkData | MarkEnd | MarkFinal
	}
	if n.isDelta() {
		return s.typedContent(n, problem)
	}
	return s.typed(n, problem)
}

func interactionsJudge(f *Format, a Answer, b []byte) Verdict {
	var status []byte
	usable, usage := false, false
	p := parse(b)
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "status":
			status = text(p.raw())
		case "outputs", "steps":
			usable = p.filled() || usable
		case "usage":
			usage = nonZero(p.raw())
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
		return Verdict{Usable: usable}
	case !usable:
		return Verdict{Empty: EmptyOutput}
	case !usage:
		return Verdict{Empty: EmptyUsage, Usable: true}
	}
	return Verdict{Usable: true}
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
