package retry_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/retry"
)

// A tiny wish is no tight loop, wherever it was read (contract 3): it counts as
// 10 ms. What is no wish at all leaves the wait to the policy.
func TestTinyWishes(t *testing.T) {
	for name, row := range map[string]struct {
		header, value string
		advice        time.Duration
		want          time.Duration
	}{
		"Retry-After":              {"Retry-After", "0.0000000001", 0, 10 * time.Millisecond},
		"Retry-After, 1 ms":        {"Retry-After", "0.001", 0, 10 * time.Millisecond},
		"just under":               {"Retry-After", "0.009999999", 0, 10 * time.Millisecond},
		"just over":                {"Retry-After", "0.010000001", 0, 10*time.Millisecond + 1},
		"retry-after-ms":           {"Retry-After-Ms", "0.0001", 0, 10 * time.Millisecond},
		"x-ms-retry-after-ms":      {"X-Ms-Retry-After-Ms", "1", 0, 10 * time.Millisecond},
		"in the body":              {"", "", time.Nanosecond, 10 * time.Millisecond},
		"in the body, 9 ms":        {"", "", 9 * time.Millisecond, 10 * time.Millisecond},
		"a longer one in the body": {"Retry-After", "0.001", 30 * time.Millisecond, 30 * time.Millisecond},
		"zero":                     {"Retry-After", "0", 0, 50 * time.Millisecond},
		"negative":                 {"Retry-After", "-1", -1, 50 * time.Millisecond},
		"past":                     {"Retry-After", "Sat, 01 Jan 2000 00:00:00 GMT", 0, 50 * time.Millisecond},
		"garbled":                  {"Retry-After", "1e-9", 0, 50 * time.Millisecond},
		"absurd":                   {"Retry-After", strings.Repeat("9", 40), 0, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, rt := newScript(t, status(503, row.header, row.value))
				rt.Policy.InitialBackoff, rt.Policy.BackoffFactor, rt.Policy.JitterFactor = 50*time.Millisecond, 1, 0
				rt.Judge = func(*http.Request, *http.Response, []byte) retry.Advice { return retry.Advice{Wait: row.advice} }
				assert.Equal(t, 503, send(t, rt, get(t.Context(), t)))
				require.Equal(t, 3, s.count())
				for i := range 2 {
					assert.Equal(t, row.want, s.times[i+1].Sub(s.times[i]))
				}
			})
		})
	}
}

// G33: seconds since 1970 in Retry-After are neither slept nor looped on.
func TestCaseG33_EpochInRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newScript(t, status(429, "Retry-After", "1800000000"))
		start := time.Now()
		assert.Equal(t, 429, send(t, rt, get(t.Context(), t)))
		assert.Equal(t, 1, s.count(), "longer than any wait of ours: it goes back")
		assert.Zero(t, time.Since(start))
	})
}

// A policy with less patience than 10 ms still obeys a tiny wish.
func TestTinyWishUnderATinyPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newScript(t, status(503, "Retry-After", "0.001"), status(200))
		rt.Policy.InitialBackoff, rt.Policy.MaxBackoff = time.Millisecond, time.Millisecond
		assert.Equal(t, 200, send(t, rt, get(t.Context(), t)))
		assert.GreaterOrEqual(t, s.times[1].Sub(s.times[0]), 10*time.Millisecond)
	})
}

// Where no attempt follows the wait after all, the dropped answer goes back:
// status, headers and the first 64 KiB (contract 3).
func TestDroppedAnswerIsKept(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 8<<10)
	for name, row := range map[string]struct {
		reply func() reply // made within the bubble
		want  string
	}{
		"small":       {func() reply { return statusBody(503, "try later", "X-Id", "7") }, "try later"},
		"empty":       {func() reply { return statusBody(503, "", "X-Id", "7") }, ""},
		"long":        {func() reply { return statusBody(503, long, "X-Id", "7") }, long[:64<<10]},
		"long stream": {func() reply { return streaming(503, io.NopCloser(strings.NewReader(long)), "X-Id", "7") }, long[:64<<10]},
		"hanging":     {func() reply { return streaming(503, hanging("begin"), "X-Id", "7") }, "begin"},
	} {
		for _, judged := range []bool{false, true} {
			t.Run(name+" "+strconv.FormatBool(judged), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, rt := newScript(t, row.reply())
					if judged {
						rt.Judge = func(*http.Request, *http.Response, []byte) retry.Advice { return retry.Advice{} }
					}
					asked := 0
					above{mayRetry: func() bool {
						if asked++; asked == 1 {
							return true
						}
						assert.Zero(t, s.open.Load(), "the connection is free by then")
						return false
					}}.put(rt)
					resp, err := rt.RoundTrip(post(t.Context(), t, "hello"))
					code, body := finish(t, resp, err)
					assert.Equal(t, 503, code)
					assert.Equal(t, "7", resp.Header.Get("X-Id"))
					assert.True(t, row.want == body)
					assert.Equal(t, 1, s.count())
				})
			})
		}
	}
}
