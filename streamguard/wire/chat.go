package wire

import (
	"strconv"
	"strings"
)

// Chat is chat completions, OpenAI's and of everybody who speaks it.
var Chat = &Format{
	name: "chat completions", operation: "chat", generative: true,
	bound: chatBound, carries: chatCarries, due: true, lacking: noChoices,
	errors: chatErrors,
	match:  postTo("/chat/completions"), event: chatEvent,
	judge: wantObject(chatJudge),
}

// Completions is OpenAI's older completions of a prompt.
var Completions = &Format{
	name: "completions", operation: "text_completion", generative: true, carries: chatCarries, due: true, lacking: noChoices,
	match: postTo("/completions"), event: chatEvent,
	judge: wantObject(chatJudge),
}

var chatCarries = []signs{
	{{name: "choices", kinds: "[n"}},
	{{name: "object", words: []string{"chat.completion", "chat.completion.chunk", "text_completion"}}},
}

var chatBound = []string{"messages[].audio.id", "messages[].content[](file).file.file_id"}

// chatErrors are those of the vendors and gateways that speak this format.
var chatErrors = []errorPath{
	{says: anError, paths: "choices[].error"},
	{says: aCode, paths: "choices[].error.code"},
	{says: aKind, paths: "choices[].error.type"},
	{says: aStatus, paths: "choices[].error.status"},
	{says: aMessage, paths: "choices[].error.message"},
	// OpenRouter; the upstream's header comes along.
	{says: aWord, paths: "error.error_type choices[].error.error_type error.metadata.error_type error.metadata.provider_code"},
	{says: aWish, paths: "error.availability.retry_after error.metadata.retry_after error.metadata.retry_after_seconds"},
	{says: aWish, paths: "error.metadata.headers.Retry-After error.metadata.headers.retry-after"},
	{says: aReset, paths: "error.metadata.headers.X-RateLimit-Reset error.metadata.headers.x-ratelimit-reset"},
	{says: aRemaining, paths: "error.metadata.headers.X-RateLimit-Remaining error.metadata.headers.x-ratelimit-remaining"},
	// Groq, MiniMax, Baidu, Tencent, Xunfei.
	{paths: "x_groq.error", as: "error"},
	{says: topBase, paths: "base_resp.status_code"},
	{says: topNumber, paths: "error_code"},
	{says: topMessage, paths: "error_msg"},
	{says: topHeader, paths: "header.code"},
	{says: anObject, paths: "Response.Error"},
	{says: aCode, paths: "Response.Error.Code"},
	{says: aMessage, paths: "base_resp.status_msg header.message Response.Error.Message"},
}

// A chatChunk is what one event of a chat stream says.
type chatChunk struct {
	states  choiceStates
	choices int
	err     bool // an error beside or in the choices
	aside   bool // a list of choices, though none are in it
	usage   bool
	failed  []byte
	pieces
}

func chatEvent(s *Stream, name, data []byte) Mark {
	c := chatChunk{states: s.choices}
	p := parse(data)
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "choices":
			c.aside = true
			c.list(&p)
		case "error":
			c.err = p.filled() || c.err
		case "x_groq":
			c.groq(s, &p)
		case "base_resp":
			c.base(&p)
		case "usage":
			c.usage = p.kind() == '{'
			s.heedlessUsage(&p)
		case "obfuscation":
			s.template.heedless(&p)
		}
	}
	return chunkMarks(s, &c, &p, name)
}

// chunkMarks judges an event that p has read.
func chunkMarks(s *Stream, c *chatChunk, p *parser, name []byte) Mark {
	if !p.end() {
		return MarkMalformed
	}
	switch {
	case c.err || c.choices == 0:
		return s.noAnswer(name, c.err, c.aside || c.usage && !s.strange && !fillsMore(p.b), inspect(p.b))
	case c.failed != nil:
		return s.failFinish(string(c.failed))
	}
	return s.answer(&c.pieces) | s.advance(c.states)
}

// list reads the choices.
func (c *chatChunk) list(p *parser) {
	for ok := p.intoArray(); ok && p.objectElement(); {
		c.choices++
		c.choice(p)
	}
}

func (c *chatChunk) choice(p *parser) {
	index := 0
	var finish []byte
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "index":
			index = smallIndex(p.raw())
		case "finish_reason":
			finish = text(p.raw())
		case "delta", "message":
			c.message(p)
		case "text":
			c.piece(p)
		case "error":
			c.err = p.filled() || c.err
		}
	}
	if c.states.saw(index, finish) {
		c.failed = finish
	}
}

// groq looks for the error that Groq puts beside its own facts.
func (c *chatChunk) groq(s *Stream, p *parser) {
	for ok := p.intoObject(); ok && p.member(); {
		if string(p.name) == "usage" {
			s.takeUsage(p)
			continue
		}
		failed := string(p.name) == "error"
		c.err = p.filled() && failed || c.err
	}
}

// base looks for the code that MiniMax puts beside the choices; 0 is success.
func (c *chatChunk) base(p *parser) {
	for ok := p.intoObject(); ok && p.member(); {
		if string(p.name) != "status_code" {
			continue
		}
		text := p.kind() == '"'
		if raw := p.raw(); text || isNumber(raw) {
			c.err = c.err || business(strings.Trim(string(raw), `"`))
		}
	}
}

// A chatBody is what a whole chat answer holds.
type chatBody struct {
	choices    bool   // at least one
	failed     []byte // a finish reason that names a failure
	usable     bool
	usage      counter
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
		c.usage.take(p)
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
