package wire

import (
	"bytes"
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

// resume takes back that a choice has finished.
func (c *choiceStates) resume(index int) { c.finished[index>>6] &^= 1 << (index & 63) }

func (c *choiceStates) done() bool {
	return c.seen == c.finished && c.seen != [4]uint64{}
}

// failedFinish knows the finish reasons that name a failure: OpenRouter,
// Mistral and vLLM error, SGLang abort, Zhipu network_error, DeepSeek
// insufficient_system_resource, Bedrock malformed_tool_use and
// malformed_model_output. A content filter is not an outage.
func failedFinish(b []byte) bool {
	switch string(b) {
	case "error", "abort", "network_error", "insufficient_system_resource":
		return true
	}
	return bytes.HasPrefix(b, []byte("malformed_"))
}

func choiceIndex(raw []byte) int {
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n < 0 {
		return 0
	}
	return int(min(n, maxChoice))
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
			c.groq(&p)
		case "base_resp":
			c.base(&p)
		case "usage":
			c.usage = p.kind() == '{'
			s.template.heedless(&p)
		case "obfuscation":
			s.template.heedless(&p)
		}
	}
	return s.chunkEvent(&c, &p, name)
}

// chunkEvent judges an event that p has read.
func (s *Stream) chunkEvent(c *chatChunk, p *parser, name []byte) Mark {
	if !p.end() {
		return MarkMalformed
	}
	if c.err || c.choices == 0 {
		return s.noAnswer(name, c.err, c.aside || c.usage && !s.strange && !fillsMore(p.b), inspect(p.b))
	}
	return s.chunk(c)
}

// chunk applies a chunk with choices.
func (s *Stream) chunk(c *chatChunk) Mark {
	if c.failed != nil {
		return s.failFinish(string(c.failed))
	}
	return s.answer(&c.pieces) | s.advance(c.states)
}

// failFinish ends the stream for a finish reason that names a failure, which is
// never the request's fault. A [DONE] may follow, or an event with more to say.
func (s *Stream) failFinish(reason string) Mark {
	return s.fail(&problem{nested: reason, status: "502", unnamed: true}) &^ MarkFinal
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
func (c *chatChunk) groq(p *parser) {
	for ok := p.intoObject(); ok && p.member(); {
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

// smallIndex is choiceIndex without a conversion for the usual digit.
func smallIndex(raw []byte) int {
	if len(raw) == 1 {
		if n := int(raw[0] - '0'); n <= 9 {
			return n
		}
	}
	return choiceIndex(raw)
}
