package wire

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
)

// Bedrock is the Converse and Invoke methods of Amazon Bedrock. What a model
// gets and gives by Invoke is its vendor's business; its streams are known by
// what Bedrock adds and by the end marks of the usual vendors.
var Bedrock = &Format{
	name: "bedrock", operation: "chat", generative: true, pathStream: true, anyBody: true,
	bound:   append(bedrockBound, messagesBound...),
	carries: []signs{{{name: "output", kinds: "{"}, {name: "stopReason", words: []string{"*"}}}},
	errors:  bedrockErrors,
	match:   matchBedrock, framing: func(s *Stream, _ byte) framing { return &s.frames }, frame: bedrockFrame, unwrap: bedrockUnwrap, shape: bedrockShape,
	judge: bedrockJudge, errorBody: bedrockError, errorName: exceptionHeader,
}

var bedrockBound = []string{
	"messages[].content[].reasoningContent.reasoningText.signature", "messages[].content[].reasoningContent.redactedContent",
}

// bedrockErrors are AWS's, also where a service answers for itself.
var bedrockErrors = []errorPath{
	{says: anException, paths: "__type"},
	{says: topMessage, paths: "Message"},
	{says: itsException, paths: "Output.__type"},
	{says: aMessage, paths: "Output.message Output.Message"},
}

// bedrockEmbeddings is an embedding model that is invoked.
var bedrockEmbeddings = &Format{
	name: "embeddings", operation: "embeddings", endless: true, anyBody: true, pathStream: true,
	match: matchBedrockEmbeddings, judge: bedrockJudge, errorBody: bedrockError, errorName: exceptionHeader,
}

func matchBedrock(method string, u *url.URL) (string, bool) {
	i := strings.LastIndex(u.Path, "/model/")
	if method != http.MethodPost || i < 0 {
		return "", false
	}
	rest := u.Path[i+len("/model/"):]
	j := strings.LastIndexByte(rest, '/')
	if j <= 0 {
		return "", false
	}
	switch rest[j+1:] {
	case "converse", "converse-stream", "invoke", "invoke-with-response-stream":
		return u.Path[i:], true
	}
	return "", false
}

// matchBedrockEmbeddings knows embedding models by their names:
// amazon.titan-embed-text-v2:0, cohere.embed-english-v3.
func matchBedrockEmbeddings(method string, u *url.URL) (string, bool) {
	e, ok := matchBedrock(method, u)
	return e, ok && strings.HasSuffix(e, "/invoke") && strings.Contains(e, "embed")
}

// bedrockShape goes by the label, or by the first byte: frames of less than
// 16 MiB begin with a zero.
func bedrockShape(head []byte, contentType string, stream bool) Shape {
	if mediaType(contentType) == "application/vnd.amazon.eventstream" ||
		stream && len(head) > 0 && head[0] <= 1 {
		return ShapeEvents
	}
	return Sniff(head)
}

// isChunk reports whether the frame's payload wraps a model's own event.
func (h *frameHead) isChunk() bool { return h.tells() && string(h.eventType) == "chunk" }

func bedrockUnwrap(h frameHead) *base64Member {
	if h.isChunk() {
		return &base64Member{name: chunkMember}
	}
	return nil
}

// bedrockFrame judges a frame; that of a chunk wraps a model's own event.
func bedrockFrame(s *Stream, h frameHead, payload []byte, unwrapped bool) Mark {
	switch {
	case !h.tells():
		return s.fail(bedrockProblem(&h, inspect(payload)))
	case unwrapped:
		return modelMarks(s, payload)
	case h.isChunk():
		return bedrockChunk(s, payload)
	}
	s.template.head = 0
	said, stop, ok := readConverse(s, payload)
	if !ok {
		return MarkMalformed
	}
	return converseMarks(s, h.eventType, said, stop)
}

// readConverse reads the payload of an event of ConverseStream: whether its
// delta says something, and its stopReason.
func readConverse(s *Stream, payload []byte) (said bool, stop []byte, ok bool) {
	if len(payload) == 0 {
		return false, nil, true
	}
	p := parse(payload)
	for in := p.intoObject(); in && p.member(); {
		switch string(p.name) {
		case "delta":
			var text span
			if text, said = p.said(); said {
				s.template.mark(text)
				s.said += int64(p.texts)
			}
		case "p": // padding
			s.template.heedless(&p)
		case "stopReason":
			stop = text(p.raw())
		case "usage":
			s.takeUsage(&p)
		}
	}
	return said, stop, p.end()
}

// converseMarks gives the marks of an event of ConverseStream. The usage comes
// behind the end.
func converseMarks(s *Stream, eventType []byte, said bool, stop []byte) Mark {
	switch string(eventType) {
	case "messageStart", "contentBlockStart", "contentBlockStop":
		return MarkData
	case "contentBlockDelta":
		if said {
			return MarkData | MarkContent
		}
		return MarkData
	case "messageStop":
		if failedFinish(stop) {
			return s.failFinish(string(stop))
		}
		s.ended = true
		return MarkData | MarkEnd
	case "metadata":
		if s.ended {
			return MarkData | MarkFinal
		}
		return MarkAside
	}
	return 0
}

// chunkMember holds the event of a chunk.
const chunkMember = "bytes"

// bedrockProblem gives p the name of the exception.
func bedrockProblem(h *frameHead, p *problem) *problem {
	p.hasError = true
	if p.kind = string(h.exceptionType); p.kind == "" {
		p.kind = string(h.errorCode)
	}
	if p.message == "" {
		p.message = string(h.errorMessage)
	}
	if p.nested == "" {
		p.nested = p.kind
	}
	return p
}

// bedrockJudge looks for an error envelope and judges nothing else: what an
// answer looks like is the model's business.
func bedrockJudge(f *Format, a Answer, b []byte) Verdict {
	if b[0] == '[' {
		if !valid(b) {
			return f.malformed(a)
		}
		v := f.listed(a, b)
		return Verdict{Failure: v, Usable: v == nil}
	}
	var stop []byte
	var usage Usage
	p := parse(b)
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "stopReason":
			stop = text(p.raw())
		case "usage": // Converse's, and of most models
			usage.take(&p)
		}
	}
	if p.end() && failedFinish(stop) {
		return Verdict{Failure: f.told(&problem{nested: string(stop), words: a.Words}, nil)}
	}
	if v, done := f.unfit(a, &p, false, true); done {
		return v
	}
	return Verdict{Usable: true, Usage: usage}
}

// exceptionName takes the namespace off the name of an AWS exception, and what
// some services write behind it: com.amazon.coral.service#ThrottlingException,
// ThrottlingException:http://…
func exceptionName(v []byte) []byte {
	v = v[bytes.LastIndexByte(v, '#')+1:]
	v, _, _ = bytes.Cut(v, []byte(":"))
	return v
}

// isException reports whether a name that a body gives itself is an error's: a
// model's own answer may have a __type, too.
func isException(name string) bool {
	for _, end := range [...]string{"Exception", "Error", "Failure", "Fault"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return builtIn(normal(name)).status != 0
}

// bedrockError renders what AWS clients read. They look for the error's name in
// a header first, see exceptionHeader, and then in __type.
func bedrockError(status int, typ, code, message string) []byte {
	name := exceptionOf(status, typ, code)
	b := append([]byte(`{"__type":`), quote(name)...)
	b = append(append(b, `,"message":`...), quote(message)...)
	if code != "" && !strings.EqualFold(code, name) { // a member "code" would be taken for the name
		b = append(append(b, `,"reason":`...), quote(code)...)
	}
	return append(b, '}')
}

// exceptionHeader is where AWS clients look for the name of an error.
func exceptionHeader(status int, typ, code string) (header, value string) {
	return "X-Amzn-Errortype", exceptionOf(status, typ, code)
}

// exceptionOf returns the name of an exception as an answer with a status spells
// it: a stream's throttlingException is a ThrottlingException there.
func exceptionOf(status int, typ, code string) string {
	for _, name := range [...]string{code, typ} {
		if strings.HasSuffix(name, "Exception") {
			return strings.ToUpper(name[:1]) + name[1:]
		}
	}
	return bedrockName(status)
}

// bedrockName returns the name of the exception for a status.
func bedrockName(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "AccessDeniedException"
	case http.StatusNotFound:
		return "ResourceNotFoundException"
	case http.StatusTooManyRequests:
		return "ThrottlingException"
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return "ModelTimeoutException"
	case http.StatusFailedDependency:
		return "ModelErrorException"
	case http.StatusInternalServerError:
		return "InternalServerException"
	}
	if status < 500 {
		return "ValidationException"
	}
	return "ServiceUnavailableException"
}
