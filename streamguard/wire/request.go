package wire

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
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
}

// maxModel bounds the names of models that are taken from a body.
const maxModel = 1 << 10

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
	r.Model = pathModel(u.Path)
	r.Deferred = f != Unknown && (strings.Contains(u.Path, "/async/") || asksLater(h))
	r.Stream = r.Stream || f.defaultStream || streamPath(u.Path) || f == DashScope && dashScopeStream(h)
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

// pathModel returns the model that a path names: …/models/{model}:method,
// …/deployments/{name}/…, …/model/{id}/….
func pathModel(path string) string {
	if _, rest, ok := strings.Cut(path, "/deployments/"); ok {
		name, _, more := strings.Cut(rest, "/")
		if more {
			return name
		}
	}
	for _, list := range [...]string{"/models/", "/tunedModels/"} {
		if i := strings.LastIndex(path, list); i >= 0 {
			if name, _, ok := strings.Cut(path[i+len(list):], ":"); ok {
				return name
			}
		}
	}
	if _, rest, ok := strings.Cut(path, "/model/"); ok {
		if i := strings.LastIndexByte(rest, '/'); i > 0 {
			return rest[:i]
		}
	}
	return ""
}

const (
	nRequestModel node = root + 1 + iota
	nRequestStream
	nRequestDeferred
)

var requestEdges = []edge{
	{root, "model", nRequestModel}, {root, "stream", nRequestStream}, {root, "deferred", nRequestDeferred},
}

// ReadBody reads body to its end and adds the model and whether a stream or a
// deferred answer is asked for, from JSON or, by contentType, from a multipart form. Of a member
// that occurs twice the last counts. It takes a body of any size in constant
// memory, without a copy where body is an [io.WriterTo] over memory. A body
// that is not valid is no error: the upstream will say so. The error is the
// body's own.
func (r *Request) ReadBody(contentType string, body io.Reader) error {
	if len(contentType) >= 10 && strings.EqualFold(contentType[:10], "multipart/") {
		return r.readForm(contentType, body)
	}
	s := requestSink{r: r}
	s.fields = fields{edges: requestEdges, sink: &s}
	var err error
	if w, ok := body.(io.WriterTo); ok {
		_, err = w.WriteTo(&s)
	} else {
		_, err = io.Copy(&s, body)
	}
	s.fields.close()
	return err
}

// bodyDecides reports whether a body of the format says what is asked for; else
// the path does.
func (r *Request) bodyDecides() bool { return r.Format == nil || !r.Format.pathStream }

type requestSink struct {
	r      *Request
	fields fields
}

// Write implements io.Writer.
func (s *requestSink) Write(p []byte) (int, error) {
	s.fields.feed(p)
	return len(p), nil
}

// WriteString implements io.StringWriter, which a strings.Reader uses; else it
// would copy all of its text at once.
func (s *requestSink) WriteString(p string) (int, error) {
	var buf [2 << 10]byte
	for rest := p; rest != ""; {
		n := copy(buf[:], rest)
		s.fields.feed(buf[:n])
		rest = rest[n:]
	}
	return len(p), nil
}

// field implements fieldSink.
func (s *requestSink) field(n node, kind byte, v []byte) {
	switch {
	case n == nRequestModel && kind == kindString && (s.r.bodyDecides() || s.r.Model == ""):
		if len(v) > 0 && len(v) <= maxModel {
			s.r.Model = string(v)
		}
	case n == nRequestStream && kind == kindScalar && s.r.bodyDecides() && string(v) != "null":
		s.r.Stream = string(v) == "true"
	case n == nRequestDeferred && kind == kindScalar:
		s.r.Deferred = s.r.Deferred || string(v) == "true"
	}
}

// readForm looks for the fields of a form, such as an audio upload's.
func (r *Request) readForm(contentType string, body io.Reader) error {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return nil
	}
	form := multipart.NewReader(body, params["boundary"])
	for {
		part, err := form.NextRawPart()
		if err != nil {
			return formError(err)
		}
		name := part.FormName()
		if name != "model" && name != "stream" || part.FileName() != "" {
			continue
		}
		v, err := io.ReadAll(io.LimitReader(part, maxModel+1))
		if err != nil {
			return formError(err)
		}
		switch {
		case name == "stream":
			r.Stream = r.Stream || string(v) == "true"
		case len(v) > 0 && len(v) <= maxModel:
			r.Model = string(v)
		}
	}
}

// formError tells the body's own errors from what is wrong with the form.
func formError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
