package upstreamtest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	ut "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

func newRequest(t *testing.T, ctx context.Context, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+chatPath, body)
	require.NoError(t, err)
	return req
}

func TestMemoryTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := ut.NewInMemory("")
		defer up.Close()
		up.Default(ut.RawStream(chatA, chatB, done).Delay(time.Second).FirstToken(2 * time.Second).Every(time.Minute))
		start := time.Now()
		since := func(want time.Duration) {
			t.Helper()
			assert.Equal(t, want, time.Since(start))
		}
		resp, err := up.RoundTripper().RoundTrip(newRequest(t, t.Context(), up.URL, strings.NewReader(ask("m", true))))
		require.NoError(t, err)
		defer resp.Body.Close()
		since(time.Second)
		read := func(s string) {
			t.Helper()
			b := make([]byte, len(s))
			_, err := io.ReadFull(resp.Body, b)
			require.NoError(t, err)
			assert.Equal(t, s, string(b))
		}
		read(chatA)
		since(3 * time.Second)
		time.Sleep(time.Hour) // a late reader finds what was sent meanwhile
		read(chatB + done)
		since(time.Hour + 3*time.Second)
		_, err = resp.Body.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		_, err = resp.Body.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		assert.Zero(t, up.Aborted())
		assert.Zero(t, up.InFlight())
	})
}

func TestMemoryIdleStreamDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := ut.NewInMemory("")
		defer up.Close()
		up.Default(ut.RawStream(chatA).At(1, ut.Pings(50*time.Millisecond, 40)).Stall())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		resp, err := up.RoundTripper().RoundTrip(newRequest(t, ctx, up.URL, strings.NewReader(ask("m", true))))
		require.NoError(t, err)
		b, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, chatA+strings.Repeat(": ping\n\n", 40), string(b))
		assert.Equal(t, time.Minute, time.Since(start))
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 1, up.Aborted())
	})
}

func TestMemoryCancelWithoutReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := ut.NewInMemory("")
		defer up.Close()
		up.Default(ut.RawStream(chatA).Stall())
		ctx, cancel := context.WithCancelCause(t.Context())
		resp, err := up.RoundTripper().RoundTrip(newRequest(t, ctx, up.URL, strings.NewReader(ask("m", true))))
		require.NoError(t, err)
		cause := errors.New("cause")
		cancel(cause)
		synctest.Wait()
		assert.Equal(t, 1, up.Aborted())
		_, err = resp.Body.Read(make([]byte, 1))
		require.ErrorIs(t, err, cause)
		require.NoError(t, resp.Body.Close())
		_, err = resp.Body.Read(make([]byte, 1))
		require.ErrorIs(t, err, http.ErrBodyReadAfterClose)
		assert.Equal(t, 1, up.Aborted())
	})
}

func TestMemoryCloseUnblocksRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, whole := range []bool{false, true} { // the body or the upstream
			up := ut.NewInMemory("")
			up.Default(ut.RawStream(chatA).Stall())
			resp, err := up.RoundTripper().RoundTrip(newRequest(t, t.Context(), up.URL, strings.NewReader(ask("m", true))))
			require.NoError(t, err)
			got := make(chan error, 1)
			go func() {
				_, err := io.ReadAll(resp.Body)
				got <- err
			}()
			synctest.Wait()
			if whole {
				up.Close()
				require.ErrorIs(t, <-got, io.ErrUnexpectedEOF)
				require.NoError(t, resp.Body.Close())
			} else {
				require.NoError(t, resp.Body.Close())
				require.ErrorIs(t, <-got, http.ErrBodyReadAfterClose)
				assert.Equal(t, 1, up.Aborted())
				up.Close()
			}
		}
	})
}

// body notes whether it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

func TestMemoryKeepsTheRoundTripperContract(t *testing.T) {
	up := ut.NewInMemory("")
	defer up.Close()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := ut.NewInMemory("down")
	defer stopped.Close()
	stopped.Stop()
	closed := ut.NewInMemory("")
	closed.Close()
	broken := errors.New("broken")
	tests := map[string]struct {
		up   *ut.Upstream
		ctx  context.Context
		in   io.Reader
		size int64
		want error
	}{
		"good":      {up, t.Context(), strings.NewReader("{}"), 2, nil},
		"cancelled": {up, cancelled, strings.NewReader("{}"), 2, context.Canceled},
		"stopped":   {stopped, t.Context(), strings.NewReader("{}"), 2, syscall.ECONNREFUSED},
		"closed":    {closed, t.Context(), strings.NewReader("{}"), 2, syscall.ECONNREFUSED},
		"broken":    {up, t.Context(), io.MultiReader(strings.NewReader("{"), errReader{broken}), 2, broken},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := &body{Reader: tt.in}
			req := newRequest(t, tt.ctx, tt.up.URL, b)
			req.ContentLength = tt.size
			resp, err := tt.up.RoundTripper().RoundTrip(req)
			assert.True(t, b.closed)
			if tt.want != nil {
				require.ErrorIs(t, err, tt.want)
				require.Nil(t, resp)
				return
			}
			require.NoError(t, err)
			assert.Same(t, req, resp.Request)
			require.NoError(t, resp.Body.Close())
		})
	}
	assert.Equal(t, 1, up.Count())
	assert.Equal(t, 1, up.Partial())

	req := newRequest(t, t.Context(), up.URL, &body{Reader: strings.NewReader("short")})
	req.ContentLength = 80
	_, err := up.RoundTripper().RoundTrip(req) //nolint:bodyclose // there is no response
	require.ErrorContains(t, err, "ContentLength=80 with Body length 5")

	require.NoError(t, stopped.Start())
	resp, err := stopped.RoundTripper().RoundTrip(newRequest(t, t.Context(), stopped.URL, nil))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestMemoryCancelWhileSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := ut.NewInMemory("")
		defer up.Close()
		pr, _ := io.Pipe() // nobody ever writes
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := up.RoundTripper().RoundTrip(newRequest(t, ctx, up.URL, pr)) //nolint:bodyclose // there is no response
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 1, up.Partial())
	})
}

func TestMemoryTrace(t *testing.T) {
	up := ut.NewInMemory("")
	defer up.Close()
	var calls []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GetConn:              func(string) { calls = append(calls, "get") },
		GotConn:              func(httptrace.GotConnInfo) { calls = append(calls, "got") },
		WroteHeaders:         func() { calls = append(calls, "headers") },
		WroteRequest:         func(i httptrace.WroteRequestInfo) { calls = append(calls, "wrote") },
		GotFirstResponseByte: func() { calls = append(calls, "first") },
	})
	for range 2 {
		calls = nil
		resp, err := up.RoundTripper().RoundTrip(newRequest(t, ctx, up.URL, strings.NewReader("{}")))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, []string{"get", "got", "headers", "wrote", "first"}, calls)
		up.Default(ut.Raw(func(http.ResponseWriter, *http.Request) {}))
	}
	up.Stop()
	calls = nil
	_, err := up.RoundTripper().RoundTrip(newRequest(t, ctx, up.URL, nil)) //nolint:bodyclose // there is no response
	require.Error(t, err)
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	assert.Equal(t, "dial", op.Op)
	assert.Equal(t, []string{"get"}, calls)
}

func TestMemoryLegacyCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := ut.NewInMemory("")
		defer up.Close()
		up.Default(ut.Silence())
		cancel := make(chan struct{})
		req := newRequest(t, t.Context(), up.URL, strings.NewReader("{}"))
		req.Cancel = cancel //nolint:staticcheck // deprecated and still obeyed
		time.AfterFunc(time.Second, func() { close(cancel) })
		_, err := up.RoundTripper().RoundTrip(req) //nolint:bodyclose // there is no response
		require.ErrorContains(t, err, "request canceled")
		assert.Equal(t, 1, up.Aborted())
	})
}

func TestMemoryGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := ut.NewInMemory("")
		defer up.Close()
		gate := make(chan struct{})
		time.AfterFunc(time.Hour, func() { close(gate) })
		up.Default(ut.RawStream(chatA, chatB).Hold(gate).At(1, ut.Wait(time.Second)))
		start := time.Now()
		resp, err := up.Client().Post(up.URL+chatPath, "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, time.Hour+time.Second, time.Since(start))
	})
}

func TestMemoryVerbatimGarbage(t *testing.T) {
	up := ut.NewInMemory("")
	defer up.Close()
	for _, step := range []ut.Step{ut.RawConn("no HTTP\r\n\r\n"), ut.RawConn("HTTP/1.1 200"), ut.RawConn("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")} {
		up.Default(step)
		_, err := up.RoundTripper().RoundTrip(newRequest(t, t.Context(), up.URL, nil)) //nolint:bodyclose // there is no response
		require.Error(t, err)
		assert.NotErrorIs(t, err, io.EOF)
	}
	assert.Zero(t, up.InFlight())
	assert.Zero(t, up.Aborted())
}

func TestSwitch(t *testing.T) {
	a, b := ut.NewInMemory("a.test"), ut.NewInMemory("b.test:81")
	defer a.Close()
	defer b.Close()
	client := &http.Client{Transport: ut.Switch(a, b)}
	for _, url := range []string{a.URL, b.URL, b.URL} {
		resp, err := client.Post(url+chatPath, "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	assert.Equal(t, 1, a.Count())
	assert.Equal(t, 2, b.Count())
	in := &body{Reader: strings.NewReader("{}")}
	_, err := client.Transport.RoundTrip(newRequest(t, t.Context(), "http://c.test", in)) //nolint:bodyclose // there is no response
	var dns *net.DNSError
	require.ErrorAs(t, err, &dns)
	assert.True(t, in.closed)
}
