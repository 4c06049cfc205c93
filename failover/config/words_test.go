package config_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover/config"
)

const wordy = `
resilience:
  words: {quota: [default, plan_used_up], model_gone: ["sent away"], credentials: [X-Corp]}
providers:
  a: {type: openai, base_url: "https://a.test/v1", resilience: {words: {quota: [], credentials: [X-Dept], model_gone: ["sent away", "moved on"]}}}
  b: {type: openai, base_url: "https://b.test/v1"}
virtual_models:
  - {source: v, targets: [{model: a/m}, {model: b/m}]}
`

// A provider's words are its own but for those that a chain needs: it has
// those of all providers (contract 5, 7.3, 7.5).
func TestWords(t *testing.T) {
	c := parse(t, wordy, nil)
	assert.Empty(t, c.Policy("a").Words.Quota)
	assert.Equal(t, []string{"plan_used_up"}, c.Policy("b").Words.Quota, "the built-in ones are there anyway")
	assert.Equal(t, []string{"X-Dept"}, c.Policy("a").Words.Credentials)
	assert.Equal(t, []string{"X-Corp"}, c.Policy("b").Words.Credentials)

	w := c.Failover().Words
	assert.Equal(t, []string{"sent away", "moved on"}, w.ModelGone)
	assert.Equal(t, []string{"X-Corp", "X-Dept"}, w.Credentials)
	assert.Empty(t, w.Quota)
	w.Credentials[0] = "changed"
	assert.Equal(t, "X-Corp", c.Failover().Words.Credentials[0])
	assert.Empty(t, parse(t, "", nil).Failover().Words.Credentials)
}

// In these lists "default" adds nothing (contract 1): alone it says that there
// are no words beside the built-in ones, as an empty list does.
func TestDefaultAmongWordsIsNoWord(t *testing.T) {
	for written, want := range map[string][]string{
		"[default]": {}, "[Default, ' default ']": {}, "[]": {}, "[default, x]": {"x"}, "[x, ' DEFAULT']": {"x"},
		"~": {"global"}, "['${NONE:-}']": {"global"},
	} {
		for _, key := range []string{"rate_limited", "quota", "overloaded", "client", "model_gone", "credentials"} {
			c := parse(t, "resilience: {words: {"+key+": [global]}}\nproviders: {openai: {resilience: {words: {"+key+": "+written+"}}}}\n", nil)
			w := c.Policy("openai").Words
			got := map[string][]string{
				"rate_limited": w.RateLimited, "quota": w.Quota, "overloaded": w.Overloaded,
				"client": w.Client, "model_gone": w.ModelGone, "credentials": w.Credentials,
			}
			assert.Equal(t, want, got[key], "%s: %s", key, written)
		}
	}
}

// What the words say of a header holds for virtual models and for calls that
// name their provider.
func TestWordsOfCredentialsReachEveryChain(t *testing.T) {
	base := &cloud{}
	a := assemble(t, wordy, base, config.Options{})
	defer a.Close()
	for _, model := range []string{"v", "b/m"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://caller.example.com/v1/chat/completions", strings.NewReader(`{"model":"`+model+`","messages":[]}`))
		require.NoError(t, err)
		req.Header.Set("X-Corp", canary)
		req.Header.Set("X-Dept", canary)
		req.Header.Set("X-Team", "kept")
		resp, err := a.Router().RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Empty(t, base.header.Get("X-Corp")+base.header.Get("X-Dept"), model)
		assert.Equal(t, "kept", base.header.Get("X-Team"))
	}
}
