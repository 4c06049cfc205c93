package retry_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/retry"
)

// endless is a body that never ends, and counts what was taken from it.
type endless struct{ read int }

func (b *endless) Read(p []byte) (int, error) { b.read += len(p); return len(p), nil }
func (b *endless) Close() error               { return nil }

// hanging is a body that says nothing after its first bytes until it is closed.
func hanging(first string) io.ReadCloser {
	r, w := io.Pipe()
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(first), r), closer(func() { _ = r.Close(); _ = w.Close() })}
}

type closer func()

func (c closer) Close() error { c(); return nil }

func TestDroppedAnswersAreDrainedWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := &endless{}
		tail := strings.NewReader(strings.Repeat("x", 64<<10))
		s, rt := newScript(t, streaming(503, long), streaming(503, hanging("begin")), streaming(503, io.NopCloser(tail)), status(200))
		rt.Policy.MaxRetries = 3
		rt.OnRetry = func(_ *http.Request, a retry.Attempt, _ time.Duration) {
			assert.EqualValues(t, 1, s.open.Load(), "attempt %d", a.Number)
		}
		open := []int64{}
		inner := rt.Base
		rt.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
			open = append(open, s.open.Load())
			return inner.RoundTrip(req)
		})
		start := time.Now()
		assert.Equal(t, 200, send(t, rt, get(t.Context(), t)))
		assert.Equal(t, []int64{0, 0, 0, 0}, open, "closed before the next attempt")
		assert.Less(t, time.Since(start), 400*time.Millisecond)
		assert.LessOrEqual(t, long.read, 128<<10+1)
		assert.Zero(t, tail.Len(), "read to its end")
	})
}

// A drain does not delay the attempt more than it must, and never past the time
// that is left.
func TestDrainRunsWithinTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newScript(t, streaming(503, hanging("x"), "Retry-After", "1"), status(200))
		rt.Policy.JitterFactor = 0
		assert.Equal(t, 200, send(t, rt, get(t.Context(), t)))
		assert.Equal(t, time.Second, s.times[1].Sub(s.times[0]))

		s, rt = newScript(t, streaming(503, hanging("x")), status(200))
		rt.Policy.JitterFactor = 0
		l := layer.NewLimit(t.Context(), 30*time.Millisecond, errors.New("too late"))
		defer l.Release()
		assert.Equal(t, 200, send(t, rt, get(l, t)))
		assert.Equal(t, 20*time.Millisecond, s.times[1].Sub(s.times[0]))
	})
}

// An answer that goes back in the end goes back whole, whatever part of it was
// looked at.
func TestJudgeKeepsTheAnswerWhole(t *testing.T) {
	for _, size := range []int{0, 1, 511, 512, 513, 5000, 64<<10 - 1, 64 << 10, 64<<10 + 1, 200 << 10} {
		body := strings.Repeat("0123456789abcdef", size/16+1)[:size]
		for name, r := range map[string]reply{
			"length":   statusBody(429, body),
			"chunked":  streaming(429, io.NopCloser(strings.NewReader(body))),
			"bytewise": streaming(429, io.NopCloser(iotest.HalfReader(strings.NewReader(body)))),
			"data+EOF": streaming(429, io.NopCloser(iotest.DataErrReader(strings.NewReader(body)))),
		} {
			s, rt := newScript(t, r)
			rt.Judge = func(_ *http.Request, resp *http.Response, head []byte) retry.Advice {
				assert.Equal(t, 429, resp.StatusCode)
				assert.Equal(t, body[:min(size, 64<<10)], string(head), "%s %d", name, size)
				return retry.Advice{Stop: true}
			}
			resp, err := rt.RoundTrip(get(t.Context(), t))
			code, got := finish(t, resp, err)
			assert.Equal(t, 429, code)
			assert.True(t, body == got, "%s %d", name, size)
			assert.Equal(t, 1, s.count())
			assert.Empty(t, resp.Header["X-Should-Retry"], "there was no retry")
			assert.Zero(t, s.open.Load())
		}
	}
}

func TestJudgeAsksForAWait(t *testing.T) {
	for name, row := range map[string]struct {
		header string
		advice time.Duration
		want   time.Duration // of the wait; 0: goes back
	}{
		"body alone":     {"", 300 * time.Millisecond, 300 * time.Millisecond},
		"longer counts":  {"0.2", 300 * time.Millisecond, 300 * time.Millisecond},
		"header longer":  {"0.4", 300 * time.Millisecond, 400 * time.Millisecond},
		"over the cap":   {"", time.Second + 1, 0},
		"at the cap":     {"", time.Second, time.Second},
		"negative":       {"", -time.Second, 10 * time.Millisecond},
		"tiny":           {"", 1, 10 * time.Millisecond},
		"nothing at all": {"", 0, 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, rt := newScript(t, statusBody(429, "a body", "Retry-After", row.header), status(200))
				rt.Policy.JitterFactor = 0
				rt.Judge = func(*http.Request, *http.Response, []byte) retry.Advice { return retry.Advice{Wait: row.advice} }
				resp, err := rt.RoundTrip(get(t.Context(), t))
				code, body := finish(t, resp, err)
				if row.want == 0 {
					assert.Equal(t, 429, code)
					assert.Equal(t, "a body", body)
					assert.Equal(t, 1, s.count())
					return
				}
				assert.Equal(t, 200, code)
				assert.Equal(t, row.want, s.times[1].Sub(s.times[0]))
			})
		})
	}
}

// Judge is asked about what would be retried, nothing else is read.
func TestJudgeIsAskedOnlyWhereItMatters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, row := range map[string]struct {
			reply reply
			asked int
		}{
			"success":   {status(200), 0},
			"not ours":  {status(400), 0},
			"too long":  {status(429, "Retry-After", "3600"), 0},
			"forbidden": {status(429, "X-Should-Retry", "false"), 0},
			"retried":   {status(429), 2}, // not the last one, which goes back anyway
			"failed":    {fails(errReset), 0},
		} {
			_, rt := newScript(t, row.reply)
			asked := 0
			rt.Judge = func(*http.Request, *http.Response, []byte) retry.Advice { asked++; return retry.Advice{} }
			resp, err := rt.RoundTrip(get(t.Context(), t))
			if resp != nil {
				finish(t, resp, err)
			}
			assert.Equal(t, row.asked, asked, name)
		}
	})
}

// A head that hangs is given up, and the answer goes back at once; what it says
// later still comes, whole (contract 3).
func TestJudgeAndAHangingBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		s, rt := newScript(t, streaming(429, io.NopCloser(io.MultiReader(strings.NewReader("begin"), r))))
		rt.Judge = func(_ *http.Request, _ *http.Response, head []byte) retry.Advice {
			assert.Equal(t, "begin", string(head))
			return retry.Advice{Stop: true}
		}
		start := time.Now()
		resp, err := rt.RoundTrip(get(t.Context(), t))
		require.NoError(t, err)
		assert.Equal(t, 500*time.Millisecond, time.Since(start))
		go func() {
			time.Sleep(time.Hour)
			_, _ = io.WriteString(w, " and end")
			_ = w.Close()
		}()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "begin and end", string(body))
		require.NoError(t, resp.Body.Close())
		assert.Zero(t, s.open.Load())

		// Nobody has to read it to its end.
		s, rt = newScript(t, streaming(429, hanging("begin")))
		rt.Judge = func(*http.Request, *http.Response, []byte) retry.Advice { return retry.Advice{Stop: true} }
		resp, err = rt.RoundTrip(get(t.Context(), t))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Zero(t, s.open.Load())

		// Where it is dropped, the retry goes on.
		s, rt = newScript(t, streaming(429, hanging("begin")), status(200))
		rt.Judge = func(*http.Request, *http.Response, []byte) retry.Advice { return retry.Advice{} }
		assert.Equal(t, 200, send(t, rt, get(t.Context(), t)))
		assert.Zero(t, s.open.Load())
	})
}

// The body's own error survives being looked at.
func TestJudgeAndABrokenBody(t *testing.T) {
	_, rt := newScript(t, streaming(429, io.NopCloser(io.MultiReader(bytes.NewReader([]byte("begin")), iotest.ErrReader(errReset)))))
	rt.Judge = func(*http.Request, *http.Response, []byte) retry.Advice { return retry.Advice{Stop: true} }
	resp, err := rt.RoundTrip(get(t.Context(), t))
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	assert.Equal(t, "begin", string(body))
	require.ErrorIs(t, err, errReset)
	require.NoError(t, resp.Body.Close())
}

// declared is a body whose io.EOF comes with a Read of its own, and hangs.
type declared struct {
	left  string
	reads int
}

func (b *declared) Read(p []byte) (int, error) {
	b.reads++
	if b.left == "" {
		select {} // the answer is all there: nobody needs to wait for its end
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}
func (b *declared) Close() error { return nil }

// An answer that was looked at whole, by its declared length, is dropped
// without another Read (RFC 9112 §6.2).
func TestDroppedAnswerOfDeclaredLengthIsNotReadOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := &declared{left: `{"error":{}}`}
		bad := func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503, Header: http.Header{}, Body: body, ContentLength: 12, Request: req}, nil
		}
		_, rt := newScript(t, bad, status(200))
		var seen string
		rt.Judge = func(_ *http.Request, _ *http.Response, head []byte) retry.Advice {
			seen = string(head)
			return retry.Advice{}
		}
		rt.Policy.JitterFactor = 0
		start := time.Now()
		assert.Equal(t, 200, send(t, rt, get(t.Context(), t)))
		assert.Equal(t, `{"error":{}}`, seen)
		assert.Equal(t, 1, body.reads)
		assert.Equal(t, 10*time.Millisecond, time.Since(start), "the backoff and nothing else")
	})
}
