package wire

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// What a credential's name ends with: one of these words, or several. Lists of
// the names in use age with every new gateway; what they call a key does not.
var (
	credentialWords = []string{
		"key", "token", "secret", "auth", "authorization", "apikey", "signature", "credential", "credentials",
		"password", "passwd", "passphrase", "bearer", "jwt", "assertion",
	}
	// credentialEnds are the same where no capital or dash sets them off.
	credentialEnds = []string{
		"apikey", "authorization", "accesskey", "secretkey", "subscriptionkey", "accesstoken", "authtoken", "clientsecret",
	}
	// headerWords are those of headers alone.
	headerWords = []string{"cookie", "cookie2", "openai-organization", "openai-project"}
	// wholeKeys are those of a query that are so short that they mean something
	// else at the end of another word.
	wholeKeys = []string{"sig", "code"}
	// harmless are names that end like a credential, and that the call needs:
	// its own identity, the handshake of a WebSocket, where a list goes on.
	harmless = []string{
		"idempotency-key", "sec-websocket-key",
		"page-token", "next-token", "continuation-token", "pagination-token", "cursor-token", "resume-token", "skip-token", "sync-token",
	}
)

// CredentialHeader reports whether a header of that name, in any spelling,
// identifies a caller to its provider: it says so by its name, or the name
// ends with one of the given words ("X-Tenant", "tenant_id").
func CredentialHeader(name string, words ...string) bool {
	var buf nameBuffer
	n := normalize(&buf, name)
	return isCredential(n, words) || endsWithAny(n, headerWords)
}

// CredentialKey reports the same of a key in a URL's query.
func CredentialKey(key string, words ...string) bool {
	var buf nameBuffer
	return isCredential(normalize(&buf, key), words)
}

// StripCredentials deletes the credential headers in any spelling: a map may
// hold keys that are not canonical, and net/http sends those as they are. The
// Referer goes too: the query of its URL may hold one.
func StripCredentials(h http.Header, words ...string) {
	for name := range h {
		if CredentialHeader(name, words...) || strings.EqualFold(name, "Referer") {
			delete(h, name)
		}
	}
}

// StripRedirected is StripCredentials for a request that follows a redirect to
// somewhere else. before are the Cookie headers of the requests before it: an
// http.Client adds what its jar has for the new host, and that stays.
func StripRedirected(h http.Header, before []string, words ...string) {
	own := newCookies(h["Cookie"], before)
	StripCredentials(h, words...)
	if len(own) > 0 {
		h["Cookie"] = own
	}
}

// newCookies returns the Cookie headers without the pairs that were in one of
// before.
func newCookies(cookies, before []string) (out []string) {
	old := make(map[string]bool)
	for _, header := range before {
		for pair := range strings.SplitSeq(header, ";") {
			old[strings.TrimSpace(pair)] = true
		}
	}
	for _, header := range cookies {
		var kept []string
		for pair := range strings.SplitSeq(header, ";") {
			if pair = strings.TrimSpace(pair); pair != "" && !old[pair] {
				kept = append(kept, pair)
			}
		}
		if len(kept) > 0 {
			out = append(out, strings.Join(kept, "; "))
		}
	}
	return out
}

func isCredential(name []byte, words []string) bool {
	if endsWithAny(name, credentialWords) || slices.Contains(wholeKeys, string(name)) ||
		slices.ContainsFunc(credentialEnds, func(end string) bool { return hasEnd(name, end) }) {
		if !endsWithAny(name, harmless) {
			return true
		}
	}
	for _, w := range words {
		var buf nameBuffer
		if n := normalize(&buf, w); len(n) > 0 && endsWith(name, string(n)) {
			return true
		}
	}
	return false
}

// maxName is how much of a name's end is looked at.
const maxName = 64

// nameBuffer has room for a dash before every byte.
type nameBuffer [2 * maxName]byte

// normalize writes the words of a name in lower case with dashes between them:
// "X_Api-Key", "xApiKey" and "XAPIKey" are x-api-key.
func normalize(buf *nameBuffer, name string) []byte {
	name = name[max(0, len(name)-maxName):]
	out := buf[:0]
	for i := range len(name) {
		c := name[i]
		switch {
		case isUpper(c):
			starts := i > 0 && (!isUpper(name[i-1]) || i+1 < len(name) && isLower(name[i+1]))
			if starts && len(out) > 0 && out[len(out)-1] != '-' {
				out = append(out, '-')
			}
			out = append(out, c|0x20)
		case isLower(c), '0' <= c && c <= '9':
			out = append(out, c)
		case len(out) > 0 && out[len(out)-1] != '-':
			out = append(out, '-')
		}
	}
	if len(out) > 0 && out[len(out)-1] == '-' {
		out = out[:len(out)-1]
	}
	return out
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

func hasEnd(name []byte, end string) bool {
	return len(name) >= len(end) && string(name[len(name)-len(end):]) == end
}

// endsWith reports whether the last words of a normalized name are these. A
// dash within them does not count: net/http writes LiteLLM as Litellm.
func endsWith(name []byte, words string) bool {
	i := len(name)
	for j := len(words) - 1; j >= 0; j-- {
		if words[j] == '-' {
			continue
		}
		for i > 0 && name[i-1] == '-' {
			i--
		}
		if i == 0 || name[i-1] != words[j] {
			return false
		}
		i--
	}
	return i == 0 || name[i-1] == '-'
}

func endsWithAny(name []byte, list []string) bool {
	return slices.ContainsFunc(list, func(words string) bool { return endsWith(name, words) })
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
