package wire

import (
	"net/http"
	"net/url"
	"strings"
)

// A Request is what a request asks for. The zero Request is of no format;
// treat a nil Format as [Unknown].
type Request struct {
	Format *Format
	Model  string // "" if it is not known
	Stream bool   // a stream is asked for
	// Deferred says that the answer is asked for later: by "deferred": true, an
	// /async/ path, or a header. What comes at once is a ticket.
	Deferred bool
	// Bound says that the request names what only one account of its provider
	// knows: an answer before (previous_response_id, conversation,
	// previous_interaction_id, or one in the path), cachedContent,
	// continuationToken, a container, a file, or reasoning that is sealed
	// (encrypted_content, a signature).
	Bound bool
	// Resumable says that the vendor keeps the answer, so that a stream of it can
	// be read on where it broke off: a response that was asked for with
	// "background": true, an interaction.
	Resumable bool

	included *included // what the stream is to include; nil where it is not said
}

// Rest returns what the request for the rest of a stream has to say besides, as a
// query: what the stream was asked to include, and the rest has only where it is
// asked for it again. "" is nothing.
func (r *Request) Rest() string {
	if r.included == nil || r.Format == nil || r.Format.resume == nil || r.Format.resume.rest == nil {
		return ""
	}
	return r.Format.resume.rest(r.included)
}

// Inspect tells what a request asks for from all but its body. u and h may be
// nil.
func Inspect(method string, u *url.URL, h http.Header) Request {
	f := FormatOf(method, u)
	r := Request{Format: f}
	for _, v := range h["Accept"] {
		r.Stream = r.Stream || strings.Contains(strings.ToLower(v), "text/event-stream")
	}
	if u == nil {
		return r
	}
	r.Resumable = f.resumes(method)
	r.Model = modelIn(u)
	r.Bound = f.boundPath != nil && f.boundPath(method, u)
	r.Deferred = f != Unknown && (strings.Contains(u.Path, "/async/") || asksLater(h))
	r.Stream = r.Stream || f.defaultStream || streamPath(u.Path) || f.asksStream != nil && f.asksStream(h)
	if u.RawQuery != "" && !r.Stream {
		q := u.Query()
		r.Stream = q.Get("alt") == "sse" || method == http.MethodGet && f != Unknown && q.Get("stream") == "true"
	}
	return r
}

// streamPath knows the methods in a path that ask for a stream: Google's
// …:streamGenerateContent, Bedrock's …-stream.
func streamPath(path string) bool {
	last := path[strings.LastIndexByte(path, '/')+1:]
	if _, verb, ok := strings.Cut(last, ":"); ok && strings.HasPrefix(verb, "stream") {
		return true
	}
	return strings.Contains(path, "/model/") &&
		(last == "converse-stream" || last == "invoke-with-response-stream")
}

// modelIn returns the model that u's path names, "" if it names none.
func modelIn(u *url.URL) string {
	path, escaped := u.Path, u.RawPath != ""
	if escaped {
		path = u.EscapedPath()
	}
	at := modelSegment(path)
	name := path[at.from:at.to]
	if escaped {
		if plain, err := url.PathUnescape(name); err == nil {
			return plain
		}
	}
	return name
}

// ReplacePathModel returns an escaped path with model in place of the one that
// it names, and whether it names one: …/models/{model}:method,
// …/deployments/{name}/…, …/model/{id}/….
func ReplacePathModel(path, model string) (string, bool) {
	at := modelSegment(path)
	if at == (span{}) {
		return path, false
	}
	return path[:at.from] + url.PathEscape(model) + path[at.to:], true
}

// modelSegment returns where a path names the model; the zero span for nowhere.
func modelSegment(path string) span {
	const deployments, model = "/deployments/", "/model/"
	if i := strings.Index(path, deployments); i >= 0 {
		from := i + len(deployments)
		if n := strings.IndexByte(path[from:], '/'); n > 0 {
			return span{from, from + n}
		}
	}
	for _, list := range [...]string{"/models/", "/tunedModels/"} {
		if i := strings.LastIndex(path, list); i >= 0 {
			from := i + len(list)
			if n := strings.IndexByte(path[from:], ':'); n > 0 {
				return span{from, from + n}
			}
		}
	}
	if i := strings.Index(path, model); i >= 0 {
		from := i + len(model)
		if n := strings.LastIndexByte(path[from:], '/'); n > 0 { // a name may hold a slash
			return span{from, from + n}
		}
	}
	return span{}
}

// Add completes r, which came from [Inspect], by what the request's body says.
func (r *Request) Add(c *Content) {
	decides := r.Format == nil || !r.Format.pathStream // else the path does
	if c.model != "" && (decides || r.Model == "") {
		r.Model = c.model
	}
	if c.stream != Unset && decides {
		r.Stream = c.stream == On
	}
	r.Deferred = r.Deferred || c.deferred
	r.Resumable = r.Resumable || r.Format != nil && r.Format.resume != nil && c.background
	if r.Resumable {
		r.included = c.included
	}
	r.Bound = r.Bound || r.Format != nil && c.bound&r.Format.binds != 0
}
