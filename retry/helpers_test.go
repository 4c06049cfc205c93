package retry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/retry"
)

// reply is what a scripted upstream does with one attempt.
type reply func(*http.Request) (*http.Response, error)

// script answers attempt n with its reply n, later ones with the last, and
// remembers when they came and what they carried.
type script struct {
	t       testing.TB
	replies []reply

	mu     sync.Mutex
	times  []time.Time
	bodies []string
	heads  []http.Header
	open   atomic.Int64 // response bodies that nobody has closed
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		assert.NoError(s.t, err)
		assert.NoError(s.t, req.Body.Close())
	}
	s.mu.Lock()
	n := len(s.times)
	s.times = append(s.times, time.Now())
	s.bodies = append(s.bodies, string(body))
	s.heads = append(s.heads, req.Header.Clone())
	s.mu.Unlock()
	resp, err := s.replies[min(n, len(s.replies)-1)](req)
	if resp != nil {
		s.open.Add(1)
		resp.Body = &closeOnce{ReadCloser: resp.Body, closed: func() { s.open.Add(-1) }}
	}
	return resp, err
}

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.times)
}

type closeOnce struct {
	io.ReadCloser
	once   sync.Once
	closed func()
}

func (b *closeOnce) Close() error {
	b.once.Do(b.closed)
	return b.ReadCloser.Close()
}

// status answers with a status, headers as name, value pairs, and a small body.
func status(code int, header ...string) reply {
	return statusBody(code, http.StatusText(code), header...)
}

func statusBody(code int, body string, header ...string) reply {
	return func(req *http.Request) (*http.Response, error) {
		h := http.Header{}
		for i := 0; i < len(header); i += 2 {
			h.Add(header[i], header[i+1])
		}
		return &http.Response{
			StatusCode: code, Header: h, Request: req, ProtoMajor: 1, ProtoMinor: 1,
			Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		}, nil
	}
}

// streaming answers with a body of unknown length.
func streaming(code int, body io.ReadCloser, header ...string) reply {
	return func(req *http.Request) (*http.Response, error) {
		resp, err := status(code, header...)(req)
		resp.Body, resp.ContentLength = body, -1
		return resp, err
	}
}

func fails(err error) reply {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// hangs waits for the request's end and returns its error, as HTTP/2 does.
func hangs(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

var errReset = errors.New("connection reset")

// above is what stands above a layer: it asks the layer's own funcs, and the
// two that only a Call has.
type above struct {
	rt       *retry.Transport
	req      *http.Request
	mayRetry func() bool
	mayWait  func(*http.Response, time.Duration) (time.Duration, bool)
}

// put has a call stand above rt whose methods are a's.
func (a above) put(rt *retry.Transport) {
	rt.Call = func(req *http.Request) retry.Call {
		c := a
		c.rt, c.req = rt, req
		return &c
	}
}

func (a *above) Under() context.Context { return a.req.Context() }

func (a *above) Replayable() retry.Replay {
	if a.rt.Replayable != nil {
		return a.rt.Replayable(a.req)
	}
	return retry.ReplayAlways
}

func (a *above) Advise(resp *http.Response, head []byte) retry.Advice {
	if a.rt.Judge != nil {
		return a.rt.Judge(a.req, resp, head)
	}
	return retry.Advice{}
}

func (a *above) MayRetry() bool { return a.mayRetry == nil || a.mayRetry() }

func (a *above) MayWait(resp *http.Response, wait time.Duration) (time.Duration, bool) {
	if a.mayWait != nil {
		return a.mayWait(resp, wait)
	}
	return time.Hour, true
}

func (a *above) OnAttempt(at retry.Attempt) {
	if a.rt.OnAttempt != nil {
		a.rt.OnAttempt(a.req, at)
	}
}

func (a *above) OnRetry(at retry.Attempt, wait time.Duration) {
	if a.rt.OnRetry != nil {
		a.rt.OnRetry(a.req, at, wait)
	}
}

// testPolicy has the knobs of the case list: two retries from 10 ms to 1 s.
func testPolicy() retry.Policy {
	p := retry.DefaultPolicy()
	p.MaxRetries, p.InitialBackoff, p.MaxBackoff = 2, 10*time.Millisecond, time.Second
	return p
}

func newScript(t testing.TB, replies ...reply) (*script, *retry.Transport) {
	s := &script{t: t, replies: replies}
	return s, &retry.Transport{Base: s, Policy: testPolicy()}
}

func get(ctx context.Context, t testing.TB) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://upstream.test/v1/models", nil)
	require.NoError(t, err)
	return req
}

// post is a POST that may be re-sent by its key.
func post(ctx context.Context, t testing.TB, body string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://upstream.test/v1/chat/completions", bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "k-1")
	return req
}

// finish reads the answer whole and closes it.
func finish(t testing.TB, resp *http.Response, err error) (int, string) {
	t.Helper()
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, string(body)
}

// send makes the call and returns its status, its error being none.
func send(t testing.TB, rt http.RoundTripper, req *http.Request) int {
	t.Helper()
	resp, err := rt.RoundTrip(req)
	code, _ := finish(t, resp, err)
	return code
}

// fail makes the call and returns its error, its response being none.
func fail(t testing.TB, rt http.RoundTripper, req *http.Request) error {
	t.Helper()
	resp, err := rt.RoundTrip(req)
	if resp != nil {
		_ = resp.Body.Close()
	}
	require.Nil(t, resp)
	require.Error(t, err)
	return err
}
