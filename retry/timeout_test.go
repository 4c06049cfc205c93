package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/retry"
)

type timeoutErr struct{}

func (timeoutErr) Error() string { return "timer" }
func (timeoutErr) Timeout() bool { return true }

func TestAttemptTimeout(t *testing.T) {
	for name, hang := range map[string]reply{
		"HTTP/1": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		},
		"HTTP/2": hangs,
		"wrapped": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, fmt.Errorf("x: %w", r.Context().Err())
		},
		"answer too late": func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return status(200)(r) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, rt := newScript(t, status(503), hang)
				rt.Policy.AttemptTimeout = 50 * time.Millisecond
				var seen []retry.Attempt
				rt.OnAttempt = func(_ *http.Request, a retry.Attempt) { seen = append(seen, a) }
				err := fail(t, rt, get(t.Context(), t))
				var timeout *ending.TimeoutError
				require.ErrorAs(t, err, &timeout)
				assert.Equal(t, 50*time.Millisecond, timeout.After)
				var ne net.Error
				require.ErrorAs(t, err, &ne)
				assert.True(t, ne.Timeout())
				require.NotErrorIs(t, err, context.Canceled, "nobody cancelled")
				assert.Equal(t, 2, s.count(), "a local timeout is not retried")
				assert.Zero(t, s.open.Load())
				require.Len(t, seen, 2)
				assert.True(t, seen[1].Timeout)
				assert.Equal(t, 50*time.Millisecond, seen[1].Elapsed)
			})
		})
	}
}

// The timeout is over with the headers; the body lives as long as it takes, and
// the attempt's context goes with it.
func TestAttemptTimeoutEndsWithTheHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ctx context.Context
		answer := func(r reply) *retry.Transport {
			_, rt := newScript(t, func(req *http.Request) (*http.Response, error) { ctx = req.Context(); return r(req) })
			rt.Policy.AttemptTimeout = 50 * time.Millisecond
			return rt
		}
		resp, err := answer(status(200)).RoundTrip(get(t.Context(), t))
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, ctx.Err())
		finish(t, resp, err)
		require.Error(t, ctx.Err(), "released at the end of the body")

		resp, err = answer(status(200)).RoundTrip(get(t.Context(), t))
		require.NoError(t, err)
		require.NoError(t, ctx.Err())
		require.NoError(t, resp.Body.Close())
		require.Error(t, ctx.Err(), "released by Close")

		require.ErrorIs(t, fail(t, answer(fails(errReset)), get(t.Context(), t)), errReset)
		require.Error(t, ctx.Err(), "released with the error")

		rt := answer(status(200))
		rt.Base = roundTripper(func(*http.Request) (*http.Response, error) { panic(http.ErrAbortHandler) })
		assert.Panics(t, func() {
			resp, _ := rt.RoundTrip(get(t.Context(), t))
			_ = resp.Body.Close()
		})

		// The body of a 101 is a connection.
		resp, err = answer(func(r *http.Request) (*http.Response, error) {
			resp, err := status(101)(r)
			a, b := net.Pipe()
			_ = b.Close()
			resp.Body = a
			return resp, err
		}).RoundTrip(get(t.Context(), t))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Error(t, ctx.Err())
	})
}

type duplex struct{ io.ReadWriter }

func (duplex) Close() error { return nil }

func TestUpgradedConnectionStaysWritable(t *testing.T) {
	_, rt := newScript(t)
	rt.Policy.AttemptTimeout = time.Hour
	rt.Base = roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := status(101)(r)
		resp.Body = duplex{}
		return resp, err
	})
	resp, err := rt.RoundTrip(get(t.Context(), t))
	require.NoError(t, err)
	assert.Implements(t, (*io.Writer)(nil), resp.Body)
	require.NoError(t, resp.Body.Close())
}

func TestLocalTimeouts(t *testing.T) {
	own := &ending.TimeoutError{After: time.Second}
	for name, row := range map[string]struct {
		ctx   func(context.Context) (context.Context, context.CancelFunc)
		reply reply
		is    error // what the error matches
	}{
		"deadline": {func(c context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(c, time.Millisecond)
		}, hangs, context.DeadlineExceeded},
		"deadline, bare text": {func(c context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(c, time.Millisecond)
		}, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, errors.New("net/http: request canceled")
		}, context.DeadlineExceeded},
		"deadline with a cause": {func(c context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(c, time.Millisecond, errReset)
		}, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		}, errReset},
		"a timer above": {func(c context.Context) (context.Context, context.CancelFunc) {
			c, cancel := context.WithCancelCause(c)
			timer := time.AfterFunc(time.Millisecond, func() { cancel(own) })
			return c, func() { timer.Stop() }
		}, hangs, own},
		"response header timeout":  {nil, trace(true, fails(timeoutErr{})), timeoutErr{}},
		"timeout of a silent base": {nil, fails(timeoutErr{}), timeoutErr{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, rt := newScript(t, row.reply)
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if row.ctx != nil {
					ctx, cancel = row.ctx(ctx)
				}
				defer cancel()
				var timeout bool
				rt.OnAttempt = func(_ *http.Request, a retry.Attempt) { timeout = a.Timeout }
				err := fail(t, rt, get(ctx, t))
				var says interface{ Timeout() bool }
				require.ErrorAs(t, err, &says)
				assert.True(t, says.Timeout())
				require.ErrorIs(t, err, row.is)
				require.NotErrorIs(t, err, context.Canceled)
				assert.True(t, timeout)
				assert.Equal(t, 1, s.count())
			})
		})
	}
}

// handshakeTimeout returns the error of Transport.TLSHandshakeTimeout, whose
// type net/http does not export.
func handshakeTimeout(t *testing.T) error {
	t.Helper()
	ours, theirs := net.Pipe()
	defer func() { assert.NoError(t, theirs.Close()) }()
	tr := &http.Transport{
		DialContext:         func(context.Context, string, string) (net.Conn, error) { return ours, nil },
		TLSHandshakeTimeout: time.Millisecond,
	}
	go func() { _, _ = io.Copy(io.Discard, theirs) }() // ends with the pipe
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://upstream.invalid", nil)
	require.NoError(t, err)
	_, err = tr.RoundTrip(req)
	require.Error(t, err)
	return err
}

// What the network or the dialler calls a timeout is a transport failure.
func TestNetworkTimeoutsAreRetried(t *testing.T) {
	for name, r := range map[string]reply{
		"dial":      fails(&net.OpError{Op: "dial", Err: timeoutErr{}}),
		"read":      trace(true, fails(fmt.Errorf("x: %w", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}))),
		"DNS":       fails(&net.DNSError{Err: "i/o timeout", IsTimeout: true}),
		"ETIMEDOUT": trace(true, fails(os.NewSyscallError("read", syscall.ETIMEDOUT))),
		"handshake": fails(handshakeTimeout(t)),
		"EOF":       trace(true, fails(io.ErrUnexpectedEOF)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, rt := newScript(t, r)
				rt.OnAttempt = func(_ *http.Request, a retry.Attempt) { assert.False(t, a.Timeout) }
				_, want := r(get(t.Context(), t))
				assert.Equal(t, want, fail(t, rt, get(t.Context(), t)))
				assert.Equal(t, 3, s.count())
			})
		})
	}
}

func TestBasesThatBreakTheContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newScript(t, func(*http.Request) (*http.Response, error) { return nil, nil })
		require.ErrorContains(t, fail(t, rt, get(t.Context(), t)), "neither")
		assert.Equal(t, 3, s.count())

		s, rt = newScript(t, func(r *http.Request) (*http.Response, error) {
			resp, _ := status(200)(r)
			return resp, errReset
		})
		assert.Equal(t, errReset, fail(t, rt, get(t.Context(), t)))
		assert.Zero(t, s.open.Load(), "the response is closed")

		rt.Base = roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503}, nil
		})
		resp, err := (&retry.Transport{Base: rt.Base, Policy: testPolicy()}).RoundTrip(get(t.Context(), t))
		code, body := finish(t, resp, err)
		assert.Equal(t, 503, code)
		assert.Empty(t, body)
	})
}

func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rt := newScript(t, status(503), func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return nil, errReset
		}, status(200))
		rt.Policy.JitterFactor = 0
		var events []string
		start := time.Now()
		rt.OnAttempt = func(_ *http.Request, a retry.Attempt) {
			events = append(events, fmt.Sprint("attempt ", a.Number, " ", a.Status, " ", a.Err, " ", a.Wait, " ", a.Start.Sub(start), " ", a.Elapsed, " ", a.Sent))
			panic("hook")
		}
		rt.OnRetry = func(_ *http.Request, a retry.Attempt, wait time.Duration) {
			events = append(events, fmt.Sprint("retry ", a.Number, " ", wait))
			panic("hook")
		}
		req := get(t.Context(), t)
		resp, err := rt.RoundTrip(req)
		finish(t, resp, err)
		assert.Same(t, req, resp.Request)
		assert.Equal(t, []string{
			"attempt 1 503 <nil> 0s 0s 0s true",
			"retry 1 10ms",
			"attempt 2 0 connection reset 10ms 10ms 1s true",
			"retry 2 20ms",
			"attempt 3 200 <nil> 20ms 1.03s 0s true",
		}, events)
	})
}

// One Transport, many goroutines.
func TestConcurrentUse(t *testing.T) {
	var wg sync.WaitGroup
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(req.Body)
		_ = req.Body.Close()
		if err != nil || string(body) != "hello" {
			return nil, fmt.Errorf("body %q: %w", body, err)
		}
		if time.Now().UnixNano()%3 > 0 {
			return status(503)(req)
		}
		return status(200)(req)
	})
	p := testPolicy()
	p.InitialBackoff, p.MaxBackoff, p.AttemptTimeout = time.Microsecond, time.Millisecond, time.Minute
	rt := &retry.Transport{Base: base, Policy: p}
	for range 64 {
		wg.Go(func() {
			for range 20 {
				resp, err := rt.RoundTrip(post(context.Background(), t, "hello"))
				if !assert.NoError(t, err) {
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	wg.Wait()
}
