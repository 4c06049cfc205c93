package wire

import "strings"

// doubt judges the valid body b again, of which the expected format has made
// nothing that could be used: that is v. Names of members are shared (status,
// output, content, message), so that even a member of the wrong type may be
// another format's right one.
func (f *Format) doubt(a Answer, b []byte, v Verdict) Verdict {
	var by *Format
	if f.generative {
		by = f.judgedBy(b)
	}
	if by != nil && by != f {
		v = by.judge(f, a, b)
	}
	if v.stranger {
		return f.strange(a, b, by)
	}
	return v
}

// strange judges the valid body b, in which no format has found an answer: as an
// error, as a ticket, or as what it is not. by is whose members it carries.
func (f *Format) strange(a Answer, b []byte, by *Format) Verdict {
	if b[0] == '[' {
		return Verdict{Failure: f.listed(a, b)}
	}
	q := a.inspect(b)
	switch {
	case q.ticket(a, b):
		return Verdict{Accepted: true}
	case q.envelope():
		return Verdict{Failure: f.told(q, b)}
	case !f.generative:
		return Verdict{}
	case f.due:
		return f.lacking(f, b)
	case by != nil && by.lacking != nil:
		return by.lacking(f, b)
	case by != nil:
		return Verdict{}
	}
	return Verdict{Empty: EmptyShape}
}

// noChoices judges an object of a chat without choices: with anything in it that
// is no part of the envelope it is an answer of a shape that nobody knows.
func noChoices(f *Format, b []byte) Verdict {
	member, other, good := false, false, goodEnd(0)
	p := parse(b)
	for ok := p.object(); ok && p.member(); {
		name := string(p.name)
		good.note(&p)
		switch something := p.filled(); {
		case name == "choices":
			member = true
		case something && !enveloping(name):
			other = true
		}
	}
	switch {
	case !member && other:
		return Verdict{Empty: EmptyShape}
	case !member && good == allGood:
		return Verdict{} // another vendor's envelope, which says that it went well
	}
	return f.broken(ReasonNoChoices, "provider returned no choices")
}

// answers reports whether b, a valid array, is a list of answers in no known form,
// such as [{"generated_text":"…"}]: of objects that hold something, and no error.
func (a Answer) answers(b []byte) bool {
	found := false
	p := parse(b)
	for ok := p.intoArray(); ok && p.objectElement(); {
		for ok := p.object(); ok && p.member(); {
			name := string(p.name)
			found = p.filled() && !enveloping(name) || found
		}
	}
	return found && !a.inspect(b).envelope()
}

// A goodEnd gathers the marks of success in another vendor's envelope.
type goodEnd uint8

// allGood is "success": true beside a code of success and data.
const allGood goodEnd = 1 | 2 | 4

// note looks at the member that comes next and does not consume it.
func (g *goodEnd) note(p *parser) {
	q := *p
	switch string(p.name) {
	case "success":
		if string(q.raw()) == "true" {
			*g |= 1
		}
	case "code":
		switch strings.Trim(string(q.raw()), `"`) {
		case "200", "0":
			*g |= 2
		}
	case "data":
		*g |= 4
	}
}

// fillsMore reports whether the object b, a chat's event without choices, holds
// something beside its envelope: Baidu's answers call themselves a chat.completion
// and have a result in place of choices.
func fillsMore(b []byte) bool {
	p := parse(b)
	for ok := p.object(); ok && p.member(); {
		name := string(p.name)
		if p.filled() && !enveloping(name) {
			return true
		}
	}
	return false
}

// enveloping reports whether a member of a chat's answer says something about
// the answer, or of an error, and holds none of it.
func enveloping(name string) bool {
	switch name {
	case "object", "created", "created_at", "model", "usage", "system_fingerprint", "service_tier", "provider", "type",
		"metadata", "meta", "timings", "timestamp", "time", "path", "version", "prompt_filter_results", "x_groq", "base_resp",
		"message", "msg", "detail", "details", "error", "errors", "err", "code", "success", "reason":
		return true
	}
	return isHandle(name) || isState(name) || strings.HasPrefix(name, "error_") || strings.HasPrefix(name, "status_")
}
