package retry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/retry"
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
		assert.EqualValues(t, 3, shared.asked.Load(), "the first attempt sends the request's own body")
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
			assert.EqualValues(t, 3, shared.asked.Load())
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
// never shared: the answer in hand goes back.
func TestBodyThatIsNeverReleased(t *testing.T) {
	for name, row := range map[string]struct {
		timeout time.Duration
		elapsed time.Duration
		is      error
	}{
		"bounded":  {time.Hour, time.Second, nil},
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
				req.Body, req.GetBody = body, func() (io.ReadCloser, error) { asked++; return body, nil }
				start := time.Now()
				if row.is != nil {
					require.ErrorIs(t, fail(t, rt, req), row.is)
				} else {
					assert.Equal(t, 503, send(t, rt, req))
				}
				assert.Equal(t, row.elapsed, time.Since(start))
				assert.Zero(t, asked)
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

// The last answer goes back whole, also when a later attempt could not be made
// (contract 3).
func TestTheAnswerInHandGoesBackWhereGetBodyFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("file is gone")
		for made := range 3 {
			s, rt := newScript(t, status(503))
			var attempts []retry.Attempt
			rt.OnAttempt = func(_ *http.Request, a retry.Attempt) { attempts = append(attempts, a) }
			req, n, closed := post(t.Context(), t, "hello"), 0, false
			get := req.GetBody
			req.Body = &closeOnce{ReadCloser: req.Body, closed: func() { closed = true }}
			req.GetBody = func() (io.ReadCloser, error) {
				if n++; n > made {
					return nil, broken
				}
				return get()
			}
			resp, err := rt.RoundTrip(req)
			code, _ := finish(t, resp, err)
			assert.Equal(t, 503, code)
			assert.Equal(t, made+1, s.count())
			assert.Len(t, attempts, made+1, "an attempt that was not made is not recorded")
			assert.True(t, closed, "the original body is closed")
			assert.Zero(t, s.open.Load())
		}
		s, rt := newScript(t, fails(errReset))
		req := post(t.Context(), t, "hello")
		req.Body = struct{ io.ReadCloser }{req.Body}
		req.GetBody = func() (io.ReadCloser, error) { return nil, broken }
		require.ErrorIs(t, fail(t, rt, req), errReset, "the upstream's failure, where there was no answer")
		assert.Equal(t, 1, s.count())
	})
}

// Code above replaces Body and leaves GetBody, as it may over a bare transport.
func TestAReplacedBodyIsWhatEveryAttemptSends(t *testing.T) {
	const was, is = `{"card":"4111-1111"}`, `{"card":"XXXX-XXXX"}`
	for name, row := range map[string]struct {
		body   io.ReadCloser
		length int64
	}{
		"same length, a string":   {io.NopCloser(strings.NewReader(is)), int64(len(is))},
		"same length, bytes":      {io.NopCloser(bytes.NewReader([]byte(is))), int64(len(is))},
		"no length, a buffer":     {io.NopCloser(bytes.NewBufferString(is)), -1},
		"the length left at zero": {io.NopCloser(strings.NewReader(is)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, rt := newScript(t, status(503), fails(errReset), status(200))
				req := post(t.Context(), t, was)
				req.Body, req.ContentLength = row.body, row.length
				assert.Equal(t, 200, send(t, rt, req))
				assert.Equal(t, []string{is, is, is}, s.bodies)
			})
		})
	}
}

// A base that re-sends by itself, as net/http does on a dead connection, gets
// what Body held, too.
func TestTheGetBodyOfAnAttemptGivesWhatBodyHeld(t *testing.T) {
	s, rt := newScript(t, status(200))
	rt.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
		_, err := io.Copy(io.Discard, req.Body)
		assert.NoError(t, err)
		assert.NoError(t, req.Body.Close())
		clone := *req
		clone.Body, err = req.GetBody()
		assert.NoError(t, err)
		return s.RoundTrip(&clone)
	})
	req := post(t.Context(), t, "secret")
	req.Body = io.NopCloser(strings.NewReader("XXXXXX"))
	assert.Equal(t, 200, send(t, rt, req))
	assert.Equal(t, []string{"XXXXXX"}, s.bodies)
}

// What net/http would refuse while it writes is refused before (issue 18.4).
func TestABodyOfAnotherLengthIsNotSent(t *testing.T) {
	for _, length := range []int64{1, 4, 6} {
		s, rt := newScript(t, status(200))
		req, closed := post(t.Context(), t, ""), false
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader("hello")), length
		err := fail(t, rt, req)
		var fault *ending.RequestError
		require.ErrorAs(t, err, &fault)
		require.ErrorContains(t, err, "with Body length 5")
		assert.Zero(t, s.count())

		// Of a stream it shows while it is sent.
		s, rt = newScript(t)
		s.replies = []reply{func(*http.Request) (*http.Response, error) { t.Error("sent"); return nil, errReset }}
		rt.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
			_, err := io.Copy(io.Discard, req.Body)
			_ = req.Body.Close()
			return nil, err
		})
		req.Body = &closeOnce{ReadCloser: io.NopCloser(strings.NewReader("hello")), closed: func() { closed = true }}
		require.ErrorAs(t, fail(t, rt, req), &fault)
		assert.True(t, closed)
	}
}

func TestEmptyBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newScript(t, status(503))
		req := post(t.Context(), t, "")
		req.Body, req.GetBody = http.NoBody, nil
		assert.Equal(t, 503, send(t, rt, req))
		req.Body, req.GetBody = io.NopCloser(strings.NewReader("x")), func() (io.ReadCloser, error) { return nil, nil }
		assert.Equal(t, 503, send(t, rt, req))
		req.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
		assert.Equal(t, 503, send(t, rt, req))
		assert.Equal(t, 9, s.count())
	})
}

// What net/http knows to read from memory goes out as it is, so that it takes
// one write; whatever else is tracked by a wrapper.
func TestWrapping(t *testing.T) {
	for name, row := range map[string]struct {
		body    io.ReadCloser
		wrapped bool
	}{
		"string": {io.NopCloser(strings.NewReader("x")), false},
		"buffer": {io.NopCloser(bytes.NewBufferString("x")), false},
		"bytes":  {io.NopCloser(bytes.NewReader([]byte("x"))), false},
		"other":  {io.NopCloser(io.LimitReader(strings.NewReader("x"), 5)), true},
	} {
		t.Run(name, func(t *testing.T) {
			_, rt := newScript(t)
			rt.Policy.InitialBackoff, rt.Policy.MaxRetries = 1, 2
			req := post(t.Context(), t, "x")
			req.Body = row.body
			n := 0
			rt.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
				n++
				switch {
				case n == 1 && !row.wrapped:
					assert.True(t, row.body == req.Body, "the request's own body goes first")
				case !row.wrapped:
					assert.IsType(t, io.NopCloser(bytes.NewReader(nil)), req.Body)
				default:
					assert.NotEqual(t, reflect.TypeOf(row.body), reflect.TypeOf(req.Body))
				}
				assert.EqualValues(t, 1, req.ContentLength)
				assert.NoError(t, req.Body.Close())
				return status(503)(req)
			})
			assert.Equal(t, 503, send(t, rt, req))
			assert.Equal(t, 3, n)
		})
	}
}
