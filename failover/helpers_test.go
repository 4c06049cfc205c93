package failover_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

const (
	okJSON  = `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"total_tokens":3}}`
	chatURL = "https://a.example/v1/chat/completions"

	evRole = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	evA    = `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n"
	evStop = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	evDone = "data: [DONE]\n\n"
)

// sent is one request as an upstream got it.
type sent struct {
	method, url, host, body string
	length                  int64
	header                  http.Header
}

// everything is all that the upstream could read.
func (s sent) everything() string {
	var b strings.Builder
	_ = s.header.Write(&b)
	return s.url + "\n" + s.host + "\n" + b.String() + "\n" + s.body
}

// reply is one answer.
type reply struct {
	status int
	header http.Header
	body   string
	rest   io.Reader // after body, in place of its end
	err    error
	delay  time.Duration
}

// upstream plays replies in order, the last one for ever.
type upstream struct {
	mu      sync.Mutex
	replies []reply
	got     []sent
	hook    func(*http.Request)
}

func newUpstream(replies ...reply) *upstream { return &upstream{replies: replies} }

func healthy() *upstream { return newUpstream(reply{status: 200, body: okJSON}) }
func failing(status int) *upstream {
	return newUpstream(reply{status: status, body: `{"error":{"message":"x"}}`})
}

func (u *upstream) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
		_ = req.Body.Close()
	}
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	u.mu.Lock()
	if u.hook != nil {
		u.hook(req)
	}
	u.got = append(u.got, sent{
		method: req.Method, url: req.URL.String(), host: host, body: string(body),
		length: req.ContentLength, header: req.Header.Clone(),
	})
	r := u.replies[min(len(u.got), len(u.replies))-1]
	u.mu.Unlock()
	if r.delay > 0 {
		select {
		case <-time.After(r.delay):
		case <-req.Context().Done():
			return nil, context.Cause(req.Context())
		}
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
		if strings.HasPrefix(r.body, "data:") || strings.HasPrefix(r.body, "event:") || r.body == "" && r.status == 200 {
			h.Set("Content-Type", "text/event-stream")
		}
	}
	out := io.NopCloser(strings.NewReader(r.body))
	if r.rest != nil {
		out = io.NopCloser(io.MultiReader(strings.NewReader(r.body), r.rest))
	}
	if c, ok := r.rest.(io.Closer); ok {
		out = struct {
			io.Reader
			io.Closer
		}{out, c}
	}
	return &http.Response{
		StatusCode: r.status, Status: http.StatusText(r.status), Header: h, Body: out,
		ContentLength: -1, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
	}, nil
}

func (u *upstream) set(replies ...reply) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.replies = append(u.replies[:0:0], replies...)
	u.got = nil
}

func (u *upstream) requests() []sent {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]sent(nil), u.got...)
}

func (u *upstream) count() int { return len(u.requests()) }

// failingReader ends a body with err.
type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// knobs are those of the cases: two retries, short waits, threshold 3.
func knobs() resilience.Policy {
	p := resilience.DefaultPolicy()
	p.Retry.MaxRetries = 2
	p.Retry.InitialBackoff = 10 * time.Millisecond
	p.Retry.MaxBackoff = time.Second
	p.CircuitBreaker.FailureThreshold = 3
	p.CircuitBreaker.Timeout = 200 * time.Millisecond
	p.Stream.IdleTimeout = 200 * time.Millisecond
	return p
}

// once is knobs without retries.
func once() resilience.Policy {
	p := knobs()
	p.Retry.MaxRetries = 0
	return p
}

func stack(t testing.TB, provider string, base http.RoundTripper, p resilience.Policy) *resilience.Transport {
	t.Helper()
	s, err := resilience.Builder{Base: base}.Build(provider, p)
	require.NoError(t, err)
	return s
}

func chain(t testing.TB, p failover.Policy, targets ...failover.Target) *failover.Chain {
	t.Helper()
	c, err := failover.NewChain(p, targets...)
	require.NoError(t, err)
	return c
}

// two is a chain of two targets on different hosts over stacks of their own.
func two(t testing.TB, p resilience.Policy, a, b http.RoundTripper) *failover.Chain {
	t.Helper()
	return chain(t, failover.DefaultPolicy(),
		failover.Target{Name: "a/a-1", Provider: "a", Model: "a-1", BaseURL: "https://a.example/v1", Transport: stack(t, "a", a, p)},
		failover.Target{Name: "b/b-1", Provider: "b", Model: "b-1", BaseURL: "https://b.example/v1", Transport: stack(t, "b", b, p)},
	)
}

func chatBody(model string) string {
	return `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]}`
}

func post(t testing.TB, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	return req
}

// answer is a response read to its end.
type answer struct {
	*http.Response
	body    string
	readErr error
}

// do sends req and reads the answer.
func do(t testing.TB, rt http.RoundTripper, req *http.Request) (answer, error) {
	t.Helper()
	resp, err := rt.RoundTrip(req)
	if err != nil {
		require.Nil(t, resp, "an error comes with a nil response")
		return answer{}, err
	}
	b, rerr := io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	return answer{resp, string(b), rerr}, nil
}

// ask sends a chat request and wants an answer.
func ask(t testing.TB, rt http.RoundTripper, model string) answer {
	t.Helper()
	a, err := do(t, rt, post(t, chatURL, chatBody(model)))
	require.NoError(t, err)
	return a
}

// trail renders attempts as "a/a-1:503 b/b-1:ok c:-circuit_open".
func trail(attempts []failover.Attempt) string {
	var out []string
	for _, a := range attempts {
		word := a.Reason
		if word == "" {
			word = "ok"
		}
		if a.Skipped {
			word = "-" + word
		}
		out = append(out, a.Target+":"+word)
	}
	return strings.Join(out, " ")
}
