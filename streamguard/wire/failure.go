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
)

// A Verdict is what a 2xx body is. The zero Verdict passes.
type Verdict struct {
	Failure *Failure // not nil: the body is no success
	// Empty is what a body that is delivered lacks: "", no_usage, no_output.
	// For a failure it is no_choices where that is the reason.
	Empty  string
	Usable bool // there is real content
}

// Judge looks at the whole body of a 2xx answer with the given Content-Type.
// White space and a byte order mark before the value do not count. It does not
// allocate for a good answer. A body of [Unknown] is not judged.
func (f *Format) Judge(provider, contentType string, body []byte) Verdict {
	if !f.Inference() {
		return Verdict{}
	}
	b := trimStart(body)
	if len(b) == 0 || string(trim(b)) == "null" {
		return f.broken(ReasonEmpty, "provider returned empty response")
	}
	if f.anyBody && b[0] != '{' && b[0] != '[' && !isJSONType(contentType) && mediaType(contentType) != "text/html" {
		return Verdict{}
	}
	switch b[0] {
	case '{', '[':
	case '<':
		return f.broken(ReasonHTML, "provider returned an HTML page")
	default:
		if Sniff(b) == ShapeEvents && !isJSONType(contentType) {
			return Verdict{}
		}
		if !valid(b) {
			return f.malformed(provider)
		}
		return f.noObject(provider)
	}
	v := f.judge(f, provider, b)
	if v.Failure != nil && v.Failure.Reason == ReasonMalformed {
		if told := f.firstLine(b); told != nil {
			v.Failure = told
		}
	}
	return v
}

// firstLine returns the failure that the first line of b tells of: where a
// stream was due an error can stand in front of it without a field, or be
// followed by a sentinel.
func (f *Format) firstLine(b []byte) *Failure {
	i := lineEnd(b, 0)
	if i < 0 || !valid(b[:i]) || b[0] == '[' && !oneObject(b[:i]) {
		return nil
	}
	if p := inspect(b[:i]); p.plainError() {
		return f.told(p, nil)
	}
	return nil
}

func (f *Format) broken(reason, message string) Verdict {
	v := Verdict{Failure: f.failure(http.StatusBadGateway, reason, message)}
	if reason == ReasonNoChoices {
		v.Empty = ReasonNoChoices
	}
	return v
}

func (f *Format) drift(provider, what, reason string) Verdict {
	return f.broken(reason, "failed to unmarshal response: provider "+provider+": "+what)
}

func (f *Format) malformed(provider string) Verdict {
	return f.drift(provider, "invalid JSON", ReasonMalformed)
}

func (f *Format) noObject(provider string) Verdict {
	return f.drift(provider, "body: want object", ReasonDrift)
}

// wantObject makes judge, which is given objects alone, judge of any body: one
// that begins with another bracket is a hidden error or has drifted.
func wantObject(judge judgeFunc) judgeFunc {
	return func(f *Format, provider string, b []byte) Verdict {
		if b[0] == '{' {
			return judge(f, provider, b)
		}
		if !valid(b) {
			return f.malformed(provider)
		}
		if v := f.hidden(b, false); v != nil {
			return Verdict{Failure: v}
		}
		return f.noObject(provider)
	}
}

// unfit returns the failure of a body that p, which has gone through it, found
// to be invalid, or that has no content and tells of an error; nil for any
// other. member is as for hidden.
func (f *Format) unfit(provider string, p *parser, usable, member bool) *Failure {
	switch {
	case !p.end():
		return f.malformed(provider).Failure
	case !usable:
		return f.hidden(p.b, member)
	}
	return nil
}

// delivered is the verdict on an answer that passes; counted tells whether it
// has the usage that is due.
func delivered(usable, counted bool) Verdict {
	if !counted {
		return Verdict{Empty: EmptyUsage, Usable: usable}
	}
	return Verdict{Usable: usable}
}

// failure is one of the library's own.
func (f *Format) failure(status int, reason, message string) *Failure {
	return &Failure{
		Status: status, Code: reason, Type: errorType(status), Message: message, Reason: reason,
		Body: f.ErrorBody(status, errorType(status), reason, message),
	}
}

// hidden returns the failure that the error envelope b tells of, nil if it is
// none. b is valid JSON without real content. If the member where content would
// be is there, though empty, only what cannot mean anything else counts.
func (f *Format) hidden(b []byte, member bool) *Failure {
	if b[0] == '[' && !oneObject(b) {
		return nil
	}
	switch p := inspect(b); {
	case b[0] == '[' || member:
		if p.plainError() && (b[0] == '{' || p.hasError) {
			return f.told(p, b)
		}
	case p.envelope():
		return f.told(p, b)
	}
	return nil
}

// told makes a failure of a problem; b are the upstream's bytes, nil if they
// are not to be used.
func (f *Format) told(p *problem, b []byte) *Failure {
	v := &Failure{
		Status: p.httpStatus(), Code: p.code(), Type: p.typ(), Message: p.message,
		Reason: ReasonHidden, Quota: p.quota(), Limit: p.limit(time.Now()),
	}
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

// ParseFailure reads the body of an answer with an error status: code, type,
// message, whether it is about quota, what it says of a limit. It takes any of the
// known shapes and a body that is cut off; what it does not find stays empty.
// Status and Body are what was given.
func ParseFailure(status int, body []byte) Failure {
	return readFailure(status, body, time.Now())
}

func readFailure(status int, body []byte, now time.Time) Failure {
	v := Failure{Status: status, Body: body}
	b := trimStart(body)
	if len(b) == 0 || b[0] != '{' && b[0] != '[' {
		v.Limit = textLimit(b)
		return v
	}
	p := inspect(b)
	v.Code, v.Type, v.Message = p.code(), p.typ(), p.message
	v.Quota, v.Limit = p.quota(), p.limit(now)
	return v
}
