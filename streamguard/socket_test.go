package streamguard_test

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience/ending"
	sg "github.com/surefoot-go/surefoot/streamguard"
)

// server answers over real connections; base is a transport to it.
func server(t *testing.T, h2 bool, h http.HandlerFunc) (url string, base *http.Transport) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = nil
	if s.EnableHTTP2 = h2; h2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	base = s.Client().Transport.(*http.Transport).Clone()
	t.Cleanup(base.CloseIdleConnections)
	return s.URL + "/v1/chat/completions", base
}

// raw takes the connection over and writes what it likes.
func raw(w http.ResponseWriter, head, body string, end func(*net.TCPConn)) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"+head+"\r\n"+body)
	end(conn.(*net.TCPConn))
	_ = conn.Close()
}

func chunked(s string) string {
	return strconv.FormatInt(int64(len(s)), 16) + "\r\n" + s + "\r\n"
}

func TestFramingOverSockets(t *testing.T) {
	const te = "Transfer-Encoding: chunked\r\n"
	fin := func(*net.TCPConn, <-chan struct{}) {}
	rst := func(c *net.TCPConn, read <-chan struct{}) {
		<-read // a reset drops what the peer has not read
		_ = c.SetLinger(0)
	}
	for name, c := range map[string]struct {
		head, body string
		end        func(*net.TCPConn, <-chan struct{})
		reason     string
	}{
		"END":            {te, chunked(C("a")) + "0\r\n\r\n", fin, sg.ReasonClosed},
		"FIN":            {te, chunked(C("a")), fin, sg.ReasonTransport},
		"FIN in chunk":   {te, "400\r\n" + C("a"), fin, sg.ReasonTransport},
		"RST":            {te, chunked(C("a")), rst, sg.ReasonTransport},
		"close, FIN":     {"Connection: close\r\n", C("a"), fin, sg.ReasonClosed},
		"close, RST":     {"Connection: close\r\n", C("a"), rst, sg.ReasonTransport},
		"length, FIN":    {"Content-Length: 5000\r\n", C("a"), fin, sg.ReasonTransport},
		"whole, END":     {te, chunked(C("a")+DONE) + "0\r\n\r\n", fin, ""},
		"whole, FIN":     {te, chunked(C("a") + DONE), fin, ""},
		"whole, RST":     {te, chunked(C("a") + F("stop")), rst, ""},
		"whole, no FIN":  {te, chunked(C("a") + F("stop") + DONE), func(c *net.TCPConn, _ <-chan struct{}) { _, _ = c.Read(make([]byte, 1)) }, ""},
		"whole in close": {"Connection: close\r\n", C("a") + DONE, fin, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := make(chan struct{})
			url, base := server(t, false, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				raw(w, c.head, c.body, func(conn *net.TCPConn) { c.end(conn, read) })
			})
			r := stack(base, sg.DefaultPolicy())
			resp, err := r.guard.RoundTrip(streamCall(t, url))
			require.NoError(t, err)
			defer func() { _ = resp.Body.Close() }()
			first := make([]byte, len(C("a")))
			_, err = io.ReadFull(resp.Body, first)
			require.NoError(t, err)
			close(read)
			rest, err := io.ReadAll(resp.Body)
			if c.reason == "" {
				require.NoError(t, err)
				assert.True(t, r.end(t).Complete)
				return
			}
			aborted(t, string(first)+string(rest), C("a"))
			var inc *sg.IncompleteError
			require.ErrorAs(t, err, &inc)
			assert.Equal(t, c.reason, inc.Reason)
		})
	}
}

func TestHTTP2Reset(t *testing.T) {
	for _, fatal := range []bool{true, false} {
		url, base := server(t, true, func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, 2, r.ProtoMajor)
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, C("a"))
			w.(http.Flusher).Flush()
			if fatal {
				panic(http.ErrAbortHandler) // RST_STREAM(INTERNAL_ERROR)
			}
		})
		r := stack(base, sg.DefaultPolicy())
		_, got, err := r.readAll(t, streamCall(t, url))
		aborted(t, got, C("a"))
		var inc *sg.IncompleteError
		require.ErrorAs(t, err, &inc)
		if fatal {
			assert.Equal(t, sg.ReasonTransport, inc.Reason)
		} else {
			assert.Equal(t, sg.ReasonClosed, inc.Reason)
		}
	}
}

// stopped counts handlers whose client has gone.
func stalling(t *testing.T, h2 bool, gone chan<- struct{}) (string, *http.Transport) {
	return server(t, h2, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, C("a"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		gone <- struct{}{}
	})
}

func TestStallOverSockets(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		gone := make(chan struct{}, 1)
		url, base := stalling(t, h2, gone)
		r := stack(base, idle200)
		start := time.Now()
		_, got, err := r.readAll(t, streamCall(t, url))
		aborted(t, got, C("a"))
		var timeout *ending.TimeoutError
		require.ErrorAs(t, err, &timeout)
		// How late the timer may be is synctest's business: this machine may be busy.
		assert.GreaterOrEqual(t, time.Since(start), 150*time.Millisecond)
		<-gone // the server saw its connection closed
	}
}

func TestCancelOverSockets(t *testing.T) {
	gone := make(chan struct{}, 1)
	url, base := stalling(t, false, gone)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := stack(base, sg.DefaultPolicy())
	resp, err := r.guard.RoundTrip(request(t, ctx, url, `{"stream":true}`))
	require.NoError(t, err)
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, resp.Body.Close())
	<-gone
	assert.True(t, r.end(t).Closed)
}

func TestCaseB10_Gzip(t *testing.T) {
	release := make(chan struct{}, 1)
	for name, cut := range map[string]bool{"whole": false, "cut": true} {
		t.Run(name, func(t *testing.T) {
			url, base := server(t, false, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				_, _ = io.WriteString(z, C("a"))
				_ = z.Flush()
				w.(http.Flusher).Flush()
				<-release
				if !cut {
					_, _ = io.WriteString(z, F("stop")+DONE)
					_ = z.Close()
				}
			})
			r := stack(base, sg.DefaultPolicy())
			resp, err := r.guard.RoundTrip(streamCall(t, url))
			require.NoError(t, err) // the first event was not waited for
			assert.True(t, resp.Uncompressed)
			release <- struct{}{}
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, resp.Body.Close())
			if cut {
				aborted(t, string(got), C("a"))
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				require.ErrorIs(t, err, sg.ErrIncomplete)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, C("a")+F("stop")+DONE, string(got))
			assert.True(t, r.end(t).Complete)
		})
	}
}

func TestTrailersArrive(t *testing.T) {
	url, base := server(t, false, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, C("a")+DONE)
		w.(http.Flusher).Flush()
		w.Header().Set("X-Sum", "7")
	})
	r := stack(base, sg.DefaultPolicy())
	resp, _, err := r.readAll(t, streamCall(t, url))
	require.NoError(t, err)
	assert.Equal(t, "7", resp.Trailer.Get("X-Sum"))
}

// TestManyAtOnce runs streams of every kind through one stack, read, closed
// early and cancelled, and wants no goroutine left.
func TestManyAtOnce(t *testing.T) {
	before := runtime.NumGoroutine()
	url, base := server(t, false, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range 20 {
			_, _ = io.WriteString(w, C(strings.Repeat("x", 200)))
			w.(http.Flusher).Flush()
		}
		switch {
		case strings.Contains(string(b), "stall"):
			<-r.Context().Done()
		case strings.Contains(string(b), "whole"):
			_, _ = io.WriteString(w, DONE)
		case strings.Contains(string(b), "abort"):
			panic(http.ErrAbortHandler)
		}
	})
	// What goes on must not meet a limit, however busy this machine is.
	patient := stack(base, sg.Policy{EventTimeout: time.Hour, FirstEventTimeout: time.Hour})
	hasty := stack(base, sg.Policy{IdleTimeout: 100 * time.Millisecond})
	patient.guard.OnFirst, hasty.guard.OnFirst = nil, nil
	kinds := []string{"stall", "whole", "abort", "short"}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for j := range 6 {
				ctx, cancel := context.WithCancel(context.Background())
				kind, r := kinds[(i+j)%4], patient
				if kind == "stall" {
					r = hasty
				}
				resp, err := r.guard.RoundTrip(request(t, ctx, url, `{"stream":true,"model":"`+kind+`"}`))
				if !assert.NoError(t, err) {
					cancel()
					return
				}
				switch (i / 4) % 3 {
				case 0:
					_, err = io.ReadAll(resp.Body)
					var inc *sg.IncompleteError
					slow := errors.As(err, &inc) && inc.Timeout() // a machine that is may be, too
					assert.True(t, err == nil == (kind == "whole") || slow, "%s: %v", kind, err)
				case 1:
					_, _ = io.ReadFull(resp.Body, make([]byte, 500))
				case 2:
					time.AfterFunc(time.Duration(j)*time.Millisecond, func() { _ = resp.Body.Close() })
					_, _ = io.ReadAll(resp.Body)
				}
				_ = resp.Body.Close()
				cancel()
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 64*6, len(patient.ends)+len(hasty.ends))
	base.CloseIdleConnections()
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+4 }, time.Minute, 10*time.Millisecond)
}
