package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	up "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// traces is a provider and a client whose calls and attempts are traced.
type traces struct {
	*tracetest.SpanRecorder
	tp       *trace.TracerProvider
	upstream *up.Upstream
	stack    http.RoundTripper
}

func newTraces(t *testing.T, p resilience.Policy) *traces {
	t.Helper()
	tr := &traces{SpanRecorder: tracetest.NewSpanRecorder(), upstream: up.New()}
	t.Cleanup(tr.upstream.Close)
	tr.tp = trace.NewTracerProvider(trace.WithSpanProcessor(tr.SpanRecorder))
	base := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(base.CloseIdleConnections)
	p.Retry.InitialBackoff, p.Retry.MaxBackoff = time.Millisecond, time.Millisecond
	stack, err := resilience.Builder{Base: traceAttempts(base, tr.tp)}.Build("eu", p)
	require.NoError(t, err)
	tr.stack = stack
	return tr
}

func (tr *traces) client() *http.Client { return &http.Client{Transport: traceCalls(tr.stack, tr.tp)} }

func (tr *traces) ask(t *testing.T, client *http.Client, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tr.upstream.URL+"/v1/chat/completions?key=secret", strings.NewReader(body))
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	return resp
}

// named returns the spans that have ended, attempts in order of their start.
func (tr *traces) named(name string) []trace.ReadOnlySpan {
	var out []trace.ReadOnlySpan
	for _, s := range tr.Ended() {
		if s.Name() == name {
			out = append(out, s)
		}
	}
	return out
}

func attr(s trace.ReadOnlySpan, key attribute.Key) attribute.Value {
	for _, kv := range s.Attributes() {
		if kv.Key == key {
			return kv.Value
		}
	}
	return attribute.Value{}
}

func readAll(t *testing.T, resp *http.Response) {
	t.Helper()
	_, err := io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}

func TestSpans(t *testing.T) {
	tr := newTraces(t, resilience.DefaultPolicy())
	tr.upstream.Default(up.Status(503), up.Hidden(up.HiddenCode, 429), up.OK("hi"))
	resp := tr.ask(t, tr.client(), plain)
	readAll(t, resp)
	rec, ok := resilience.CallOf(resp)
	require.True(t, ok, "tracing stands in the way of nothing")
	require.Len(t, rec.Attempts, 3)

	calls, attempts := tr.named("call"), tr.named("HTTP POST")
	require.Len(t, calls, 1)
	require.Len(t, attempts, 3)
	assert.Equal(t, "eu", attr(calls[0], "surefoot.provider.name").AsString())
	for i, s := range attempts {
		assert.Equal(t, calls[0].SpanContext().SpanID(), s.Parent().SpanID(), "a child of the call")
		assert.Equal(t, tr.upstream.URL+"/v1/chat/completions", attr(s, "url.full").AsString(), "without the query")
		assert.EqualValues(t, i, attr(s, "http.request.resend_count").AsInt64())
	}
	assert.Equal(t, attribute.EMPTY, attr(attempts[0], "http.request.resend_count").Type(), "absent on the first")
	assert.Equal(t, "503", attr(attempts[0], "error.type").AsString())
	assert.EqualValues(t, 200, attr(attempts[1], "http.response.status_code").AsInt64(), "as the upstream said")
	assert.EqualValues(t, 200, attr(calls[0], "http.response.status_code").AsInt64())
	assert.False(t, calls[0].StartTime().After(attempts[0].StartTime()))
	assert.False(t, calls[0].EndTime().Before(attempts[2].EndTime()))
}

// What hides behind a 200 is an error of the call and none of the exchange.
func TestSpanOfAHiddenError(t *testing.T) {
	tr := newTraces(t, resilience.Policy{})
	tr.upstream.Default(up.Hidden(up.HiddenCode, 429))
	readAll(t, tr.ask(t, tr.client(), plain))
	c := tr.named("call")[0]
	assert.EqualValues(t, 429, attr(c, "http.response.status_code").AsInt64())
	assert.True(t, attr(c, "surefoot.unmasked").AsBool())
	assert.Equal(t, codes.Error, c.Status().Code)
	assert.EqualValues(t, 200, attr(tr.named("HTTP POST")[0], "http.response.status_code").AsInt64())
}

func TestSpansOfAStream(t *testing.T) {
	tr := newTraces(t, resilience.DefaultPolicy())
	gate := make(chan struct{})
	tr.upstream.Default(up.OK("a", "b").At(2, up.Gate(gate)))
	resp := tr.ask(t, tr.client(), streamed)
	_, err := resp.Body.Read(make([]byte, 1))
	require.NoError(t, err)
	assert.Empty(t, tr.Ended(), "both last as long as the stream")
	assert.Len(t, tr.Started(), 2)
	close(gate)
	readAll(t, resp)
	assert.Len(t, tr.named("call"), 1)
	assert.Len(t, tr.named("HTTP POST"), 1)
}

func TestSpansOfACutStream(t *testing.T) {
	tr := newTraces(t, resilience.DefaultPolicy())
	tr.upstream.Default(up.OK("a", "b").CutAfterText(1).FIN())
	resp := tr.ask(t, tr.client(), streamed)
	_, err := io.Copy(io.Discard, resp.Body)
	require.Error(t, err)
	require.NoError(t, resp.Body.Close())
	c := tr.named("call")
	require.Len(t, c, 1)
	assert.Equal(t, codes.Error, c[0].Status().Code)
	assert.Equal(t, "*streamguard.IncompleteError", attr(c[0], "error.type").AsString())
}

// A caller that leaves in the middle ends both spans as well.
func TestSpansOfAStreamThatIsLeft(t *testing.T) {
	tr := newTraces(t, resilience.DefaultPolicy())
	tr.upstream.Default(up.OK("a", "b").CutAfterText(1).Stall())
	resp := tr.ask(t, tr.client(), streamed)
	_, err := resp.Body.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Len(t, tr.named("call"), 1)
	assert.Len(t, tr.named("HTTP POST"), 1)
}

// A redirect sends the request once more: its count goes on from there.
func TestSpansOfARedirect(t *testing.T) {
	tr := newTraces(t, resilience.DefaultPolicy())
	tr.upstream.Default(up.Status(503), up.Status(307).Header("Location", "/v2/chat/completions"), up.Status(503), up.OK("hi"))
	resp := tr.ask(t, tr.client(), plain)
	readAll(t, resp)
	require.Equal(t, 200, resp.StatusCode)
	var counts []int64
	for _, s := range tr.named("HTTP POST") {
		counts = append(counts, attr(s, "http.request.resend_count").AsInt64())
	}
	assert.Equal(t, []int64{0, 1, 2, 3}, counts)
}

// A chain's targets are siblings under the one call; their counts are their own.
func TestSpansOfAChain(t *testing.T) {
	one := resilience.DefaultPolicy()
	one.Retry.MaxRetries = 1
	tr := newTraces(t, one)
	backup := newTraces(t, one)
	tr.upstream.Default(up.Status(503))
	chain, err := failover.NewChain(failover.DefaultPolicy(),
		failover.Target{Name: "a", Provider: "a", Transport: tr.stack},
		failover.Target{Name: "b", Provider: "b", BaseURL: backup.upstream.URL + "/v1", Transport: backup.stack})
	require.NoError(t, err)
	resp := tr.ask(t, &http.Client{Transport: traceCalls(chain, tr.tp)}, plain)
	readAll(t, resp)
	require.Equal(t, 200, resp.StatusCode)
	require.Len(t, tr.named("call"), 1)
	spans := append(tr.named("HTTP POST"), backup.named("HTTP POST")...)
	require.Len(t, spans, 3)
	for i, count := range []int64{0, 1, 0} {
		assert.Equal(t, count, attr(spans[i], "http.request.resend_count").AsInt64())
		assert.Equal(t, tr.named("call")[0].SpanContext().SpanID(), spans[i].Parent().SpanID())
	}
}

func TestTracedLayersKeepTheRules(t *testing.T) {
	tp := trace.NewTracerProvider()
	require.NoError(t, up.CheckRoundTripper(func(base http.RoundTripper) http.RoundTripper { return traceAttempts(base, tp) }))
	require.NoError(t, up.CheckRoundTripper(func(base http.RoundTripper) http.RoundTripper {
		p := resilience.DefaultPolicy()
		p.Retry.InitialBackoff, p.Retry.MaxBackoff = time.Millisecond, time.Millisecond
		stack, err := resilience.Builder{Base: traceAttempts(base, tp)}.Build("eu", p)
		require.NoError(t, err)
		return traceCalls(stack, tp)
	}))
}
