package failover

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

func hasCredential(q url.Values, words []string) bool {
	for key := range q {
		if wire.CredentialKey(key, words...) {
			return true
		}
	}
	return false
}

// deleteHeader is Header.Del for keys that may not be canonical.
func deleteHeader(h http.Header, name string) {
	for key := range h {
		if http.CanonicalHeaderKey(key) == name {
			delete(h, key)
		}
	}
}

// anySpelling returns the first value of a header whose canonical name is given.
func anySpelling(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	for key, v := range h {
		if len(v) > 0 && http.CanonicalHeaderKey(key) == name {
			return v[0]
		}
	}
	return ""
}

// stripQuery returns raw without the pairs that drop picks, in their order and
// with the bytes of the others unchanged.
func stripQuery(raw string, drop func(key, value string) bool) string {
	if raw == "" {
		return raw
	}
	var kept []string
	for pair := range strings.SplitSeq(raw, "&") {
		// Some servers still split at ";" (net/url refuses such pairs).
		if !slices.ContainsFunc(strings.Split(pair, ";"), func(part string) bool {
			k, v, _ := strings.Cut(part, "=")
			return drop(unescape(k), unescape(v))
		}) {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&")
}

func (t *target) stripCredentialKeys(raw string) string {
	return stripQuery(raw, func(key, _ string) bool { return wire.CredentialKey(key, t.secrets...) })
}

// joinQuery returns the values of both, those of over where both have a key;
// nil for none.
func joinQuery(base, over url.Values) url.Values {
	if len(base) == 0 {
		return over
	}
	out := cloneQuery(base)
	maps.Copy(out, over)
	return out
}

// setQuery sets the values in a raw query, after what is there already.
func setQuery(raw string, set url.Values) string {
	if len(set) == 0 {
		return raw
	}
	raw = stripQuery(raw, func(key, _ string) bool { return set.Has(key) })
	if raw == "" {
		return set.Encode()
	}
	return raw + "&" + set.Encode()
}

func unescape(s string) string {
	if u, err := url.QueryUnescape(s); err == nil {
		return u
	}
	return s
}

// canonical returns a deep copy of h with canonical keys, nil for none.
func canonical(h http.Header) http.Header {
	if len(h) == 0 {
		return nil
	}
	out := make(http.Header, len(h))
	for _, key := range slices.Sorted(maps.Keys(h)) {
		k := http.CanonicalHeaderKey(key)
		out[k] = append(out[k], h[key]...)
	}
	return out
}

func cloneQuery(q url.Values) url.Values {
	out := maps.Clone(q)
	for k, v := range out {
		out[k] = slices.Clone(v)
	}
	return out
}
