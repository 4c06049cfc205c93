package wire

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strings"
)

// What keeps a model from being replaced.
var (
	// ErrNoModel says that a body has no top-level model to replace.
	ErrNoModel = errors.New("no model in the request body")
	// ErrEncoded says that a body has a Content-Encoding, so that it cannot be
	// looked at.
	ErrEncoded = errors.New("the request body is encoded")
	// ErrNotRead says that a body is no JSON object or form that could be read
	// to its end, and that no model was found before the fault.
	ErrNotRead = errors.New("the request body is not a valid JSON object or form")
)

// maxModel bounds the names of models that are taken from a body.
const maxModel = 1 << 10

// A Content is what a request's body says about it, and where in the body its
// model is named. The zero Content says nothing. It is a value: copies do not
// affect each other.
type Content struct {
	model  string
	stream Switch
	form   bool
	// deferred: the answer is asked for later
	deferred bool
	// background: the answer is kept, and may be read while it is made
	background bool
	// what the stream is to include and leave out; nil where it is not said
	included *included
	bound    binding // what it names is known to one account alone
	fault    error   // why no model was found; nil: there is none
	where    span    // of the value of model
	more     []span  // of its other occurrences, in order
}

// Switch is a member that is true, false or not there.
type Switch uint8

// The values of a [Switch].
const (
	Unset Switch = iota
	Off
	On
)

// byteOrderMark may stand before JSON: parsers may ignore it (RFC 8259 §8.1).
const byteOrderMark = "\xef\xbb\xbf"

// ReadContent looks at a body, or at as much of its beginning as there is: for
// the model and whether a stream is asked for, in the JSON object or, by the
// Content-Type in h, in the multipart form that it is. Of a member that occurs
// twice the last one counts. It is a reader and not a judge: what a strict
// parser would refuse (NaN, a text behind the object, nesting without end) is
// the upstream's business. body is neither changed nor kept.
func ReadContent(h http.Header, body []byte) Content {
	if encoded(h) {
		return Content{fault: ErrEncoded}
	}
	var contentType string
	if v := h["Content-Type"]; len(v) > 0 {
		contentType = v[0]
	}
	if len(contentType) >= 10 && strings.EqualFold(contentType[:10], "multipart/") {
		_, params, err := mime.ParseMediaType(contentType)
		if err != nil || params["boundary"] == "" {
			return Content{fault: ErrNotRead}
		}
		return readForm(body, params["boundary"])
	}
	return readObject(body)
}

// encoded reports whether a request's body has to be decoded before it can be
// read (RFC 9110 §8.4).
func encoded(h http.Header) bool {
	for _, v := range h["Content-Encoding"] {
		if v = strings.TrimSpace(v); v != "" && !strings.EqualFold(v, "identity") {
			return true
		}
	}
	return false
}

// add notes a value of model.
func (c *Content) add(at span) {
	if c.where == (span{}) {
		c.where = at
		return
	}
	c.more = append(c.more, at)
}

// Replace returns a copy of body, the one that c was read from, in which every
// value of model is model, and what is known of that copy. No other byte is
// changed. The error is [ErrNoModel] where there is none, else [ErrEncoded] or
// [ErrNotRead].
func (c *Content) Replace(body []byte, model string) ([]byte, Content, error) {
	if c.where == (span{}) {
		if c.fault != nil {
			return nil, Content{}, c.fault
		}
		return nil, Content{}, ErrNoModel
	}
	value := []byte(model)
	if !c.form {
		value = quote(model)
	}
	next := Content{model: model, stream: c.stream, deferred: c.deferred, background: c.background, included: c.included, bound: c.bound, form: c.form}
	out := make([]byte, 0, len(body)+(1+len(c.more))*len(value))
	done := 0
	put := func(at span) {
		out = append(append(out, body[done:at.from]...), value...)
		next.add(span{len(out) - len(value), len(out)})
		done = at.to
	}
	put(c.where)
	for _, at := range c.more {
		put(at)
	}
	return append(out, body[done:]...), next, nil
}

// Streams returns whether the body asks for a stream.
func (c *Content) Streams() Switch { return c.stream }

// readObject goes through the members of a JSON object. A name in another case
// ("MODEL") counts where there is no "model", as it does for upstreams whose
// parser ignores case, and its value is replaced in any case.
func readObject(b []byte) Content {
	var c Content
	i := skipSpace(b, len(b)-len(bytes.TrimPrefix(b, []byte(byteOrderMark))))
	if i >= len(b) || b[i] != '{' {
		if i < len(b) && b[i] != '[' && b[i] != '"' && b[i] != 'n' { // no other value has members
			c.fault = ErrNotRead
		}
		return c
	}
	exact := false
	for i++; ; {
		if i = skipCommas(b, i); i < len(b) && b[i] == '}' {
			return c
		}
		name, from := looseName(b, i)
		value := span{from, c.follow(b, name, from)}
		if value.from >= value.to {
			c.fault = ErrNotRead
			return c
		}
		switch raw := b[value.from:value.to]; {
		case len(name) == len("model") && strings.EqualFold(string(name), "model"):
			c.add(value)
			if own := string(name) == "model"; own || !exact {
				c.setModel(raw)
				exact = own
			}
		case string(name) == "stream":
			c.setStream(raw)
		case string(name) == "deferred":
			c.deferred = c.deferred || string(raw) == "true"
		case string(name) == "background":
			c.background = string(raw) == "true"
		case string(name) == "include", string(name) == "stream_options" && bytes.Contains(raw, []byte("include_obfuscation")):
			c.include(name, raw)
		}
		i = value.to
	}
}

// An included says what a stream is to include and leave out, as JSON.
type included struct{ include, options string }

// maxIncluded bounds each of them.
const maxIncluded = 1 << 10

// include takes up what the member name says of it.
func (c *Content) include(name, raw []byte) {
	if len(raw) > maxIncluded {
		return
	}
	var now included
	if c.included != nil {
		now = *c.included // a Content is a value
	}
	if string(name) == "include" {
		now.include = string(raw)
	} else {
		now.options = string(raw)
	}
	c.included = &now
}

// setModel takes a model's name from a JSON value, if it is one.
func (c *Content) setModel(raw []byte) {
	if raw[0] != '"' || len(raw) > 6*maxModel { // of a character that is escaped
		return
	}
	if name := unquote(raw); name != "" && len(name) <= maxModel {
		c.model = name
	}
}

// setStream takes the switch from a JSON value; null and what is no scalar
// leave it as it was.
func (c *Content) setStream(raw []byte) {
	switch raw[0] {
	case 't':
		c.stream = On
	case '"', '{', '[', 'n':
	default:
		c.stream = Off
	}
}

// follow returns the index behind the value of the member name, which begins at
// b[i], and notes what it binds the request to; -1 if it does not end.
func (c *Content) follow(b, name []byte, i int) int {
	if i < 0 {
		return -1
	}
	if p := boundPlaces.member(name); p != nil {
		if found, end := p.read(b, i); end > i {
			c.bound |= found
			return end
		}
	}
	return looseValue(b, i)
}
