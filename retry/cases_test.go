package retry_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/retry"
)

func TestCaseC1_AbsurdRetryAfter(t *testing.T) {
	for value, want := range map[string]int{
		"86400": 429, "9999999999": 429, "1.001": 429, "Fri, 31 Dec 9999 23:59:59 GMT": 429,
		"-5": 200, "Wed, 21 Oct 1998 07:28:00 GMT": 200, "NaN": 200, "1e400": 200, "": 200, "soon": 200, "0": 200, "0.0": 200, "99999999999999999999": 200,
	} {
		t.Run(value, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // the bubble's clock starts in 2000
				s, rt := newScript(t, status(429, "Retry-After", value), status(200))
				start := time.Now()
				assert.Equal(t, want, send(t, rt, get(t.Context(), t)))
				elapsed := time.Since(start)
				if want == 429 {
					assert.Equal(t, 1, s.count())
					assert.Zero(t, elapsed, "the answer goes back at once")
					return
				}
				assert.Equal(t, 2, s.count())
				assert.GreaterOrEqual(t, elapsed, 9*time.Millisecond, "the own backoff, less a tenth")
				assert.LessOrEqual(t, elapsed, 11*time.Millisecond)
				assert.Zero(t, s.open.Load())
			})
		})
	}
}

func TestCaseC3_WorkersSpread(t *testing.T) {
	for name, row := range map[string]struct {
		first     reply
		low, high time.Duration
	}{
		"asked": {status(429, "Retry-After", "1"), time.Second, 1100 * time.Millisecond},
		"own":   {status(503), 900 * time.Millisecond, 1100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var waits []time.Duration
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() {
						s, rt := newScript(t, row.first, status(200))
						rt.Policy.InitialBackoff, rt.Policy.MaxBackoff = time.Second, 2*time.Second
						assert.Equal(t, 200, send(t, rt, get(t.Context(), t)))
						mu.Lock()
						defer mu.Unlock()
						waits = append(waits, s.times[1].Sub(s.times[0]))
					})
				}
				wg.Wait()
				assert.GreaterOrEqual(t, slices.Min(waits), row.low)
				assert.LessOrEqual(t, slices.Max(waits), row.high)
				assert.Greater(t, slices.Max(waits)-slices.Min(waits), 10*time.Millisecond)
			})
		})
	}
}

// A wish as long as the cap is obeyed, with jitter on top.
func TestServerWaitUpToTheCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newScript(t, status(429, "Retry-After", "1"), status(200))
		rt.Policy.JitterFactor = 1
		assert.Equal(t, 200, send(t, rt, get(t.Context(), t)))
		wait := s.times[1].Sub(s.times[0])
		assert.GreaterOrEqual(t, wait, time.Second)
		assert.LessOrEqual(t, wait, 2*time.Second)
	})
}

func TestCaseC11_Statuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, code := range []int{522, 524} {
			s, rt := newScript(t, status(code), status(200))
			assert.Equal(t, 200, send(t, rt, post(t.Context(), t, "{}")))
			assert.Equal(t, 2, s.count())
		}
		for _, code := range []int{529, 520, 408, 425} {
			s, rt := newScript(t, status(code), status(200))
			assert.Equal(t, code, send(t, rt, post(t.Context(), t, "{}")))
			assert.Equal(t, 1, s.count())
			s, rt = newScript(t, status(code), status(200))
			rt.Policy.RetryOnStatuses = []string{"429", "529", "520", "408", "425"}
			assert.Equal(t, 200, send(t, rt, post(t.Context(), t, "{}")))
			assert.Equal(t, 2, s.count())
		}
		for _, code := range []int{400, 401, 404, 413, 422, 500} {
			s, rt := newScript(t, status(code), status(200))
			assert.Equal(t, code, send(t, rt, post(t.Context(), t, "{}")))
			assert.Equal(t, 1, s.count())
		}
	})
}

func TestCaseC12_CallerGivesUp(t *testing.T) {
	cause := errors.New("user left")
	for name, row := range map[string]struct {
		replies []reply
		count   int
	}{
		"during the wait": {[]reply{status(503)}, 1},
		"in flight":       {[]reply{statusBody(503, "x", "Retry-After-Ms", "20"), hangs}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, rt := newScript(t, row.replies...)
				rt.Policy.InitialBackoff = time.Second
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
				start := time.Now()
				err := fail(t, rt, get(ctx, t))
				assert.Equal(t, 50*time.Millisecond, time.Since(start))
				require.ErrorIs(t, err, context.Canceled)
				time.Sleep(time.Minute)
				assert.Equal(t, row.count, s.count())
				assert.Zero(t, s.open.Load())
			})
		})
	}
}

// The plain cancellation comes back as net/http's own, without decoration.
func TestPlainCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, r := range []reply{status(503), hangs} {
			_, rt := newScript(t, r)
			rt.Policy.InitialBackoff = time.Second
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			assert.Equal(t, context.Canceled, fail(t, rt, get(ctx, t)))
		}
	})
}

func TestCancelChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, r := range []reply{status(503), func(req *http.Request) (*http.Response, error) {
			<-req.Cancel
			return nil, errors.New("net/http: request canceled")
		}} {
			s, rt := newScript(t, r)
			rt.Policy.InitialBackoff = time.Second
			cancel := make(chan struct{})
			time.AfterFunc(time.Millisecond, func() { close(cancel) })
			req := get(t.Context(), t)
			req.Cancel = cancel //nolint:staticcheck // deprecated, but what http.Client.Timeout sets
			require.ErrorIs(t, fail(t, rt, req), context.Canceled)
			assert.Equal(t, 1, s.count())
			assert.Zero(t, s.open.Load())
		}
	})
}

func TestCaseC14_AttemptsDoNotMultiply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const header = "X-Should-Retry"
		try := func(rt *retry.Transport) *http.Response {
			resp, err := rt.RoundTrip(get(t.Context(), t))
			finish(t, resp, err)
			return resp
		}
		// (i) The last answer tells the SDK to stop.
		s, rt := newScript(t, status(429))
		assert.Equal(t, []string{"false"}, try(rt).Header[header])
		assert.Equal(t, 3, s.count())
		// Also where the upstream says the contrary.
		s, rt = newScript(t, status(429, header, "true"))
		assert.Equal(t, []string{"false"}, try(rt).Header[header])
		assert.Equal(t, 3, s.count())
		// It can be switched off.
		s, rt = newScript(t, status(429))
		rt.KeepShouldRetry = true
		assert.Empty(t, try(rt).Header[header])
		assert.Equal(t, 3, s.count())
		// (ii) One attempt, no word.
		s, rt = newScript(t, status(429))
		rt.Policy.MaxRetries = 0
		assert.Empty(t, try(rt).Header[header])
		assert.Equal(t, 1, s.count())
		// (iii) The upstream's own word.
		for _, code := range []int{500, 503} {
			s, rt = newScript(t, status(code, header, "false"))
			try(rt)
			assert.Equal(t, 1, s.count())
		}
		for _, code := range []int{400, 409, 500} {
			s, rt = newScript(t, status(code, header, "True"), status(200))
			assert.Equal(t, 200, try(rt).StatusCode)
			assert.Equal(t, 2, s.count())
		}
		for _, value := range []string{"", "no", "1"} {
			s, rt = newScript(t, status(500, header, value))
			try(rt)
			assert.Equal(t, 1, s.count(), value)
		}
		s, rt = newScript(t, status(200, header, "true"))
		assert.Equal(t, 200, try(rt).StatusCode)
		assert.Equal(t, 1, s.count(), "a success is not asked for again")
		s, rt = newScript(t, func(r *http.Request) (*http.Response, error) {
			resp, err := status(503)(r)
			resp.Header, resp.Body = nil, http.NoBody
			return resp, err
		})
		assert.Equal(t, []string{"false"}, try(rt).Header[header])
		assert.Equal(t, 3, s.count())
	})
}

// No wait starts that the deadline cannot outlive.
func TestDeadlineGivesTheAnswerBack(t *testing.T) {
	for name, row := range map[string]struct {
		reply reply
		count int
	}{
		"own":    {status(503), 2}, // 10 ms fit into 25, 20 more do not
		"asked":  {status(503, "Retry-After", "0.03"), 1},
		"exact":  {status(503, "Retry-After", "0.025"), 1},
		"fits":   {status(503, "Retry-After", "0.024"), 2},
		"failed": {fails(errReset), 2},
	} {
		for _, limit := range []bool{false, true} { // of a layer above, in place of a deadline
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, rt := newScript(t, row.reply)
					rt.Policy.MaxRetries = 5
					ctx, end := t.Context(), time.Now().Add(25*time.Millisecond)
					if limit {
						l := layer.NewLimit(ctx, time.Until(end), errors.New("too late"))
						defer l.Release()
						ctx = l
					} else {
						var cancel func()
						ctx, cancel = context.WithDeadline(ctx, end)
						defer cancel()
					}
					resp, err := rt.RoundTrip(get(ctx, t))
					assert.True(t, time.Now().Before(end))
					assert.Equal(t, row.count, s.count())
					if name == "failed" {
						assert.Equal(t, errReset, err)
						return
					}
					code, body := finish(t, resp, err)
					assert.Equal(t, 503, code)
					assert.Equal(t, "Service Unavailable", body)
				})
			})
		}
	}
}
