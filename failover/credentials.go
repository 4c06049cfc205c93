package failover

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// credentialHeaders are what identifies a caller to its own provider, in
// canonical form.
var credentialHeaders = []string{
	"Authorization", "Proxy-Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key",
	"Cookie", "Openai-Organization", "Openai-Project",
}

// credentialKeys are the same in a query.
var credentialKeys = []string{"key", "api-key", "api_key", "access_token"}

func isCredentialHeader(key string) bool {
	return slices.Contains(credentialHeaders, http.CanonicalHeaderKey(key))
}

func isCredentialKey(key string) bool {
	return slices.ContainsFunc(credentialKeys, func(k string) bool { return strings.EqualFold(k, key) })
}

func hasCredential(q url.Values) bool {
	for key := range q {
		if isCredentialKey(key) {
			return true
		}
	}
	return false
}

// stripHeaders deletes the credential headers in any spelling: a map may hold
// keys that are not canonical, and net/http sends those as they are.
func stripHeaders(h http.Header) {
	for key := range h {
		if isCredentialHeader(key) {
			delete(h, key)
		}
	}
}

// deleteHeader is Header.Del for keys that may not be canonical.
func deleteHeader(h http.Header, name string) {
	for key := range h {
		if http.CanonicalHeaderKey(key) == name {
			delete(h, key)
		}
	}
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

func stripCredentialKeys(raw string) string {
	return stripQuery(raw, func(key, _ string) bool { return isCredentialKey(key) })
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

// sameOrigin reports whether two URLs are of one scheme, host and port.
func sameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	switch strings.ToLower(u.Scheme) {
	case "http":
		return "80"
	case "https":
		return "443"
	}
	return ""
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
