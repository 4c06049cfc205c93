package resilience_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
	ut "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// limited is a call into a limit in a bubble at the beginning of 2026.
type limited struct {
	name   string
	change func(*resilience.Policy)
	path   string
	body   func(now time.Time) ut.Step // the first answer
	then   ut.Step
	status int
	reqs   int
	wait   time.Duration // at least, and little more for the jitter; 0: the answer came at once
}

func (c limited) run(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))) // a bubble begins in 2000
		up, tr, _ := inMemory(t, c.change)
		defer up.Close()
		up.Default(c.body(time.Now()), c.then)
		start := time.Now()
		status, _, err := do(t, tr, ask(t, up, c.path, plainBody))
		require.NoError(t, err)
		took := time.Since(start)
		assert.Equal(t, c.status, status)
		assert.Equal(t, c.reqs, up.Count())
		assert.GreaterOrEqual(t, took, c.wait)
		assert.LessOrEqual(t, took, c.wait+c.wait/4)
	})
}

// told is a 429 with a body.
func told(format string, args ...any) ut.Step {
	return ut.Status(http.StatusTooManyRequests).Body(jsonType, fmt.Sprintf(format, args...))
}

const geminiStream = "/v1beta/models/m:streamGenerateContent"

// A wait is obeyed wherever a vendor names it.
func TestCaseG_WaitsOfLimits(t *testing.T) {
	t.Parallel()
	gemini := ut.RawStream("data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hi\"}]},\"finishReason\":\"STOP\"}]}\n\n")
	for _, c := range []limited{
		{
			name: "G12 a RetryInfo in the first event of a stream", change: heldBack, path: geminiStream + "?alt=sse",
			body: func(time.Time) ut.Step {
				return ut.RawStream("data: {\"error\":{\"code\":429,\"message\":\"x\",\"status\":\"RESOURCE_EXHAUSTED\",\"details\":[{\"@type\":\"type.googleapis.com/google.rpc.RetryInfo\",\"retryDelay\":\"0.3s\"}]}}\n\n")
			},
			then: gemini, status: 200, reqs: 2, wait: 300 * time.Millisecond,
		},
		{
			name: "G12 the same in words", change: heldBack, path: geminiStream + "?alt=sse",
			body: func(time.Time) ut.Step {
				return ut.RawStream("data: {\"error\":{\"code\":429,\"message\":\"Please retry in 0.3s.\",\"status\":\"RESOURCE_EXHAUSTED\"}}\n\n")
			},
			then: gemini, status: 200, reqs: 2, wait: 300 * time.Millisecond,
		},
		{
			name: "G12 the header of an answer that looked good", path: chatPath,
			body: func(time.Time) ut.Step {
				return ut.Body(jsonType, `{"error":{"code":429,"message":"x"}}`).
					Header("X-RateLimit-Remaining", "0").Header("X-RateLimit-Reset", "300ms")
			},
			then: ut.OK("hi"), status: 200, reqs: 2, wait: 300 * time.Millisecond,
		},
		{
			name: "G30 a plan used up for days", path: chatPath,
			body: func(time.Time) ut.Step {
				return told(`{"error":{"type":"usage_limit_reached","resets_in_seconds":529498}}`)
			},
			then: ut.OK("hi"), status: 429, reqs: 1,
		},
		{
			name: "G30 the moment alone", path: chatPath,
			body: func(now time.Time) ut.Step {
				return told(`{"error":{"type":"usage_limit_reached","resets_at":%d}}`, now.Add(90*time.Hour).Unix())
			},
			then: ut.OK("hi"), status: 429, reqs: 1,
		},
		{
			name: "G32 OpenRouter's moment in milliseconds", path: chatPath,
			body: func(now time.Time) ut.Step {
				return told(`{"error":{"code":429,"message":"x","metadata":{"headers":{"X-RateLimit-Reset":"%d"}}}}`, now.Add(700*time.Millisecond).UnixMilli())
			},
			then: ut.OK("hi"), status: 200, reqs: 2, wait: 700 * time.Millisecond,
		},
		{
			name: "G32 the same inside a 200", path: chatPath,
			body: func(now time.Time) ut.Step {
				return ut.Body(jsonType, fmt.Sprintf(`{"error":{"code":429,"message":"x","metadata":{"headers":{"X-RateLimit-Reset":"%d"}}}}`,
					now.Add(700*time.Millisecond).UnixMilli()))
			},
			then: ut.OK("hi"), status: 200, reqs: 2, wait: 700 * time.Millisecond,
		},
		{
			name: "G33 an epoch in Retry-After is that moment", path: chatPath,
			body: func(now time.Time) ut.Step {
				return ut.Status(429).Header("Retry-After", fmt.Sprint(now.Add(time.Second).Unix()))
			},
			then: ut.OK("hi"), status: 200, reqs: 2, wait: time.Second,
		},
		{
			name: "G33 one far away", path: chatPath,
			body: func(time.Time) ut.Step { return ut.Status(429).Header("Retry-After", "1800000000") },
			then: ut.OK("hi"), status: 429, reqs: 1,
		},
		{
			name: "G33 one that is past is none", path: chatPath,
			body: func(time.Time) ut.Step { return ut.Status(429).Header("Retry-After", "1700000000") },
			then: ut.OK("hi"), status: 200, reqs: 2, wait: 9 * time.Millisecond,
		},
		{
			name: "G33 and with an exponent", path: chatPath,
			body: func(time.Time) ut.Step { return ut.Status(429).Header("Retry-After", "1.8e9") },
			then: ut.OK("hi"), status: 200, reqs: 2, wait: 9 * time.Millisecond,
		},
		{
			name: "a request that never fits is not sent again", path: chatPath,
			body: func(time.Time) ut.Step {
				return told(`{"error":{"message":"Limit 7000, Used 0, Requested ~12903. Please try again in 0.5s.","code":"rate_limit_exceeded"}}`)
			},
			then: ut.OK("hi"), status: 429, reqs: 1,
		},
		{
			name: "words before the time to full replenishment", path: chatPath,
			body: func(time.Time) ut.Step {
				return told(`{"error":{"message":"Please try again in 120ms."}}`).
					Header("X-RateLimit-Remaining-Requests", "0").Header("X-RateLimit-Reset-Requests", "6m0s")
			},
			then: ut.OK("hi"), status: 200, reqs: 2, wait: 120 * time.Millisecond,
		},
	} {
		t.Run(c.name, c.run)
	}
}
