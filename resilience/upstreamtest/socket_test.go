package upstreamtest_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	ut "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// start is an Upstream on a socket that leaves no goroutine.
func start(t *testing.T) *ut.Upstream {
	t.Helper()
	up := ut.New()
	t.Cleanup(func() {
		up.Close()
		settled(t)
	})
	return up
}

// dial opens a bare connection.
func dial(t *testing.T, up *ut.Upstream) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(up.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

func send(t *testing.T, conn net.Conn, path, body string) {
	t.Helper()
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	require.NoError(t, err)
}

// raw sends one request and returns everything after the head, and the error
// that ended the connection (nil: FIN).
func raw(t *testing.T, up *ut.Upstream) (head, body string, err error) {
	t.Helper()
	conn := dial(t, up)
	send(t, conn, chatPath, ask("m", true))
	b, err := io.ReadAll(conn)
	head, body, _ = strings.Cut(string(b), "\r\n\r\n")
	return head, body, err
}

func TestBytesOnTheWire(t *testing.T) {
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	s := ut.RawStream(chatA, chatB)
	tests := []struct {
		name string
		step ut.Step
		body string
		head string // part of it
		err  error
	}{
		{"chunks, no end", s.FIN(), chunk(chatA) + chunk(chatB), "Transfer-Encoding: chunked", nil},
		{"half a line", s.CutAfter(1).InsideLine().FIN(), chunk(chatA) + chunk(chatB[:len(chatB)/2]), "", nil},
		{"reset", s.CutAfter(1).Reset(), chunk(chatA), "", syscall.ECONNRESET},
		{"no chunk at all", s.CutAfter(0).FIN(), "", "200 OK", nil},
		{"bad chunk", s.CutAfter(1).BadChunk(), chunk(chatA) + "not a chunk size\r\n", "", nil},
		{"close-delimited", s.CloseDelimited(), chatA + chatB, "Connection: close", nil},
		{"CRLF split over two writes", ut.RawStream("data: x\r", "\n\r\n").FIN(), chunk("data: x\r") + chunk("\n\r\n"), "", nil},
		{"a write a byte", ut.RawStream("é").WriteSize(1).FIN(), chunk("\xc3") + chunk("\xa9"), "", nil},
		{"length of the whole", ut.Body("application/json", okJSON).CutBytes(36).FIN(), okJSON[:36], fmt.Sprintf("Content-Length: %d\r\n", len(okJSON)), nil},
		{"declared length", ut.Body("application/json", "{}").ContentLength(80), "{}", "Content-Length: 80\r\n", nil},
		{"verbatim", ut.RawConn("HTTP/1.1 200 O", "K\r\nX: y\r\n\r\nz"), "z", "HTTP/1.1 200 OK\r\nX: y", nil},
		{"verbatim, reset", ut.RawConn("HTTP/1.1 200 OK\r\n\r\nz").Reset(), "z", "", syscall.ECONNRESET},
		{"verbatim, cut", ut.RawConn("HTTP/1.1 200 OK\r\n\r\n", "z", "y").CutAfter(2).At(2, ut.Bytes("!")), "z!", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			up := start(t)
			up.Default(tt.step)
			head, body, err := raw(t, up)
			assert.Equal(t, tt.body, body)
			assert.Contains(t, head+"\r\n", tt.head)
			if tt.err == nil {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, tt.err)
			}
			assert.Equal(t, 1, up.Connections())
		})
	}
}

func TestKeepAliveAndReuse(t *testing.T) {
	up := start(t)
	up.Default(ut.OK("hi"), ut.Stream("a", "b"), ut.Status(503))
	// One connection at a time: a spare one would hide what is counted.
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	r := reach{"socket", up, client}
	for range 4 {
		require.NoError(t, r.post(t, chatPath, ask("m", false)).read)
	}
	assert.Equal(t, 1, up.Connections(), "good answers keep the connection")
	remote := up.Last().Remote
	for _, q := range up.Requests() {
		assert.Equal(t, remote, q.Remote)
	}

	up.CloseIdle()
	require.Eventually(t, func() bool { return r.post(t, chatPath, ask("m", false)).err == nil && up.Connections() == 2 }, patience, time.Millisecond)
	up.ResetIdle()
	require.Eventually(t, func() bool { return r.post(t, chatPath, ask("m", false)).err == nil && up.Connections() == 3 }, patience, time.Millisecond)
}

func TestWholeAnswerThenFINOrReset(t *testing.T) {
	for name, step := range map[string]ut.Step{"FIN": ut.OK("hi").FIN(), "reset": ut.OK("hi").Reset()} {
		t.Run(name, func(t *testing.T) {
			up := start(t)
			up.Default(step)
			conn := dial(t, up)
			send(t, conn, chatPath, ask("m", false))
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.NotEmpty(t, b)
			assert.False(t, resp.Close, "the head promises keep-alive")
		})
	}
}

func TestResetOnReuse(t *testing.T) {
	for name, step := range map[string]ut.Step{"JSON": ut.OK("hi").ResetOnReuse(), "stream": ut.Stream("hi").ResetOnReuse()} {
		t.Run(name, func(t *testing.T) {
			up := start(t)
			up.Next(step)
			conn := dial(t, up)
			send(t, conn, chatPath, ask("m", false))
			rd := bufio.NewReader(conn)
			resp, err := http.ReadResponse(rd, nil)
			require.NoError(t, err)
			_, err = io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			waitFor(t, up, func() bool { return up.InFlight() == 0 })
			send(t, conn, chatPath, ask("m", false))
			_, err = rd.ReadByte()
			require.ErrorIs(t, err, syscall.ECONNRESET)
			assert.Equal(t, 1, up.Count(), "the second request was not read")
		})
	}
}

func TestResetOnReuseEndsWithTheClientOrClose(t *testing.T) {
	up := start(t)
	up.Default(ut.OK("hi").ResetOnReuse())
	conn := dial(t, up)
	send(t, conn, chatPath, ask("m", false))
	require.NoError(t, up.Wait(t.Context(), func() bool { return up.Count() == 1 && up.InFlight() == 0 }))
	require.NoError(t, conn.Close())
	other := dial(t, up)
	send(t, other, chatPath, ask("m", false))
	require.NoError(t, up.Wait(t.Context(), func() bool { return up.Count() == 2 && up.InFlight() == 0 }))
	up.Close()
	assert.Zero(t, up.Aborted())
}

func TestStopAndStart(t *testing.T) {
	up := start(t)
	client := up.Client()
	defer client.CloseIdleConnections()
	r := reach{"socket", up, client}
	require.NoError(t, r.post(t, chatPath, ask("m", false)).err)

	gate := make(chan struct{})
	up.Next(ut.OK("late").Hold(gate))
	conn := dial(t, up)
	send(t, conn, chatPath, ask("m", false))
	require.NoError(t, up.Wait(t.Context(), func() bool { return up.InFlight() == 1 }))

	up.Stop()
	up.Stop()
	require.Eventually(t, func() bool {
		// The pooled connection may be found closed only by its use.
		return errors.Is(r.post(t, chatPath, ask("m", false)).err, syscall.ECONNREFUSED)
	}, patience, time.Millisecond)
	assert.Equal(t, 2, up.Count())

	close(gate) // what was under way is answered, then its connection ends
	b, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Contains(t, string(b), "late")

	require.NoError(t, up.Start())
	require.NoError(t, up.Start())
	require.NoError(t, r.post(t, chatPath, ask("m", false)).err)
}

func TestHTTP2(t *testing.T) {
	up := start(t)
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	r := reach{"h2", up, &http.Client{Transport: tr}}
	up.Next(ut.OK("hi"), ut.RawStream(chatA).Reset(), ut.RawStream(chatA).FIN(), ut.Drop(), ut.RawConn("x"), ut.RawStream(chatA))

	g := r.post(t, chatPath, ask("m", false))
	require.NoError(t, g.err)
	assert.Equal(t, "HTTP/2.0", up.Last().Proto)
	for range 2 {
		g = r.post(t, chatPath, ask("m", true))
		require.NoError(t, g.err)
		assert.Equal(t, chatA, g.body)
		assert.ErrorContains(t, g.read, "INTERNAL_ERROR")
	}
	for range 2 {
		g = r.post(t, chatPath, ask("m", true))
		assert.ErrorContains(t, g.err, "INTERNAL_ERROR")
	}
	g = r.post(t, chatPath, ask("m", true))
	require.NoError(t, g.read)
	assert.Equal(t, chatA, g.body)
	assert.Equal(t, 6, up.Count())
	assert.Equal(t, 1, up.Connections())
	assert.Zero(t, up.Aborted())
}

func TestGzip(t *testing.T) {
	for _, cut := range []bool{false, true} {
		both(t, func(t *testing.T, r reach) {
			gate := make(chan struct{})
			step := ut.RawStream(chatA, chatStop+done).At(1, ut.Gate(gate)).Gzip()
			if cut {
				step = step.CutAfter(1)
			}
			r.up.Default(step)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.up.URL+chatPath, strings.NewReader(ask("m", true)))
			require.NoError(t, err)
			req.Header.Set("Accept-Encoding", "gzip")
			resp, err := r.client.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			assert.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
			zr, err := gzip.NewReader(resp.Body)
			require.NoError(t, err)
			first := make([]byte, len(chatA))
			_, err = io.ReadFull(zr, first) // while the gate is shut: it was flushed
			require.NoError(t, err)
			assert.Equal(t, chatA, string(first))
			close(gate)
			rest, err := io.ReadAll(zr)
			if cut {
				assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
				assert.Empty(t, rest)
			} else {
				require.NoError(t, err)
				assert.Equal(t, chatStop+done, string(rest))
			}
		})
	}
}

func TestGzipPings(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		r.up.Default(ut.RawStream(chatA).At(1, ut.Pings(time.Millisecond, 3)).Gzip())
		g := r.do(t, http.MethodPost, chatPath, ask("m", true), http.Header{"Accept-Encoding": {"gzip"}})
		zr, err := gzip.NewReader(strings.NewReader(g.body))
		require.NoError(t, err)
		b, err := io.ReadAll(zr)
		require.NoError(t, err)
		assert.Equal(t, chatA+strings.Repeat(": ping\n\n", 3), string(b))
	})
}

func TestRaw(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		r.up.Default(ut.Raw(func(w http.ResponseWriter, q *http.Request) {
			b, _ := io.ReadAll(q.Body)
			w.Header().Set("X-Path", q.URL.Path)
			w.WriteHeader(http.StatusTeapot)
			w.Header().Set("X-Late", "no")
			_, _ = w.Write(bytes.ToUpper(b))
			_ = http.NewResponseController(w).Flush()
		}), ut.Raw(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), ut.Raw(func(http.ResponseWriter, *http.Request) {}))
		g := r.post(t, chatPath, "abc")
		require.NoError(t, g.err)
		assert.Equal(t, http.StatusTeapot, g.status)
		assert.Equal(t, "ABC", g.body)
		assert.Equal(t, chatPath, g.header.Get("X-Path"))
		assert.Empty(t, g.header.Get("X-Late"))
		assert.ErrorIs(t, r.post(t, chatPath, "abc").err, io.EOF)
		g = r.post(t, chatPath, "abc")
		assert.Equal(t, 200, g.status)
		assert.Empty(t, g.body)
		assert.Zero(t, r.up.InFlight())
	})
}

func TestLifeIsSafeForConcurrentUse(t *testing.T) {
	up := start(t)
	client := up.Client()
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			switch i % 5 {
			case 0:
				up.Stop()
			case 1:
				_ = up.Start() // the port may be taken by then
			case 2:
				up.CloseIdle()
				_ = up.Requests()
			case 3:
				up.Default(ut.OK("a"), ut.Silence())
				if i > 15 {
					up.Close()
				}
			default:
				resp, err := client.Post(up.URL+chatPath, "application/json", strings.NewReader(ask("m", true)))
				if err == nil {
					_ = resp.Body.Close()
				}
			}
		})
	}
	wg.Wait()
}
