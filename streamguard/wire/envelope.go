package wire

import (
	"strconv"
	"strings"
	"time"
)

// This file is about what the members of a document, taken together, say.

// envelope reports whether the document is an error by one of the known
// shapes. It is asked only of documents without real content.
func (p *problem) envelope() bool {
	return p.failing() || p.bareMessage()
}

// failing is envelope without the message that is all there is.
func (p *problem) failing() bool {
	return p.plainError() || p.free || business(p.number) || business(p.header) || p.topCodeFails()
}

// inBand reports whether the document, an event without a part of an answer,
// is an error. A message alone is not: queue notices have one.
func (p *problem) inBand() bool {
	return p.failing() || strings.HasSuffix(p.topType, "error")
}

// vague reports whether the document says nothing of what went wrong but, at
// most, a message.
func (p *problem) vague() bool {
	return p.unnamed || p.code() == "" && p.typ() == "" && len(p.extra) == 0
}

// plainError reports whether the document says that it is an error in a way
// that a good answer never does.
func (p *problem) plainError() bool {
	return p.hasError || p.flat || p.refused || p.exception != "" || business(p.base)
}

// bareMessage reports whether the document is a message and nothing that says
// what kind of answer it is.
func (p *problem) bareMessage() bool {
	return p.bare && !p.succeeded && p.topCode == "" && p.base == "" && p.number == "" &&
		p.header == "" && p.topType == "" && p.object == ""
}

// business reports whether a vendor's own code says that something failed.
func business(w string) bool {
	n, err := strconv.ParseFloat(w, 64)
	return w != "" && (err != nil || n != 0)
}

// topCodeFails judges a code beside no content: 0 and 2xx are success.
func (p *problem) topCodeFails() bool {
	w := p.topCode
	if w == "" {
		return false
	}
	if n, err := strconv.ParseFloat(w, 64); err == nil {
		return n != 0 && (n < 200 || n > 299)
	}
	switch strings.ToLower(w) {
	case "ok", "success", "succeeded":
		return false
	}
	return true
}

// code returns the error's code for the caller: the most specific one.
func (p *problem) code() string {
	for _, w := range [...]string{p.nested, p.topCode, p.base, p.number, p.header, p.exception} {
		if w != "" && w != "0" {
			return w
		}
	}
	if p.status != "" {
		return p.status
	}
	if len(p.extra) > 0 {
		return p.extra[0]
	}
	return ""
}

// typ returns the error's type, "" if none was named.
func (p *problem) typ() string {
	if p.kind == "" && p.exception != "" {
		return p.exception
	}
	if p.kind != "" || p.topType == "error" || strings.Contains(p.topType, "response.") { // an event's
		return p.kind
	}
	if p.topType == "" && p.status != "" && !isNumber([]byte(p.status)) {
		return p.status // Google's
	}
	return p.topType
}

// ParseFailure reads the text of an error: code, type, message, whether it is
// about quota, what it says of a limit. It takes any of the known shapes and a
// text that is cut off; what it does not find stays empty. Status and Body are
// what was given; a status of 0 becomes the one that the text stands for. words
// may be nil.
func (words *Vocabulary) ParseFailure(status int, body []byte) Failure {
	return words.readFailure(status, body, time.Now())
}

func (words *Vocabulary) readFailure(status int, body []byte, now time.Time) Failure {
	v := Failure{Status: status, Body: body}
	b := trimStart(body)
	if len(b) == 0 || b[0] != '{' && b[0] != '[' {
		v.Limit = textLimit(b)
		return v
	}
	p := Answer{Words: words}.inspect(b)
	if v.Status == 0 {
		v.Status = p.httpStatus()
	}
	v.Code, v.Type, v.Message = p.code(), p.typ(), p.message
	v.Quota, v.Limit = p.quota(), p.limit(now)
	return v
}

// ParseFailure is [Vocabulary.ParseFailure] with the built-in words.
func ParseFailure(status int, body []byte) Failure {
	return (*Vocabulary)(nil).ParseFailure(status, body)
}
