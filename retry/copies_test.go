package retry_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/retry"
)

// plain is a body of a type that net/http does not know.
type plain struct{ io.Reader }

func (plain) Close() error { return nil }

// What GetBody gives in place of a body that is gone is never sent empty or
// short (case C4): the answer in hand goes back, or the attempt is the
// request's own fault.
func TestACopyThatIsNotTheBody(t *testing.T) {
	none := func() (io.ReadCloser, error) { return nil, nil }
	noBody := func() (io.ReadCloser, error) { return http.NoBody, nil }
	gives := func(body string) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return plain{strings.NewReader(body)}, nil }
	}
	for name, row := range map[string]struct {
		body     string
		get      func() (io.ReadCloser, error)
		requests int
		fault    bool
	}{
		"the same":               {"hello", gives("hello"), 3, false},
		"nothing":                {"hello", none, 1, false},
		"NoBody":                 {"hello", noBody, 1, false},
		"an error":               {"hello", func() (io.ReadCloser, error) { return nil, io.ErrClosedPipe }, 1, false},
		"an empty one":           {"hello", gives(""), 2, true},
		"a shorter one":          {"hello", gives("hell"), 2, true},
		"a longer one":           {"hello", gives("hello!"), 2, true},
		"nothing of nothing":     {"", none, 3, false},
		"NoBody of an empty one": {"", noBody, 3, false},
	} {
		for _, length := range []int64{int64(len(row.body)), -1} {
			synctest.Test(t, func(t *testing.T) {
				var got []string
				n := 0
				_, rt := newScript(t)
				rt.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
					n++
					body, err := io.ReadAll(req.Body)
					_ = req.Body.Close()
					if err != nil {
						return nil, err
					}
					got = append(got, string(body))
					return status(503)(req)
				})
				req := post(t.Context(), t, "")
				req.Body, req.GetBody, req.ContentLength = plain{strings.NewReader(row.body)}, row.get, length
				if row.fault {
					var fault *ending.RequestError
					require.ErrorAs(t, fail(t, rt, req), &fault, name)
				} else {
					assert.Equal(t, 503, send(t, rt, req), name)
				}
				assert.Equal(t, row.requests, n, name)
				for _, body := range got {
					assert.Equal(t, row.body, body, name)
				}
			})
		}
	}
}

// A panic of GetBody passes on, and the answer in hand is closed.
func TestGetBodyThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newScript(t, status(503))
		req := post(t.Context(), t, "")
		req.Body, req.ContentLength = plain{strings.NewReader("hello")}, 5
		req.GetBody = func() (io.ReadCloser, error) { panic("boom") }
		require.PanicsWithValue(t, "boom", func() { _, _ = rt.RoundTrip(req) }) //nolint:bodyclose // it panics
		assert.Zero(t, s.open.Load())
	})
}

// http.NewRequest gives an empty body a GetBody as well; net/http sends
// http.NoBody with a length, anything else without one.
func TestAnEmptyBodyStaysOne(t *testing.T) {
	for _, body := range []io.ReadCloser{http.NoBody, nil} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			_, rt := newScript(t)
			rt.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
				n++
				assert.Equal(t, body, req.Body)
				return status(503)(req)
			})
			req := post(t.Context(), t, "")
			require.NotNil(t, req.GetBody)
			req.Body = body
			assert.Equal(t, 503, send(t, rt, req))
			assert.Equal(t, 3, n)
		})
	}
}

// A reader that comes to its end in time is waited for, and no longer.
func TestALateReaderIsWaitedForNoLongerThanItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rt := newScript(t)
		rt.Policy.JitterFactor = 0
		n := 0
		rt.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
			if n++; n > 1 {
				_ = req.Body.Close()
				return status(200)(req)
			}
			go func() { _, _ = req.Body.Read(make([]byte, 8)) }()
			synctest.Wait() // it reads
			return status(503)(req)
		})
		slow := readerFunc(func([]byte) (int, error) { time.Sleep(300 * time.Millisecond); return 0, io.EOF })
		req := post(t.Context(), t, "")
		req.Body, req.ContentLength = plain{slow}, -1
		req.GetBody = func() (io.ReadCloser, error) { return plain{iotest.ErrReader(io.EOF)}, nil }
		start := time.Now()
		assert.Equal(t, 200, send(t, rt, req))
		assert.Equal(t, 310*time.Millisecond, time.Since(start), "the reader's time and the backoff")
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// connected is a base whose attempts reach a connection and fail there.
func connected(c net.Conn, err error) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		httptrace.ContextClientTrace(req.Context()).GotConn(httptrace.GotConnInfo{Conn: c})
		return nil, err
	})
}

type h2conn struct{ net.Conn }

func (h2conn) ConnectionState() tls.ConnectionState {
	return tls.ConnectionState{NegotiatedProtocol: "h2"}
}

// Only what HTTP/2 refuses, and over HTTP/2, is the request's own fault: a
// connection that breaks is none.
func TestWhatHTTP2RefusesIsTheRequestsFault(t *testing.T) {
	odd := func(req *http.Request) {
		req.Header["X-A"] = []string{"a"}
		req.Header["Connection"] = []string{"a", "b"}
	}
	for name, row := range map[string]struct {
		conn     net.Conn
		spoil    func(*http.Request)
		attempts int
	}{
		"HTTP/2, a good request":  {h2conn{}, func(*http.Request) {}, 3},
		"HTTP/2, an odd one":      {h2conn{}, odd, 1},
		"HTTP/1, an odd one":      {&net.TCPConn{}, odd, 3},
		"a conn that is not told": {nil, odd, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				rt := &retry.Transport{Base: connected(row.conn, errReset), Policy: testPolicy()}
				rt.OnAttempt = func(*http.Request, retry.Attempt) { attempts++ }
				req := get(t.Context(), t)
				row.spoil(req)
				require.ErrorIs(t, fail(t, rt, req), errReset)
				assert.Equal(t, row.attempts, attempts)
			})
		})
	}
}

// A stack below has its own call on the response's request, which stays; a base
// that sets none gets the call's.
func TestTheResponseCarriesTheCall(t *testing.T) {
	type key struct{}
	base := func(set func(*http.Request) *http.Request) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			resp, err := status(200)(req)
			resp.Request = set(req)
			return resp, err
		})
	}
	for name, row := range map[string]struct {
		set   func(*http.Request) *http.Request
		value any
	}{
		"the attempt's": {func(r *http.Request) *http.Request { return r }, nil},
		"none":          {func(*http.Request) *http.Request { return nil }, nil},
		"another": {func(r *http.Request) *http.Request {
			return r.WithContext(context.WithValue(r.Context(), key{}, "below"))
		}, "below"},
	} {
		_, rt := newScript(t)
		rt.Base = base(row.set)
		req := get(t.Context(), t)
		resp, err := rt.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.NotNil(t, resp.Request, name)
		assert.Equal(t, row.value, resp.Request.Context().Value(key{}), name)
		if row.value == nil {
			assert.True(t, resp.Request == req, name)
		}
	}
}

// A base that panics leaves no timer and no context behind.
func TestAPanicUnderAnAttemptTimeout(t *testing.T) {
	var ctx context.Context
	_, rt := newScript(t)
	rt.Policy.AttemptTimeout = time.Hour
	rt.Base = roundTripper(func(req *http.Request) (*http.Response, error) { ctx = req.Context(); panic(errors.New("boom")) })
	require.Panics(t, func() { _, _ = rt.RoundTrip(get(t.Context(), t)) }) //nolint:bodyclose // it panics
	require.Error(t, ctx.Err())
}
