package resilience_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/surefoot-go/surefoot/resilience"
)

// benchRequest is 2 KB, benchAnswer 1.5 KB: the size of a usual call, as in examples/bench.
var (
	benchRequest = []byte(`{"model":"gpt-4o","temperature":0.2,"messages":[{"role":"system","content":"` + strings.Repeat("You are terse. ", 40) +
		`"},{"role":"user","content":"` + strings.Repeat("Tell me more about it. ", 58) + `"}]}`)
	benchAnswer = []byte(`{"id":"chatcmpl-1","object":"chat.completion","created":1760000000,"model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("All work and no play. ", 56) + `","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":400,"completion_tokens":300,"total_tokens":700}}`)
	benchOverloaded = []byte(`{"error":{"message":"The server is overloaded.","type":"server_error","param":null,"code":null}}`)
)

func benchBase(statuses ...int) roundTrip {
	i := 0
	return func(req *http.Request) (*http.Response, error) {
		if req.Body != nil {
			_, _ = io.Copy(io.Discard, req.Body)
			_ = req.Body.Close()
		}
		status, body := http.StatusOK, benchAnswer
		if len(statuses) > 0 {
			if status = statuses[i%len(statuses)]; status != http.StatusOK {
				body = benchOverloaded
			}
			i++
		}
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
		}, nil
	}
}

func benchCalls(b *testing.B, rt http.RoundTripper) {
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, chatURL, bytes.NewReader(benchRequest))
		if err != nil {
			b.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status)
		}
	}
}

// BenchmarkCall is one chat call of 2 KB, answered with 1.5 KB, over a stub.
func BenchmarkCall(b *testing.B) {
	p := resilience.DefaultPolicy()
	p.Retry.InitialBackoff, p.Retry.MaxBackoff = time.Nanosecond, time.Nanosecond
	stack := func(b *testing.B, base http.RoundTripper, p resilience.Policy) http.RoundTripper {
		t, err := resilience.Builder{Base: base}.Build("bench", p)
		if err != nil {
			b.Fatal(err)
		}
		return t
	}
	b.Run("stub", func(b *testing.B) { benchCalls(b, benchBase()) })
	b.Run("stack", func(b *testing.B) { benchCalls(b, stack(b, benchBase(), p)) })
	b.Run("stack without holds", func(b *testing.B) {
		p := p
		p.Limits.Hold = false
		benchCalls(b, stack(b, benchBase(), p))
	})
	b.Run("zero policy", func(b *testing.B) { benchCalls(b, stack(b, benchBase(), resilience.Policy{})) })
	b.Run("503 503 200", func(b *testing.B) { benchCalls(b, stack(b, benchBase(503, 503, 200), p)) })
}
