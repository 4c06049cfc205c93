package ending

import (
	"net/http"
	"slices"
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

// tooManyFields ends the error of a request whose header fields are larger than
// what an HTTP/2 peer announced that it takes (RFC 9113 §6.5.2). net/http exports
// none for it, and nothing else knows the limit.
const tooManyFields = "request header list larger than peer's advertised limit"

// UnsendableHTTP2 reports whether an [http.Transport] refuses req, which failed
// with err, on an HTTP/2 connection: for a field that is about one connection of
// HTTP/1 (RFC 9113 §8.2.2), for its Host, for the name of a trailer, or for
// fields that are too large. A proxy that hands on what its client sent makes
// such requests. HTTP/1 may send them, so that only a request that failed on an
// HTTP/2 connection is worth asking about.
func UnsendableHTTP2(req *http.Request, err error) bool {
	if strings.HasSuffix(err.Error(), tooManyFields) {
		return true
	}
	host := req.Host
	if host == "" && req.URL != nil {
		host = req.URL.Host
	}
	if strings.ContainsFunc(host, notOfHost) {
		return true
	}
	for name := range req.Trailer {
		switch http.CanonicalHeaderKey(name) {
		case "Transfer-Encoding", "Trailer", "Content-Length":
			return true
		}
	}
	return beyond(req.Header["Upgrade"], "chunked") || beyond(req.Header["Transfer-Encoding"], "chunked") ||
		beyond(req.Header["Connection"], "close", "keep-alive")
}

// beyond reports whether a field says more than HTTP/2 lets it.
func beyond(values []string, allowed ...string) bool {
	switch {
	case len(values) == 0:
		return false
	case len(values) > 1:
		return true
	}
	return values[0] != "" && !slices.ContainsFunc(allowed, func(a string) bool { return strings.EqualFold(a, values[0]) })
}

// notOfHost reports whether r may not be part of a host and port (RFC 9110 §7.2,
// RFC 3986 §3.2.2). A name that is not ASCII is sent in another form.
func notOfHost(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune("\"#/<>?@\\^`{|}", r)
}
