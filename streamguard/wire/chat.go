package wire

import "strconv"

func newChat() *Format {
	return &Format{
		name: "chat completions", operation: "chat", generative: true,
		match: postTo("/chat/completions"), event: chatEvent, large: chatLarge,
		judge: chatJudge,
	}
}

func newCompletions() *Format {
	return &Format{
		name: "completions", operation: "text_completion", generative: true,
		match: postTo("/completions"), event: chatEvent, large: chatLarge,
		judge: chatJudge,
	}
}

// maxChoice bounds the choice indexes that are told apart; those from here on
// are one.
const maxChoice = 255

// choiceStates remembers which choices were seen and which have finished.
type choiceStates struct {
	seen, finished [4]uint64
}

// saw notes a choice and reports whether its finish_reason names a failure.
func (c *choiceStates) saw(index int, finish []byte) bool {
	w, bit := index>>6, uint64(1)<<(index&63)
	c.seen[w] |= bit
	// Ollama and SGLang once sent "" for null, DashScope the text "null".
	if len(finish) == 0 || string(finish) == "null" {
		return false
	}
	c.finished[w] |= bit
	return failedFinish(finish)
}

func (c *choiceStates) done() bool {
	return c.seen == c.finished && c.seen != [4]uint64{}
}

// failedFinish knows the finish reasons that name a failure: OpenRouter,
// Mistral and vLLM error, SGLang abort, Zhipu network_error, DeepSeek
// insufficient_system_resource. A content filter is no outage.
func failedFinish(b []byte) bool {
	switch string(b) {
	case "error", "abort", "network_error", "insufficient_system_resource":
		return true
	}
	return false
}

func choiceIndex(raw []byte) int {
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 0 {
		return 0
	}
	return min(n, maxChoice)
}

// A chatChunk is what one event of a chat stream says.
type chatChunk struct {
	states   choiceStates
	choices  int
	err      bool // an error beside or in the choices
	failed   []byte
	content  bool
	from, to int // a content string in the data
}

func chatEvent(s *Stream, name, data []byte) Mark {
	c := chatChunk{states: s.choices}
	p := parse(data)
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "choices":
			c.list(&p)
		case "error":
			c.err = p.filledError() || c.err
		case "object":
			c.err = string(p.raw()) == `"error"` || c.err
		default:
			p.skip()
		}
	}
	if !p.end() {
		return MarkMalformed
	}
	if c.err || c.choices == 0 {
		q := inspect(data)
		if c.err || string(name) == "error" || q.envelope() {
			q.hasError = true
			return s.fail(q)
		}
		return 0
	}
	return s.chunk(&c)
}

// chunk applies a chunk with choices.
func (s *Stream) chunk(c *chatChunk) Mark {
	if c.failed != nil {
		return s.failFinish(string(c.failed))
	}
	was := s.choices.done()
	s.choices = c.states
	m := MarkData
	if c.content {
		m |= MarkContent
		s.template.mark(c.from, c.to)
	}
	if !was && s.choices.done() {
		m |= MarkEnd
	}
	return m
}

// failFinish ends the stream for a finish reason that names a failure. A
// [DONE] may follow.
func (s *Stream) failFinish(reason string) Mark {
	return s.fail(&problem{nested: word{reason, true}}) &^ MarkFinal
}

// list reads the choices.
func (c *chatChunk) list(p *parser) {
	if p.kind() != '[' {
		p.skip()
		return
	}
	for ok := p.array(); ok && p.element(); {
		if p.kind() != '{' {
			p.skip()
			continue
		}
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
			c.delta(p)
		case "text":
			c.piece(p)
		case "error":
			c.err = p.filledError() || c.err
		default:
			p.skip()
		}
	}
	if c.states.saw(index, finish) {
		c.failed = finish
	}
}

// smallIndex is choiceIndex without a conversion for the usual digit.
func smallIndex(raw []byte) int {
	if len(raw) == 1 {
		if n := int(raw[0] - '0'); n <= 9 {
			return n
		}
	}
	return choiceIndex(raw)
}

// delta looks for content: any member but the role that holds something.
func (c *chatChunk) delta(p *parser) {
	if p.kind() != '{' {
		p.skip()
		return
	}
	for ok := p.object(); ok && p.member(); {
		if string(p.name) == "role" {
			p.skip()
			continue
		}
		c.piece(p)
	}
}

// piece consumes a value that is content if there is something in it.
func (c *chatChunk) piece(p *parser) {
	isText, start := p.kind() == '"', p.i
	if !p.filled() {
		return
	}
	c.content = true
	c.from, c.to = 0, 0
	if isText {
		c.from, c.to = start+1, p.i-1
	}
}

// filledError consumes the value of an error member and reports whether it is
// one: an object or a string with something in it.
func (p *parser) filledError() bool {
	k := p.kind()
	return p.filled() && (k == '{' || k == '"')
}

// text returns the contents of a JSON string as they stand, nil for other
// values.
func text(raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return nil
	}
	return raw[1 : len(raw)-1]
}

func chatLarge(s *Stream, name []byte, p *problem) Mark {
	if p.hasError || p.flat || p.choices == 0 && (string(name) == "error" || p.envelope()) {
		p.hasError = true
		return s.fail(p)
	}
	if p.choices == 0 {
		return 0
	}
	if p.failedFinish != "" {
		return s.failFinish(p.failedFinish)
	}
	was := s.choices.done()
	s.choices.merge(p.states)
	m := MarkData | MarkContent
	if !was && s.choices.done() {
		m |= MarkEnd
	}
	return m
}

func (c *choiceStates) merge(o *choiceStates) {
	for i := range c.seen {
		c.seen[i] |= o.seen[i]
		c.finished[i] |= o.finished[i]
	}
}

// A chatBody is what a whole chat answer holds.
type chatBody struct {
	choices    bool // at least one
	err        bool
	failed     []byte // a finish reason that names a failure
	usable     bool
	usage      bool // not all zero
	success    int  // vendor marks of success without choices
	drift      string
	choiceSeen int
}

func chatJudge(f *Format, provider string, b []byte) Verdict {
	if b[0] != '{' {
		return judgeNoObject(f, provider, b)
	}
	var c chatBody
	p := parse(b)
	for ok := p.object(); ok && p.member(); {
		c.member(&p)
	}
	switch {
	case !p.end():
		return f.drift(provider, "invalid JSON", ReasonMalformed)
	case c.failed != nil:
		q := inspect(b)
		if !q.nested.set() && !q.topCode.set() {
			q.nested = word{string(c.failed), true}
		}
		return Verdict{Failure: f.told(q, b)}
	case !c.usable && (c.err || !c.choices):
		if v := f.hidden(b); v != nil {
			return Verdict{Failure: v}
		}
	}
	switch {
	case c.drift != "":
		return f.drift(provider, c.drift, ReasonDrift)
	case c.success == allSuccess && !c.choices:
		return Verdict{} // another vendor's envelope, which says it went well
	case !c.choices:
		return f.broken(ReasonNoChoices, "provider returned no choices")
	case !c.usage:
		return Verdict{Empty: EmptyUsage, Usable: c.usable}
	}
	return Verdict{Usable: c.usable}
}

// allSuccess is "success": true beside a code of success and data.
const allSuccess = 1 | 2 | 4

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
	case "error":
		c.err = p.filledError()
	case "success":
		c.success |= bit(string(p.raw()) == "true", 1)
	case "code":
		switch string(p.raw()) {
		case "200", "0", `"200"`, `"0"`:
			c.success |= 2
		}
	case "data":
		c.success |= 4
		p.skip()
	default:
		p.skip()
	}
}

func bit(ok bool, v int) int {
	if ok {
		return v
	}
	return 0
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
			p.skip()
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
		case "error":
			c.err = p.filledError() || c.err
		default:
			p.skip()
		}
	}
}

func (c *chatBody) message(p *parser) {
	for ok := p.object(); ok && p.member(); {
		k := p.kind()
		switch string(p.name) {
		case "role":
			p.skip()
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
