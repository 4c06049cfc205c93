package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/surefoot-go/surefoot/resilience"
)

// answer is a chat answer of 1.5 KB, ask a request of 2 KB.
var (
	answer = `{"id":"chatcmpl-1","object":"chat.completion","created":1760000000,"model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("All work and no play. ", 56) + `","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":400,"completion_tokens":300,"total_tokens":700}}`
	ask = []byte(`{"model":"gpt-4o","messages":[{"role":"user","content":"` + strings.Repeat("Tell me more about it. ", 84) + `"}]}`)
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// brief is a base that answers everything alike, at once.
func brief(status int, body string) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.Body != nil {
			_, _ = io.Copy(io.Discard, req.Body)
			_ = req.Body.Close()
		}
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req,
		}, nil
	})
}

// named sends a stack calls that name this model.
func named(tr http.RoundTripper, model string) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		return tr.RoundTrip(req.WithContext(resilience.WithModel(req.Context(), model)))
	})
}

// BenchmarkCall is what metrics cost: one chat call of 2 KB, answered with
// 1.5 KB, without a meter, with the API's no-op and with the SDK.
func BenchmarkCall(b *testing.B) {
	for _, c := range []struct {
		name string
		mp   metric.MeterProvider
	}{
		{"no meter", nil},
		{"noop", noop.NewMeterProvider()},
		{"sdk", sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))},
	} {
		b.Run(c.name, func(b *testing.B) {
			tr, err := resilience.Builder{Base: brief(200, answer), MeterProvider: c.mp}.Build("bench", resilience.DefaultPolicy())
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://upstream.invalid/v1/chat/completions", bytes.NewReader(ask))
				if err != nil {
					b.Fatal(err)
				}
				resp, err := tr.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					b.Fatal(err)
				}
				_ = resp.Body.Close()
			}
		})
	}
}
