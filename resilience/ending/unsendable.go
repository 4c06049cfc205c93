package ending

import (
	"net/http"
	"strings"
)

// Unsendable reports whether an [http.Transport] refuses req by its method,
// URL, header or trailer fields, or for a length without a body, before it looks
// for a connection or while it writes: nothing that an upstream could be blamed
// for. Only a request that has failed is worth asking
// about, since another base may accept what net/http does not.
func Unsendable(req *http.Request) bool {
	if req.URL == nil || req.Header == nil || req.URL.Scheme == "" {
		return true
	}
	if (req.URL.Scheme == "http" || req.URL.Scheme == "https") && req.URL.Host == "" {
		return true
	}
	if req.Method != "" && !isToken(req.Method) {
		return true
	}
	if hasControl(req.URL.RawQuery) || hasControl(req.URL.Opaque) {
		return true
	}
	if req.Body == nil && req.ContentLength > 0 {
		return true
	}
	return badFields(req.Header) || badFields(req.Trailer)
}

// badFields reports whether a field has a name or a value that may not be sent.
func badFields(fields http.Header) bool {
	for name, values := range fields {
		if !isToken(name) {
			return true
		}
		for _, v := range values {
			if strings.ContainsFunc(v, isControl) {
				return true
			}
		}
	}
	return false
}

// isToken reports whether s is a token of RFC 9110 §5.6.2.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
			!strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// hasControl reports whether part of a URL that is sent as it stands holds what
// no request line may.
func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// isControl reports whether r may not be part of a field value.
func isControl(r rune) bool { return (r < ' ' && r != '\t') || r == 0x7f }
