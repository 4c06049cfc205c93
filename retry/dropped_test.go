package retry_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/retry"
)

// rawServer hands each connection, with the number it has, to serve.
func rawServer(t *testing.T, serve func(n int, c *net.TCPConn, r *bufio.Reader)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				serve(n, c.(*net.TCPConn), bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return "http://" + l.Addr().String()
}

// take reads one request whole.
func take(r *bufio.Reader) (body string, ok bool) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return "", false
	}
	b, err := io.ReadAll(req.Body)
	return string(b), err == nil
}

func answer(c net.Conn) {
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
}

func TestCaseC7_AcceptedThenDropped(t *testing.T) {
	for name, row := range map[string]struct {
		method, key string
		replay      retry.Replay // of Replayable; -1: none
		requests    int64
		ok          bool
	}{
		"POST alone":    {"POST", "", -1, 1, false},
		"POST, key":     {"POST", "k", -1, 2, true},
		"GET":           {"GET", "", -1, 2, true},
		"inference":     {"POST", "", retry.ReplayAlways, 2, true},
		"safe_only":     {"POST", "", retry.ReplayUnsent, 1, false},
		"half-open":     {"GET", "", retry.ReplayNever, 1, false},
		"PUT, one shot": {"PUT", "", retry.ReplayNever, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			url := rawServer(t, func(n int, c *net.TCPConn, r *bufio.Reader) {
				body, ok := take(r)
				if !ok {
					return
				}
				if row.method != "GET" {
					assert.Equal(t, "hello", body)
				}
				if requests.Add(1) == 1 {
					_ = c.SetLinger(0)
					return
				}
				answer(c)
			})
			base := &http.Transport{}
			defer base.CloseIdleConnections()
			rt := &retry.Transport{Base: base, Policy: testPolicy()}
			if row.replay >= 0 {
				rt.Replayable = func(*http.Request) retry.Replay { return row.replay }
			}
			var sent []bool
			rt.OnAttempt = func(_ *http.Request, a retry.Attempt) { sent = append(sent, a.Sent) }
			req := request(t, row.method, url, strings.NewReader("hello"))
			if row.method == "GET" {
				req = request(t, row.method, url, nil)
			}
			if row.key != "" {
				req.Header.Set("Idempotency-Key", row.key)
			}
			resp, err := rt.RoundTrip(req)
			if row.ok {
				finish(t, resp, err)
			} else {
				require.Error(t, err)
				assert.Nil(t, resp)
			}
			assert.Equal(t, row.requests, requests.Load())
			assert.True(t, sent[0])
		})
	}
}

func TestCaseC7_AttemptTimeoutIsNotRetried(t *testing.T) {
	var requests atomic.Int64
	url := rawServer(t, func(_ int, _ *net.TCPConn, r *bufio.Reader) {
		if _, ok := take(r); ok {
			requests.Add(1)
		}
		_, _ = r.ReadByte()
	})
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	rt := &retry.Transport{Base: base, Policy: testPolicy()}
	rt.Policy.AttemptTimeout = 50 * time.Millisecond
	req := request(t, "PUT", url, strings.NewReader("hello"))
	var timeout *ending.TimeoutError
	require.ErrorAs(t, fail(t, rt, req), &timeout)
	assert.EqualValues(t, 1, requests.Load())
}

func TestCaseC7_RefusedIsRetried(t *testing.T) {
	for _, replay := range []retry.Replay{retry.ReplayUnsent, retry.ReplayAlways} {
		url := rawServer(t, func(_ int, c *net.TCPConn, r *bufio.Reader) {
			body, _ := take(r)
			assert.Equal(t, "hello", body)
			answer(c)
		})
		var dials atomic.Int64
		base := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials.Add(1) == 1 {
				return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
			}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}}
		rt := &retry.Transport{Base: base, Policy: testPolicy(), Replayable: func(*http.Request) retry.Replay { return replay }}
		rt.OnAttempt = func(_ *http.Request, a retry.Attempt) { assert.Equal(t, a.Number > 1, a.Sent) }
		req := request(t, "POST", url, strings.NewReader("hello"))
		assert.Equal(t, 200, send(t, rt, req))
		base.CloseIdleConnections()
	}
}

func TestCaseC8_IdleConnectionClosedByTheServer(t *testing.T) {
	for name, linger := range map[string]int{"FIN": -1, "RST": 0} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			taken, noticed := make(chan struct{}), make(chan struct{}, 2)
			url := rawServer(t, func(_ int, c *net.TCPConn, r *bufio.Reader) {
				if _, ok := take(r); !ok {
					return
				}
				requests.Add(1)
				answer(c)
				<-taken
				_ = c.SetLinger(linger)
				_ = c.Close()
			})
			base := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, addr)
				return &closeTold{Conn: c, told: noticed}, err
			}}
			defer base.CloseIdleConnections()
			attempts := 0
			rt := &retry.Transport{Base: base, Policy: testPolicy(), OnAttempt: func(*http.Request, retry.Attempt) { attempts++ }}
			for range 2 {
				assert.Equal(t, 200, send(t, rt, request(t, "POST", url, strings.NewReader("hello"))))
				taken <- struct{}{}
				<-noticed // net/http has seen the end of its idle connection
			}
			assert.EqualValues(t, 2, requests.Load())
			assert.Equal(t, 2, attempts, "no attempt failed")
		})
	}
}

// closeTold is a connection that tells of its Close.
type closeTold struct {
	net.Conn
	once sync.Once
	told chan<- struct{}
}

func (c *closeTold) Close() error {
	c.once.Do(func() { c.told <- struct{}{} })
	return c.Conn.Close()
}

// A server that hangs up on fresh connections, sometimes before net/http has
// begun to write: no attempt waits for a write that never comes.
func TestFreshConnectionsClosedAtOnce(t *testing.T) {
	for i := range 30 {
		var n atomic.Int64
		url := rawServer(t, func(_ int, c *net.TCPConn, r *bufio.Reader) {
			if n.Add(1) <= 2 {
				return
			}
			body, _ := take(r)
			assert.Equal(t, "hello", body)
			answer(c)
		})
		base := &http.Transport{}
		rt := &retry.Transport{Base: base, Policy: testPolicy()}
		rt.Policy.InitialBackoff = time.Millisecond
		assert.Equal(t, 200, send(t, rt, request(t, "PUT", url, strings.NewReader("hello"))), "call %d", i)
		base.CloseIdleConnections()
	}
}
