package breaker_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
)

func TestCaseD1_CancelledProbeGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := play(status(500), status(500), status(500), after(time.Hour, status(200)), status(200))
		tr := layer(upstream)
		for range 3 {
			_, _ = do(tr, request(t.Context()))
		}
		require.Equal(t, breaker.Open, own(tr).State)
		time.Sleep(200 * time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		_, err := do(tr, request(ctx))
		require.ErrorIs(t, err, context.Canceled)
		code, err := do(tr, request(t.Context()))
		require.NoError(t, err)
		assert.Equal(t, 200, code)
		assert.EqualValues(t, 5, upstream.calls.Load())
		assert.Equal(t, breaker.Closed, own(tr).State)
	})
}

func TestCaseD1_LostProbeIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := play(status(500), status(500), status(500), after(time.Hour, status(200)), status(200))
		tr := layer(upstream)
		for range 3 {
			_, _ = do(tr, request(t.Context()))
		}
		time.Sleep(200 * time.Millisecond)
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = do(tr, request(t.Context())) })
		synctest.Wait()
		_, err := do(tr, request(t.Context()))
		require.ErrorIs(t, err, breaker.ErrOpen)
		time.Sleep(200 * time.Millisecond)
		_, err = do(tr, request(t.Context()))
		require.NoError(t, err)
		assert.Equal(t, breaker.Closed, own(tr).State)
		wg.Wait()
	})
}

func TestCaseD3_LateResultsChangeNoNewerState(t *testing.T) {
	for name, late := range map[string]baseFunc{"success": status(200), "failure": status(500)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hang := make(chan struct{})
				upstream := play(after(300*time.Millisecond, late), after(600*time.Millisecond, late),
					status(500), status(500), status(500),
					func(req *http.Request) (*http.Response, error) { <-hang; return status(200)(req) })
				tr := layer(upstream)
				var wg sync.WaitGroup
				for range 2 { // end while open and while half-open
					wg.Go(func() { _, _ = do(tr, request(t.Context())) })
					synctest.Wait()
				}
				time.Sleep(150 * time.Millisecond)
				for range 3 {
					_, _ = do(tr, request(t.Context()))
				}
				time.Sleep(150*time.Millisecond + 1) // the first has ended
				_, err := do(tr, request(t.Context()))
				require.ErrorIs(t, err, breaker.ErrOpen)
				assert.Equal(t, 50*time.Millisecond-1, own(tr).RetryAfter)
				assert.EqualValues(t, 5, upstream.calls.Load())
				time.Sleep(100 * time.Millisecond)
				wg.Go(func() { _, _ = do(tr, request(t.Context())) }) // the probe
				synctest.Wait()
				time.Sleep(199 * time.Millisecond) // the second has ended
				_, err = do(tr, request(t.Context()))
				require.ErrorIs(t, err, breaker.ErrOpen)
				assert.Equal(t, breaker.HalfOpen, own(tr).State)
				close(hang)
				wg.Wait()
				assert.Equal(t, breaker.Closed, own(tr).State)
				assert.EqualValues(t, 6, upstream.calls.Load())
			})
		})
	}
}

func TestCaseD4_OneProbeAfterCoolDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := play(status(500), status(500), status(500), after(100*time.Millisecond, status(200)))
		tr := layer(upstream)
		for range 3 {
			_, _ = do(tr, request(t.Context()))
		}
		time.Sleep(200 * time.Millisecond)
		start := time.Now()
		var wg sync.WaitGroup
		var rejected, passed atomic.Int32
		for range 50 {
			wg.Go(func() {
				_, err := do(tr, request(t.Context()))
				if err == nil {
					passed.Add(1)
					return
				}
				assert.ErrorIs(t, err, breaker.ErrOpen)
				assert.Zero(t, time.Since(start))
				rejected.Add(1)
			})
		}
		wg.Wait()
		assert.EqualValues(t, 1, passed.Load())
		assert.EqualValues(t, 49, rejected.Load())
		assert.EqualValues(t, 4, upstream.calls.Load())
		assert.Equal(t, breaker.Closed, own(tr).State)
	})
}

func TestCaseD5_Panics(t *testing.T) {
	boom := func(*http.Request) (*http.Response, error) { panic("boom") }
	stream := func(b *stepBody) baseFunc { return reply(200, "text/event-stream", b) }
	call := func(t *testing.T, tr *breaker.Transport) {
		require.PanicsWithValue(t, "boom", func() { _, _ = do(tr, request(t.Context())) })
	}
	for name, bad := range map[string]baseFunc{
		"transport":    boom,
		"body's Read":  stream(&stepBody{steps: []any{func() { panic("boom") }}}),
		"body's Close": stream(&stepBody{onClose: func() error { panic("boom") }, steps: []any{io.ErrUnexpectedEOF}}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := layer(play(bad))
				tr.OnStateChange = func(string, breaker.State, breaker.State) { panic("hook") }
				tr.Policy.FailureThreshold = 1
				call(t, tr)
				require.Equal(t, breaker.Open, own(tr).State, "while closed")
				time.Sleep(200 * time.Millisecond)
				tr.Base = play(boom)
				call(t, tr)
				require.Equal(t, breaker.Open, own(tr).State, "on a probe")
				assert.Equal(t, 200*time.Millisecond, own(tr).RetryAfter)
				time.Sleep(200 * time.Millisecond)
				tr.Base = play(status(200))
				_, err := do(tr, request(t.Context()))
				require.NoError(t, err, "after one cool-down")
				assert.Equal(t, breaker.Closed, own(tr).State)
			})
		})
	}
	t.Run("Close of an unread body", func(t *testing.T) {
		tr := layer(play(stream(&stepBody{onClose: func() error { panic("boom") }})))
		resp, err := tr.RoundTrip(request(t.Context()))
		require.NoError(t, err)
		require.PanicsWithValue(t, "boom", func() { _ = resp.Body.Close() })
		assert.Equal(t, 1, own(tr).Failures)
	})
}

func TestCaseD6_OneBrokenModelBlocksNoOther(t *testing.T) {
	upstream := baseFunc(func(req *http.Request) (*http.Response, error) {
		if req.Header.Get("Model") == "m1" {
			return status(500)(req)
		}
		return status(200)(req)
	})
	tr := layer(upstream)
	tr.Policy.Scope = breaker.ScopeModel
	tr.Key = func(req *http.Request) string { return req.Header.Get("Model") }
	call := func(model string) (int, error) {
		req := request(t.Context())
		req.Header.Set("Model", model)
		return do(tr, req)
	}
	for i := range 5 {
		_, err := call("m1")
		assert.Equal(t, i >= 3, err != nil)
	}
	_, err := call("m1")
	var open *breaker.OpenError
	require.ErrorAs(t, err, &open)
	assert.Equal(t, "m1", open.Key)
	for _, other := range []string{"m2", ""} {
		code, err := call(other)
		require.NoError(t, err)
		assert.Equal(t, 200, code)
	}
	require.NotNil(t, tr.Peek("m1"))
	require.Nil(t, tr.Peek("m2"))
}

func TestCaseD8_BadRequestsOfOneClient(t *testing.T) {
	for name, row := range map[string]struct {
		codes []int
		want  breaker.State
	}{
		"20 bad requests":              {[]int{400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 200}, breaker.Closed},
		"a 4xx does not wipe failures": {[]int{500, 500, 400, 500}, breaker.Open},
		"a 429 is a failure":           {[]int{500, 500, 429}, breaker.Open},
	} {
		t.Run(name, func(t *testing.T) {
			var steps []baseFunc
			for _, c := range row.codes {
				steps = append(steps, status(c))
			}
			upstream := play(steps...)
			tr := layer(upstream)
			for _, want := range row.codes {
				code, err := do(tr, request(t.Context()))
				require.NoError(t, err)
				require.Equal(t, want, code)
			}
			assert.EqualValues(t, len(row.codes), upstream.calls.Load())
			assert.Equal(t, row.want, own(tr).State)
		})
	}
}

func TestCaseD9_ClientsThatGoAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := layer(play(after(time.Second, status(200))))
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			_, err := do(tr, request(ctx))
			require.ErrorIs(t, err, context.Canceled)
		}
		assert.Zero(t, own(tr).Failures)
		var closed atomic.Int32
		tr.Base = baseFunc(func(req *http.Request) (*http.Response, error) {
			return reply(200, "text/event-stream", &stepBody{
				steps:   []any{"data: {}\n\n", "data: [DONE]\n\n"},
				onClose: func() error { closed.Add(1); return nil },
			})(req)
		})
		for i := range 40 {
			resp, err := tr.RoundTrip(request(t.Context()))
			require.NoError(t, err)
			for range 1 + i%2 { // one chunk, or both but not the EOF
				_, err = resp.Body.Read(make([]byte, 64))
				require.NoError(t, err)
			}
			require.NoError(t, resp.Body.Close())
		}
		assert.EqualValues(t, 40, closed.Load(), "upstream connections released")
		assert.Equal(t, breaker.Closed, own(tr).State)
		assert.Zero(t, own(tr).Failures)
		tr.Base = play(after(time.Second, status(200)))
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			_, err := do(tr, request(ctx))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
		}
		assert.Equal(t, breaker.Open, own(tr).State, "an expired deadline is a failure, whoever set it")
	})
}

// The clock of a synctest bubble cannot be stepped; that every time kept is a
// difference of monotonic readings is what makes steps harmless. The wall clock
// is read for Snapshot.Since alone.
func TestCaseD10_OneRealCoolDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := play(status(500), status(500), status(500), status(200))
		tr := layer(upstream)
		for range 3 {
			_, _ = do(tr, request(t.Context()))
		}
		time.Sleep(200*time.Millisecond - 1)
		_, err := do(tr, request(t.Context()))
		require.ErrorIs(t, err, breaker.ErrOpen)
		time.Sleep(1 * time.Nanosecond)
		_, err = do(tr, request(t.Context()))
		require.NoError(t, err)
	})
}

// The layer over real connections: one that was cancelled while it streamed is
// given back, and the breaker keeps out of a stream's way.
func TestCaseD9_RealSockets(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {}\n\n")
		_ = http.NewResponseController(w).Flush()
	}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	tr := layer(server.Client().Transport)
	get := func(ctx context.Context) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("{}"))
		require.NoError(t, err)
		return tr.RoundTrip(req)
	}
	resp, err := get(t.Context())
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())

	ctx, cancel := context.WithCancel(t.Context())
	resp, err = get(ctx)
	require.NoError(t, err)
	_, err = resp.Body.Read(make([]byte, 64))
	require.NoError(t, err)
	cancel()
	_, err = io.Copy(io.Discard, resp.Body)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, resp.Body.Close())
	assert.Zero(t, own(tr).Failures)

	for limit := 50 * time.Millisecond; ; limit *= 2 { // a busy machine may take longer for the headers
		tr.Reset("")
		ctx, cancel = context.WithTimeout(t.Context(), limit)
		if resp, err = get(ctx); err == nil {
			break
		}
		cancel()
	}
	defer cancel()
	_, err = io.Copy(io.Discard, resp.Body)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 1, own(tr).Failures)
}
