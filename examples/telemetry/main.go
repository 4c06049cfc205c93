// Telemetry shows what an operator sees of surefoot: metrics for Prometheus
// (with a Grafana dashboard and alert rules beside this file), a span a call
// and a span an attempt, log lines. It needs no network beyond loopback:
//
//	go run .          # a minute's worth of trouble in a second, then the scrape
//	go run . -spans   # the spans of the calls as well
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	up "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

func main() {
	spans := flag.Bool("spans", false, "print the spans, too")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, os.Stderr, *spans); err != nil {
		log.Fatal(err)
	}
}

// run makes calls through a chain of two providers, the first of which fails
// in every way, and prints what Prometheus would scrape. Log lines go to logs.
func run(ctx context.Context, out, logs io.Writer, showSpans bool) error {
	exp, err := newExporter()
	if err != nil {
		return err
	}
	defer func() { _ = exp.close() }() // nothing is buffered
	recorder := tracetest.NewSpanRecorder()
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(recorder))

	shaky, steady := up.New(), up.New()
	defer shaky.Close()
	defer steady.Close()
	script(shaky)

	p := resilience.DefaultPolicy()
	p.Retry.MaxRetries, p.Retry.InitialBackoff, p.Retry.MaxBackoff = 1, time.Millisecond, 10*time.Millisecond
	p.CircuitBreaker.FailureThreshold = 4
	stack := func(name, kind string) (*resilience.Transport, error) {
		return resilience.Builder{
			Base: traceAttempts(http.DefaultTransport, tracer), MeterProvider: exp,
			ProviderType: kind, Logger: slog.New(slog.NewTextHandler(logs, nil)),
		}.Build(name, p)
	}
	eu, err := stack("openai-eu", "openai")
	if err != nil {
		return err
	}
	us, err := stack("azure-us", "azure")
	if err != nil {
		return err
	}
	fp := failover.DefaultPolicy()
	fp.MeterProvider = exp
	chain, err := failover.NewChain(fp,
		failover.Target{Name: "eu", Provider: "openai-eu", BaseURL: shaky.URL + "/v1", Transport: eu},
		failover.Target{Name: "us", Provider: "azure-us", BaseURL: steady.URL + "/v1", Transport: us})
	if err != nil {
		return err
	}
	client := &http.Client{Transport: traceCalls(chain, tracer)}
	defer client.CloseIdleConnections()
	for i := range calls {
		say(ctx, logs, client, i%2 == 1)
	}
	if showSpans {
		for _, s := range recorder.Ended() {
			fmt.Fprintf(out, "# span %s %v %v\n", s.Name(), s.EndTime().Sub(s.StartTime()).Round(time.Microsecond), s.Attributes())
		}
	}
	return scrape(out, exp)
}

// calls is how often the demonstration asks; every other one for a stream.
const calls = 14

// script is a bad day: good answers between empty ones, cut streams, errors
// behind a 200, and then nothing but 503.
func script(u *up.Upstream) {
	u.Default(
		up.OK("hello"), up.OK("hel", "lo"),
		up.OK("hello").Usage(0, 0), up.OK("hel", "lo").CutAfter(2),
		up.Hidden(up.HiddenEmptyChoices, 200).Times(2), up.OK("hel", "lo").FailAfter(2, 529),
		up.Status(503), up.OK("hello"),
		up.Status(503),
	)
}

// say makes one chat call, read to its end.
func say(ctx context.Context, logs io.Writer, client *http.Client, stream bool) {
	body := fmt.Sprintf(`{"model":"gpt-x","stream":%t,"messages":[{"role":"user","content":"hi"}]}`, stream)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://llm.invalid/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		fmt.Fprintln(logs, quiet(err))
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Fprintln(logs, quiet(err))
		return
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		fmt.Fprintln(logs, quiet(err))
	}
}

// scrape prints what Prometheus would read.
func scrape(out io.Writer, exp *exporter) error {
	rec := httptest.NewRecorder()
	exp.ServeHTTP(rec, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK {
		return fmt.Errorf("scrape: %s: %s", http.StatusText(rec.Code), rec.Body)
	}
	_, err := rec.Body.WriteTo(out)
	return err
}
