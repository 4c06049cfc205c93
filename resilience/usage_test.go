package resilience_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// What the upstream says that a call took is in its record: of every attempt, also
// of those whose answers nobody saw, and nothing where it says nothing.
func TestUsageIsTheSumOfTheAttempts(t *testing.T) {
	const (
		text   = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"
		finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
		usage  = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n"
		whole  = `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":5,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}`
		masked = `{"error":{"code":503,"message":"x"},"usage":{"prompt_tokens":5,"completion_tokens":1}}`
	)
	for name, c := range map[string]struct {
		bodies []string
		stream bool
		hold   string
		want   wire.Usage
	}{
		"a whole answer":                   {[]string{whole}, false, "", wire.Usage{Input: 5, Output: 3, CacheRead: 4}},
		"an answer without it":             {[]string{`{"choices":[{"message":{"content":"x"}}]}`}, false, "", wire.Usage{}},
		"a failure, then an answer":        {[]string{masked, whole}, false, "", wire.Usage{Input: 10, Output: 4, CacheRead: 4}},
		"failures":                         {[]string{masked, masked, masked}, false, "", wire.Usage{Input: 15, Output: 3}},
		"a stream":                         {[]string{text + finish + usage + "data: [DONE]\n\n"}, true, "", wire.Usage{Input: 7, Output: 2}},
		"a stream that breaks off":         {[]string{usage + text}, true, "first_event", wire.Usage{Input: 7, Output: 2}},
		"one that is held, twice":          {[]string{usage + text, text + finish + usage + "data: [DONE]\n\n"}, true, "complete", wire.Usage{Input: 14, Output: 4}},
		"one that reports a failure, held": {[]string{usage + "data: {\"error\":{\"code\":503}}\n\n", text + finish}, true, "complete", wire.Usage{Input: 7, Output: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var calls []resilience.Call
				n := 0
				base := roundTrip(func(req *http.Request) (*http.Response, error) {
					_ = req.Body.Close()
					body := c.bodies[n]
					n++
					kind := "application/json"
					if c.stream {
						kind = "text/event-stream"
					}
					return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {kind}}, Request: req,
						Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1}, nil
				})
				p := resilience.DefaultPolicy()
				p.Retry.MaxRetries, p.Retry.Streams, p.Stream.HoldUntil = 2, "held_back", c.hold
				tr, err := resilience.Builder{Base: base, OnCall: func(_ context.Context, rec resilience.Call) {
					mu.Lock()
					calls = append(calls, rec)
					mu.Unlock()
				}}.Build("p", p)
				require.NoError(t, err)
				ask := `{"model":"m","messages":[]}`
				if c.stream {
					ask = `{"model":"m","stream":true,"messages":[]}`
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://up.test/v1/chat/completions", strings.NewReader(ask))
				require.NoError(t, err)
				resp, err := tr.RoundTrip(req)
				require.NoError(t, err)
				_, _ = io.Copy(io.Discard, resp.Body)
				require.NoError(t, resp.Body.Close())
				synctest.Wait()
				require.Len(t, calls, 1)
				assert.Equal(t, c.want, calls[0].Usage)
				assert.Len(t, calls[0].Attempts, len(c.bodies))
			})
		})
	}
}
