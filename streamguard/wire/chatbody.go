package wire

import "strconv"

// A chatBody is what a whole chat answer holds.
type chatBody struct {
	choices    bool   // at least one
	failed     []byte // a finish reason that names a failure
	usable     bool
	usage      bool // not all zero
	drift      string
	choiceSeen int
}

func chatJudge(f *Format, a Answer, b []byte) Verdict {
	var c chatBody
	p := parse(b)
	for ok := p.object(); ok && p.member(); {
		c.member(&p)
	}
	if p.end() && c.failed != nil {
		q := a.inspect(b)
		if q.nested == "" && q.topCode == "" {
			q.nested = string(c.failed)
		}
		return Verdict{Failure: f.told(q, b)}
	}
	if v, done := f.unfit(a, &p, c.usable, c.choices || c.drift != ""); done {
		return v
	}
	if c.drift != "" {
		return f.drift(a, c.drift, ReasonDrift)
	}
	return delivered(c.usable, c.usage)
}

func (c *chatBody) member(p *parser) {
	switch string(p.name) {
	case "choices":
		c.list(p)
	case "usage":
		k := p.kind()
		if k != '{' && k != 'n' {
			c.drifted("usage: want object")
		}
		c.usage = nonZero(p.raw())
	}
}

func (c *chatBody) drifted(what string) {
	if c.drift == "" {
		c.drift = what
	}
}

func (c *chatBody) list(p *parser) {
	if k := p.kind(); k != '[' {
		if k != 'n' {
			c.drifted("choices: want array")
		}
		p.skip()
		return
	}
	c.choiceSeen = 0
	for ok := p.array(); ok && p.element(); c.choiceSeen++ {
		c.choices = true
		if p.kind() != '{' {
			c.wrong("", "object")
			continue
		}
		c.choice(p)
	}
}

// wrong notes a member of the current choice that changed its type.
func (c *chatBody) wrong(member, want string) {
	c.drifted("choices[" + strconv.Itoa(c.choiceSeen) + "]" + member + ": want " + want)
}

func (c *chatBody) choice(p *parser) {
	for ok := p.object(); ok && p.member(); {
		k := p.kind()
		switch string(p.name) {
		case "message":
			if k != '{' {
				if k != 'n' {
					c.wrong(".message", "object")
				}
				p.skip()
				break
			}
			c.message(p)
		case "finish_reason":
			if k != '"' && k != 'n' {
				c.wrong(".finish_reason", "string")
			}
			if t := text(p.raw()); failedFinish(t) {
				c.failed = t
			}
		case "text":
			c.usable = p.filled() || c.usable
		}
	}
}

func (c *chatBody) message(p *parser) {
	for ok := p.object(); ok && p.member(); {
		k := p.kind()
		switch string(p.name) {
		case "role":
			continue
		case "content":
			if k != '"' && k != '[' && k != 'n' {
				c.wrong(".message.content", "string, array or null")
			}
		case "tool_calls":
			if k != '[' && k != 'n' {
				c.wrong(".message.tool_calls", "array")
			}
		}
		c.usable = p.filled() || c.usable
	}
}

// nonZero reports whether the valid JSON value raw holds a number other than 0.
func nonZero(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			i = skipString(raw, i+1) - 1
		case c >= '1' && c <= '9':
			return true
		}
	}
	return false
}
