package ending_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience/ending"
)

var _ net.Error = (*ending.TimeoutError)(nil)

func request(t *testing.T, ctx context.Context, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	return req
}

// silent is a net/http transport whose peer accepts and never answers.
func silent(t *testing.T) *http.Transport {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = theirs.Close() })
	go func() { _, _ = io.Copy(io.Discard, theirs) }() // ends with the pipe
	return &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return ours, nil }}
}

func TestTimersOfTheTransport(t *testing.T) {
	t.Run("response headers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tr := silent(t)
			tr.ResponseHeaderTimeout = time.Second
			req := request(t, t.Context(), "http://upstream.invalid")
			_, err := tr.RoundTrip(req) //nolint:bodyclose // it fails
			require.Error(t, err)
			assert.Equal(t, ending.Ending{By: ending.Timer}, ending.Of(req, err))
			assert.Equal(t, ending.Timer, ending.Of(req, fmt.Errorf("wrapped: %w", err)).By)
		})
	})
	t.Run("TLS handshake", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tr := silent(t)
			tr.TLSHandshakeTimeout = time.Second
			req := request(t, t.Context(), "https://upstream.invalid")
			_, err := tr.RoundTrip(req) //nolint:bodyclose // it fails
			require.Error(t, err)
			assert.True(t, ending.SaysTimeout(err))
			assert.Equal(t, ending.Upstream, ending.Of(req, err).By)
			assert.Equal(t, ending.Upstream, ending.Of(req, fmt.Errorf("wrapped: %w", err)).By)
		})
	})
}

func TestErrorsUnderALivingContext(t *testing.T) {
	limit := &ending.TimeoutError{What: "idle_timeout", After: time.Second}
	for name, row := range map[string]struct {
		err  error
		want ending.Ending
	}{
		"none":                        {nil, ending.Ending{}},
		"reset":                       {syscall.ECONNRESET, ending.Ending{}},
		"dial timeout":                {&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, ending.Ending{}},
		"name look-up timeout":        {&net.DNSError{IsTimeout: true}, ending.Ending{}},
		"ETIMEDOUT":                   {os.NewSyscallError("read", syscall.ETIMEDOUT), ending.Ending{}},
		"somebody else's cancel":      {context.Canceled, ending.Ending{}},
		"a deadline of a layer below": {context.DeadlineExceeded, ending.Ending{By: ending.Timer}},
		"a limit of ours":             {fmt.Errorf("x: %w", limit), ending.Ending{By: ending.Timer, Limit: limit}},
		"the request's own fault":     {&ending.RequestError{Err: io.ErrUnexpectedEOF}, ending.Ending{By: ending.Request}},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(t, t.Context(), "http://upstream.invalid")
			assert.Equal(t, row.want, ending.Of(req, row.err))
			assert.Equal(t, row.err, ending.Of(req, row.err).Explain(row.err), "what nobody on this side ended stays")
		})
	}
}

func TestDeadlineCountsByTheClock(t *testing.T) {
	ctx := lateTimer{t.Context()}
	assert.Equal(t, ending.Deadline, ending.Under(ctx, nil, nil).By)
	assert.Equal(t, ending.Deadline, ending.Under(ctx, nil, syscall.ECONNRESET).By)
}

// lateTimer is a context whose deadline has passed and whose timer is late.
type lateTimer struct{ context.Context }

func (lateTimer) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

func TestRequestCancelIsTheCaller(t *testing.T) {
	req := request(t, t.Context(), "http://upstream.invalid")
	cancel := make(chan struct{})
	req.Cancel = cancel //nolint:staticcheck // deprecated, yet still honored by net/http
	assert.Equal(t, ending.Upstream, ending.Of(req, io.EOF).By)
	close(cancel)
	e := ending.Of(req, io.EOF)
	assert.Equal(t, ending.Caller, e.By)
	require.ErrorIs(t, e.Explain(io.EOF), context.Canceled)
}

// Code in the field compares with == and asserts types (contract 10).
func TestWhatTheTransportReturnedComesBackAsItIs(t *testing.T) {
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the user left"))
	op := &net.OpError{Op: "read", Err: context.Canceled}
	for _, err := range []error{context.Canceled, op, &url.Error{Err: context.Canceled}} {
		assert.True(t, ending.Under(canceled, nil, err).Explain(err) == err, "%T", err) //nolint:errorlint // identity is the point
	}
	expired, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	timeout := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	for _, err := range []error{context.DeadlineExceeded, timeout} {
		assert.True(t, ending.Under(expired, nil, err).Explain(err) == err, "%T", err) //nolint:errorlint // identity is the point
	}
}

func TestABareCauseMatchesTheContextAsWell(t *testing.T) {
	cause := errors.New("the user left")
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for _, err := range []error{cause, io.ErrUnexpectedEOF, nil} {
		got := ending.Under(canceled, nil, err).Explain(err)
		require.ErrorIs(t, got, context.Canceled)
		require.ErrorIs(t, got, cause)
		assert.False(t, ending.SaysTimeout(got))
		if err != nil {
			require.ErrorIs(t, got, err)
		}
	}
	expired, stop := context.WithTimeoutCause(t.Context(), 0, cause)
	defer stop()
	for _, err := range []error{cause, io.ErrUnexpectedEOF, nil} {
		got := ending.Under(expired, nil, err).Explain(err)
		require.ErrorIs(t, got, context.DeadlineExceeded)
		require.ErrorIs(t, got, cause)
		assert.True(t, ending.SaysTimeout(got))
	}
}

func TestALimitIsReportedAsItself(t *testing.T) {
	limit := &ending.TimeoutError{What: "attempt_timeout", After: time.Second}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(limit)
	for _, err := range []error{nil, context.Canceled, io.EOF, limit} {
		assert.Equal(t, error(limit), ending.Under(ctx, nil, err).Explain(err))
	}
	assert.EqualError(t, limit, "timed out after 1s (attempt_timeout)")
	require.ErrorIs(t, limit, context.DeadlineExceeded)
}

func TestUnsendable(t *testing.T) {
	for name, spoil := range map[string]func(*http.Request){
		"no URL":       func(r *http.Request) { r.URL = nil },
		"no host":      func(r *http.Request) { r.URL.Host = "" },
		"no scheme":    func(r *http.Request) { r.URL.Scheme = "" },
		"no header":    func(r *http.Request) { r.Header = nil },
		"method":       func(r *http.Request) { r.Method = "BAD METHOD" },
		"header name":  func(r *http.Request) { r.Header["X Bad"] = []string{"a"} },
		"header value": func(r *http.Request) { r.Header.Set("X-User", "a\nb") },
	} {
		req := request(t, t.Context(), "http://127.0.0.1:9")
		spoil(req)
		_, err := http.DefaultTransport.RoundTrip(req) //nolint:bodyclose // it fails
		require.Error(t, err, name)
		assert.Equal(t, ending.Request, ending.Of(req, err).By, name)
	}
	assert.False(t, ending.Unsendable(request(t, t.Context(), "http://upstream.invalid")))
}
