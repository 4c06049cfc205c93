// Package wire says what each wire format of the LLM APIs means: which path it
// is, where its events end, what is content, what ends a stream, what is an
// error and which HTTP status that error stands for. It does no I/O of its own
// and holds no layer.
//
// A format is a value: a [Format] of data and a few funcs, in one file, that knows
// its vendor. A new one is that file, an entry in the table of this one, and its
// goldens under testdata. The other files know no vendor's events: the framings
// (sse*.go, jsonlines.go, jsonarray.go, eventstream.go) tell events apart and
// remember where they are, stream.go and data.go keep the account of a stream,
// problem.go and status.go read errors, condense.go makes an event that is too
// large to hold one that a format can read.
package wire

import (
	"net/http"
	"net/url"
	"strings"
)

// A Format is one wire format. The package's Formats are the only ones; they
// are immutable, compared by pointer and safe for concurrent use.
type Format struct {
	name       string // as String returns it: "chat completions", "responses", …
	operation  string // gen_ai.operation.name
	generative bool

	// Requests.

	// match tells whether a request is of this format; endpoint is the suffix
	// of its path that stays when the base URL changes. nil is none.
	match func(method string, u *url.URL) (endpoint string, ok bool)
	// pathStream marks formats where the path alone asks for a stream, and
	// defaultStream those whose streams are on unless the body says no.
	pathStream, defaultStream bool
	// asksStream reports whether a header asks for a stream; nil is no.
	asksStream func(h http.Header) bool
	// bound are the places in a request that bind it to an account, by vendor
	// documentation of 2026, see place.at; " has " and a text behind one is what
	// the string there has in it. binds is the bit of the formats that have any.
	bound []string
	binds binding
	// boundPath reports whether the path does so, by the name of an answer or a
	// conversation; nil is no.
	boundPath func(method string, u *url.URL) bool

	// Streams.

	// framing returns how a stream's events are told apart by its first byte
	// that is no white space, 0 if there is none; nil is SSE.
	framing func(s *Stream, first byte) framing
	// event judges the data of one event, which begins as JSON does; name is
	// the event field of SSE. nil takes anything that parses for data.
	event func(s *Stream, name, data []byte) Mark
	// types say what events that name a type mean; event is readTyped then.
	types *types
	// frame judges a frame of the AWS event stream; unwrapped says that payload is
	// the event within. unwrap returns what takes that out of the payload of a
	// frame with these headers, nil if there is none.
	frame  func(s *Stream, h frameHead, payload []byte, unwrapped bool) Mark
	unwrap func(h frameHead) *base64Member
	// done judges the sentinel [DONE]; nil ends the stream if there was data.
	done func(s *Stream) Mark
	// torn reports whether an event that the end of the body cut off proves
	// that the answer went on, though it had seemed to be over; nil is no.
	torn func(data []byte) bool
	// endless marks formats without a known end: their streams are complete
	// wherever they end.
	endless bool

	// resume says how the rest of a stream is had that broke off; nil is not at all.
	resume *resumption

	// Whole answers.

	// shape tells what an answer is by its first bytes where Sniff does not
	// know; nil is Sniff.
	shape func(head []byte, contentType string, stream bool) Shape
	// judge looks at a whole body that begins as JSON does; every format but
	// Unknown has one. anyBody lets a body be anything else.
	judge   judgeFunc
	anyBody bool
	// carries are the members that only an answer of this format has, or one of
	// its events: any of the signs.
	carries []signs
	// lacking judges, for the format f, an answer without anything of either and
	// without an error; nil lets it pass. With due set it does so whoever's
	// members are in what came to a request of this format.
	lacking func(f *Format, b []byte) Verdict
	due     bool

	// Errors.

	// errors are the places of its errors beside those that all formats share.
	errors []errorPath
	// errorBody renders an error for a caller; nil is the chat shape.
	errorBody func(status int, typ, code, message string) []byte
	// errorName returns the header, with its value, by which the format's clients
	// know the kind of an error; nil is none.
	errorName func(status int, typ, code string) (header, value string)
	// abort renders the event that tells of a broken stream, without framing
	// for SSE; nil is the chat shape. It returns the event's name, if any.
	abort func(s *Stream, status int, code, message string) (name string, data []byte)
}

// A judgeFunc looks at a whole body of a 2xx answer that begins with a bracket.
// Its errors are rendered in f, which need not be the format that it judges by.
type judgeFunc func(f *Format, a Answer, body []byte) Verdict

// Unknown is the format of every request that is no inference call.
var Unknown = &Format{name: "unknown", endless: true}

// formats is the table of all formats. The first whose path a request has is its
// format, so that the more specific suffix comes first; what is of another format
// than its path says is of the first whose members it carries.
var formats = []*Format{
	Chat, Completions, Responses, Messages, Embeddings, Gemini, Ollama, Cohere, Interactions, Conversations, bedrockEmbeddings, Bedrock, DashScope,
	geminiEmbeddings, ollamaEmbeddings, cohereEmbeddings, llamaCpp,
}

// String returns the name of the format in words: "chat completions",
// "responses", …; "unknown" for [Unknown].
func (f *Format) String() string { return f.name }

// Inference reports whether f is the format of an inference call.
func (f *Format) Inference() bool { return f != Unknown }

// Generative reports whether f generates text: every inference format but
// embeddings.
func (f *Format) Generative() bool { return f.generative }

// Operation returns the value of the OpenTelemetry attribute
// gen_ai.operation.name, "" for [Unknown].
func (f *Format) Operation() string { return f.operation }

// FormatOf returns the format of a request to u by its method, path and query,
// never nil.
func FormatOf(method string, u *url.URL) *Format {
	if u != nil && !strings.Contains(u.Path, "/threads/") {
		for _, f := range formats {
			if f.match == nil {
				continue
			}
			if _, ok := f.match(method, u); ok {
				return f
			}
		}
	}
	return Unknown
}

// Endpoint returns the part of u's path that belongs to the format and not to
// the provider's base URL, with its slash: "/chat/completions",
// "/v1/messages". It is "" if u is not of this format.
func (f *Format) Endpoint(u *url.URL) string {
	if f.match == nil || u == nil {
		return ""
	}
	for _, method := range [...]string{"POST", "GET"} {
		if e, ok := f.match(method, u); ok {
			return e
		}
	}
	return ""
}

// postTo matches a POST whose path ends in one of the suffixes.
func postTo(suffixes ...string) func(string, *url.URL) (string, bool) {
	return func(method string, u *url.URL) (string, bool) {
		if method == "POST" {
			for _, suffix := range suffixes {
				if strings.HasSuffix(u.Path, suffix) {
					return suffix, true
				}
			}
		}
		return "", false
	}
}

// resumes reports whether a request goes on with an answer that its path names.
func resumes(method string, _ *url.URL) bool { return method == http.MethodGet }

// resumable matches POST …suffix, and GET …suffix/{id}?stream=true, which goes
// on with a stream that runs in the background. at is where suffix begins in
// the path.
func resumable(method string, u *url.URL, suffix string) (at int, ok bool) {
	path := u.Path
	switch method {
	case "POST":
		return len(path) - len(suffix), strings.HasSuffix(path, suffix)
	case "GET":
		i := strings.LastIndexByte(path, '/')
		if i < 0 || i+1 == len(path) || !strings.HasSuffix(path[:i], suffix) {
			return 0, false
		}
		return i - len(suffix), u.Query().Get("stream") == "true"
	}
	return 0, false
}
