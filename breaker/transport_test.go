package breaker_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

type baseFunc func(*http.Request) (*http.Response, error)

func (b baseFunc) RoundTrip(req *http.Request) (*http.Response, error) { return b(req) }

// A script is an in-memory upstream: it plays its steps, the last one for good.
type script struct {
	steps []baseFunc
	calls atomic.Int32
}

func (u *script) RoundTrip(req *http.Request) (*http.Response, error) {
	i := int(u.calls.Add(1)) - 1
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	return u.steps[min(i, len(u.steps)-1)](req)
}

func play(steps ...baseFunc) *script { return &script{steps: steps} }

func status(code int) baseFunc { return reply(code, "application/json", strings.NewReader("{}")) }

func reply(code int, contentType string, body io.Reader) baseFunc {
	return func(req *http.Request) (*http.Response, error) {
		rc, ok := body.(io.ReadCloser)
		if !ok {
			rc = io.NopCloser(body)
		}
		return &http.Response{
			StatusCode: code, Request: req, Body: rc,
			Header: http.Header{"Content-Type": {contentType}},
		}, nil
	}
}

func fail(err error) baseFunc {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// after answers late, or with the context's error if that is first.
func after(d time.Duration, then baseFunc) baseFunc {
	return func(req *http.Request) (*http.Response, error) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return then(req)
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
}

func layer(base http.RoundTripper) *breaker.Transport {
	return &breaker.Transport{Base: base, Provider: "acme", Policy: smallPolicy()}
}

func request(ctx context.Context) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://acme.test/v1/chat/completions", strings.NewReader("{}"))
	if err != nil {
		panic(err)
	}
	return req
}

// do makes one call and reads the answer to its end.
func do(rt http.RoundTripper, req *http.Request) (int, error) {
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

func own(tr *breaker.Transport) breaker.Snapshot { return tr.Breakers()[0] }

var errReset = errors.New("connection reset by peer")

func TestJudgedByStatus(t *testing.T) {
	for name, row := range map[string]struct {
		list  []string
		code  int
		want  breaker.Verdict
		probe breaker.Verdict
	}{
		"200":                  {nil, 200, s, s},
		"299":                  {nil, 299, s, s},
		"302":                  {nil, 302, s, s},
		"304":                  {nil, 304, s, s},
		"400":                  {nil, 400, n, s},
		"404":                  {nil, 404, n, s},
		"429 by default":       {nil, 429, f, f},
		"500":                  {nil, 500, f, f},
		"599":                  {nil, 599, f, f},
		"101":                  {nil, 101, n, s},
		"no known class":       {nil, 999, n, s},
		"600":                  {nil, 600, n, s},
		"0":                    {nil, 0, n, s},
		"empty list, 500":      {[]string{}, 500, n, s},
		"empty list, 429":      {[]string{}, 429, n, s},
		"listed 404":           {[]string{"404"}, 404, f, f},
		"500 not listed":       {[]string{"404"}, 500, n, s},
		"listed class":         {[]string{"4xx"}, 418, f, f},
		"a listed 200 as well": {[]string{"200"}, 200, f, f},
	} {
		t.Run(name, func(t *testing.T) {
			tr := layer(play(status(row.code)))
			tr.Policy.FailureOnStatuses = row.list
			assert.Equal(t, row.want, tr.JudgeStatus(row.code, false))
			assert.Equal(t, row.probe, tr.JudgeStatus(row.code, true))
			one := layer(play(status(500), status(row.code)))
			if row.list != nil {
				one = layer(play(fail(errReset), status(row.code)))
			}
			one.Policy.FailureOnStatuses = row.list
			for range 2 {
				_, _ = do(one, request(t.Context()))
			}
			want := map[breaker.Verdict]int{n: 1, s: 0, f: 2}[row.want]
			assert.Equal(t, want, own(one).Failures)
		})
	}
}

func TestUnlistedStatusOnProbeIsGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := layer(play(status(404)))
		tr.ForceOpen("", time.Second)
		time.Sleep(time.Second)
		code, err := do(tr, request(t.Context()))
		require.NoError(t, err)
		assert.Equal(t, 404, code)
		assert.Equal(t, breaker.Closed, own(tr).State)
	})
}

type timeoutError struct{}

func (timeoutError) Error() string { return "timer" }
func (timeoutError) Timeout() bool { return true }

func TestJudgedByContext(t *testing.T) {
	for name, row := range map[string]struct {
		call func(ctx context.Context, tr *breaker.Transport)
		want int // failures
	}{
		"transport failure": {func(ctx context.Context, tr *breaker.Transport) {
			tr.Base = play(fail(errReset))
			_, _ = do(tr, request(ctx))
		}, 1},
		"an error that only says canceled": {func(ctx context.Context, tr *breaker.Transport) {
			tr.Base = play(fail(context.Canceled))
			_, _ = do(tr, request(ctx))
		}, 1},
		"cancelled by the caller": {func(ctx context.Context, tr *breaker.Transport) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			_, _ = do(tr, request(ctx))
		}, 0},
		"cancelled with a cause": {func(ctx context.Context, tr *breaker.Transport) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(errReset) })
			_, _ = do(tr, request(ctx))
		}, 0},
		"cancelled by a timer of ours": {func(ctx context.Context, tr *breaker.Transport) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(&ending.TimeoutError{What: "timeout"}) })
			_, _ = do(tr, request(ctx))
		}, 1},
		"cancelled with a cause that calls itself a timeout": {func(ctx context.Context, tr *breaker.Transport) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(timeoutError{}) })
			_, _ = do(tr, request(ctx))
		}, 0},
		"deadline": {func(ctx context.Context, tr *breaker.Transport) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, _ = do(tr, request(ctx))
		}, 1},
		"cancelled, the deadline far off": {func(ctx context.Context, tr *breaker.Transport) {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			time.AfterFunc(time.Second, cancel)
			_, _ = do(tr, request(ctx))
		}, 0},
		"req.Cancel": {func(ctx context.Context, tr *breaker.Transport) {
			tr.Base = play(fail(errReset))
			req, done := request(ctx), make(chan struct{})
			req.Cancel = done
			close(done)
			_, _ = do(tr, req)
		}, 0},
		"req.Cancel left open": {func(ctx context.Context, tr *breaker.Transport) {
			tr.Base = play(fail(errReset))
			req := request(ctx)
			req.Cancel = make(chan struct{})
			_, _ = do(tr, req)
		}, 1},
		"cancelled before it was sent": {func(ctx context.Context, tr *breaker.Transport) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			_, _ = do(tr, request(ctx))
		}, 0},
		"deadline passed before it was sent": {func(ctx context.Context, tr *breaker.Transport) {
			ctx, cancel := context.WithTimeout(ctx, 0)
			defer cancel()
			_, _ = do(tr, request(ctx))
		}, 0},
		"rejected further down": {func(ctx context.Context, tr *breaker.Transport) {
			below := layer(nil)
			below.ForceOpen("", time.Hour)
			tr.Base = below
			_, _ = do(tr, request(ctx))
		}, 0},
		"neither response nor error": {func(ctx context.Context, tr *breaker.Transport) {
			tr.Base = play(func(*http.Request) (*http.Response, error) { return nil, nil })
			resp, err := tr.RoundTrip(request(ctx))
			assert.Nil(t, resp)
			assert.ErrorContains(t, err, "neither a response nor an error")
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := layer(play(after(time.Minute, status(200))))
				row.call(t.Context(), tr)
				assert.Equal(t, row.want, own(tr).Failures)
			})
		})
	}
}

// What net/http refuses without a connection says nothing about the upstream.
func TestNeverSentIsNeutral(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"no URL":       func(r *http.Request) { r.URL = nil },
		"no header":    func(r *http.Request) { r.Header = nil },
		"no host":      func(r *http.Request) { r.URL = &url.URL{Scheme: "http", Path: "/"} },
		"no scheme":    func(r *http.Request) { r.URL = &url.URL{Host: "acme.test"} },
		"method":       func(r *http.Request) { r.Method = "B D" },
		"header name":  func(r *http.Request) { r.Header = http.Header{"b d": {"x"}} },
		"header value": func(r *http.Request) { r.Header.Set("X", "a\nb") },
	} {
		t.Run(name, func(t *testing.T) {
			tr := layer(&http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errReset }})
			req := request(t.Context())
			_, err := do(tr, req)
			require.ErrorIs(t, err, errReset)
			require.Equal(t, 1, own(tr).Failures, "a connection refused is a failure")
			req = request(t.Context())
			change(req)
			_, err = do(tr, req)
			require.Error(t, err)
			require.NotErrorIs(t, err, errReset)
			assert.Equal(t, 1, own(tr).Failures, err)
		})
	}
}

// closeSpy is a body that knows whether it was closed.
type closeSpy struct {
	io.Reader
	closed atomic.Int32
}

func (c *closeSpy) Close() error {
	c.closed.Add(1)
	return nil
}

func TestRejection(t *testing.T) {
	upstream := play(status(200))
	tr := layer(upstream)
	tr.ForceOpen("", time.Hour)
	body := &closeSpy{Reader: strings.NewReader("{}")}
	req := request(t.Context())
	req.Body = body
	resp, err := tr.RoundTrip(req)
	require.Nil(t, resp)
	var open *breaker.OpenError
	require.ErrorAs(t, err, &open)
	assert.Equal(t, "acme", open.Provider)
	assert.Equal(t, breaker.Open, open.State)
	assert.InDelta(t, time.Hour, open.RetryAfter, float64(time.Minute))
	require.NotNil(t, tr.Peek(""))
	assert.EqualValues(t, 1, body.closed.Load())
	assert.Zero(t, upstream.calls.Load())
	req = request(t.Context())
	req.Body = nil
	_, err = tr.RoundTrip(req)
	require.ErrorIs(t, err, breaker.ErrOpen)
	tr.Reset("")
	require.Nil(t, tr.Peek(""))
	_, err = do(tr, request(t.Context()))
	require.NoError(t, err)
}

func TestInvalidPolicyNeverReachesUpstream(t *testing.T) {
	upstream := play(status(200))
	tr := layer(upstream)
	tr.Policy.Scope = "galaxy"
	body := &closeSpy{Reader: strings.NewReader("{}")}
	req := request(t.Context())
	req.Body = body
	for range 2 {
		resp, err := tr.RoundTrip(req)
		require.Nil(t, resp)
		require.ErrorContains(t, err, "circuit_breaker.scope")
		require.ErrorContains(t, err, "acme")
	}
	assert.EqualValues(t, 2, body.closed.Load())
	assert.Zero(t, upstream.calls.Load())
	assert.Nil(t, tr.Breakers())
	assert.Nil(t, tr.Peek(""))
	tr.ForceOpen("", time.Hour)
	tr.Reset("")
}

func TestResponseBesideError(t *testing.T) {
	body := &closeSpy{Reader: strings.NewReader("")}
	tr := layer(baseFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: body}, errReset
	}))
	resp, err := tr.RoundTrip(request(t.Context()))
	assert.Nil(t, resp)
	require.ErrorIs(t, err, errReset)
	assert.EqualValues(t, 1, body.closed.Load())
}

// Without a breaker the layer is not there: response and body are the base's.
func TestLayerOff(t *testing.T) {
	want := &http.Response{StatusCode: 200, Body: &closeSpy{}, Header: http.Header{"Content-Type": {"text/event-stream"}}}
	tr := &breaker.Transport{
		Base:  baseFunc(func(*http.Request) (*http.Response, error) { return want, nil }),
		Judge: func(*http.Request, *http.Response, error) breaker.Verdict { t.Error("asked"); return f },
	}
	body := want.Body
	got, err := tr.RoundTrip(request(t.Context()))
	require.NoError(t, err)
	defer got.Body.Close()
	assert.Same(t, want, got)
	assert.Same(t, body, got.Body)
}

// A body in steps: text is read, an error returned, a func run first.
type stepBody struct {
	steps   []any
	onClose func() error
}

func (b *stepBody) Read(p []byte) (int, error) {
	for len(b.steps) > 0 {
		step := b.steps[0]
		b.steps = b.steps[1:]
		switch v := step.(type) {
		case string:
			return copy(p, v), nil
		case error:
			return 0, v
		case func():
			v()
		}
	}
	return 0, io.EOF
}

func (b *stepBody) Close() error {
	if b.onClose != nil {
		return b.onClose()
	}
	return nil
}

func TestStreams(t *testing.T) {
	readAll := func(body io.ReadCloser) {
		_, _ = io.Copy(io.Discard, body)
		_ = body.Close()
	}
	readOne := func(body io.ReadCloser) {
		_, _ = body.Read(make([]byte, 10))
		_ = body.Close()
	}
	for name, row := range map[string]struct {
		kind  string
		code  int
		body  *stepBody
		read  func(io.ReadCloser)
		want  breaker.Verdict
		probe breaker.Verdict
	}{
		"read to the end":             {"text/event-stream", 200, &stepBody{steps: []any{"a", "b"}}, readAll, s, s},
		"NDJSON, parameters, case":    {"Application/X-NDJSON ; charset=utf-8", 200, &stepBody{steps: []any{"a", errReset}}, readAll, f, s},
		"AWS":                         {"application/vnd.amazon.eventstream", 200, &stepBody{steps: []any{"a", errReset}}, readAll, f, s},
		"empty":                       {"text/event-stream", 200, &stepBody{}, readAll, s, s},
		"broken off":                  {"text/event-stream", 200, &stepBody{steps: []any{"a", io.ErrUnexpectedEOF}}, readAll, f, s},
		"broken off before a byte":    {"text/event-stream", 200, &stepBody{steps: []any{errReset}}, readAll, f, f},
		"closed early":                {"text/event-stream", 200, &stepBody{steps: []any{"a", "b"}}, readOne, n, s},
		"closed unread":               {"text/event-stream", 200, &stepBody{steps: []any{"a"}}, func(b io.ReadCloser) { _ = b.Close() }, n, n},
		"not a stream":                {"application/json", 200, &stepBody{steps: []any{"a", errReset}}, readAll, s, s},
		"only like a stream":          {"text/event-streams", 200, &stepBody{steps: []any{"a", errReset}}, readAll, s, s},
		"no type":                     {"", 200, &stepBody{steps: []any{"a", errReset}}, readAll, s, s},
		"a failure is one at once":    {"text/event-stream", 503, &stepBody{steps: []any{"a"}}, readAll, f, f},
		"a 4xx is neutral at once":    {"text/event-stream", 400, &stepBody{steps: []any{errReset}}, readAll, n, s},
		"a wrapped EOF is no end":     {"text/event-stream", 200, &stepBody{steps: []any{"a", errors.Join(errReset, io.EOF)}}, readAll, f, s},
		"never touched, is not known": {"text/event-stream", 200, &stepBody{steps: []any{"a"}}, func(io.ReadCloser) {}, n, n},
	} {
		for _, probe := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", probe", false: ""}[probe], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					body := &stepBody{steps: row.body.steps}
					tr := layer(play(status(500), reply(row.code, row.kind, body)))
					if probe {
						tr.Policy.FailureThreshold = 1
					}
					_, _ = do(tr, request(t.Context()))
					time.Sleep(tr.Policy.Timeout)
					resp, err := tr.RoundTrip(request(t.Context()))
					require.NoError(t, err)
					row.read(resp.Body)
					if probe {
						assert.Equal(t, map[breaker.Verdict]breaker.State{n: breaker.HalfOpen, s: breaker.Closed, f: breaker.Open}[row.probe], own(tr).State)
					} else {
						assert.Equal(t, map[breaker.Verdict]int{n: 1, s: 0, f: 2}[row.want], own(tr).Failures)
					}
				})
			})
		}
	}
}

func TestStreamIsPendingUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := layer(play(status(500), reply(200, "text/event-stream", &stepBody{steps: []any{"a"}})))
		_, _ = do(tr, request(t.Context()))
		resp, err := tr.RoundTrip(request(t.Context()))
		require.NoError(t, err)
		_, err = resp.Body.Read(make([]byte, 1))
		require.NoError(t, err)
		assert.Equal(t, 1, own(tr).Failures)
		_, err = resp.Body.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		assert.Zero(t, own(tr).Failures)
		require.NoError(t, resp.Body.Close())
	})
}

func TestStreamReadErrors(t *testing.T) {
	for name, row := range map[string]struct {
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		want int
	}{
		"cancelled by the caller": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, 1},
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := row.ctx(t.Context())
				defer cancel()
				stall := func() { <-ctx.Done() }
				tr := layer(play(status(500), reply(200, "text/event-stream", &stepBody{steps: []any{"a", stall, context.Canceled}})))
				_, _ = do(tr, request(ctx))
				_, err := do(tr, request(ctx))
				require.Error(t, err)
				assert.Equal(t, row.want, own(tr).Failures)
			})
		})
	}
	t.Run("closed during a read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			closed := make(chan struct{})
			tr := layer(play(reply(200, "text/event-stream", &stepBody{
				steps:   []any{func() { <-closed }, errReset},
				onClose: func() error { close(closed); synctest.Wait(); return nil },
			})))
			resp, err := tr.RoundTrip(request(t.Context()))
			require.NoError(t, err)
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = resp.Body.Read(make([]byte, 1)) })
			synctest.Wait()
			require.NoError(t, resp.Body.Close())
			wg.Wait()
			assert.Zero(t, own(tr).Failures)
		})
	})
}

func TestSlowThroughTheLayer(t *testing.T) {
	for name, row := range map[string]struct {
		answer baseFunc
		want   breaker.State
	}{
		"fast":              {after(time.Second, status(200)), breaker.Closed},
		"slow, delivered":   {after(time.Second+1, status(200)), breaker.Open},
		"slow bad request":  {after(time.Hour, status(400)), breaker.Closed},
		"fast, slowly read": {reply(200, "application/json", &stepBody{steps: []any{func() { time.Sleep(time.Hour) }, "a"}}), breaker.Closed},
		"slow first byte":   {reply(200, "text/event-stream", &stepBody{steps: []any{func() { time.Sleep(time.Second + 1) }, "a"}}), breaker.Open},
		"long stream":       {reply(200, "text/event-stream", &stepBody{steps: []any{"a", func() { time.Sleep(time.Hour) }, "b"}}), breaker.Closed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := layer(play(row.answer))
				tr.Policy.FailureThreshold, tr.Policy.SlowCallThreshold = 1, time.Second
				code, err := do(tr, request(t.Context()))
				require.NoError(t, err)
				assert.NotZero(t, code, "the answer is delivered")
				assert.Equal(t, row.want, own(tr).State)
			})
		})
	}
}

// owner is what stands above a layer and settles its call.
type owner struct {
	key     string
	permit  breaker.Permit
	pending bool
}

func (o *owner) call(*http.Request) breaker.Call { return o }

func (o *owner) Key() string                 { return o.key }
func (o *owner) Permit() *breaker.Permit     { return &o.permit }
func (o *owner) Pending(*http.Response) bool { return o.pending }

func TestJudgeFunc(t *testing.T) {
	verdict := breaker.Failure
	upstream := play(reply(200, "text/event-stream", &stepBody{}))
	tr := layer(upstream)
	tr.Judge = func(_ *http.Request, resp *http.Response, err error) breaker.Verdict {
		assert.Equal(t, 200, resp.StatusCode)
		assert.NoError(t, err)
		return verdict
	}
	call := func() *http.Response {
		resp, err := tr.RoundTrip(request(t.Context()))
		require.NoError(t, err)
		return resp
	}
	resp := call()
	assert.Equal(t, 1, own(tr).Failures, "its verdict is final, even for a stream")
	assert.IsType(t, &stepBody{}, resp.Body)
	_ = resp.Body.Close()
	verdict = breaker.Pending
	_ = call().Body.Close()
	assert.Equal(t, 1, own(tr).Failures, "nobody could settle it")
	verdict = breaker.Success
	_ = call().Body.Close()
	assert.Zero(t, own(tr).Failures)
	tr.Base = baseFunc(func(*http.Request) (*http.Response, error) { panic("below") })
	require.PanicsWithValue(t, "below", func() { call() })
	assert.Equal(t, 1, own(tr).Failures)
}

func TestCallOwnsItsPermit(t *testing.T) {
	o := &owner{key: "m", pending: true}
	tr := layer(play(reply(200, "text/event-stream", &stepBody{}), status(500)))
	tr.Policy.Scope, tr.Call = breaker.ScopeModel, o.call
	tr.Key = func(*http.Request) string { t.Error("Key was asked"); return "" }
	tr.Judge = func(*http.Request, *http.Response, error) breaker.Verdict { t.Error("Judge was asked"); return f }
	failures := func() int { return tr.Breakers()[1].Failures }
	call := func() *http.Response {
		resp, err := tr.RoundTrip(request(t.Context()))
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp
	}
	assert.IsType(t, &stepBody{}, call().Body, "no wrapper where the owner settles")
	assert.False(t, o.permit.Settled())
	o.permit.Settle(f)
	assert.Equal(t, 1, failures())
	call()
	assert.True(t, o.permit.Settled(), "a failure by its status is never pending")
	assert.Equal(t, 2, failures())
	o.pending = false
	tr.Base = play(status(200))
	call()
	assert.True(t, o.permit.Settled())
	assert.Zero(t, failures())
	o.pending = true
	tr.Base = baseFunc(func(*http.Request) (*http.Response, error) { panic("below") })
	require.PanicsWithValue(t, "below", func() { call() })
	assert.True(t, o.permit.Settled())
	assert.Equal(t, 1, failures())
}

func TestPendingIsMarkedAsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owner{pending: true}
		tr := layer(play(after(time.Second, status(200))))
		tr.Policy.SlowCallThreshold, tr.Call = time.Second, o.call
		_, err := do(tr, request(t.Context()))
		require.NoError(t, err)
		time.Sleep(time.Hour)
		o.permit.Settle(s)
		assert.Zero(t, own(tr).Failures)
	})
}

// A panic or Goexit in a func of the user, before anything was sent, closes the
// body and is nobody's failure.
func TestKeyPanics(t *testing.T) {
	tr := layer(play(status(200)))
	tr.Policy.Scope = breaker.ScopeModel
	tr.Key = func(*http.Request) string { panic("key") }
	body := &closeSpy{Reader: strings.NewReader("{}")}
	req := request(t.Context())
	req.Body = body
	require.PanicsWithValue(t, "key", func() { _, _ = do(tr, req) })
	assert.EqualValues(t, 1, body.closed.Load())
	assert.Zero(t, own(tr).Failures)
}

type idleSpy struct {
	http.RoundTripper
	closed int
}

func (i *idleSpy) CloseIdleConnections() { i.closed++ }

func TestCloseIdleConnections(t *testing.T) {
	spy := &idleSpy{}
	layer(spy).CloseIdleConnections()
	assert.Equal(t, 1, spy.closed)
	layer(play(status(200))).CloseIdleConnections()
	(&breaker.Transport{}).CloseIdleConnections()
}

func TestRequestIsNotModified(t *testing.T) {
	var seen *http.Request
	tr := layer(baseFunc(func(req *http.Request) (*http.Response, error) {
		seen = req
		return status(200)(req)
	}))
	req := request(t.Context())
	_, err := do(tr, req)
	require.NoError(t, err)
	assert.Same(t, req, seen)
}

// apart runs f on a goroutine that f may end.
func apart(f func()) {
	var wg sync.WaitGroup
	wg.Go(f)
	wg.Wait()
}

func TestGoexitBelowIsFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := layer(play(func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }))
		apart(func() { _, _ = do(tr, request(context.Background())) })
		assert.Equal(t, 1, own(tr).Failures)
		tr.Base = play(reply(200, "text/event-stream", &stepBody{steps: []any{runtime.Goexit}}))
		apart(func() { _, _ = do(tr, request(context.Background())) })
		assert.Equal(t, 2, own(tr).Failures)
	})
}
