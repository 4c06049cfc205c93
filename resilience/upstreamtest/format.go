package upstreamtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Format is the wire format of a request, told by its path.
type Format string

// The formats that can be answered.
const (
	Unknown      Format = ""             // any other path
	Chat         Format = "chat"         // OpenAI …/chat/completions, Azure deployments too
	Completions  Format = "completions"  // OpenAI legacy …/completions
	Responses    Format = "responses"    // OpenAI …/responses
	Messages     Format = "messages"     // Anthropic …/messages
	Embeddings   Format = "embeddings"   // OpenAI …/embeddings
	Gemini       Format = "gemini"       // …:generateContent, …:streamGenerateContent (SSE or array)
	Ollama       Format = "ollama"       // /api/chat, /api/generate
	Cohere       Format = "cohere"       // /v2/chat
	Interactions Format = "interactions" // Gemini …/interactions
	Bedrock      Format = "bedrock"      // Amazon: /model/{id}/ and converse, converse-stream, invoke or invoke-with-response-stream
	Models       Format = "models"       // GET …/models, /api/tags: a model list
)

// format knows how one wire format looks.
type format struct {
	sse        bool   // streams are text/event-stream
	binary     bool   // events have no lines
	mime       string // of a stream
	lineEnd    LineEnd
	done       string // final mark that says nothing else
	whole      func(r *Request, a answer) string
	events     func(r *Request, a answer) []event
	errorBody  func(r *Request, w words) string
	errorEvent func(r *Request, status, before int) []byte
	frame      func(data string) []byte

	errorHeader func(w words) []field // beside errorBody; nil: none
}

// answer is what a good answer says, in no format yet.
type answer struct {
	texts      []string
	tool, args string
	finish     string
	usage      bool
	in, out    int
}

func (a answer) text() string { return strings.Join(a.texts, "") }

// tokens is the usage that the answer reports.
func (a answer) tokens() (in, out int) {
	if a.usage {
		return a.in, a.out
	}
	return 1, max(len(a.texts), 1)
}

// reason is the finish reason: the test's own or one of the defaults.
func (a answer) reason(stop, tool string) string {
	switch {
	case a.finish != "":
		return a.finish
	case a.tool != "":
		return tool
	}
	return stop
}

// halves are the tool's arguments as a stream sends them.
func (a answer) halves() []string {
	return []string{a.args[:len(a.args)/2], a.args[len(a.args)/2:]}
}

// quote is s as a JSON string, with <, > and & as they are.
func quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// created is the time that every answer carries, so that answers are the same
// bytes in each run.
const created = 1700000000

// formatOf tells a request's format from its method and path.
func formatOf(method, path string) Format {
	path = strings.TrimRight(path, "/")
	has := func(suffix string) bool { return strings.HasSuffix(path, suffix) }
	read := method == http.MethodGet || method == http.MethodHead
	switch {
	case read && (has("/models") || has("/api/tags")):
		return Models
	case has("/chat/completions"):
		return Chat
	case has("/completions"):
		return Completions
	case has("/responses"), read && strings.Contains(path, "/responses/"):
		return Responses
	case has("/interactions"), read && strings.Contains(path, "/interactions/"):
		return Interactions
	case has("/messages"), has(":rawPredict"), has(":streamRawPredict"):
		return Messages
	case has("/embeddings"):
		return Embeddings
	case has(":generateContent"), has(":streamGenerateContent"):
		return Gemini
	case has("/api/chat"), has("/api/generate"):
		return Ollama
	case has("/v2/chat"):
		return Cohere
	case bedrockMethod(path) != "":
		return Bedrock
	}
	return Unknown
}

// pathModel is the model that a path names (Gemini, Vertex, Azure, Bedrock).
func pathModel(path string) string {
	if m := bedrockMethod(strings.TrimRight(path, "/")); m != "" {
		_, rest, _ := strings.Cut(path, "/model/")
		return rest[:strings.LastIndex(rest, "/"+m)]
	}
	for _, before := range []string{"/models/", "/deployments/", "/model/"} {
		if _, rest, ok := strings.Cut(path, before); ok {
			rest, _, _ = strings.Cut(rest, "/")
			if i := strings.LastIndexByte(rest, ':'); i >= 0 && isMethod(rest[i+1:]) {
				rest = rest[:i]
			}
			return rest
		}
	}
	return ""
}

// isMethod tells a Google method from a version tag such as ollama's ":7b".
func isMethod(s string) bool {
	switch s {
	case "generateContent", "streamGenerateContent", "rawPredict", "streamRawPredict", "countTokens", "embedContent", "predict":
		return true
	}
	return false
}

// asks is what a request's body says about the answer that is wanted.
type asks struct {
	model  string
	stream *bool
	usage  bool // chat: stream_options.include_usage
	inputs int  // embeddings
}

// readAsks looks at the top level of a JSON body; anything else says nothing.
func readAsks(body []byte) asks {
	var a asks
	var top map[string]json.RawMessage
	if json.Unmarshal(body, &top) != nil {
		return a
	}
	_ = json.Unmarshal(top["model"], &a.model) // no string: no model
	var stream bool
	if json.Unmarshal(top["stream"], &stream) == nil {
		a.stream = &stream
	}
	var opts struct {
		Usage bool `json:"include_usage"`
	}
	_ = json.Unmarshal(top["stream_options"], &opts) // absent: false
	a.usage = opts.Usage
	var many []json.RawMessage
	if json.Unmarshal(top["input"], &many) == nil {
		a.inputs = len(many)
	}
	return a
}

// streaming tells whether the request asks for a stream.
func streaming(f Format, u *url.URL, a asks) bool {
	switch {
	case strings.HasSuffix(u.Path, ":streamGenerateContent"), strings.HasSuffix(u.Path, ":streamRawPredict"):
		return true
	case f == Bedrock:
		return strings.HasSuffix(strings.TrimRight(u.Path, "/"), "-stream")
	case f == Ollama:
		return a.stream == nil || *a.stream
	case u.Query().Get("stream") == "true":
		return true
	}
	return a.stream != nil && *a.stream
}

// format is the look of the answer to r; unknown paths get the chat look.
func (r *Request) format() *format {
	switch r.Format {
	case Completions:
		return completionsFormat
	case Responses:
		return responsesFormat
	case Messages:
		return messagesFormat
	case Gemini:
		if r.Query().Get("alt") == "sse" {
			return geminiFormat
		}
		return geminiArrayFormat
	case Ollama:
		return ollamaFormat
	case Cohere:
		return cohereFormat
	case Interactions:
		return interactionsFormat
	case Bedrock:
		return bedrockFormat(r)
	}
	return chatFormat
}

// plain is the format of a body that is no stream.
func plain(f *format) *format {
	p := *f
	p.sse, p.binary = false, false
	p.frame = func(data string) []byte { return []byte(data) }
	p.done = ""
	p.errorEvent = func(r *Request, status, _ int) []byte { return []byte(f.errorBody(r, wordsOf(status))) }
	return &p
}

// sseFrame is an event without a name.
func sseFrame(data string) []byte {
	return []byte("data: " + strings.ReplaceAll(data, "\n", "\ndata: ") + "\n\n")
}

// named is an event with a name and data, as OpenAI responses, Anthropic and
// Cohere send them.
func named(name, format string, args ...any) []byte {
	return []byte("event: " + name + "\ndata: " + fmt.Sprintf(format, args...) + "\n\n")
}

func okContent(s *Step, r *Request) content {
	switch {
	case r.Format == Models:
		return modelsContent([]string{"model"}, r)
	case r.Format == Embeddings:
		return content{mime: jsonType, events: []event{{data: embeddings(r, s.answer), text: true}}}
	case r.Stream:
		return streamContent(s, r)
	}
	return wholeContent(s, r)
}

func streamContent(s *Step, r *Request) content {
	f := r.format()
	return content{mime: f.mime, stream: true, events: f.events(r, s.answer)}
}

func wholeContent(s *Step, r *Request) content {
	return content{mime: jsonType, events: []event{{data: []byte(r.format().whole(r, s.answer)), text: true}}}
}

func statusContent(s *Step, r *Request) content {
	if s.status < 400 {
		return content{}
	}
	f, w := r.format(), wordsOf(s.status)
	c := content{mime: jsonType, events: []event{{data: []byte(f.errorBody(r, w)), text: true}}}
	if f.errorHeader != nil {
		c.header = f.errorHeader(w)
	}
	return c
}

const (
	jsonType = "application/json"
	sseType  = "text/event-stream"
)
