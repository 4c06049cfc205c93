package wire

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// credentialHeaders are what identifies a caller to a provider, in canonical
// form.
var credentialHeaders = []string{
	"Authorization", "Proxy-Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key",
	"Cookie", "Openai-Organization", "Openai-Project",
}

// credentialKeys are the same in a query.
var credentialKeys = []string{"key", "api-key", "api_key", "access_token"}

// CredentialHeader reports whether a header of that name, in any spelling,
// identifies a caller to its provider.
func CredentialHeader(name string) bool {
	return slices.Contains(credentialHeaders, http.CanonicalHeaderKey(name))
}

// CredentialKey reports the same of a key in a URL's query.
func CredentialKey(key string) bool {
	return slices.ContainsFunc(credentialKeys, func(k string) bool { return strings.EqualFold(k, key) })
}

// StripCredentials deletes the credential headers in any spelling: a map may
// hold keys that are not canonical, and net/http sends those as they are.
func StripCredentials(h http.Header) {
	for name := range h {
		if CredentialHeader(name) {
			delete(h, name)
		}
	}
}

// SameOrigin reports whether two URLs are of one scheme, host and port, which
// is as far as a provider's credentials may go.
func SameOrigin(a, b *url.URL) bool {
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
