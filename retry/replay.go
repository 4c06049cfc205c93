package retry

import (
	"mime"
	"net/http"
	"net/textproto"
	"strings"
)

// Replay says whether one request may be sent again after an attempt failed.
type Replay int

// Values of [Replay].
const (
	// ReplayNever forbids it.
	ReplayNever Replay = iota
	// ReplayUnsent allows it where the attempt provably reached no connection.
	ReplayUnsent
	// ReplayAlways allows it.
	ReplayAlways
)

const idempotencyKey = "Idempotency-Key"

// Safe reports whether req may be sent twice whatever its endpoint means: its
// method is GET, HEAD, OPTIONS or PUT, or it carries a valid Idempotency-Key.
func Safe(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut:
		return true
	}
	values, _ := keyValues(req.Header)
	return len(values) == 1 && validKey(values[0])
}

// replayable is what a [Transport] goes by that is used alone. It knows no wire
// format, so a POST without a key is nothing that it would send twice.
func (s *settings) replayable(req *http.Request) Replay {
	switch {
	case !Safe(req):
		return ReplayNever
	case !s.heldBack && isEventStream(req.Header["Accept"]):
		return ReplayUnsent
	}
	return ReplayAlways
}

// dropInvalidKey returns h, or a copy without its Idempotency-Key where that is
// not valid, as a [Transport] sends it: an upstream that took it for a key would merge calls that have
// nothing to do with each other, and net/http re-sends whatever carries one.
func dropInvalidKey(h http.Header) http.Header {
	values, spellings := keyValues(h)
	if spellings == 0 || len(values) == 1 && validKey(values[0]) {
		return h
	}
	h = h.Clone()
	for name := range h {
		if isKeyName(name) {
			delete(h, name)
		}
	}
	return h
}

// keyValues returns the values of the key under whichever spelling the map
// holds it: net/http sends names as they are written there. spellings counts
// the entries.
func keyValues(h http.Header) (values []string, spellings int) {
	for name, v := range h {
		if !isKeyName(name) {
			continue
		}
		if spellings++; spellings == 1 {
			values = v
		} else {
			values = append(values[:len(values):len(values)], v...)
		}
	}
	return values, spellings
}

func isKeyName(name string) bool {
	return len(name) == len(idempotencyKey) && strings.EqualFold(name, idempotencyKey)
}

// validKey: visible ASCII, 1 to 255 characters.
func validKey(v string) bool {
	if v == "" || len(v) > 255 {
		return false
	}
	for i := range len(v) {
		if v[i] < '!' || v[i] > '~' {
			return false
		}
	}
	return true
}

// isEventStream reports whether one of the values of an Accept or Content-Type
// header names text/event-stream.
func isEventStream(values []string) bool {
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			name, params, _ := strings.Cut(part, ";")
			if !strings.EqualFold(textproto.TrimString(name), "text/event-stream") {
				continue
			}
			// "q=0" refuses it (RFC 9110 §12.4.2).
			if _, p, err := mime.ParseMediaType("a/b;" + params); err == nil && strings.Trim(p["q"], "0.") == "" && p["q"] != "" {
				continue
			}
			return true
		}
	}
	return false
}
