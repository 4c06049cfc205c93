package resilience_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// http2Server is a server that speaks HTTP/2, with a transport of its own.
func http2Server(t *testing.T, h http.HandlerFunc) (url string, base *http.Transport) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, s.Client().Transport.(*http.Transport)
}

// HTTP/2 makes an error of its own of a body that is longer than it says, in
// place of the one that the body's Read returned.
func TestABodyOfAnotherLengthOverHTTP2IsNobodysFailure(t *testing.T) {
	t.Parallel()
	url, base := http2Server(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			_, _ = io.WriteString(w, okJSON)
		}
	})
	const big = 5 << 20
	for name, c := range map[string]struct {
		path    string
		is, say int64
	}{
		"longer":                  {"/upload", 6, 5},
		"shorter":                 {"/upload", 5, 6},
		"large, longer":           {"/v1/chat/completions", big + 1, big},
		"large, much longer":      {"/v1/chat/completions", big, big - 100_000},
		"large, longer than read": {"/v1/chat/completions", big, 100},
		"large, shorter":          {"/v1/chat/completions", big, big + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := func() io.ReadCloser {
				return plainReader{io.NopCloser(strings.NewReader(strings.Repeat("x", int(c.is))))}
			}
			tr, rec := build(t, base, quick())
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+c.path, open())
			require.NoError(t, err)
			req.Header.Set("Idempotency-Key", "k")
			req.ContentLength = c.say
			req.GetBody = func() (io.ReadCloser, error) { return open(), nil }
			_, _, err = do(t, tr, req)
			var fault *ending.RequestError
			require.ErrorAs(t, err, &fault)
			assert.Len(t, rec.last(t).Attempts, 1)
			assert.Zero(t, tr.Breakers()[0].Failures)
		})
	}
}

// stuckBody is a body whose Read waits for its Close.
type stuckBody struct {
	once   sync.Once
	closed chan struct{}
}

func newStuckBody() *stuckBody { return &stuckBody{closed: make(chan struct{})} }

func (s *stuckBody) Read([]byte) (int, error) { <-s.closed; return 0, io.ErrClosedPipe }
func (s *stuckBody) Close() error             { s.once.Do(func() { close(s.closed) }); return nil }

// The time limit of a call holds while the caller's body comes in, too
// (contract 1). Nothing was sent, so that no breaker counts it (contract 4).
func TestTheTimeLimitOfACallHoldsForItsBody(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]func() io.ReadCloser{
		"a body that blocks": func() io.ReadCloser { return newStuckBody() },
		"a body that takes its time": func() io.ReadCloser {
			n := 0
			return io.NopCloser(readerFunc(func(p []byte) (int, error) {
				if n++; n > 4 {
					return 0, io.EOF
				}
				time.Sleep(100 * time.Millisecond)
				return copy(p, " "), nil
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := quick()
				p.Timeout = 300 * time.Millisecond
				base := play(reply{status: 200, body: okJSON})
				tr, rec := build(t, base, p)
				req := chat(t, t.Context(), "")
				req.Body, req.GetBody, req.ContentLength = body(), nil, -1
				start := time.Now()
				_, _, err := do(t, tr, req)
				require.Error(t, err)
				assert.Equal(t, http.StatusGatewayTimeout, resilience.StatusOf(err))
				assert.LessOrEqual(t, time.Since(start), 400*time.Millisecond)
				assert.Equal(t, resilience.OutcomeTimeout, rec.last(t).Outcome)
				assert.Zero(t, base.count())
				assert.Zero(t, tr.Breakers()[0].Failures)
			})
		})
	}
}

// A copy from GetBody is read before it is sent, which must not outlive the call.
func TestACopyOfTheBodyThatBlocksEndsWithTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := play(reply{status: 503, body: "{}"}, reply{status: 200, body: okJSON})
		tr, _ := build(t, base, quick())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req := chat(t, ctx, "")
		req.Body = io.NopCloser(io.LimitReader(readerFunc(func(p []byte) (int, error) { return len(p), nil }), 5<<20))
		req.ContentLength = 5 << 20
		req.GetBody = func() (io.ReadCloser, error) { return newStuckBody(), nil }
		start := time.Now()
		_, _, err := do(t, tr, req)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start))
		assert.Equal(t, 1, base.count())
	})
}
