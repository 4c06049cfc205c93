package main_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// tape records the bytes of the bodies that pass it, and counts the calls.
type tape struct {
	base http.RoundTripper

	mu    sync.Mutex
	calls int
	bytes bytes.Buffer
}

func (t *tape) RoundTrip(req *http.Request) (*http.Response, error) {
	t.mu.Lock()
	t.calls++
	t.mu.Unlock()
	resp, err := t.base.RoundTrip(req)
	if resp != nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(resp.Body, t), resp.Body}
	}
	return resp, err
}

func (t *tape) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes.Write(p)
}

func (t *tape) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes.String()
}

func (t *tape) Calls() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls
}

// rig is a provider, the stack over it, and a tape on either side of the stack.
type rig struct {
	up           *upstreamtest.Upstream
	stack        *resilience.Transport
	above, below *tape
	client       *http.Client
}

func newRig(t *testing.T, p resilience.Policy, b resilience.Builder) *rig {
	t.Helper()
	up := upstreamtest.New()
	t.Cleanup(up.Close)
	transport := adapter.NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	below := &tape{base: transport}
	b.Base = below
	stack, err := b.Build("demo", p)
	require.NoError(t, err)
	above := &tape{base: stack}
	return &rig{up, stack, above, below, &http.Client{Transport: above}}
}

// sent is what the provider sends for the request that it was asked last, read
// by nobody but a bare client from a fresh provider with the same script.
func sent(t *testing.T, up *upstreamtest.Upstream, step upstreamtest.Step) string {
	t.Helper()
	last := up.Last()
	fresh := upstreamtest.New()
	defer fresh.Close()
	fresh.Default(step)
	client := fresh.Client()
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), last.Method, fresh.URL+last.Path+"?"+last.RawQuery, bytes.NewReader(last.Body))
	require.NoError(t, err)
	req.Header = last.Header.Clone()
	req.Header.Del("Accept-Encoding")
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

// deadURL is the URL of a port that nobody listens on.
func deadURL() string {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	return s.URL
}
