package ending

import (
	"net/http"
	"strings"
)

// Unsendable reports whether an [http.Transport] refuses req by its method,
// URL or header fields before it looks for a connection: nothing that an
// upstream could be blamed for. Only a request that has failed is worth asking
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
	for name, values := range req.Header {
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

// isControl reports whether r may not be part of a field value.
func isControl(r rune) bool { return (r < ' ' && r != '\t') || r == 0x7f }
