package wire_test

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// spell writes a name given in lower-case words with dashes in some way that
// headers and query keys are written in.
func spell(r *rand.Rand, name string) string {
	words := strings.Split(name, "-")
	sep := []string{"-", "_", ".", ""}[r.IntN(4)]
	style := r.IntN(4)
	if sep == "" {
		style = 2 + r.IntN(2) // words are told apart by their capitals then
	}
	for i, w := range words {
		switch style {
		case 1:
			words[i] = strings.ToUpper(w)
		case 2:
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		case 3:
			if i > 0 {
				words[i] = strings.ToUpper(w[:1]) + w[1:]
			}
		}
	}
	return strings.Join(words, sep)
}

// Whatever vendor's prefix stands before it and however it is spelled: a name
// that says that it is a credential is one (contract 7.5).
func TestCredentialsByTheirNames(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	prefix := func() string {
		var b strings.Builder
		for range r.IntN(4) {
			for range 1 + r.IntN(8) {
				b.WriteByte(byte('a' + r.IntN(26)))
			}
			b.WriteByte('-')
		}
		return b.String()
	}
	ends := []string{
		"api-key", "apikey", "x-key", "authorization", "an-auth", "a-token", "a-secret",
		"subscription-key", "access-token", "client-secret", "signature", "password",
	}
	for range 20_000 {
		name := prefix() + ends[r.IntN(len(ends))]
		for _, n := range []string{name, spell(r, name), http.CanonicalHeaderKey(name)} {
			require.True(t, wire.CredentialHeader(n), n)
			require.True(t, wire.CredentialKey(n), n)
		}
	}
	// And a name without such a word is none, whatever letters it has.
	plain := []string{"id", "type", "version", "name", "length", "model", "keys", "tokens", "monkeys", "author", "keyboard"}
	for range 20_000 {
		name := prefix() + plain[r.IntN(len(plain))]
		require.False(t, wire.CredentialHeader(name), name)
		require.False(t, wire.CredentialKey(spell(r, name)), name)
	}
}

func TestCredentialNames(t *testing.T) {
	for name, want := range map[string]bool{
		// In the documentation of providers and gateways.
		"Authorization": true, "Proxy-Authorization": true, "X-Api-Key": true, "Api-Key": true, "X-Goog-Api-Key": true,
		"Cookie": true, "OpenAI-Organization": true, "OpenAI-Project": true,
		"X-Litellm-Api-Key": true, "Cf-Aig-Authorization": true, "Ocp-Apim-Subscription-Key": true, "Helicone-Auth": true,
		"X-Portkey-Api-Key": true, "X-Portkey-Virtual-Key": true, "X-Amz-Security-Token": true, "Cf-Access-Client-Secret": true,
		"X-Auth-Token": true, "X-XSRF-TOKEN": true, "XAPIKey": true, "x_api_key": true, "xi-api-key": true, "X-AccessToken": true,
		"X-MS-TOKEN-AAD-ID-TOKEN": true, "Cookie2": true, "X-Amz-Signature": true, "X-Amz-Credential": true, "X-Functions-Key": true,
		"token": true, "sig": true, "code": true, "key": true, "api_key": true, "apiKey": true, "access_token": true, "subscription-key": true,
		// What a call needs.
		"Idempotency-Key": false, "X-Idempotency-Key": false, "idempotency_key": false, "IdempotencyKey": false, "idempotencykey": false,
		"Sec-WebSocket-Key": false, "pageToken": false, "page_token": false, "next_token": false, "NextToken": false,
		"continuation-token": false, "pagetoken": false, "nextPageToken": false, "Xsig": false, "zip-code": false, "encode": false, "design": false,
		"Content-Type": false, "Content-Length": false, "Content-Encoding": false, "Accept": false, "User-Agent": false, "Host": false,
		"Anthropic-Version": false, "Anthropic-Beta": false, "OpenAI-Beta": false, "X-Stainless-Retry-Count": false, "X-Goog-Api-Client": false,
		"X-Request-Id": false, "Traceparent": false, "X-Title": false, "HTTP-Referer": false, "api-version": false, "alt": false, "X-Amz-Date": false,
		"max_tokens": false, "tokens": false, "prompt_cache_key_ttl": false, "": false, "-": false, "---": false,
	} {
		headersAlone := slices.Contains([]string{"Cookie", "Cookie2", "OpenAI-Organization", "OpenAI-Project"}, name)
		assert.Equal(t, want, wire.CredentialHeader(name), "header %s", name)
		assert.Equal(t, want && !headersAlone, wire.CredentialKey(name), "key %s", name)
	}
	long := strings.Repeat("x-", 1<<16)
	assert.True(t, wire.CredentialHeader(long+"api-key"))
	assert.False(t, wire.CredentialHeader(long+"api-keys"))
}

func TestConfiguredCredentialNames(t *testing.T) {
	words := []string{"X-Bf-Vk", "tenant_id", "*-passport", "X-LiteLLM-Tag"}
	for name, want := range map[string]bool{
		"X-Bf-Vk": true, "x_bf_vk": true, "xBfVk": true, "X-Tenant-Id": true, "tenantId": true, "X-Litellm-Tag": true, "x-lite-llm-tag": true, "A-Passport": true,
		"Bf-Vk": false, "Xtenant-Id": false, "X-Api-Key": true, "Accept": false,
	} {
		assert.Equal(t, want, wire.CredentialHeader(name, words...), name)
		assert.Equal(t, want, wire.CredentialKey(name, words...), name)
	}
	h := http.Header{"X-Bf-Vk": {"s"}, "x-tenant-id": {"s"}, "Accept": {"a"}, "cf-aig-authorization": {"s"}}
	wire.StripCredentials(h, words...)
	assert.Equal(t, http.Header{"Accept": {"a"}}, h)
	assert.False(t, wire.CredentialHeader("Accept", "", "*", "-"), "an empty word names nothing")
}

func TestCredentialNamesCostNothing(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		wire.CredentialHeader("X-Stainless-Runtime-Version")
		wire.CredentialHeader("Ocp-Apim-Subscription-Key")
	}))
}

// A redirect to another host: the caller's cookies stay behind, those that a
// jar has for the new host go along.
func TestCookiesOfARedirect(t *testing.T) {
	for name, tc := range map[string]struct {
		before []string
		cookie []string
		want   []string
	}{
		"the caller's":      {[]string{"sid=1; theme=x"}, []string{"sid=1; theme=x"}, nil},
		"the new host's":    {[]string{"sid=1"}, []string{"n=2; m=3"}, []string{"n=2; m=3"}},
		"both":              {[]string{"sid=1"}, []string{"sid=1; n=2"}, []string{"n=2"}},
		"in two headers":    {[]string{"sid=1", "b=2"}, []string{"b=2", "sid=1;n=2"}, []string{"n=2"}},
		"one name, another": {[]string{"sid=1"}, []string{"sid=2"}, []string{"sid=2"}},
		"none before":       {nil, []string{"n=2"}, []string{"n=2"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{"Cookie": tc.cookie, "X-Api-Key": {"s"}, "Referer": {"r"}}
			given := strings.Join(tc.cookie, "|")
			wire.StripRedirected(h, tc.before)
			assert.Equal(t, tc.want, h["Cookie"])
			assert.NotContains(t, h, "X-Api-Key")
			assert.NotContains(t, h, "Referer", "the old URL, keys in its query included")
			assert.Equal(t, given, strings.Join(tc.cookie, "|"), "the caller's slice is not written to")
		})
	}
}

// A word that somebody configures counts, also where its name is harmless to
// others (contract 7.5).
func TestAConfiguredWordBeatsTheHarmlessNames(t *testing.T) {
	for _, name := range []string{"Page-Token", "resume_token", "Idempotency-Key"} {
		assert.False(t, wire.CredentialHeader(name), name)
		assert.False(t, wire.CredentialKey(name, "X-Wallet"), name)
		assert.True(t, wire.CredentialHeader("X-"+name, "x-"+name), name)
		assert.True(t, wire.CredentialKey(name, name), name)
	}
}

func TestRedactURL(t *testing.T) {
	for raw, want := range map[string]string{
		"": "",
		"https://user:secret@host.example/v1?key=secret#secret": "https://host.example/v1",
		"//user:secret@host.example/v1":                         "//host.example/v1",
		"https:/user:secret@host.example/v1":                    "(a URL without a host)",
		"http:///key:secret@host.example/v1":                    "(a URL without a host)",
		"user:secret@host.example":                              "(a URL without a host)",
		"sk-secret":                                             "(a URL without a host)",
		"https://host.example:secret/v1":                        "(a URL that cannot be parsed)",
	} {
		assert.Equal(t, want, wire.RedactURL(raw), raw)
	}
}
