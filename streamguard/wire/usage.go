package wire

import "strconv"

// Usage is what an answer says that it took, in tokens. A part that it does not
// tell is 0. Vendors count differently: here Input has all of the prompt, the
// cached part of it included, and Output all that was generated, reasoning
// included.
type Usage struct {
	Input      int64 // of the prompt
	CacheRead  int64 // of Input: taken from a cache
	CacheWrite int64 // of Input: put into a cache
	Output     int64 // generated
	Reasoning  int64 // of Output: not shown as text
}

// What a number in an object of usage means. Some vendors leave the cached part
// out of the input, and the reasoning out of the output.
const (
	inputTokens  = iota
	promptTokens // the same in the chat format, where the cached part is in it
	totalTokens  // shows what is beside what
	outputTokens
	cacheRead
	cacheWrite
	reasoning
	readBeside // the input: Anthropic and Bedrock
	wroteBeside
	thoughtBeside // the output: Google
	toolsBeside   // the input: what Google's own tools gave the model
	kindsOfTokens
)

// tokens are the numbers as they stand.
type tokens [kindsOfTokens]int64

// kindOfTokens returns what a member's number means, kindsOfTokens for one that
// is none.
func kindOfTokens(name []byte) int {
	switch string(name) {
	case "prompt_tokens":
		return promptTokens
	case "total_tokens":
		return totalTokens
	case "input_tokens", "inputTokens", "promptTokenCount", "total_input_tokens", "inputTokenCount",
		"prompt_eval_count", "tokens_evaluated":
		return inputTokens
	case "completion_tokens", "output_tokens", "outputTokens", "candidatesTokenCount", "total_output_tokens", "outputTokenCount",
		"eval_count", "tokens_predicted":
		return outputTokens
	case "cached_tokens", "prompt_cache_hit_tokens", "cachedContentTokenCount", "total_cached_tokens", "num_cached_tokens":
		return cacheRead
	case "cache_write_tokens":
		return cacheWrite
	case "reasoning_tokens":
		return reasoning
	case "cache_read_input_tokens", "cacheReadInputTokens", "cacheReadInputTokenCount":
		return readBeside
	case "cache_creation_input_tokens", "cacheWriteInputTokens", "cacheWriteInputTokenCount":
		return wroteBeside
	case "thoughtsTokenCount", "total_thought_tokens", "total_reasoning_tokens":
		return thoughtBeside
	case "toolUsePromptTokenCount", "total_tool_use_tokens":
		return toolsBeside
	}
	return kindsOfTokens
}

// holdsDetails reports whether parts of a number stand in a member.
func holdsDetails(name []byte) bool {
	switch string(name) {
	case "prompt_tokens_details", "input_tokens_details", "completion_tokens_details", "output_tokens_details", "tokens":
		return true
	}
	return false
}

// read adds what the object of usage raw says; where a number was there before,
// as in a stream that counts up, the larger one stands.
func (u *Usage) read(raw []byte) {
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	var t tokens
	t.object(raw, 0)
	u.add(t.usage())
}

func (t *tokens) usage() Usage {
	in, out := max(t[inputTokens], t[promptTokens]), t[outputTokens]
	if beside := t[readBeside] + t[wroteBeside]; !t.hasCachedIn(in + out + beside) {
		in += beside
	}
	if t[reasoning] > out || t[reasoning] > 0 && t[totalTokens] == in+out+t[reasoning] {
		out += t[reasoning] // xAI
	}
	return Usage{
		Input:      in + t[toolsBeside],
		CacheRead:  max(t[cacheRead], t[readBeside]),
		CacheWrite: max(t[cacheWrite], t[wroteBeside]),
		Output:     out + t[thoughtBeside],
		Reasoning:  t[reasoning] + t[thoughtBeside],
	}
}

// hasCachedIn reports whether the cached part is in the input, although a member has
// the name that stands for one beside it: gateways such as LiteLLM give OpenAI's
// numbers under both vendors' names. all is the total if it is beside.
func (t *tokens) hasCachedIn(all int64) bool {
	return (t[promptTokens] > 0 || t[cacheRead] > 0) && t[totalTokens] != all
}

// add keeps of each number the larger one.
func (u *Usage) add(v Usage) {
	u.Input, u.Output = max(u.Input, v.Input), max(u.Output, v.Output)
	u.CacheRead, u.CacheWrite, u.Reasoning = max(u.CacheRead, v.CacheRead), max(u.CacheWrite, v.CacheWrite), max(u.Reasoning, v.Reasoning)
}

func (t *tokens) object(raw []byte, depth int) {
	p := parse(raw)
	for ok := p.object(); ok && p.member(); {
		if depth == 0 && p.kind() == '{' && holdsDetails(p.name) {
			t.object(p.raw(), depth+1)
			continue
		}
		t.number(&p)
	}
}

// number consumes a value, and keeps it if it is a number of tokens.
func (t *tokens) number(p *parser) {
	kind := kindOfTokens(p.name)
	if raw := p.raw(); kind < kindsOfTokens {
		t[kind] = max(t[kind], count(raw))
	}
}

// mostTokens is beyond what any answer can take: what says more is wrong.
const mostTokens = 1 << 40

// count returns a number of tokens, 0 for what is none.
func count(raw []byte) int64 {
	n := int64(0)
	for _, c := range raw {
		if c < '0' || c > '9' {
			return roughly(raw)
		}
		if n = n*10 + int64(c-'0'); n > mostTokens {
			return 0
		}
	}
	return n
}

// roughly is count for a number that is not written as one of whole things is:
// some gateways write 12.0.
func roughly(raw []byte) int64 {
	if !isNumber(raw) {
		return 0
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f < 1 || f > mostTokens {
		return 0
	}
	return int64(f)
}

// take consumes an object of usage, and reports whether it counts anything.
func (u *Usage) take(p *parser) (counted bool) {
	raw := p.raw()
	u.read(raw)
	return nonZero(raw)
}

// beside returns the usage at the top of a body that is a failure.
func (u *Usage) beside(b []byte) {
	p := parse(b)
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "usage", "usageMetadata":
			u.take(&p)
		}
	}
}

// A counter is the usage of a whole body.
type counter struct {
	Usage
	counted bool // it is there, and not all zero
}

func (c *counter) take(p *parser) { c.counted = c.Usage.take(p) }

// alone is for a format whose numbers stand at the top of its answer: p is at one.
// It reports whether that is more than nothing.
func (c *counter) alone(p *parser) bool {
	from := p.i
	var t tokens
	t.number(p)
	c.add(t.usage())
	return nonZero(p.b[from:p.i])
}

// Usage returns what the stream has said so far that it takes, nil where it has
// said nothing. It changes while the stream goes on.
func (s *Stream) Usage() *Usage {
	if t := &s.template; len(t.usage) > 0 { // of an event that was not parsed
		var u Usage
		u.read(t.usage)
		s.addUsage(u)
		t.usage = t.usage[:0]
	}
	return s.usage
}

// addUsage takes numbers up.
func (s *Stream) addUsage(u Usage) {
	if u == (Usage{}) {
		return
	}
	if s.usage == nil {
		s.usage = new(Usage)
	}
	s.usage.add(u)
}

// takeUsage consumes an object of usage.
func (s *Stream) takeUsage(p *parser) {
	var u Usage
	u.take(p)
	s.addUsage(u)
}

// usageWithin consumes an object that holds one.
func (s *Stream) usageWithin(p *parser) {
	for ok := p.intoObject(); ok && p.member(); {
		if string(p.name) == "usage" {
			s.takeUsage(p)
		}
	}
}

// heedlessUsage consumes a usage that stands in each event of a stream: it counts
// up, and changes nothing else.
func (s *Stream) heedlessUsage(p *parser) {
	from := p.i
	s.template.heedless(p)
	if p.bad {
		return
	}
	if t := &s.template; t.neutrals > 0 && t.neutral[t.neutrals-1].from == from {
		t.used = t.neutrals
	}
	var u Usage
	u.read(p.b[from:p.i])
	s.addUsage(u)
}
