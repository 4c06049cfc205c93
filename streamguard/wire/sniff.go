package wire

import (
	"bytes"
	"mime"
	"strings"
)

// A Shape is what a body looks like from its first bytes.
type Shape int

// The shapes.
const (
	ShapeUnknown Shape = iota // more bytes are needed
	ShapeJSON
	ShapeHTML   // or XML: a page
	ShapeEvents // an event stream
	ShapeOther
)

const bom = "\xef\xbb\xbf"

// trimStart takes off a byte order mark and white space.
func trimStart(b []byte) []byte {
	if len(b) >= len(bom) && string(b[:len(bom)]) == bom {
		b = b[len(bom):]
	}
	return b[skipSpace(b, 0):]
}

// sseFields are the fields of the WHATWG event-stream format, and llama.cpp's
// error.
var sseFields = [...]string{"data", "event", "id", "retry", "error"}

// Sniff tells what a body is by its first bytes, whatever its label says.
func Sniff(b []byte) Shape {
	if len(b) < len(bom) && strings.HasPrefix(bom, string(b)) {
		return ShapeUnknown
	}
	b = trimStart(b)
	if len(b) == 0 {
		return ShapeUnknown
	}
	switch c := b[0]; {
	case c == '{' || c == '[' || c == '"' || c == '-' || c-'0' <= 9:
		return ShapeJSON
	case c == '<':
		return ShapeHTML
	case c == ':':
		return ShapeEvents
	}
	for _, name := range sseFields {
		if len(b) <= len(name) && strings.HasPrefix(name, string(b)) {
			return ShapeUnknown
		}
		if len(b) > len(name) && string(b[:len(name)]) == name && bytes.IndexByte([]byte(":\r\n"), b[len(name)]) >= 0 {
			return ShapeEvents
		}
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if strings.HasPrefix(word, string(b)) && len(b) < len(word) {
			return ShapeUnknown
		}
		if bytes.HasPrefix(b, []byte(word)) {
			return ShapeJSON
		}
	}
	return ShapeOther
}

// Shape tells what the body of an answer to a call of this format is, by its
// first bytes and, where these do not show it, by the answer's Content-Type;
// stream says that the call asked for a stream. ShapeEvents is a stream in any
// framing that the format has.
func (f *Format) Shape(head []byte, contentType string, stream bool) Shape {
	if f.shape == nil {
		return Sniff(head)
	}
	return f.shape(head, contentType, stream)
}

// A Sniffer is [Format.Shape] for a body that comes in pieces: it looks at white
// space before the body, and at a first line that has no end yet, only once.
type Sniffer struct {
	f           *Format
	contentType string
	stream      bool

	from  int  // where the body begins, as far as that is known
	lines bool // only a line end can show the shape
	seen  int  // up to where there is none
}

// Sniffer returns a Sniffer for the answer to a call of this format, with the
// arguments of [Format.Shape].
func (f *Format) Sniffer(contentType string, stream bool) Sniffer {
	return Sniffer{f: f, contentType: contentType, stream: stream}
}

// shapeToken is longer than what tells one shape from another within a line.
const shapeToken = 8

// Shape tells the shape by all that has come of the body; head begins with what
// it was before.
func (s *Sniffer) Shape(head []byte) Shape {
	if s.from == 0 {
		if len(head) < len(bom) && strings.HasPrefix(bom, string(head)) {
			return ShapeUnknown
		}
		if bytes.HasPrefix(head, []byte(bom)) {
			s.from = len(bom)
		}
	}
	if s.from = skipSpace(head, s.from); s.from == len(head) {
		return ShapeUnknown
	}
	b := head[s.from:]
	if s.lines {
		fresh := b[s.seen:]
		if s.seen = len(b); bytes.IndexByte(fresh, '\n') < 0 {
			return ShapeUnknown
		}
	}
	shape := s.f.Shape(b, s.contentType, s.stream)
	s.lines, s.seen = len(b) > shapeToken, len(b)
	return shape
}

// mediaType returns the media type of a Content-Type, in lower case, without
// its parameters.
func mediaType(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

func isJSONType(contentType string) bool {
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && (t == "application/json" || strings.HasSuffix(t, "+json"))
}
