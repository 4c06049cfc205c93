package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// wordsOf are the places where an error's word can stand.
var wordPlaces = []string{
	`{"error":{"code":"%","message":"m"}}`, `{"error":{"type":"%","message":"m"}}`, `{"error":{"status":"%","message":"m"}}`,
	`{"code":"%","message":"m"}`, `{"type":"error","error":{"type":"%"}}`, `{"error":{"metadata":{"provider_code":"%"},"message":"m"}}`,
	`{"response":{"error":{"code":"%"}},"type":"error"}`,
}

func TestWordsOfAnErrorAreReadByTheirParts(t *testing.T) {
	type want struct {
		status int
		quota  bool
	}
	for word, want := range map[string]want{
		"rate_limit_exceeded": {429, false}, "RateLimitReached": {429, false}, "tokens-rate-limit": {429, false},
		"too_many_requests": {429, false}, "TooManyRequestsException": {429, false},
		"Throttling.RateQuota": {429, false}, "ThrottlingException": {429, false}, "REQUEST_THROTTLED": {429, false},
		"usage_limit_reached": {429, true}, "insufficient_quota": {429, true}, "QuotaExceeded": {429, true},
		"quota_exceeded": {429, true}, "billing_hard_limit_reached": {429, true}, "credit_balance_exhausted": {429, true},
		"insufficient_credits": {429, true}, "InsufficientBalance": {429, true}, "project_spend_limit_exceeded": {429, true},
		"RESOURCE_EXHAUSTED":      {429, false},
		"engine_overloaded_error": {503, false}, "server_is_overloaded": {503, false}, "queue_exceeded": {503, false},
		"capacity_exceeded": {503, false}, "InsufficientCapacity": {503, false}, "slow_down": {503, false},
		"cyber_policy": {400, false}, "content_policy_violation": {400, false}, "invalid_prompt": {400, false},
		"InvalidParameter": {400, false}, "content_filter": {400, false}, "malformed_request": {400, false},
		"invalid_response_format": {400, false},
		"request_too_large":       {413, false}, "PayloadTooLarge": {413, false}, "invalid_image_too_large": {413, false},
		"invalid_api_key": {401, false}, "model_not_found": {404, false}, "GatewayTimeout": {504, false},
		// a server's own fault
		"malformed_model_output": {502, false}, "malformed_tool_use": {502, false}, "MALFORMED_FUNCTION_CALL": {502, false},
		"upstream_rate_limit": {429, false}, "invalid_json_in_upstream_response": {502, false},
		"malformed_upstream_response": {502, false}, "invalid_upstream_response": {502, false},
		"server_error": {502, false}, "internal_error": {502, false}, "unknown": {502, false},
	} {
		for _, place := range wordPlaces {
			body := []byte(strings.Replace(place, "%", word, 1))
			v := wire.Responses.Judge(wire.Answer{}, body)
			require.NotNil(t, v.Failure, "%s", body)
			assert.Equal(t, want.status, v.Failure.Status, "%s", body)
			assert.Equal(t, want.quota, v.Failure.Quota, "%s", body)

			// One place says it for the text of an error, too.
			f := wire.ParseFailure(0, body)
			assert.Equal(t, want.status, f.Status, "%s", body)
			assert.Equal(t, want.quota, f.Quota, "%s", body)
			assert.Equal(t, 418, wire.ParseFailure(418, body).Status, "a real status stands")

			// And for an event.
			s := wire.Responses.NewStream(wire.StreamOptions{})
			if m := s.Event([]byte("event: error\ndata: " + string(body) + "\n\n")); assert.NotZero(t, m&wire.MarkFailed, "%s", body) {
				assert.Equal(t, want.status, s.Failure().Status, "%s", body)
				assert.Equal(t, want.quota, s.Failure().Quota, "%s", body)
			}
		}
	}
}

func TestWordsCanBeAdded(t *testing.T) {
	words := wire.Words{
		RateLimited: []string{"slow-lane"}, Quota: []string{"empty wallet", "40201"}, Overloaded: []string{"GPU_HOT", "2064"},
		Client: []string{"naughty"}, ModelGone: []string{"model sunset"}, Credentials: []string{"X-Wallet"},
	}
	require.NoError(t, words.Validate())
	v := words.Compile()
	for body, want := range map[string]struct {
		status, bare int
		quota        bool
	}{
		`{"error":{"code":"SLOW_LANE"}}`:                            {429, 502, false},
		`{"type":"error","error":{"type":"EmptyWallet"}}`:           {429, 502, true},
		`{"type":"error","error":{"type":"proxy","code":40201}}`:    {429, 502, true},
		`{"error":{"code":"x40201"}}`:                               {502, 502, false}, // digits are the whole code
		`{"error":{"status":"GPU_HOT_AGAIN"}}`:                      {503, 502, false},
		`{"error":{"code":"naughty_prompt"}}`:                       {400, 502, false},
		`{"base_resp":{"status_code":2064,"status_msg":"x"}}`:       {503, 502, false},
		`{"error":{"code":"rate_limit_exceeded"}}`:                  {429, 429, false}, // nothing is taken away
		`{"error":{"code":"naughty","type":"rate_limit_exceeded"}}`: {400, 429, false},
		`{"error":{"code":503,"type":"naughty"}}`:                   {503, 503, false}, // a number is one
		`{"error":{"code":"x","message":"naughty"}}`:                {502, 502, false}, // text is never read
	} {
		got := wire.Chat.Judge(wire.Answer{Words: v}, []byte(body)).Failure
		require.NotNil(t, got, body)
		assert.Equal(t, want.status, got.Status, body)
		assert.Equal(t, want.quota, got.Quota, body)
		f := v.ParseFailure(0, []byte(body))
		assert.Equal(t, want.status, f.Status, body)
		assert.Equal(t, want.quota, f.Quota, body)
		assert.Equal(t, want.bare, wire.ParseFailure(0, []byte(body)).Status, body)

		s := wire.Chat.NewStream(wire.StreamOptions{Words: v})
		s.Event([]byte("data: " + body + "\n\n"))
		require.NotNil(t, s.Failure(), body)
		assert.Equal(t, want.status, s.Failure().Status, body)
	}
	assert.Nil(t, wire.Words{ModelGone: []string{"x"}}.Compile(), "the built-in words alone")
}

func TestWordsWithNothingInThemAreRefused(t *testing.T) {
	err := wire.Words{
		RateLimited: []string{"ok", ""}, Quota: []string{" _-."}, Overloaded: []string{strings.Repeat("x", 65)},
		ModelGone: []string{" "}, Credentials: []string{"\t"},
	}.Validate()
	require.Error(t, err)
	assert.Equal(t, `words.rate_limited[1]: is empty, want a word
words.quota[0]: is empty, want a word
words.overloaded[0]: has 65 bytes, want at most 64
words.model_gone[0]: is empty, want a word
words.credentials[0]: is empty, want a word`, err.Error())
	assert.NoError(t, wire.Words{}.Validate())
}

// A vocabulary does not follow the slices that it was compiled from.
func TestAVocabularyIsACopy(t *testing.T) {
	list := []string{"first"}
	v := wire.Words{Client: list}.Compile()
	list[0] = "second"
	assert.Equal(t, 400, v.ParseFailure(0, []byte(`{"error":{"code":"first"}}`)).Status)
	assert.Equal(t, 502, v.ParseFailure(0, []byte(`{"error":{"code":"second"}}`)).Status)
}

// Anthropic's clients know a fixed list of types.
func TestMessagesErrorsHaveATypeThatTheClientsKnow(t *testing.T) {
	for status, want := range map[int]string{429: "rate_limit_error", 402: "billing_error", 504: "timeout_error", 502: "api_error", 400: "invalid_request_error"} {
		assert.JSONEq(t, `{"type":"error","error":{"type":"`+want+`","message":"m","code":"GatewayTimeout"}}`,
			string(wire.Messages.ErrorBody(status, "GatewayTimeout", "", "m")), status)
	}
	assert.JSONEq(t, `{"type":"error","error":{"type":"overloaded_error","message":"m","code":"c"}}`,
		string(wire.Messages.ErrorBody(502, "overloaded_error", "c", "m")))
}

// The word "default" stands for the built-in words, which are there anyway.
func TestDefaultIsNoWordOfAProvider(t *testing.T) {
	body := []byte(`{"error":{"code":"default_region_down","message":"m"}}`)
	words := wire.Words{Quota: []string{"default"}, Client: []string{" Default "}}
	require.NoError(t, words.Validate())
	assert.Equal(t, 502, wire.Chat.Judge(wire.Answer{Words: words.Compile()}, body).Failure.Status)
	words.Client = append(words.Client, "region_down")
	assert.Equal(t, 400, wire.Chat.Judge(wire.Answer{Words: words.Compile()}, body).Failure.Status)
}
