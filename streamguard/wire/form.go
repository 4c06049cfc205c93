package wire

import (
	"bytes"
	"mime"
	"net/textproto"
)

// readForm looks for the fields "model" and "stream" of a multipart form
// (RFC 7578), such as an audio upload's.
func readForm(form []byte, boundary string) Content {
	c := Content{form: true, fault: ErrNotRead}
	delim := []byte("\r\n--" + boundary)
	at := 0
	if bytes.HasPrefix(form, delim[2:]) { // the first one has no line break before it
		at = len(delim) - 2
	} else if i := bytes.Index(form, delim); i >= 0 {
		at = i + len(delim)
	}
	for at > 0 {
		if bytes.HasPrefix(form[at:], []byte("--")) { // the last one
			c.fault = nil
			break
		}
		part, ok := nextPart(form, at, delim)
		if !ok {
			break
		}
		c.addPart(form, part)
		at = part.to + len(delim)
	}
	return c
}

// nextPart returns the bounds of the part behind a delimiter that ended at at.
func nextPart(form []byte, at int, delim []byte) (part span, ok bool) {
	nl := bytes.Index(form[at:], []byte("\r\n"))
	if nl < 0 {
		return span{}, false
	}
	start := at + nl + 2
	n := bytes.Index(form[start:], delim)
	return span{start, start + n}, n >= 0
}

func (c *Content) addPart(form []byte, part span) {
	head, value, ok := bytes.Cut(form[part.from:part.to], []byte("\r\n\r\n"))
	if !ok {
		return
	}
	switch fieldName(head) {
	case "model":
		c.add(span{part.to - len(value), part.to})
		if len(value) > 0 && len(value) <= maxModel {
			c.model = string(value)
		}
	case "stream":
		if string(value) == "true" {
			c.stream = On
		}
	}
}

// fieldName returns the name of the form field that a part is, "" for a file.
func fieldName(head []byte) string {
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || textproto.CanonicalMIMEHeaderKey(string(bytes.TrimSpace(name))) != "Content-Disposition" {
			continue
		}
		_, params, err := mime.ParseMediaType(string(value))
		if err != nil || params["filename"] != "" {
			return ""
		}
		return params["name"]
	}
	return ""
}
