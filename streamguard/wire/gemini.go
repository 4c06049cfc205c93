package wire

import (
	"bytes"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Gemini is Google's generateContent, of the Gemini API and of Vertex AI.
var Gemini = &Format{
	name: "gemini", operation: "generate_content", generative: true, pathStream: true,
	bound:   geminiBound,
	carries: []signs{{{name: "candidates", kinds: "["}}, {{name: "promptFeedback", kinds: "{"}}, {{name: "usageMetadata", kinds: "{"}}},
	// Candidates are due in every whole answer.
	lacking: func(*Format, []byte) Verdict { return Verdict{Empty: EmptyOutput} },
	errors:  geminiErrors,
	match:   googleMethod("generateContent", "streamGenerateContent"), framing: geminiFraming, shape: geminiShape,
	event: geminiEvent, torn: geminiTorn,
	judge: wantObject(geminiJudge), errorBody: geminiError, abort: geminiAbort,
}

// googleFile is in the address of a file that was uploaded to an account; other
// addresses are public, or name what their own permissions guard.
const googleFile = "generativelanguage.googleapis.com"

var geminiBound = []string{
	"cachedContent", "cached_content", "continuationToken",
	"contents[].parts[].fileData.fileUri has " + googleFile, "contents[].parts[].fileData.file_uri has " + googleFile,
	"contents[].parts[].file_data.fileUri has " + googleFile, "contents[].parts[].file_data.file_uri has " + googleFile,
	"contents[].parts[].thoughtSignature", "contents[].parts[].thought_signature",
}

// geminiErrors are the details of google.rpc.Status.
var geminiErrors = []errorPath{
	{says: aWish, paths: "error.details[].retryDelay"},
	{says: aQuota, paths: "error.details[].violations[].quotaId"},
}

// geminiEmbeddings is the embeddings of Google's own API, whose clients read
// errors in Google's shape only.
var geminiEmbeddings = &Format{
	name: "embeddings", operation: "embeddings", endless: true, pathStream: true,
	match: googleMethod("embedContent", "batchEmbedContents"),
	judge: embeddingsJudge, errorBody: geminiError,
}

// googleMethod matches …/{collection}/{model}:verb of the Gemini API
// (models, tunedModels) and of Vertex AI (publishers/google/models, endpoints).
// What the endpoint keeps of the path is what no base URL has: the API's
// version, or the publisher.
func googleMethod(verbs ...string) func(string, *url.URL) (string, bool) {
	return func(method string, u *url.URL) (string, bool) {
		if method != http.MethodPost {
			return "", false
		}
		i := strings.LastIndexByte(u.Path, '/')
		colon := strings.LastIndexByte(u.Path, ':')
		if i <= 0 || colon < i {
			return "", false
		}
		known := false
		for _, v := range verbs {
			known = known || u.Path[colon+1:] == v
		}
		if !known {
			return "", false
		}
		j := strings.LastIndexByte(u.Path[:i], '/')
		switch u.Path[j+1 : i] {
		case "models":
			if p, ok := strings.CutSuffix(u.Path[:max(j, 0)], "/publishers/google"); ok {
				return u.Path[len(p):], true
			}
		case "tunedModels", "endpoints":
		default:
			return "", false
		}
		return u.Path[versionStart(u.Path, max(j, 0)):], true
	}
}

// versionStart returns where the path segment before path[i] begins if it is an
// API's version, else i.
func versionStart(path string, i int) int {
	j := strings.LastIndexByte(path[:i], '/')
	if j < 0 || i-j < 3 || path[j+1] != 'v' || path[j+2]-'0' > 9 {
		return i
	}
	return j
}

func geminiFraming(s *Stream, first byte) framing {
	if first == '[' {
		return &arrayFraming{}
	}
	return &s.sse
}

func geminiShape(head []byte, _ string, stream bool) Shape {
	shape := Sniff(head)
	if shape == ShapeJSON && stream && trimStart(head)[0] == '[' {
		return ShapeEvents
	}
	return shape
}

// A geminiChunk is what one response object says.
type geminiChunk struct {
	states     choiceStates
	candidates int
	blocked    bool // the prompt, so that there are no candidates
	err        bool
	aside      bool // members of a response, though it has no candidates
	pieces

	usable bool    // of a whole body
	usage  counter // the same
	stream *Stream
}

func (c *geminiChunk) read(p *parser) {
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "candidates":
			c.aside = true
			c.list(p)
		case "promptFeedback":
			c.aside = true
			c.feedback(p)
		case "error":
			c.err = p.filled() || c.err
		case "usageMetadata":
			c.aside = true
			if c.stream != nil {
				c.stream.heedlessUsage(p)
				continue
			}
			c.usage.take(p)
		}
	}
}

func (c *geminiChunk) list(p *parser) {
	for ok := p.intoArray(); ok && p.objectElement(); {
		c.candidates++
		c.candidate(p)
	}
}

func (c *geminiChunk) candidate(p *parser) {
	index, content := 0, false
	var finish []byte
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "index":
			index = smallIndex(p.raw())
		case "finishReason":
			finish = googleReason(text(p.raw()))
		case "content":
			content = c.parts(p)
		}
	}
	c.usable = c.usable || content || len(finish) > 0
	if content && len(finish) == 0 {
		c.states.resume(index)
	}
	c.states.saw(index, finish)
}

// googleReason returns an enumeration's word, nil for one that says nothing.
func googleReason(b []byte) []byte {
	if bytes.HasSuffix(b, []byte("_UNSPECIFIED")) {
		return nil
	}
	return b
}

// parts reads a candidate's content and reports whether it holds anything.
func (c *geminiChunk) parts(p *parser) (content bool) {
	for ok := p.intoObject(); ok && p.member(); {
		if string(p.name) != "parts" || p.kind() != '[' {
			continue
		}
		for ok := p.array(); ok && p.element(); {
			content = c.part(p) || content
		}
	}
	return content
}

func (c *geminiChunk) part(p *parser) (content bool) {
	for ok := p.intoObject(); ok && p.member(); {
		content = c.piece(p) || content
	}
	return content
}

func (c *geminiChunk) feedback(p *parser) {
	for ok := p.intoObject(); ok && p.member(); {
		if string(p.name) == "blockReason" {
			c.blocked = len(googleReason(text(p.raw()))) > 0
			continue
		}
	}
}

// geminiEvent applies a response object. A candidate may finish early, or at
// every piece, and go on (0xPlaygrounds/rig#2328): so no object is the last one,
// only the end of the body ends the stream.
func geminiEvent(s *Stream, name, data []byte) Mark {
	c := geminiChunk{states: s.choices, stream: s}
	p := parse(data)
	c.read(&p)
	if !p.end() {
		return MarkMalformed
	}
	if c.err || c.candidates == 0 && !c.blocked {
		return s.noAnswer(name, c.err, c.aside, inspect(data))
	}
	m := s.answer(&c.pieces)
	if c.blocked {
		s.ended = true
		return m | MarkEnd
	}
	m |= s.advance(c.states)
	for i, bits := range s.choices.finished {
		s.once[i] |= bits
	}
	return m
}

// geminiTorn reports whether half an event had, or may have had, candidates:
// then the answer went on behind its finishReason.
func geminiTorn(ev []byte) bool {
	const key = `"candidates"`
	i := bytes.IndexByte(ev, '{')
	if i < 0 {
		return false
	}
	b := ev[skipSpace(ev, i+1):]
	return strings.HasPrefix(key, string(b[:min(len(b), len(key))])) || bytes.Contains(b, []byte(key))
}

func geminiJudge(f *Format, a Answer, b []byte) Verdict {
	var c geminiChunk
	p := parse(b)
	c.read(&p)
	if v, done := f.unfit(a, &p, c.usable, c.candidates > 0 || c.blocked); done {
		return v
	}
	return delivered(c.usable, c.usage)
}

// googleStatus returns the word of google.rpc.Code for an HTTP status.
func googleStatus(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusConflict:
		return "ABORTED"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case 499:
		return "CANCELLED"
	case http.StatusInternalServerError:
		return "INTERNAL"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	}
	if status < 500 {
		return "INVALID_ARGUMENT"
	}
	return "UNAVAILABLE"
}

// geminiError renders google.rpc.Status. Its code is a number, which the
// official client insists on; a code that is text becomes the reason of an
// ErrorInfo.
func geminiError(status int, _, code, message string) []byte {
	b := strconv.AppendInt([]byte(`{"error":{"code":`), int64(status), 10)
	b = append(append(b, `,"message":`...), quote(message)...)
	word := googleStatus(status)
	b = append(append(b, `,"status":`...), quote(word)...)
	if code != "" && code != word && code != strconv.Itoa(status) {
		b = append(b, `,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":`...)
		b = append(append(b, quote(code)...), `,"domain":"surefoot"}]`...)
	}
	return append(b, "}}"...)
}

func geminiAbort(_ *Stream, _ int, _, message string) (string, []byte) {
	return "", geminiError(http.StatusServiceUnavailable, "", "", message)
}
