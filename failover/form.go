package failover

import (
	"bytes"
	"mime"
	"net/textproto"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// replaceFormModel returns a copy of a multipart form (RFC 7578) in which the
// value of each field "model" is model; no other byte is changed. It returns
// [wire.ErrNoModel] if there is no such field.
func replaceFormModel(form []byte, boundary, model string) ([]byte, error) {
	if boundary == "" {
		return nil, wire.ErrNoModel
	}
	delim := []byte("\r\n--" + boundary)
	var out []byte
	done, at := 0, 0
	if bytes.HasPrefix(form, delim[2:]) { // the first one has no line break before it
		at = len(delim) - 2
	} else if i := bytes.Index(form, delim); i >= 0 {
		at = i + len(delim)
	}
	for at > 0 {
		start, end, ok := nextPart(form, at, delim)
		if !ok {
			break
		}
		head, value, found := bytes.Cut(form[start:end], []byte("\r\n\r\n"))
		if found && isModelField(head) {
			from := end - len(value)
			out = append(append(out, form[done:from]...), model...)
			done = end
		}
		at = end + len(delim)
	}
	if done == 0 {
		return nil, wire.ErrNoModel
	}
	return append(out, form[done:]...), nil
}

// nextPart returns the bounds of the part after a delimiter that ended at at.
func nextPart(form []byte, at int, delim []byte) (start, end int, ok bool) {
	if bytes.HasPrefix(form[at:], []byte("--")) {
		return 0, 0, false // the last one
	}
	nl := bytes.Index(form[at:], []byte("\r\n"))
	if nl < 0 {
		return 0, 0, false
	}
	start = at + nl + 2
	n := bytes.Index(form[start:], delim)
	return start, start + n, n >= 0
}

func isModelField(head []byte) bool {
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || textproto.CanonicalMIMEHeaderKey(string(bytes.TrimSpace(name))) != "Content-Disposition" {
			continue
		}
		_, params, err := mime.ParseMediaType(string(value))
		return err == nil && params["name"] == "model" && params["filename"] == ""
	}
	return false
}
