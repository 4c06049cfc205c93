package retry_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/retry"
)

// newServer starts a server that counts its connections, and a Transport over a
// transport of its own.
func newServer(t *testing.T, h http.HandlerFunc) (rt *retry.Transport, url string, conns *atomic.Int64) {
	conns = new(atomic.Int64)
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	return &retry.Transport{Base: base, Policy: testPolicy()}, srv.URL, conns
}

func request(t testing.TB, method, url string, body io.Reader) *http.Request {
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	return req
}

// settled waits until no more goroutines than before are left.
func settled(t *testing.T, before int) {
	t.Helper()
	// The condition runs in a goroutine of its own.
	assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, time.Minute, 10*time.Millisecond)
}

func TestCaseC4_SameBodyOnEveryAttempt(t *testing.T) {
	big := strings.Repeat("0123456789abcde\n", 9<<16) // 9 MiB
	plain := func(b string) func() io.ReadCloser {
		return func() io.ReadCloser { return io.NopCloser(strings.NewReader(b)) }
	}
	piped := func(b string) func() io.ReadCloser {
		return func() io.ReadCloser {
			r, w := io.Pipe()
			go func() {
				_, err := io.WriteString(w, b)
				_ = w.CloseWithError(err)
			}()
			return r
		}
	}
	for name, row := range map[string]struct {
		body     string
		get      func() io.ReadCloser
		length   int64
		timeout  time.Duration
		replays  bool
		attempts int
	}{
		"memory":                {"hello", plain("hello"), 5, 0, true, 2},
		"memory, timeout":       {"hello", plain("hello"), 5, time.Minute, true, 2},
		"memory, length -1":     {"hello", plain("hello"), -1, 0, true, 2},
		"pipe":                  {"hello", piped("hello"), 5, 0, true, 2},
		"pipe, timeout":         {"hello", piped("hello"), -1, time.Minute, true, 2},
		"9 MiB":                 {big, plain(big), int64(len(big)), 0, true, 2},
		"9 MiB, pipe":           {big, piped(big), -1, 0, true, 2},
		"no GetBody":            {"hello", plain("hello"), 5, 0, false, 1},
		"no GetBody, pipe":      {"hello", piped("hello"), -1, time.Minute, false, 1},
		"no GetBody, 9 MiB":     {big, plain(big), int64(len(big)), 0, false, 1},
		"no GetBody, length -1": {"hello", plain("hello"), -1, 0, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var attempts atomic.Int64
			rt, url, _ := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				assert.True(t, string(body) == row.body)
				assert.Equal(t, row.length, r.ContentLength)
				if attempts.Add(1) == 1 {
					w.WriteHeader(503)
				}
				_, _ = w.Write(body)
			})
			rt.Policy.AttemptTimeout = row.timeout
			req := request(t, http.MethodPut, url, nil)
			req.Body, req.ContentLength = row.get(), row.length
			if row.replays {
				_ = req.Body.Close()
				req.Body = row.get()
				req.GetBody = func() (io.ReadCloser, error) { return row.get(), nil }
			}
			resp, err := rt.RoundTrip(req)
			code, body := finish(t, resp, err)
			assert.EqualValues(t, row.attempts, attempts.Load())
			assert.Equal(t, map[bool]int{true: 200, false: 503}[row.replays], code)
			assert.True(t, row.body == body)
		})
	}
}

// The server answers before it has read the body, with a reader that Body and
// GetBody share.
func TestEarlyAnswerToALargeSharedBody(t *testing.T) {
	var attempts atomic.Int64
	rt, url, _ := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if attempts.Add(1) < 3 {
			w.WriteHeader(503)
			return
		}
		n, err := io.Copy(io.Discard, r.Body)
		assert.NoError(t, err)
		assert.EqualValues(t, 9<<20, n)
	})
	body := bytes.Repeat([]byte("x"), 9<<20)
	shared := &sharedReader{t: t, data: bytes.NewReader(body)}
	for range 3 {
		attempts.Store(0)
		req := request(t, http.MethodPut, url, nil)
		req.Body, _ = shared.GetBody()
		req.GetBody, req.ContentLength = shared.GetBody, int64(len(body))
		code, err := 0, error(nil)
		if resp, e := rt.RoundTrip(req); e == nil {
			code, _ = finish(t, resp, e)
		} else {
			err = e
		}
		// The reset may hit the answer itself; then it is a transport failure.
		if err != nil {
			assert.NotContains(t, err.Error(), "still reading")
		} else {
			assert.Contains(t, []int{200, 503}, code)
		}
		assert.Eventually(t, func() bool { return shared.open.Load() == 0 }, time.Minute, time.Millisecond)
	}
	// In memory, and one reader for all of a call: the transport may go on
	// reading it for a while after the answer.
	for range 3 {
		reader := bytes.NewReader(body)
		attempts.Store(0)
		req := request(t, http.MethodPut, url, nil)
		req.GetBody = func() (io.ReadCloser, error) {
			_, err := reader.Seek(0, io.SeekStart)
			return io.NopCloser(reader), err
		}
		req.Body, _ = req.GetBody()
		req.ContentLength = int64(len(body))
		if resp, err := rt.RoundTrip(req); err == nil {
			finish(t, resp, err)
		} else {
			assert.NotContains(t, err.Error(), "still reading")
		}
	}
}

func TestCaseC6_ConnectionsAreReused(t *testing.T) {
	var n atomic.Int64
	rt, url, conns := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if n.Add(1)%3 != 0 {
			w.WriteHeader(503)
		}
		_, _ = io.WriteString(w, strings.Repeat("x", 20))
	})
	rt.Policy.InitialBackoff, rt.Policy.MaxBackoff = time.Millisecond, time.Millisecond
	before := 0
	for i := range 30 {
		assert.Equal(t, 200, send(t, rt, request(t, http.MethodPut, url, strings.NewReader("hello"))))
		if i == 0 {
			before = runtime.NumGoroutine()
		}
	}
	assert.EqualValues(t, 90, n.Load())
	assert.EqualValues(t, 1, conns.Load())
	settled(t, before)
}

func TestCaseC6_EndlessBody(t *testing.T) {
	var n atomic.Int64
	var handlers sync.WaitGroup
	rt, url, _ := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		handlers.Add(1)
		defer handlers.Done()
		if n.Add(1) == 3 {
			return
		}
		w.WriteHeader(503)
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 8<<10)); err != nil {
				return
			}
		}
	})
	for _, judged := range []bool{false, true} {
		n.Store(0)
		if judged {
			rt = &retry.Transport{Base: rt.Base, Policy: rt.Policy, Judge: func(*http.Request, *http.Response, []byte) retry.Advice { return retry.Advice{} }}
		}
		assert.Equal(t, 200, send(t, rt, request(t, http.MethodGet, url, nil)))
		assert.EqualValues(t, 3, n.Load())
		handlers.Wait() // the dropped answers' connections are closed
	}
}

func TestHTTP2(t *testing.T) {
	for _, size := range []int{5, 9 << 20} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			var n atomic.Int64
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, 2, r.ProtoMajor)
				if n.Add(1) < 3 {
					w.WriteHeader(503) // the body unread
					return
				}
				got, err := io.Copy(io.Discard, r.Body)
				assert.NoError(t, err)
				assert.EqualValues(t, size, got)
			}))
			srv.EnableHTTP2 = true
			srv.StartTLS()
			defer srv.Close()
			base := srv.Client().Transport
			body := bytes.Repeat([]byte("x"), size)
			for name, rt := range map[string]*retry.Transport{
				"std":    {Base: base, Policy: testPolicy()},
				"hidden": {Base: roundTripper(base.RoundTrip), Policy: testPolicy()},
				"timed":  {Base: base, Policy: testPolicy()},
			} {
				if name == "timed" {
					rt.Policy.AttemptTimeout = time.Minute
				}
				n.Store(0)
				reader := bytes.NewReader(body) // one for all copies of a call
				req := request(t, "PUT", srv.URL, nil)
				req.GetBody = func() (io.ReadCloser, error) {
					_, err := reader.Seek(0, io.SeekStart)
					return io.NopCloser(reader), err
				}
				req.Body, _ = req.GetBody()
				req.ContentLength = int64(size)
				assert.Equal(t, 200, send(t, rt, req), name)
				assert.EqualValues(t, 3, n.Load(), name)
			}
		})
	}
}

// Under http.Client the whole behaves like any other transport.
func TestUnderAClient(t *testing.T) {
	rt, url, _ := newServer(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) })
	rt.Policy.InitialBackoff = time.Minute
	rt.Policy.MaxBackoff = time.Minute
	client := &http.Client{Transport: rt, Timeout: 5 * time.Second}
	resp, err := client.Do(request(t, http.MethodGet, url, nil))
	code, _ := finish(t, resp, err)
	assert.Equal(t, 503, code, "the answer in place of a late timeout")

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	req := request(t, http.MethodGet, url, nil)
	client.Timeout = 0
	resp, err = client.Do(req.WithContext(ctx))
	if resp != nil {
		_ = resp.Body.Close()
	}
	require.ErrorIs(t, err, context.Canceled)
	client.CloseIdleConnections()

	client.Transport = &retry.Transport{Policy: retry.DefaultPolicy()} // over its own base
	rt2 := client.Transport.(*retry.Transport)
	rt2.Policy.MaxRetries = 0
	resp, err = client.Do(request(t, http.MethodGet, url, nil))
	code, _ = finish(t, resp, err)
	assert.Equal(t, 503, code)
	client.CloseIdleConnections()

	client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		return (&retry.Transport{Base: roundTripper(hangs), Policy: testPolicy()}).RoundTrip(r)
	})
	client.Timeout = 30 * time.Millisecond
	resp, err = client.Do(request(t, http.MethodGet, url, nil))
	if resp != nil {
		_ = resp.Body.Close()
	}
	var ne net.Error
	require.True(t, errors.As(err, &ne) && ne.Timeout(), "%v", err)
}

// No wait mends a certificate that does not verify (contract 3).
func TestACertificateThatDoesNotVerifyIsNotRetried(t *testing.T) {
	var hits atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	for name, base := range map[string]http.RoundTripper{
		"bare":    &http.Transport{},
		"wrapped": roundTripper((&http.Transport{}).RoundTrip),
	} {
		attempts := 0
		rt := &retry.Transport{Base: base, Policy: retry.DefaultPolicy(), OnAttempt: func(*http.Request, retry.Attempt) { attempts++ }}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
		require.NoError(t, err)
		_, err = rt.RoundTrip(req)
		var cert *tls.CertificateVerificationError
		require.ErrorAs(t, err, &cert, name)
		assert.Equal(t, 1, attempts, name)
		rt.CloseIdleConnections()
	}
	assert.Zero(t, hits.Load())
}
