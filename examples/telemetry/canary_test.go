package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	up "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// canary stands in prompts, answers, credentials and upstreams' errors.
const canary = "CANARY-4f1d"

// told is everything that the library tells to anybody but the caller who
// reads the answer: log lines, metrics, spans, and errors' texts.
type told struct {
	bytes.Buffer
	spans  *tracetest.SpanRecorder
	tp     *trace.TracerProvider
	reader *sdkmetric.ManualReader
	mp     *sdkmetric.MeterProvider
	log    *slog.Logger
}

func newTold() *told {
	w := &told{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	w.tp = trace.NewTracerProvider(trace.WithSpanProcessor(w.spans))
	w.mp = sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.reader))
	w.log = slog.New(slog.NewJSONHandler(&w.Buffer, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return w
}

// err writes the text of an error. What it wraps is for programs, and may be
// the transport's own.
func (w *told) err(err error) {
	if err != nil {
		fmt.Fprintf(w, "error %v\n", err)
	}
}

func (w *told) call(_ context.Context, c resilience.Call) {
	w.err(c.Err)
	fmt.Fprintf(w, "call %s %s %s %s\n", c.Outcome, c.Reason, c.Format, c.Empty)
}

func (w *told) attempt(_ context.Context, a failover.Attempt) {
	w.err(a.Err)
	fmt.Fprintf(w, "attempt %s %s\n", a.Target, a.Reason)
}

// text is all of it.
func (w *told) text(t *testing.T) string {
	t.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(t, w.reader.Collect(t.Context(), &rm))
	w.WriteString(render(rm))
	require.NoError(t, json.NewEncoder(w).Encode(tracetest.SpanStubsFromReadOnlySpans(w.spans.Ended())))
	return w.String()
}

// leaks are the ways on which a canary goes through a stack: the script of an
// upstream each, for a call and for a stream.
func leaks() map[string][]up.Step {
	says := func(code int, body string) up.Step { return up.Status(code).Body("application/json", body) }
	text := `{"error":{"message":"` + canary + `","type":"` + canary + `","code":"` + canary + `","param":"` + canary + `"}}`
	event := func(data string) string { return "event: " + canary + "\ndata: " + data + "\n\n" }
	delta := event(`{"choices":[{"index":0,"delta":{"content":"` + canary + `"},"finish_reason":null}]}`)
	return map[string][]up.Step{
		"success":             list(up.OK(canary, canary).Header("X-Note", canary)),
		"400":                 list(says(400, text)),
		"401":                 list(says(401, text)),
		"429":                 list(says(429, text).Header("Retry-After", canary)),
		"503":                 list(says(503, text).Header("X-Should-Retry", canary)),
		"retry":               list(says(503, text), up.OK(canary)),
		"unmasked":            list(says(200, text)),
		"unmasked text":       list(says(200, `{"error":"`+canary+`"}`)),
		"unmasked code":       list(says(200, `{"code":"`+canary+`","msg":"`+canary+`"}`)),
		"html":                list(up.Status(200).Body("text/html", "<html>"+canary+"</html>")),
		"not JSON":            list(says(200, canary)),
		"cut JSON":            list(says(200, `{"choices":[{"message":{"content":"`+canary)),
		"drift":               list(says(200, `{"choices":[{"message":{"content":{"`+canary+`":1}}}]}`)),
		"odd member":          list(says(200, `{"`+canary+`":1}`)),
		"no choices":          list(says(200, `{"choices":[],"id":"`+canary+`"}`)),
		"content type":        list(up.Status(200).Body(canary, canary)),
		"transport failure":   list(up.Drop()),
		"reset":               list(up.Drop().Reset()),
		"silence":             list(up.Silence()),
		"no HTTP":             list(up.RawConn(canary + "\r\n\r\n")),
		"no status":           list(up.RawConn("HTTP/1.1 " + canary + "\r\n\r\n")),
		"no header":           list(up.RawConn("HTTP/1.1 200 OK\r\n" + canary + "\r\n\r\n")),
		"no length":           list(up.RawConn("HTTP/1.1 200 OK\r\nContent-Length: " + canary + "\r\n\r\n")),
		"no chunk":            list(up.RawConn("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + canary + "\r\n")),
		"no coding":           list(up.RawConn("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + canary + "\r\n\r\n")),
		"cut body":            list(up.OK(canary).CutBytes(80).FIN()),
		"cut stream":          list(up.RawStream(delta, delta).CutAfter(1)),
		"cut inside an event": list(up.RawStream(delta, delta).CutAfter(1).InsideLine().FIN()),
		"stalled stream":      list(up.RawStream(delta, delta).CutAfter(1).Stall()),
		"malformed event":     list(up.RawStream(delta, event(`{"`+canary))),
		"error first":         list(up.RawStream(event(text))),
		"error later":         list(up.RawStream(delta, event(text))),
		"finish reason":       list(up.RawStream(delta, event(`{"choices":[{"index":0,"delta":{},"finish_reason":"`+canary+`"}]}`))),
		"redirect":            list(up.Status(307).Header("Location", "https://elsewhere.test/?key="+canary)),
	}
}

// No prompt, answer, credential or upstream's text gets into a log line, a
// metric, a span or an error, whatever happens to the call.
func TestCanary(t *testing.T) {
	for name, script := range leaks() {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%t", name, stream), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newTold()
					for range 3 { // retries; the breaker opens
						w.ask(t, w.stack(t, "eu", script), stream, "")
					}
					w.ask(t, w.chain(t, script), stream, "")
					told := w.text(t)
					assert.NotContains(t, told, canary)
					for _, sign := range []string{"call ", "gen_ai.client.operation.duration", "url.full", "attempt "} {
						assert.Contains(t, told, sign)
					}
				})
			})
		}
	}
}

// The texts of a socket's transport are others than those in memory.
func TestCanaryOverSockets(t *testing.T) {
	for name, script := range leaks() {
		if !strings.HasPrefix(name, "no ") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			w, u := newTold(), up.New()
			defer u.Close()
			u.Default(script...)
			base := http.DefaultTransport.(*http.Transport).Clone()
			defer base.CloseIdleConnections()
			tr, err := resilience.Builder{
				Base: traceAttempts(base, w.tp), MeterProvider: w.mp, Logger: w.log, OnCall: w.call,
			}.Build("eu", resilience.Policy{})
			require.NoError(t, err)
			client := &http.Client{Transport: traceCalls(tr, w.tp)}
			resp, err := client.Post(u.URL+"/v1/chat/completions", "application/json", strings.NewReader(plain))
			w.err(err)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				w.err(err)
				require.NoError(t, resp.Body.Close())
			}
			told := w.text(t)
			assert.NotContains(t, told, canary)
			assert.Contains(t, told, "call ")
		})
	}
}

func TestCanaryInARequestThatIsNone(t *testing.T) {
	for _, body := range []string{canary, `{"model":` + canary, `{"` + canary + `":`, `{"model":{"` + canary + `":1}}`} {
		synctest.Test(t, func(t *testing.T) {
			w := newTold()
			w.ask(t, w.stack(t, "eu", list(up.Status(400))), false, body)
			w.ask(t, w.chain(t, list(up.Status(400))), false, body)
			assert.NotContains(t, w.text(t), canary)
		})
	}
}

func (w *told) stack(t *testing.T, name string, script []up.Step) *resilience.Transport {
	t.Helper()
	u := up.NewInMemory("")
	t.Cleanup(u.Close)
	u.Default(script...)
	p := policy()
	p.CircuitBreaker.FailureThreshold, p.Timeout = 2, time.Minute
	tr, err := resilience.Builder{
		Base: traceAttempts(u.RoundTripper(), w.tp), MeterProvider: w.mp, Logger: w.log, OnCall: w.call,
	}.Build(name, p)
	require.NoError(t, err)
	return tr
}

// chain fails over from one upstream to another that is just as bad.
func (w *told) chain(t *testing.T, script []up.Step) *failover.Chain {
	t.Helper()
	p := failover.DefaultPolicy()
	p.MeterProvider, p.Logger, p.OnAttempt = w.mp, w.log, w.attempt
	var targets []failover.Target
	for _, name := range []string{"a", "b"} {
		targets = append(targets, failover.Target{
			Name: name, Provider: name, Model: "m2", BaseURL: "http://" + name + ".test/v1", Transport: w.stack(t, name, script),
			Header: http.Header{"Authorization": {"Bearer " + canary}}, Query: map[string][]string{"key": {canary}},
		})
	}
	c, err := failover.NewChain(p, targets...)
	require.NoError(t, err)
	return c
}

func (w *told) ask(t *testing.T, rt http.RoundTripper, stream bool, body string) {
	t.Helper()
	if body == "" {
		body = fmt.Sprintf(`{"model":"m1","stream":%t,"messages":[{"role":"user","content":"%s"}],"user":"%[2]s"}`, stream, canary)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+canary+":"+canary+"@upstream.test/v1/chat/completions?key="+canary, strings.NewReader(body))
	require.NoError(t, err)
	for _, h := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie", "Idempotency-Key"} {
		req.Header.Set(h, canary)
	}
	resp, err := traceCalls(rt, w.tp).RoundTrip(req)
	if err != nil {
		w.err(err)
		var chain *failover.Error
		if errors.As(err, &chain) {
			for _, a := range chain.Attempts {
				w.err(a.Err)
			}
		}
		return
	}
	_, err = io.Copy(io.Discard, resp.Body)
	w.err(err)
	require.NoError(t, resp.Body.Close())
}
