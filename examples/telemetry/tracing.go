package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/retry"
)

// traceAttempts makes a span of every attempt that reaches base: it goes
// between the stack and its base transport.
func traceAttempts(base http.RoundTripper, tp trace.TracerProvider) http.RoundTripper {
	return traced{otelhttp.NewTransport(attempt{base}, otelhttp.WithTracerProvider(tp)), base}
}

// traceCalls makes a span of every call, all its attempts included, which ends
// with the answer's body: it goes around the stack, or around a chain.
func traceCalls(stack http.RoundTripper, tp trace.TracerProvider) http.RoundTripper {
	named := otelhttp.WithSpanNameFormatter(func(string, *http.Request) string { return "call" })
	return traced{otelhttp.NewTransport(call{stack}, otelhttp.WithTracerProvider(tp), named), stack}
}

// traced is what otelhttp makes, with the way to base that it does not keep.
type traced struct {
	*otelhttp.Transport
	base http.RoundTripper
}

// CloseIdleConnections closes those of the base.
func (t traced) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// attempt completes an attempt's span with what otelhttp cannot know.
type attempt struct{ base http.RoundTripper }

func (a attempt) RoundTrip(req *http.Request) (*http.Response, error) {
	span := trace.SpanFromContext(req.Context())
	span.SetAttributes(bareURL(req.URL))
	if n := resends(req); n > 0 {
		span.SetAttributes(attribute.Int("http.request.resend_count", n))
	}
	resp, err := a.base.RoundTrip(req)
	if err != nil {
		return nil, &failure{err}
	}
	return resp, nil
}

// failure keeps an attempt's error, whose text otelhttp puts into the span,
// from saying more than what kind it is of: net/http quotes in its errors what
// it could not read of an answer.
type failure struct{ err error }

func (f *failure) Error() string {
	var op *net.OpError
	if errors.As(f.err, &op) { // of the network and its addresses
		return op.Error()
	}
	return "no answer: " + f.ErrorType()
}

func (f *failure) Unwrap() error { return f.err }

// ErrorType is the span's error.type.
func (f *failure) ErrorType() string {
	var op *net.OpError
	switch {
	case errors.Is(f.err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(f.err, context.Canceled):
		return "canceled"
	case errors.As(f.err, &op):
		return fmt.Sprintf("%T", op.Err)
	}
	return fmt.Sprintf("%T", f.err)
}

// resends is how often the request was sent before, whatever the cause: a
// retry of this call, or the attempts of the call that was redirected here.
func resends(req *http.Request) int {
	n := max(0, retry.AttemptNumber(req.Context())-1)
	for prev := req.Response; prev != nil; prev = prev.Request.Response {
		if c, ok := resilience.CallOf(prev); ok {
			n += len(c.Attempts)
		}
	}
	return n
}

// call completes a call's span.
type call struct{ stack http.RoundTripper }

func (c call) RoundTrip(req *http.Request) (*http.Response, error) {
	span := trace.SpanFromContext(req.Context())
	span.SetAttributes(bareURL(req.URL))
	resp, err := c.stack.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if rec, ok := resilience.CallOf(resp); ok {
		span.SetAttributes(attribute.String("surefoot.provider.name", rec.Provider))
		if rec.Unmasked { // the upstream itself said 200
			span.SetAttributes(attribute.Bool("surefoot.unmasked", true))
		}
	}
	return resp, nil
}

// bareURL replaces the span's URL, in which otelhttp leaves the query: some
// providers take their key there.
func bareURL(u *url.URL) attribute.KeyValue {
	bare := *u
	bare.User, bare.RawQuery, bare.Fragment = nil, "", ""
	return attribute.String("url.full", bare.String())
}

// quiet reports an error without the URL that net/http's client puts into it.
func quiet(err error) string {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Op + ": " + ue.Err.Error()
	}
	return err.Error()
}
