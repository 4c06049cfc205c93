package resilience_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
)

const (
	okJSON  = `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"total_tokens":3}}`
	chatURL = "http://upstream.invalid/v1/chat/completions"

	evA    = `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n"
	evStop = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	evDone = "data: [DONE]\n\n"
)

// roundTrip is a base transport made of a func.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// reply is one answer of a script.
type reply struct {
	status int
	header http.Header
	body   string
	rest   io.ReadCloser // in place of body
	err    error
	delay  time.Duration
	panic  any
}

func (r reply) response(req *http.Request) (*http.Response, error) {
	if r.delay > 0 {
		select {
		case <-time.After(r.delay):
		case <-req.Context().Done():
			return nil, context.Cause(req.Context())
		}
	}
	if r.panic != nil {
		panic(r.panic)
	}
	if r.err != nil {
		return nil, r.err
	}
	h := r.header.Clone()
	if h == nil {
		h = http.Header{}
	}
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
		if strings.HasPrefix(r.body, "data:") || strings.HasPrefix(r.body, "event:") {
			h.Set("Content-Type", "text/event-stream")
		}
	}
	body := r.rest
	if body == nil {
		body = io.NopCloser(strings.NewReader(r.body))
	}
	return &http.Response{
		StatusCode: r.status, Status: http.StatusText(r.status), Header: h, Body: body,
		ContentLength: -1, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
	}, nil
}

// script is a base that plays replies in order, the last one for ever, and
// records what it was sent.
type script struct {
	mu      sync.Mutex
	replies []reply
	bodies  []string
	headers []http.Header
}

func play(replies ...reply) *script { return &script{replies: replies} }

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
		_ = req.Body.Close()
	}
	s.mu.Lock()
	r := s.replies[min(len(s.bodies), len(s.replies)-1)]
	s.bodies = append(s.bodies, string(body))
	s.headers = append(s.headers, req.Header.Clone())
	s.mu.Unlock()
	return r.response(req)
}

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bodies)
}

// quick is the policy of the cases: two retries from 10 ms, three failures
// open for 200 ms, silence of at most 200 ms.
func quick() resilience.Policy {
	p := resilience.DefaultPolicy()
	p.Retry.MaxRetries = 2
	p.Retry.InitialBackoff = 10 * time.Millisecond
	p.Retry.MaxBackoff = time.Second
	p.CircuitBreaker.FailureThreshold = 3
	p.CircuitBreaker.SuccessThreshold = 1
	p.CircuitBreaker.Timeout = 200 * time.Millisecond
	p.Stream.IdleTimeout = 200 * time.Millisecond
	return p
}

// calls collects what OnCall tells.
type calls struct {
	mu  sync.Mutex
	all []resilience.Call
}

func (c *calls) on(_ context.Context, rec resilience.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, rec)
}

func (c *calls) list() []resilience.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]resilience.Call(nil), c.all...)
}

func (c *calls) last(t *testing.T) resilience.Call {
	t.Helper()
	all := c.list()
	require.NotEmpty(t, all)
	return all[len(all)-1]
}

func build(t *testing.T, base http.RoundTripper, p resilience.Policy) (*resilience.Transport, *calls) {
	t.Helper()
	rec := new(calls)
	tr, err := resilience.Builder{Base: base, OnCall: rec.on}.Build("openai-eu", p)
	require.NoError(t, err)
	return tr, rec
}

func chat(t *testing.T, ctx context.Context, body string) *http.Request { //nolint:revive // t comes first in tests
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, chatURL, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	return req
}

const (
	plainBody  = `{"model":"m1","messages":[]}`
	streamBody = `{"model":"m1","stream":true,"messages":[]}`
)

// do makes one call and reads its body whole.
func do(t *testing.T, tr http.RoundTripper, req *http.Request) (status int, body string, err error) {
	t.Helper()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		require.Nil(t, resp)
		return 0, "", err
	}
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, string(b), err
}

// seen is the status that a caller observes.
func seen(status int, err error) int {
	if status != 0 {
		return status
	}
	return resilience.StatusOf(err)
}

// stall is a body that gives its text and then is silent until it is closed.
type stall struct {
	r      *bytes.Reader
	closed chan struct{}
	once   sync.Once
}

func stalled(text string) *stall {
	return &stall{r: bytes.NewReader([]byte(text)), closed: make(chan struct{})}
}

func (s *stall) Read(p []byte) (int, error) {
	if s.r.Len() > 0 {
		return s.r.Read(p)
	}
	<-s.closed
	return 0, http.ErrBodyReadAfterClose
}

func (s *stall) Close() error { s.once.Do(func() { close(s.closed) }); return nil }

// broken is a body that gives its text and then fails.
type broken struct {
	r   *bytes.Reader
	err error
}

func (b *broken) Read(p []byte) (int, error) {
	if b.r.Len() > 0 {
		return b.r.Read(p)
	}
	return 0, b.err
}

func (*broken) Close() error { return nil }

func breaking(text string, err error) *broken {
	return &broken{r: bytes.NewReader([]byte(text)), err: err}
}
