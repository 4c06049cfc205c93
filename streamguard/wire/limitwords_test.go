package wire_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// kindOf is the kind of limit that a 429 with this body tells of.
func kindOf(v *wire.Vocabulary, body string) (wire.LimitKind, bool) {
	f := v.ParseFailure(http.StatusTooManyRequests, []byte(body))
	l, _ := f.ReadLimit(nil, limitNow)
	return l.Kind, f.Quota
}

// A word tells of one limit, wherever it stands, and of a quota that no wait
// mends exactly where its limit is one (contract 5.2, 11.3).
func TestAWordTellsOfOneLimit(t *testing.T) {
	for word, want := range map[string]wire.LimitKind{
		"rate_limit_exceeded": wire.LimitRate, "Throttling.RateQuota": wire.LimitRate, "rate_limit_quota": wire.LimitRate,
		"TooManyRequestsException": wire.LimitRate, "RESOURCE_EXHAUSTED": wire.LimitRate, "unknown_error": wire.LimitRate,
		"quota_exceeded": wire.LimitQuota, "usage_limit_reached": wire.LimitQuota, "Requests.Per.Day": wire.LimitQuota, "1308": wire.LimitQuota,
		"insufficient_quota": wire.LimitBilling, "InsufficientQuota": wire.LimitBilling, "billing_hard_limit_reached": wire.LimitBilling,
		"billing_quota": wire.LimitBilling, "insufficient_credits": wire.LimitBilling, "InsufficientBalance": wire.LimitBilling,
		"account-balance-too-low": wire.LimitBilling, "project_spend_limit_exceeded": wire.LimitBilling, "1113": wire.LimitBilling,
		"concurrency_limit": wire.LimitConcurrency, "ConcurrentRateLimitExceeded": wire.LimitConcurrency, "engine_overloaded_error": wire.LimitConcurrency,
		"server_overload": wire.LimitConcurrency, "queue_exceeded": wire.LimitConcurrency, "slow_down": wire.LimitConcurrency, "1302": wire.LimitConcurrency,
		"load_balancer_error": wire.LimitRate, // no account's balance
		"service_unavailable": wire.LimitRate,
	} {
		for _, place := range wordPlaces {
			body := strings.Replace(place, "%", word, 1)
			kind, quota := kindOf(nil, body)
			assert.Equal(t, want, kind, body)
			assert.Equal(t, want == wire.LimitQuota || want == wire.LimitBilling, quota, body)
		}
	}
}

// A provider's own words tell of limits as the built-in ones do.
func TestAddedWordsTellOfLimits(t *testing.T) {
	v := wire.Words{
		RateLimited: []string{"credit_window"}, Quota: []string{"empty wallet", "40201"}, Overloaded: []string{"GPU_HOT"}, Client: []string{"billing_address"},
	}.Compile()
	for word, want := range map[string]wire.LimitKind{
		"EMPTY_WALLET": wire.LimitQuota, "40201": wire.LimitQuota, "gpu-hot": wire.LimitConcurrency,
		"credit_window_full":   wire.LimitRate, // not for money
		"billing_address_gone": wire.LimitRate, // nor this: a 429 whose words say nothing of a limit
	} {
		kind, quota := kindOf(v, `{"error":{"code":"`+word+`","message":"m"}}`)
		assert.Equal(t, want, kind, word)
		assert.Equal(t, want == wire.LimitQuota, quota, word)
	}
}

// Cerebras calls tokens a minute a quota. That is a rate: waiting helps.
func TestAQuotaOfAMinuteIsARate(t *testing.T) {
	for message, want := range map[string]wire.LimitKind{
		"Tokens per minute limit exceeded - too many tokens processed.": wire.LimitRate,
		"Tokens per day limit exceeded - too many tokens processed.":    wire.LimitQuota,
		"x": wire.LimitQuota,
	} {
		kind, quota := kindOf(nil, `{"message":"`+message+`","type":"too_many_tokens_error","param":"quota","code":"token_quota_exceeded"}`)
		assert.Equal(t, want, kind, message)
		assert.Equal(t, want == wire.LimitQuota, quota, message)
	}
}
