package wire

import (
	"net/http"
	"time"
)

// A Failure is an upstream's failure as its body tells it.
type Failure struct {
	Status int // 400..599
	Code   string
	Type   string
	// Message is upstream text, or the library's own if the upstream said
	// nothing. It must not be logged.
	Message string
	// Reason is a label: hidden_error, html, empty_response, no_choices,
	// drift, malformed, empty_stream. It is "" for a real error status.
	Reason string
	// Body is what the caller gets: the upstream's own bytes where clients can
	// read them, else a rendered error.
	Body []byte
	// Quota tells of a quota or billing limit: a retry is not worth it.
	Quota bool
	// Limit is what the body alone says of a limit; see [Failure.ReadLimit].
	Limit Limit
	// Header is what the answer needs beside Body for the format's clients to
	// know the kind of the error; nil is nothing. It must not be changed.
	Header http.Header
}

// Reasons of a [Failure] and of an empty [Verdict].
const (
	ReasonHidden      = "hidden_error"
	ReasonHTML        = "html"
	ReasonEmpty       = "empty_response"
	ReasonNoChoices   = "no_choices"
	ReasonDrift       = "drift"
	ReasonMalformed   = "malformed"
	ReasonEmptyStream = "empty_stream"

	EmptyUsage  = "no_usage"
	EmptyOutput = "no_output"
	EmptyShape  = "unknown_shape"
)

// An Answer is what is known of a 2xx answer beside its body. The zero Answer
// is a plain 200.
type Answer struct {
	Provider    string // named in error texts
	ContentType string
	Status      int         // 0 counts as 200
	Deferred    bool        // the request asked for its answer later, see [Request]
	Words       *Vocabulary // nil: the built-in words
}

// A Verdict is what a 2xx body is. The zero Verdict passes.
type Verdict struct {
	Failure *Failure // not nil: the body is no success
	// Empty is what a body that is delivered lacks: "", no_usage, no_output, or
	// unknown_shape where it has no member of a known format. For a failure it
	// is no_choices where that is the reason.
	Empty    string
	Usable   bool  // there is real content
	Accepted bool  // a ticket: the work is to be done later
	Usage    Usage // what it says that it took; zero where it says nothing

	stranger bool // no member of the judging format is in it
}

// Judge looks at the whole body of a 2xx answer. White space and a byte order
// mark before the value do not count. It does not allocate for a good answer. A
// body of [Unknown] is not judged. The format is the one that the path
// promises; a body with the members of another one is judged by that one, and
// its error is rendered in this one.
func (f *Format) Judge(a Answer, body []byte) Verdict {
	if !f.Inference() {
		return Verdict{}
	}
	b := trimStart(body)
	if a.Status == http.StatusAccepted {
		return f.accepted(a, b)
	}
	if len(b) == 0 || string(trim(b)) == "null" {
		return f.broken(ReasonEmpty, "provider returned empty response")
	}
	if f.anyBody && b[0] != '{' && b[0] != '[' && !isJSONType(a.ContentType) && mediaType(a.ContentType) != "text/html" {
		return Verdict{}
	}
	switch b[0] {
	case '{', '[':
	case '<':
		return f.page()
	default:
		if Sniff(b) == ShapeEvents && !isJSONType(a.ContentType) {
			return Verdict{}
		}
		if !valid(b) {
			return f.malformed(a)
		}
		return f.noObject(a)
	}
	v := f.judge(f, a, b)
	switch {
	case v.Usable && v.Failure == nil:
	case v.Failure == nil || v.Failure.Reason == ReasonDrift:
		v = f.doubt(a, b, v)
	case v.Failure.Reason == ReasonMalformed:
		if told := f.firstLine(a, b); told != nil {
			v.Failure = told
		}
	}
	if v.Failure != nil {
		v.Usage.beside(b)
	}
	return v
}

func (f *Format) page() Verdict {
	return f.broken(ReasonHTML, "provider returned an HTML page")
}

// firstLine returns the failure that the first line of b tells of: where a
// stream was due an error can stand in front of it without a field, or be
// followed by a sentinel.
func (f *Format) firstLine(a Answer, b []byte) *Failure {
	i := lineEnd(b, 0)
	if i < 0 || !valid(b[:i]) || b[0] == '[' && !oneObject(b[:i]) {
		return nil
	}
	if p := a.inspect(b[:i]); p.plainError() {
		return f.told(p, nil)
	}
	return nil
}

func (f *Format) broken(reason, message string) Verdict {
	v := Verdict{Failure: f.Failure(http.StatusBadGateway, reason, message)}
	if reason == ReasonNoChoices {
		v.Empty = ReasonNoChoices
	}
	return v
}

func (f *Format) drift(a Answer, what, reason string) Verdict {
	return f.broken(reason, "failed to unmarshal response: provider "+a.Provider+": "+what)
}

func (f *Format) malformed(a Answer) Verdict {
	return f.drift(a, "invalid JSON", ReasonMalformed)
}

func (f *Format) noObject(a Answer) Verdict {
	return f.drift(a, "body: want object", ReasonDrift)
}

// wantObject makes judge, which is given objects alone, judge of any body: one
// that begins with another bracket is a hidden error or has drifted.
func wantObject(judge judgeFunc) judgeFunc {
	return func(f *Format, a Answer, b []byte) Verdict {
		if b[0] == '{' {
			return judge(f, a, b)
		}
		if !valid(b) {
			return f.malformed(a)
		}
		if v := f.listed(a, b); v != nil {
			return Verdict{Failure: v}
		}
		if a.answers(b) {
			return Verdict{Empty: EmptyShape}
		}
		return f.noObject(a)
	}
}

// listed returns the failure that b, a valid array, wraps, nil if it is none:
// Google's form.
func (f *Format) listed(a Answer, b []byte) *Failure {
	if !oneObject(b) {
		return nil
	}
	if p := a.inspect(b); p.plainError() && p.hasError {
		return f.told(p, b)
	}
	return nil
}

// unfit judges a body that p, which has gone through it, found to be invalid or
// without content; done is false for one that the format judges further. member
// says that the member where content would be is there, though empty: then only
// what cannot mean anything else is an error.
func (f *Format) unfit(a Answer, p *parser, usable, member bool) (v Verdict, done bool) {
	switch {
	case !p.end():
		return f.malformed(a), true
	case usable:
		return Verdict{}, false
	case !member:
		return Verdict{stranger: true}, true
	}
	q := a.inspect(p.b)
	switch {
	case q.plainError():
		return Verdict{Failure: f.told(q, p.b)}, true
	case q.ticket(a, p.b):
		return Verdict{Accepted: true}, true
	}
	return Verdict{}, false
}

// inspect is inspect with the answer's words.
func (a Answer) inspect(b []byte) *problem {
	p := inspect(b)
	p.words = a.Words
	return p
}

// delivered is the verdict on an answer that passes; usage is due.
func delivered(usable bool, usage counter) Verdict {
	v := Verdict{Usable: usable, Usage: usage.Usage}
	if !usage.counted {
		v.Empty = EmptyUsage
	}
	return v
}

// Failure is one of the library's own, rendered in the format; reason, which is
// one of the Reasons, is its code as well.
func (f *Format) Failure(status int, reason, message string) *Failure {
	return &Failure{
		Status: status, Code: reason, Type: errorType(status), Message: message, Reason: reason,
		Body:   f.ErrorBody(status, errorType(status), reason, message),
		Header: f.ErrorHeader(status, "", reason),
	}
}

// told makes a failure of a problem; b are the upstream's bytes, nil if they
// are not to be used.
func (f *Format) told(p *problem, b []byte) *Failure {
	v := &Failure{
		Status: p.httpStatus(), Code: p.code(), Type: p.typ(), Message: p.message,
		Reason: ReasonHidden, Quota: p.quota(), Limit: p.limit(time.Now()),
	}
	v.Header = f.ErrorHeader(v.Status, v.Type, v.Code)
	if b != nil && b[0] == '{' && objectError(b) {
		v.Body = b
		return v
	}
	message := v.Message
	if message == "" {
		message = "provider returned an error"
	}
	v.Body = f.ErrorBody(v.Status, v.Type, v.Code, message)
	return v
}

// oneObject reports whether b is an array of exactly one object.
func oneObject(b []byte) bool {
	p := parse(b)
	n := 0
	for ok := p.array(); ok && p.element(); p.skip() {
		if n++; n > 1 || p.kind() != '{' {
			return false
		}
	}
	return n == 1 && p.end()
}

// objectError reports whether b, a valid object, has an object for its error.
func objectError(b []byte) bool {
	p := parse(b)
	found := false
	for ok := p.object(); ok && p.member(); p.skip() {
		if string(p.name) == "error" {
			found = p.kind() == '{'
		}
	}
	return found
}
