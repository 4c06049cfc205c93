package retry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sharedReader is a client whose Body and GetBody share one reader: asking for
// a copy rewinds it, which must not happen under somebody who reads.
type sharedReader struct {
	t       testing.TB
	data    *bytes.Reader
	open    atomic.Int64
	reading atomic.Int64
	asked   atomic.Int64
}

type sharedCopy struct {
	s      *sharedReader
	closed atomic.Bool
}

func (s *sharedReader) GetBody() (io.ReadCloser, error) {
	s.asked.Add(1)
	assert.Zero(s.t, s.open.Load(), "a copy is asked for while the one before is open")
	assert.Zero(s.t, s.reading.Load(), "a copy is asked for while the one before is read")
	_, err := s.data.Seek(0, io.SeekStart)
	s.open.Add(1)
	return &sharedCopy{s: s}, err
}

func (c *sharedCopy) Read(p []byte) (int, error) {
	c.s.reading.Add(1)
	defer c.s.reading.Add(-1)
	return c.s.data.Read(p)
}

func (c *sharedCopy) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.s.open.Add(-1)
	}
	return nil
}

func sharedRequest(t testing.TB, body string) (*http.Request, *sharedReader) {
	s := &sharedReader{t: t, data: bytes.NewReader([]byte(body))}
	req := post(t.Context(), t, "")
	req.ContentLength = int64(len(body))
	req.Body, _ = s.GetBody()
	req.GetBody = s.GetBody
	return req, s
}

func TestSharedReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newScript(t, status(503), fails(errReset), status(200))
		req, shared := sharedRequest(t, "hello")
		assert.Equal(t, 200, send(t, rt, req))
		assert.Equal(t, []string{"hello", "hello", "hello"}, s.bodies)
		assert.EqualValues(t, 4, shared.asked.Load())
		assert.Zero(t, shared.open.Load())
	})
}

// late returns an answer at once and reads and closes the body afterwards, as
// a RoundTripper may.
func late(delay time.Duration, closes bool) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		started := make(chan struct{})
		go func() {
			p := make([]byte, 1)
			_, _ = req.Body.Read(p)
			close(started)
			time.Sleep(delay)
			_, _ = io.Copy(io.Discard, req.Body)
			if closes {
				_ = req.Body.Close()
			}
		}()
		<-started
		return status(503)(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestLateReaderOfASharedReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, closes := range []bool{true, false} {
			_, rt := newScript(t)
			rt.Base = late(500*time.Millisecond, closes)
			req, shared := sharedRequest(t, "hello")
			assert.Equal(t, 503, send(t, rt, req))
			assert.EqualValues(t, 4, shared.asked.Load())
			time.Sleep(time.Second)
			if closes {
				assert.Zero(t, shared.open.Load())
			}
		}
	})
}

// stuckBody hangs in Read until it is closed by hand.
type stuckBody struct{ stuck, closed chan struct{} }

func (b stuckBody) Read([]byte) (int, error) {
	close(b.stuck)
	<-b.closed
	return 0, io.EOF
}
func (b stuckBody) Close() error { return nil }

// A body that somebody goes on reading is waited for, but not for ever, and
// never shared.
func TestBodyThatIsNeverReleased(t *testing.T) {
	for name, row := range map[string]struct {
		timeout time.Duration
		elapsed time.Duration
		is      error
	}{
		"bounded":  {time.Hour, 1010 * time.Millisecond, nil},
		"deadline": {500 * time.Millisecond, 500 * time.Millisecond, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := stuckBody{make(chan struct{}), make(chan struct{})}
				defer close(body.closed)
				_, rt := newScript(t)
				rt.Policy.JitterFactor = 0
				rt.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
					go func() { _, _ = req.Body.Read(make([]byte, 1)) }()
					<-body.stuck
					return status(503)(req)
				})
				ctx, cancel := context.WithTimeout(t.Context(), row.timeout)
				defer cancel()
				req, asked := post(ctx, t, "x"), 0
				req.GetBody = func() (io.ReadCloser, error) { asked++; return body, nil }
				start := time.Now()
				if row.is == nil { // the answer in hand goes back
					assert.Equal(t, 503, send(t, rt, req))
				} else {
					require.ErrorIs(t, fail(t, rt, req), row.is)
				}
				assert.Equal(t, row.elapsed, time.Since(start))
				assert.Equal(t, 1, asked)
			})
		})
	}
}

// Nothing reaches a reader any more once its attempt is over: it may be the
// next attempt's.
func TestNoReadAfterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rt := newScript(t)
		var first io.ReadCloser
		rt.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
			if first == nil {
				first = req.Body // neither read nor closed
				return nil, errReset
			}
			_, err := first.Read(make([]byte, 1))
			assert.Error(t, err)
			assert.NoError(t, first.Close())
			body, err := io.ReadAll(req.Body)
			assert.NoError(t, err)
			assert.NoError(t, req.Body.Close())
			assert.Equal(t, "hello", string(body))
			return status(200)(req)
		})
		req, shared := sharedRequest(t, "hello")
		assert.Equal(t, 200, send(t, rt, req))
		assert.Zero(t, shared.open.Load())
	})
}

// A base may ask for a copy by itself, as net/http does on a dead connection:
// it gets one under the same rule.
func TestGetBodyOfAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newScript(t, status(503), status(200))
		rt.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
			again, err := req.GetBody() // without having read or closed the first
			assert.NoError(t, err)
			clone := *req
			clone.Body = again
			return s.RoundTrip(&clone)
		})
		req, shared := sharedRequest(t, "hello")
		assert.Equal(t, 200, send(t, rt, req))
		assert.Equal(t, []string{"hello", "hello"}, s.bodies)
		assert.Zero(t, shared.open.Load())
	})
}

func TestGetBodyFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("file is gone")
		for failing := range 3 {
			s, rt := newScript(t, status(503))
			req, n, closed := post(t.Context(), t, "hello"), 0, false
			req.Body = &closeOnce{ReadCloser: req.Body, closed: func() { closed = true }}
			get := req.GetBody
			req.GetBody = func() (io.ReadCloser, error) {
				if n++; n > failing {
					return nil, broken
				}
				return get()
			}
			if failing == 0 {
				require.ErrorIs(t, fail(t, rt, req), broken)
			} else { // the last answer goes back whole (contract 3)
				resp, err := rt.RoundTrip(req)
				code, body := finish(t, resp, err)
				assert.Equal(t, 503, code)
				assert.Equal(t, "Service Unavailable", body)
				if failing == 1 {
					assert.Empty(t, resp.Header["X-Should-Retry"], "there was no retry")
				} else {
					assert.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
				}
			}
			assert.Equal(t, failing, s.count())
			assert.True(t, closed, "the original body is closed")
			assert.Zero(t, s.open.Load())
		}

		// So does the error of an attempt that had no answer.
		_, rt := newScript(t, fails(errReset))
		req, n := post(t.Context(), t, "hello"), 0
		get := req.GetBody
		req.GetBody = func() (io.ReadCloser, error) {
			if n++; n > 1 {
				return nil, broken
			}
			return get()
		}
		require.ErrorIs(t, fail(t, rt, req), errReset)
	})
}

func TestEmptyBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, traced := range []bool{true, false} {
			s, rt := newScript(t, status(503))
			rt.Traced = traced
			req := post(t.Context(), t, "")
			req.Body, req.GetBody = http.NoBody, nil
			assert.Equal(t, 503, send(t, rt, req))
			req.Body, req.GetBody = io.NopCloser(strings.NewReader("x")), func() (io.ReadCloser, error) { return nil, nil }
			assert.Equal(t, 503, send(t, rt, req))
			req.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
			assert.Equal(t, 503, send(t, rt, req))
			assert.Equal(t, 9, s.count())
		}
	})
}

// What net/http knows goes out as it is where httptrace tells when it has been
// written; whatever else is tracked by a wrapper.
func TestWrapping(t *testing.T) {
	memory := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("x")), nil }
	buffer := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewBufferString("x")), nil }
	reader := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte("x"))), nil }
	other := func() (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(strings.NewReader("x"), 5)), nil
	}
	for name, row := range map[string]struct {
		get             func() (io.ReadCloser, error)
		traced, wrapped bool
		retries         int
	}{
		"string, traced":   {memory, true, false, 2},
		"buffer, traced":   {buffer, true, false, 2},
		"bytes, traced":    {reader, true, false, 2},
		"other, traced":    {other, true, true, 2},
		"string, silent":   {memory, false, true, 2},
		"string, one shot": {memory, false, false, 0},
		"other, one shot":  {other, false, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, rt := newScript(t)
			rt.Traced, rt.Policy.MaxRetries = row.traced, row.retries
			req := post(t.Context(), t, "x")
			req.GetBody = row.get
			want, _ := row.get()
			rt.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
				if row.wrapped {
					assert.NotEqual(t, reflect.TypeOf(want), reflect.TypeOf(req.Body))
				} else {
					assert.IsType(t, want, req.Body)
				}
				assert.EqualValues(t, 1, req.ContentLength)
				assert.NoError(t, req.Body.Close())
				return status(200)(req)
			})
			assert.Equal(t, 200, send(t, rt, req))
		})
	}
}

// With an unwrapped body, WroteRequest is the sign that it is no longer read.
func TestUnwrappedBodyIsWaitedFor(t *testing.T) {
	for name, row := range map[string]struct {
		write  time.Duration // 0: never
		err    error
		wait   time.Duration
		status int
	}{
		"written late":               {300 * time.Millisecond, nil, 300 * time.Millisecond, 200},
		"failed, written soon":       {40 * time.Millisecond, errReset, 40 * time.Millisecond, 200},
		"failed, write never begun":  {0, errReset, 60 * time.Millisecond, 200},
		"answered, write never ends": {0, nil, 1010 * time.Millisecond, 503}, // the answer in hand goes back
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, rt := newScript(t)
				rt.Traced, rt.Policy.MaxRetries, rt.Policy.JitterFactor = true, 1, 0
				n := 0
				rt.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
					if n++; n == 2 {
						return status(200)(req)
					}
					tr := httptrace.ContextClientTrace(req.Context())
					tr.GotConn(httptrace.GotConnInfo{})
					if row.write > 0 {
						time.AfterFunc(row.write, func() { tr.WroteRequest(httptrace.WroteRequestInfo{}) })
					}
					if row.err != nil {
						return nil, row.err
					}
					return status(503)(req)
				})
				start := time.Now()
				resp, err := rt.RoundTrip(post(t.Context(), t, "hello"))
				assert.Equal(t, row.wait, time.Since(start))
				code, _ := finish(t, resp, err)
				assert.Equal(t, row.status, code)
			})
		})
	}
}
