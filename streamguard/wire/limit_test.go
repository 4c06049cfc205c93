package wire_test

import (
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

var limitNow = time.Date(2026, 11, 30, 12, 0, 25, 0, time.UTC)

func epoch(d time.Duration) string  { return strconv.FormatInt(limitNow.Add(d).Unix(), 10) }
func millis(d time.Duration) string { return strconv.FormatInt(limitNow.Add(d).UnixMilli(), 10) }

// header makes an [http.Header] of names and values.
func header(pairs ...string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"r"}}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

const (
	sec    = time.Second
	minute = time.Minute
	hour   = time.Hour
)

type limitRow struct {
	name   string
	status int
	header http.Header
	body   string
	want   wire.Limit // zero: none
}

var vendorLimits = []limitRow{
	{
		"OpenAI: the message before the time to full replenishment", 429,
		header("X-Ratelimit-Limit-Requests", "5000", "X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "6m0s",
			"X-Ratelimit-Remaining-Tokens", "159976", "X-Ratelimit-Reset-Tokens", "12ms"),
		`{"error":{"message":"Rate limit reached for m in organization o on requests per min (RPM): Limit 5000, Used 5000, Requested 1. Please try again in 120ms.","type":"requests","param":null,"code":"rate_limit_exceeded"}}`,
		wire.Limit{Kind: wire.LimitRate, Wait: 120 * time.Millisecond, Source: wire.SourceMessage},
	},
	{
		"OpenAI: retry-after-ms first", 429, header("Retry-After-Ms", "1433", "Retry-After", "2"),
		`{"error":{"message":"Please try again in 5s."}}`,
		wire.Limit{Kind: wire.LimitRate, Wait: 1433 * time.Millisecond, Source: wire.SourceHeader},
	},
	{
		"OpenAI: the reset where nothing else says it", 429,
		header("X-Ratelimit-Remaining-Requests", "12", "X-Ratelimit-Reset-Requests", "6m0s", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "9.5s"),
		`{"error":{"code":"rate_limit_exceeded"}}`,
		wire.Limit{Kind: wire.LimitRate, Wait: 9500 * time.Millisecond, Source: wire.SourceReset},
	},
	{
		"OpenAI: the quota is money", 429, nil,
		`{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}`,
		wire.Limit{Kind: wire.LimitBilling},
	},
	{
		"OpenAI: larger than the limit", 429, nil,
		`{"error":{"message":"Request too large for m in organization o on tokens per min (TPM): Limit 30000, Requested 45162. The input or output tokens must be reduced.","type":"tokens","code":"rate_limit_exceeded"}}`,
		wire.Limit{Kind: wire.LimitNeverFits},
	},
	{
		"OpenAI: overloaded", 429, nil, `{"error":{"code":"slow_down","type":"server_error"}}`,
		wire.Limit{Kind: wire.LimitConcurrency},
	},
	{
		"Codex: the plan is used up (G30)", 429, nil,
		`{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"free","resets_at":` + epoch(529498*sec) + `,"resets_in_seconds":529498}}`,
		wire.Limit{Kind: wire.LimitQuota, Wait: 529498 * sec, Source: wire.SourceBody},
	},
	{
		"Codex: only the moment", 429, nil, `{"error":{"type":"usage_limit_reached","resets_at":` + epoch(90*minute) + `}}`,
		wire.Limit{Kind: wire.LimitQuota, Wait: 90 * minute, Source: wire.SourceBody},
	},
	{
		"Codex: words of a day", 429, nil, `{"error":{"type":"usage_limit_reached","message":"You've hit your usage limit. Try again in 5 days 22 hours 11 minutes."}}`,
		wire.Limit{Kind: wire.LimitQuota, Wait: 5*24*hour + 22*hour + 11*minute, Source: wire.SourceMessage},
	},
	{
		"Azure: words", 429, nil,
		`{"error":{"code":"429","message":"Requests to the operation have exceeded the token rate limit of your current OpenAI S0 pricing tier. Please retry after 6 seconds."}}`,
		wire.Limit{Kind: wire.LimitRate, Wait: 6 * sec, Source: wire.SourceMessage},
	},
	{
		"Azure: milliseconds of its own", 429, header("X-Ms-Retry-After-Ms", "43", "Retry-After", "1"), ``,
		wire.Limit{Kind: wire.LimitRate, Wait: 43 * time.Millisecond, Source: wire.SourceHeader},
	},
	{
		"Azure: -1 and 0 say nothing", 429,
		header("X-Ratelimit-Remaining-Requests", "-1", "X-Ratelimit-Reset-Requests", "30", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "0"), `{}`,
		wire.Limit{Kind: wire.LimitRate},
	},
	{
		"Azure: seconds", 429, header("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "30"), `{}`,
		wire.Limit{Kind: wire.LimitRate, Wait: 30 * sec, Source: wire.SourceReset},
	},
	{
		"Anthropic: RFC 3339, of what is used up", 429,
		header("Anthropic-Ratelimit-Requests-Remaining", "49", "Anthropic-Ratelimit-Requests-Reset", "2026-11-30T13:00:00Z",
			"Anthropic-Ratelimit-Input-Tokens-Remaining", "0", "Anthropic-Ratelimit-Input-Tokens-Reset", "2026-11-30T12:00:45Z",
			"Anthropic-Ratelimit-Tokens-Remaining", "0", "Anthropic-Ratelimit-Tokens-Reset", "2026-11-30T12:00:40Z"),
		`{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your account's rate limit. Please try again later."}}`,
		wire.Limit{Kind: wire.LimitRate, Wait: 20 * sec, Source: wire.SourceReset},
	},
	{
		"Anthropic: a plan's window", 429,
		header("Anthropic-Ratelimit-Unified-Status", "rejected", "Anthropic-Ratelimit-Unified-Representative-Claim", "five_hour",
			"Anthropic-Ratelimit-Unified-Reset", epoch(40*minute),
			"Anthropic-Ratelimit-Unified-5h-Status", "rejected", "Anthropic-Ratelimit-Unified-5h-Reset", epoch(40*minute),
			"Anthropic-Ratelimit-Unified-7d-Status", "allowed", "Anthropic-Ratelimit-Unified-7d-Reset", epoch(90*hour),
			"Anthropic-Ratelimit-Unified-Overage-Status", "rejected", "Anthropic-Ratelimit-Unified-Overage-Reset", epoch(400*hour)),
		`{"type":"error","error":{"type":"rate_limit_error"}}`,
		wire.Limit{Kind: wire.LimitQuota, Wait: 40 * minute, Source: wire.SourceReset},
	},
	{
		"Anthropic: a plan's window with Retry-After", 429,
		header("Retry-After", "7999", "Anthropic-Ratelimit-Unified-Status", "rejected", "Anthropic-Ratelimit-Unified-Reset", epoch(9000*sec)), ``,
		wire.Limit{Kind: wire.LimitQuota, Wait: 7999 * sec, Source: wire.SourceHeader},
	},
	{
		"Anthropic: connections", 429, nil,
		`{"type":"error","error":{"type":"rate_limit_error","message":"Number of concurrent connections has exceeded your rate limit. Please try again later."}}`,
		wire.Limit{Kind: wire.LimitConcurrency},
	},
	{
		"Groq: tokens a day", 429, header("X-Ratelimit-Remaining-Tokens", "11000", "X-Ratelimit-Reset-Tokens", "4.2s"),
		"{\"error\":{\"message\":\"Rate limit reached for model `m` in organization `o` service tier `on_demand` on tokens per day (TPD): Limit 100000, Used 97050, Requested 3619. Please try again in 9m38.016s. Need more tokens?\",\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\"}}",
		wire.Limit{Kind: wire.LimitQuota, Wait: 578016 * time.Millisecond, Source: wire.SourceMessage},
	},
	{
		"Groq: tokens a minute", 429, nil,
		`{"error":{"message":"Rate limit reached on tokens per minute (TPM): Limit 12000, Used 2542, Requested 9855. Please try again in 1.984999999s.","type":"tokens"}}`,
		wire.Limit{Kind: wire.LimitRate, Wait: 1984999999, Source: wire.SourceMessage},
	},
	{
		"Groq: requests are those of a day", 429, header("X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "14h32m2.5s"), ``,
		wire.Limit{Kind: wire.LimitQuota, Wait: 14*hour + 32*minute + 2500*time.Millisecond, Source: wire.SourceReset},
	},
	{
		"Groq: 413 never fits", 413, nil,
		`{"error":{"message":"Request too large for model on tokens per minute (TPM): Limit 6000, Requested 6294, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}`,
		wire.Limit{Kind: wire.LimitNeverFits},
	},
	{
		"Groq: larger than the limit, whatever wait it names", 429, nil,
		`{"error":{"message":"Rate limit reached on tokens per minute (TPM): Limit 7000, Used 0, Requested ~12903. Please try again in 50.597142857s.","code":"rate_limit_exceeded"}}`,
		wire.Limit{Kind: wire.LimitNeverFits, Wait: 50597142857, Source: wire.SourceMessage},
	},
	{
		"Cerebras: nothing on a 429, and a quota that is one of a minute", 429, nil, `{"message":"Tokens per minute limit exceeded - too many tokens processed.","type":"too_many_tokens_error","param":"quota","code":"token_quota_exceeded"}`,
		wire.Limit{Kind: wire.LimitRate},
	},
	{
		"Mistral: the minute of the clock", 429, header("X-Ratelimit-Limit-Tokens-Minute", "500000", "X-Ratelimit-Remaining-Tokens-Minute", "0", "X-Ratelimit-Remaining-Req-Minute", "717"),
		`{"object":"error","message":"Rate limit exceeded","type":"rate_limited","param":null,"code":"1300","raw_status_code":429}`,
		wire.Limit{Kind: wire.LimitRate, Wait: 35 * sec, Source: wire.SourceReset},
	},
	{
		"Mistral: a month without a reset", 429, header("X-Ratelimitbysize-Remaining-Month", "0"), ``,
		wire.Limit{Kind: wire.LimitQuota},
	},
	{
		"OpenRouter: in the body (G32)", 429, nil,
		`{"error":{"code":429,"message":"Rate limit exceeded: free-models-per-min","metadata":{"headers":{"X-RateLimit-Limit":"20","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"` + millis(700*time.Millisecond) + `"},"provider_name":null}},"user_id":"u"}`,
		wire.Limit{Kind: wire.LimitRate, Wait: 700 * time.Millisecond, Source: wire.SourceReset},
	},
	{
		"OpenRouter: a reset alone, as a number", 429, nil,
		`{"error":{"code":429,"metadata":{"headers":{"X-RateLimit-Reset":` + millis(42*sec) + `}}}}`,
		wire.Limit{Kind: wire.LimitRate, Wait: 42 * sec, Source: wire.SourceReset},
	},
	{
		"OpenRouter: requests left say that it is another limit", 429, nil,
		`{"error":{"code":429,"metadata":{"headers":{"X-RateLimit-Remaining":"3","X-RateLimit-Reset":"` + millis(42*sec) + `"}}}}`,
		wire.Limit{Kind: wire.LimitRate},
	},
	{
		"OpenRouter: models free of charge, a day", 429, nil,
		`{"error":{"message":"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day","code":429,"metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"` + millis(15*hour) + `"}}}}`,
		wire.Limit{Kind: wire.LimitQuota, Wait: 15 * hour, Source: wire.SourceReset},
	},
	{
		"OpenRouter: its own header", 429, header("X-Ratelimit-Limit", "20", "X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", millis(9*sec)), ``,
		wire.Limit{Kind: wire.LimitRate, Wait: 9 * sec, Source: wire.SourceReset},
	},
	{
		"OpenRouter: availability", 503, nil, `{"error":{"code":503,"message":"no provider","availability":{"retryable":true,"retry_after":12.5}}}`,
		wire.Limit{Wait: 12500 * time.Millisecond, Source: wire.SourceBody},
	},
	{
		"OpenRouter: no credit", 402, nil, `{"error":{"code":402,"message":"Insufficient credits"}}`,
		wire.Limit{Kind: wire.LimitBilling},
	},
	{
		"DeepSeek: no balance", 402, nil, `{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}`,
		wire.Limit{Kind: wire.LimitBilling},
	},
	{
		"Gemini: RetryInfo", 429, nil,
		`{"error":{"code":429,"message":"You exceeded your current quota. Please retry in 36.429760048s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"36s"}]}}`,
		wire.Limit{Kind: wire.LimitRate, Wait: 36 * sec, Source: wire.SourceBody},
	},
	{
		"Gemini: a day", 429, nil,
		`[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"retryDelay":"45.837906927s"}]}}]`,
		wire.Limit{Kind: wire.LimitQuota, Wait: 45837906927, Source: wire.SourceBody},
	},
	{
		"Gemini: words alone", 429, nil, `{"error":{"code":429,"message":"Please retry in 36.429760048s.","status":"RESOURCE_EXHAUSTED"}}`,
		wire.Limit{Kind: wire.LimitRate, Wait: 36429760048, Source: wire.SourceMessage},
	},
	{"Zhipu: concurrency", 429, nil, `{"error":{"code":"1302","message":"x"}}`, wire.Limit{Kind: wire.LimitConcurrency}},
	{"Zhipu: a plan's limit", 429, nil, `{"error":{"code":"1308","message":"x"}}`, wire.Limit{Kind: wire.LimitQuota}},
	{"Zhipu: no balance", 429, nil, `{"error":{"code":"1113","message":"x"}}`, wire.Limit{Kind: wire.LimitBilling}},
	{"DashScope: a rate, though it says quota", 429, nil, `{"code":"Throttling.RateQuota","message":"Requests rate limit exceeded"}`, wire.Limit{Kind: wire.LimitRate}},
	{"Bedrock", 429, header("X-Amzn-Errortype", "ThrottlingException"), `{"message":"Too many requests, please wait before trying again."}`, wire.Limit{Kind: wire.LimitRate}},
	{
		"FastAPI", 429, nil, `{"detail":{"message":"slow down","retry_after":"3.5"}}`,
		wire.Limit{Kind: wire.LimitRate, Wait: 3500 * time.Millisecond, Source: wire.SourceBody},
	},
	{"text", 429, nil, "Too many requests, please retry after 20 s.\n", wire.Limit{Kind: wire.LimitRate, Wait: 20 * sec, Source: wire.SourceMessage}},
	{"a page", 429, nil, "<html>please retry in 20 s</html>", wire.Limit{Kind: wire.LimitRate}},
	{"RFC 9331 draft", 429, header("RateLimit-Limit", "100", "RateLimit-Remaining", "0", "RateLimit-Reset", "6"), ``, wire.Limit{Kind: wire.LimitRate, Wait: 6 * sec, Source: wire.SourceReset}},
	{"a lone reset", 429, header("X-RateLimit-Reset", epoch(6*sec)), ``, wire.Limit{Kind: wire.LimitRate, Wait: 6 * sec, Source: wire.SourceReset}},
	{"a lone reset of one dimension is none", 429, header("X-RateLimit-Reset-Tokens", "6s"), ``, wire.Limit{Kind: wire.LimitRate}},
}

var ruleLimits = []limitRow{
	{"a 429 is a limit", 429, nil, ``, wire.Limit{Kind: wire.LimitRate}},
	{"a 503 is none", 503, nil, ``, wire.Limit{}},
	{"an overload is none", 503, nil, `{"error":{"type":"overloaded_error"}}`, wire.Limit{}},
	{"a 503 may name a wait", 503, header("Retry-After", "20"), ``, wire.Limit{Wait: 20 * sec, Source: wire.SourceHeader}},
	{"so may an overload", 503, header("Retry-After", "20"), `{"error":{"type":"overloaded_error"}}`, wire.Limit{Kind: wire.LimitConcurrency, Wait: 20 * sec, Source: wire.SourceHeader}},
	{"a 413 never fits", 413, header("Retry-After", "20"), ``, wire.Limit{Kind: wire.LimitNeverFits, Wait: 20 * sec, Source: wire.SourceHeader}},
	{"a 402 is about money", 402, header("Retry-After", "3600"), ``, wire.Limit{Kind: wire.LimitBilling, Wait: hour, Source: wire.SourceHeader}},
	{"other statuses tell of none", 500, header("Retry-After", "20", "X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "6"), `{"error":{"message":"try again in 5s","code":"rate_limit_exceeded"}}`, wire.Limit{}},
	{"but for a RetryInfo", 500, nil, `{"error":{"details":[{"retryDelay":"36s"}]}}`, wire.Limit{Wait: 36 * sec, Source: wire.SourceBody}},
	{"nor does a success", 200, header("X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "6"), ``, wire.Limit{}},
	{"members before words", 429, nil, `{"error":{"message":"try again in 5s","retry_after":7}}`, wire.Limit{Kind: wire.LimitRate, Wait: 7 * sec, Source: wire.SourceBody}},
	{"the first member that is one", 429, nil, `{"error":{"retry_after":null,"resets_in_seconds":-1,"resets_at":` + epoch(7*sec) + `}}`, wire.Limit{Kind: wire.LimitRate, Wait: 7 * sec, Source: wire.SourceBody}},
	{"a header that is no wish", 429, header("Retry-After", "0"), `{"error":{"message":"try again in 5s"}}`, wire.Limit{Kind: wire.LimitRate, Wait: 5 * sec, Source: wire.SourceMessage}},
	{"the latest of what is used up, body and header", 429, header("X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "6"), `{"error":{"metadata":{"headers":{"X-RateLimit-Reset":"4"}}}}`, wire.Limit{Kind: wire.LimitRate, Wait: 6 * sec, Source: wire.SourceReset}},
	{"the other way round", 429, header("X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "4"), `{"error":{"metadata":{"headers":{"X-RateLimit-Reset":"6"}}}}`, wire.Limit{Kind: wire.LimitRate, Wait: 6 * sec, Source: wire.SourceReset}},
	{"the past is none", 429, header("X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", epoch(-sec)), `{"error":{"resets_at":` + epoch(0) + `}}`, wire.Limit{Kind: wire.LimitRate}},
	{"under 10 ms is 10 ms, header", 429, header("Retry-After", "0.0000000001"), ``, wire.Limit{Kind: wire.LimitRate, Wait: 10 * time.Millisecond, Source: wire.SourceHeader}},
	{"under 10 ms is 10 ms, body", 429, nil, `{"error":{"details":[{"retryDelay":"0.000000001s"}]}}`, wire.Limit{Kind: wire.LimitRate, Wait: 10 * time.Millisecond, Source: wire.SourceBody}},
	{"under 10 ms is 10 ms, words", 429, nil, `{"error":{"message":"try again in 1ms"}}`, wire.Limit{Kind: wire.LimitRate, Wait: 10 * time.Millisecond, Source: wire.SourceMessage}},
	{"under 10 ms is 10 ms, reset", 429, header("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "3ms"), ``, wire.Limit{Kind: wire.LimitRate, Wait: 10 * time.Millisecond, Source: wire.SourceReset}},
	{"an epoch in Retry-After (G33)", 429, header("Retry-After", epoch(20*sec)), ``, wire.Limit{Kind: wire.LimitRate, Wait: 20 * sec, Source: wire.SourceHeader}},
	{"an absurd Retry-After is the longest", 429, header("Retry-After", "9999999999"), ``, wire.Limit{Kind: wire.LimitRate, Wait: wire.MaxWait, Source: wire.SourceHeader}},
	{"elsewhere it is none", 429, header("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "99999999999"), `{"error":{"message":"try again in 99999999999 days","resets_in_seconds":99999999}}`, wire.Limit{Kind: wire.LimitRate}},
	{"the strongest word", 429, nil, `{"error":{"type":"overloaded_error","code":"billing_hard_limit_reached"}}`, wire.Limit{Kind: wire.LimitBilling}},
	{"a body cut off", 429, nil, `{"error":{"retry_after":7,"message":"try again in 5`, wire.Limit{Kind: wire.LimitRate, Wait: 7 * sec, Source: wire.SourceBody}},
	{"text of the model is no message", 429, nil, `{"error":{"code":"x"},"output":"try again in 5s"}`, wire.Limit{Kind: wire.LimitRate}},
}

func TestReadLimit(t *testing.T) {
	for kind, rows := range map[string][]limitRow{"vendors": vendorLimits, "rules": ruleLimits} {
		for _, row := range rows {
			t.Run(kind+"/"+row.name, func(t *testing.T) {
				got, ok := wire.ReadLimit(row.status, row.header, []byte(row.body), limitNow)
				assert.Equal(t, row.want, got)
				assert.Equal(t, row.want != wire.Limit{}, ok)
			})
		}
	}
}

func TestWaitsInWords(t *testing.T) {
	for message, want := range map[string]time.Duration{
		"Please try again in 5.289s.":                   5289 * time.Millisecond,
		"try again in 7m12s":                            432 * sec,
		"try again in 120ms":                            120 * time.Millisecond,
		"Please retry after 6 seconds.":                 6 * sec,
		"RETRY AFTER 6 SECONDS":                         6 * sec,
		"wait for 2 minutes":                            2 * minute,
		"Your limit resets in 1 hour and 5 minutes":     65 * minute,
		"resets in 1h, 5m":                              65 * minute,
		"try again in ~3s":                              3 * sec,
		"try again in 1 d":                              24 * hour,
		"available again in\n3s":                        0,
		"try again in 3":                                0,
		"try again in 3.":                               0,
		"try again in three seconds":                    0,
		"try again in -3s":                              0,
		"try again in 0s":                               0,
		"try again in 0.0s, or retry in 2s":             2 * sec,
		"try again in 1.2.3s":                           0,
		"try again in 5 requests":                       0,
		"try again in 11:52":                            0,
		"try again in 1e3s":                             0,
		"try again in " + strings.Repeat("9", 99):       0,
		"try again in " + strings.Repeat("9", 20) + "s": 0,
		"try again in 300 days 300 days":                0,
		"try again in":                                  0,
		"the model answered in 5s":                      0,
		"unavailable in 3 regions":                      0,
		"for 5s":                                        0,
		"":                                              0,
	} {
		got, _ := wire.ReadLimit(429, nil, []byte(`{"error":{"message":`+strconv.Quote(message)+`}}`), limitNow)
		assert.Equal(t, want, got.Wait, message)
	}
}

func TestRemaining(t *testing.T) {
	for _, row := range []struct {
		name   string
		header http.Header
		want   wire.Limit
	}{
		{"nothing", header(), wire.Limit{}},
		{"no header", nil, wire.Limit{}},
		{"something left", header("X-Ratelimit-Remaining-Requests", "1", "X-Ratelimit-Reset-Requests", "6m0s"), wire.Limit{}},
		{"nothing left", header("X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "12s"), wire.Limit{Kind: wire.LimitRate, Wait: 12 * sec, Source: wire.SourceReset}},
		{
			"Cerebras: float seconds",
			header("X-Ratelimit-Limit-Requests-Day", "14400", "X-Ratelimit-Remaining-Requests-Day", "14399", "X-Ratelimit-Reset-Requests-Day", "33011.382867097855",
				"X-Ratelimit-Remaining-Tokens-Minute", "0", "X-Ratelimit-Reset-Tokens-Minute", "11.382867097854614"),
			wire.Limit{Kind: wire.LimitRate, Wait: 11382867098, Source: wire.SourceReset},
		},
		{
			"Cerebras: a day",
			header("X-Ratelimit-Remaining-Requests-Day", "0", "X-Ratelimit-Reset-Requests-Day", "1801.5"),
			wire.Limit{Kind: wire.LimitQuota, Wait: 1801500 * time.Millisecond, Source: wire.SourceReset},
		},
		{"Mistral", header("X-Ratelimit-Remaining-Req-Minute", "0"), wire.Limit{Kind: wire.LimitRate, Wait: 35 * sec, Source: wire.SourceReset}},
		{"nothing left and nothing said", header("X-Ratelimit-Remaining-Requests", "0"), wire.Limit{}},
		{"Azure's unknown", header("X-Ratelimit-Remaining-Requests", "-1", "X-Ratelimit-Reset-Requests", "0"), wire.Limit{}},
		{"the past", header("Anthropic-Ratelimit-Tokens-Remaining", "0", "Anthropic-Ratelimit-Tokens-Reset", "2026-11-30T12:00:00Z"), wire.Limit{}},
		{"a lone reset", header("X-Ratelimit-Reset", "60"), wire.Limit{}},
		{"a plan's window that is rejected, of an answer that was not", header("Anthropic-Ratelimit-Unified-5h-Status", "rejected", "Anthropic-Ratelimit-Unified-5h-Reset", epoch(hour)), wire.Limit{}},
		{"Retry-After is about failures", header("Retry-After", "20"), wire.Limit{}},
	} {
		got, ok := wire.Remaining(row.header, limitNow)
		assert.Equal(t, row.want, got, row.name)
		assert.Equal(t, row.want.Wait > 0, ok, row.name)
	}
}

// A failure that was found inside a 200 (G12) has its wait, too, and the header
// of that answer counts as one of the status that it stands for.
func TestLimitOfHiddenFailure(t *testing.T) {
	gemini := `{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"0.3s"}]}}`
	f := wire.FormatOf(http.MethodPost, &url.URL{Path: "/v1beta/models/m:generateContent"})
	v := f.Judge(wire.Answer{Provider: "p", ContentType: "application/json"}, []byte(gemini))
	require.NotNil(t, v.Failure)
	l, ok := v.Failure.ReadLimit(http.Header{}, limitNow)
	assert.True(t, ok)
	assert.Equal(t, wire.Limit{Kind: wire.LimitRate, Wait: 300 * time.Millisecond, Source: wire.SourceBody}, l)
	l, _ = v.Failure.ReadLimit(http.Header{"Retry-After": {"2"}}, limitNow)
	assert.Equal(t, wire.Limit{Kind: wire.LimitRate, Wait: 2 * sec, Source: wire.SourceHeader}, l)
}

func TestReadingNoLimitDoesNotAllocate(t *testing.T) {
	plain := header("Date", "x", "Content-Length", "12", "X-Ratelimit-Remaining-Tokens", "12", "X-Ratelimit-Reset-Tokens", "12ms",
		"Anthropic-Ratelimit-Unified-5h-Status", "allowed", "Server", "x", "Via", "x", "Cf-Ray", "x")
	body := []byte(`{"error":{"message":"busy"}}`)
	for name, f := range map[string]func(){
		"a good answer":      func() { wire.Remaining(plain, limitNow) },
		"no status of limit": func() { wire.ReadLimit(http.StatusOK, plain, body, limitNow) },
		"no body":            func() { wire.ReadLimit(http.StatusTooManyRequests, plain, nil, limitNow) },
	} {
		assert.Zero(t, testing.AllocsPerRun(100, f), name)
	}
}

func BenchmarkRemaining(b *testing.B) {
	h := header("Date", "x", "Content-Length", "12", "X-Ratelimit-Remaining-Tokens", "12", "X-Ratelimit-Reset-Tokens", "12ms",
		"X-Ratelimit-Remaining-Requests", "12", "X-Ratelimit-Reset-Requests", "12ms", "Server", "x", "Via", "x", "Cf-Ray", "x")
	b.ReportAllocs()
	for b.Loop() {
		wire.Remaining(h, limitNow)
	}
}

// FuzzReadLimit: no input panics; a wait is within its bounds and the answer is
// the same every time, whatever the order of the fields.
func FuzzReadLimit(f *testing.F) {
	for _, rows := range [][]limitRow{vendorLimits, ruleLimits} {
		for _, row := range rows {
			f.Add(row.status, []byte(row.body), "X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "6m0s", int64(0))
			for name, v := range row.header {
				f.Add(row.status, []byte(row.body), name, v[0], "Retry-After", "20", limitNow.UnixNano())
			}
		}
	}
	kinds := []wire.LimitKind{"", wire.LimitConcurrency, wire.LimitRate, wire.LimitQuota, wire.LimitBilling, wire.LimitNeverFits}
	f.Fuzz(func(t *testing.T, status int, body []byte, name1, value1, name2, value2 string, now int64) {
		at := time.Unix(0, now)
		if now == math.MinInt64 {
			at = time.Time{}
		}
		h := header(name1, value1, name2, value2, "X-Ratelimit-Remaining-Day", value1, "X-Ratelimit-Reset-Day", value2)
		l, ok := wire.ReadLimit(status, h, body, at)
		require.Equal(t, ok, l != wire.Limit{})
		for range 8 {
			again, _ := wire.ReadLimit(status, h, body, at)
			require.Equal(t, l, again)
		}
		rest, left := wire.Remaining(h, at)
		require.Equal(t, left, rest.Wait > 0)
		for _, l := range []wire.Limit{l, rest} {
			require.Contains(t, kinds, l.Kind)
			require.Equal(t, l.Wait == 0, l.Source == "")
			if l.Wait != 0 {
				require.GreaterOrEqual(t, l.Wait, 10*time.Millisecond)
				require.LessOrEqual(t, l.Wait, wire.MaxWait)
			}
		}
	})
}
