package resilience_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
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
	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience"
	ut "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

const coolDown = 200 * time.Millisecond

// trip opens the breaker with three failures.
func (r *rig) trip(t *testing.T) {
	t.Helper()
	for range 3 {
		r.up.Next(ut.Status(500))
		require.Equal(t, 500, r.post(t, chatPath, plainBody).status)
	}
	require.Equal(t, breaker.Open, r.state())
}

func (r *rig) state() breaker.State { return r.tr.Breakers()[0].State }

// rejected makes a call that must not reach the upstream.
func (r *rig) rejected(t *testing.T) {
	t.Helper()
	before := r.up.Count()
	a := r.post(t, chatPath, plainBody)
	assert.Equal(t, 503, a.status)
	assert.Contains(t, a.body, "circuit_open")
	assert.Equal(t, before, r.up.Count())
}

func TestCaseD1_TheProbeIsLost(t *testing.T) {
	t.Parallel()
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(p *resilience.Policy) { p.CircuitBreaker.Timeout = time.Minute })
		r.trip(t)
		r.tr.ForceOpen("", coolDown) // shorter than the probe's lease, which is not the point
		time.Sleep(coolDown + 10*time.Millisecond)
		r.up.Next(ut.Silence())
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		probe, stop := context.WithCancel(ctx)
		defer cancel()
		go func() {
			_ = r.up.Wait(ctx, func() bool { return r.up.InFlight() == 1 })
			time.Sleep(100 * time.Millisecond)
			stop()
		}()
		a := r.send(t, r.request(t, probe, http.MethodPost, chatPath, plainBody))
		require.ErrorIs(t, a.err, context.Canceled)
		assert.Equal(t, breaker.HalfOpen, r.state())
		a = r.post(t, chatPath, plainBody) // well before the lease of the lost probe would end
		assert.Equal(t, 200, a.status)
		assert.Equal(t, 5, r.up.Count())
		assert.Equal(t, breaker.Closed, r.state())
	})
	t.Run("never settled", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		r.trip(t)
		time.Sleep(coolDown + 10*time.Millisecond)
		r.up.Next(ut.Silence())
		ctx, cancel := context.WithCancel(t.Context())
		lost := make(chan error, 1)
		go func() {
			resp, err := r.tr.RoundTrip(r.request(t, ctx, http.MethodPost, chatPath, plainBody))
			if err == nil {
				_ = resp.Body.Close()
			}
			lost <- err
		}()
		require.True(t, eventually(func() bool { return r.up.InFlight() == 1 }))
		var a answer
		require.True(t, eventually(func() bool {
			a = r.post(t, chatPath, plainBody)
			return a.status == 200
		}), "a lost probe is replaced")
		assert.Equal(t, breaker.Closed, r.state())
		assert.Equal(t, 5, r.up.Count())
		cancel()
		require.ErrorIs(t, <-lost, context.Canceled)
		assert.Equal(t, breaker.Closed, r.state())
	})
}

// held starts a call that the upstream holds until gate is closed.
func (r *rig) held(t *testing.T, step ut.Step, gate chan struct{}) <-chan answer {
	t.Helper()
	inFlight := r.up.InFlight()
	r.up.Next(step.Hold(gate))
	got := make(chan answer, 1)
	go func() { got <- r.post(t, chatPath, plainBody) }()
	require.True(t, eventually(func() bool { return r.up.InFlight() == inFlight+1 }))
	return got
}

func TestCaseD3_LateResults(t *testing.T) {
	t.Parallel()
	t.Run("success while open", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(p *resilience.Policy) { p.CircuitBreaker.Timeout = time.Second })
		gate := make(chan struct{})
		slow := r.held(t, ut.OK("slow"), gate)
		r.trip(t)
		opened := time.Now()
		close(gate)
		assert.Equal(t, 200, (<-slow).status)
		assert.Equal(t, breaker.Open, r.state())
		if time.Since(opened) < 500*time.Millisecond {
			r.rejected(t)
		}
		time.Sleep(time.Until(opened.Add(time.Second + 10*time.Millisecond)))
		assert.Equal(t, 200, r.post(t, chatPath, plainBody).status)
		assert.Equal(t, breaker.Closed, r.state())
	})
	t.Run("failure while half-open and closed again", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(p *resilience.Policy) { p.CircuitBreaker.Timeout = time.Second })
		gates := []chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})}
		first := r.held(t, ut.Status(500), gates[0])
		second := r.held(t, ut.Status(500), gates[1])
		r.trip(t)
		time.Sleep(time.Second + 10*time.Millisecond)
		probe := r.held(t, ut.OK("probe"), gates[2])
		require.Equal(t, breaker.HalfOpen, r.state())
		close(gates[0])
		assert.Equal(t, 500, (<-first).status)
		assert.Equal(t, breaker.HalfOpen, r.state(), "a late failure is no probe")
		assert.True(t, r.tr.Breakers()[0].Probing, "and gives no place back")
		r.rejected(t)
		close(gates[2])
		assert.Equal(t, 200, (<-probe).status)
		require.Equal(t, breaker.Closed, r.state())
		close(gates[1])
		assert.Equal(t, 500, (<-second).status)
		assert.Equal(t, 0, r.tr.Breakers()[0].Failures, "nor does it count in a later closed period")
	})
}

func TestCaseD4_OneProbe(t *testing.T) {
	t.Parallel()
	t.Run("exact", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			up, tr, _ := inMemory(t, nil)
			defer up.Close()
			up.Default(ut.Status(500).Times(3), ut.OK("hi").Delay(100*time.Millisecond))
			for range 3 {
				_, _, err := do(t, tr, ask(t, up, chatPath, plainBody))
				require.NoError(t, err)
			}
			time.Sleep(coolDown)
			var wg sync.WaitGroup
			var good, fast atomic.Int64
			for range 50 {
				wg.Go(func() {
					start := time.Now()
					resp, err := tr.RoundTrip(ask(t, up, chatPath, plainBody))
					if !assert.NoError(t, err) {
						return
					}
					defer resp.Body.Close()
					if _, ok := resilience.Rejection(resp, nil); ok {
						assert.Equal(t, 503, resp.StatusCode)
						assert.Zero(t, time.Since(start))
						fast.Add(1)
					} else if resp.StatusCode == 200 {
						good.Add(1)
					}
				})
			}
			wg.Wait()
			assert.Equal(t, 4, up.Count(), "one during the probe")
			assert.Equal(t, int64(1), good.Load())
			assert.Equal(t, int64(49), fast.Load())
			assert.Equal(t, breaker.Closed, tr.Breakers()[0].State)
		})
	})
	t.Run("sockets", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(p *resilience.Policy) { p.CircuitBreaker.Timeout = time.Minute })
		r.trip(t)
		r.tr.ForceOpen("", coolDown) // shorter than the probe's lease, which is not the point
		time.Sleep(coolDown + 10*time.Millisecond)
		gate := make(chan struct{})
		r.up.Default(ut.OK("hi").Hold(gate))
		codes := make(chan int, 50)
		for range 50 {
			go func() { codes <- r.post(t, chatPath, plainBody).status }()
		}
		for range 49 {
			assert.Equal(t, 503, <-codes, "rejected while the probe is held")
		}
		assert.True(t, eventually(func() bool { return r.up.InFlight() == 1 }))
		assert.Equal(t, 4, r.up.Count())
		close(gate)
		assert.Equal(t, 200, <-codes)
		assert.Equal(t, breaker.Closed, r.state())
	})
}

// bomb is a base transport that panics, or hands out a body that does.
type bomb struct {
	http.RoundTripper
	at atomic.Value // "": nowhere; "transport", "read", "close"
}

func (b *bomb) RoundTrip(req *http.Request) (*http.Response, error) {
	at, _ := b.at.Load().(string)
	if at == "transport" {
		_ = req.Body.Close()
		panic("boom")
	}
	resp, err := b.RoundTripper.RoundTrip(req)
	if err == nil && at != "" {
		resp.Body = &fuse{resp.Body, at}
	}
	return resp, err
}

type fuse struct {
	io.ReadCloser
	at string
}

func (f *fuse) Read(p []byte) (int, error) {
	if f.at == "read" {
		_ = f.ReadCloser.Close()
		panic("boom")
	}
	return f.ReadCloser.Read(p)
}

func (f *fuse) Close() error {
	err := f.ReadCloser.Close()
	if f.at == "close" {
		panic("boom")
	}
	return err
}

func TestCaseD5_Panics(t *testing.T) {
	t.Parallel()
	for _, format := range []struct{ name, path, body string }{
		{"judged", chatPath, plainBody}, {"stream", chatPath, streamBody}, {"unknown", "/v1/files", plainBody},
	} {
		for _, at := range []string{"transport", "read", "close"} {
			t.Run(format.name+" "+at, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { panics(t, at, format.path, format.body) })
			})
		}
	}
}

func panics(t *testing.T, at, path, body string) {
	up := ut.NewInMemory("")
	defer up.Close()
	if path != chatPath {
		up.Default(ut.Body("text/plain", "a file"))
	}
	b := &bomb{RoundTripper: up.RoundTripper()}
	tr, _ := build(t, b, quick())
	call := func() (a answer, got any) {
		defer func() { got = recover() }()
		resp, err := tr.RoundTrip(ask(t, up, path, body))
		if a.err = err; err != nil {
			return
		}
		a.status = resp.StatusCode
		defer resp.Body.Close()
		if at == "close" && path != chatPath {
			return // else the body has ended by itself
		}
		_, a.read = io.Copy(io.Discard, resp.Body)
		return
	}
	state := func() breaker.State { return tr.Breakers()[0].State }
	b.at.Store(at)
	for n := range 3 {
		require.Equal(t, breaker.Closed, state())
		_, got := call()
		require.Equal(t, "boom", got, "the panic is the caller's, unchanged")
		if n < 2 {
			require.Equal(t, n+1, tr.Breakers()[0].Failures, "a failure while closed")
		}
	}
	require.Equal(t, breaker.Open, state())
	time.Sleep(coolDown)
	_, got := call()
	require.Equal(t, "boom", got)
	if at == "close" && body == streamBody {
		// A stream's probe is settled at its first event, which was good.
		require.Equal(t, breaker.Closed, state())
	} else {
		require.Equal(t, breaker.Open, state(), "a failure on the probe")
		time.Sleep(coolDown)
	}
	b.at.Store("")
	a, got := call()
	require.Nil(t, got)
	require.NoError(t, a.err)
	assert.Equal(t, 200, a.status)
	assert.Equal(t, breaker.Closed, state())
	assert.Equal(t, 0, up.InFlight())
}

// lockedBuffer is a log that may be written from several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestCaseD5_PanicsOfHooks(t *testing.T) {
	t.Parallel()
	logs := new(lockedBuffer)
	r := newRigWith(t, nil, func(b *resilience.Builder) {
		b.Logger = slog.New(slog.NewTextHandler(logs, nil))
		b.OnCall = func(context.Context, resilience.Call) { panic("OnCall went wrong") }
		b.OnStateChange = func(_, _ string, _, _ breaker.State) { panic("OnStateChange went wrong") }
	})
	r.trip(t)
	time.Sleep(coolDown + 10*time.Millisecond)
	assert.Equal(t, 200, r.post(t, chatPath, plainBody).status)
	assert.Equal(t, breaker.Closed, r.state())
	assert.Contains(t, logs.String(), "OnCall")
	assert.Contains(t, logs.String(), "panic")
	assert.Contains(t, strings.ToLower(logs.String()), "state")
}

func TestCaseD6_OneBrokenModel(t *testing.T) {
	t.Parallel()
	pad := strings.Repeat("x", 9<<20)
	last := func(m string) string { return `{"messages":[{"role":"user","content":"x"}],"model":"` + m + `"}` }
	for _, v := range []struct {
		name string
		path func(model string) string
		body func(model string) string
	}{
		{"body", func(string) string { return chatPath }, func(m string) string { return `{"model":"` + m + `","messages":[]}` }},
		{"model last", func(string) string { return chatPath }, last},
		{"9 MiB", func(string) string { return chatPath }, func(m string) string { return `{"messages":"` + pad + `","model":"` + m + `"}` }},
		{"Gemini path", func(m string) string { return "/v1beta/models/" + m + ":generateContent" }, func(string) string { return `{"contents":[]}` }},
		{"Azure path", func(m string) string { return "/openai/deployments/" + m + "/chat/completions" }, func(string) string { return `{"messages":[]}` }},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			failures := 3
			if len(v.body("m1")) > len(pad) {
				failures = 1 // it takes its time under the race detector
			}
			scope := func(p *resilience.Policy) {
				p.CircuitBreaker.Scope = breaker.ScopeModel
				p.CircuitBreaker.FailureThreshold = failures
				p.CircuitBreaker.Timeout = time.Minute
			}
			r := newRig(t, scope)
			r.up.Model("m1", ut.Status(500))
			for range failures {
				require.Equal(t, 500, r.post(t, v.path("m1"), v.body("m1")).status)
			}
			for range 2 {
				a := r.post(t, v.path("m1"), v.body("m1"))
				assert.Equal(t, 503, a.status)
				assert.Contains(t, a.body, "circuit")
			}
			assert.Equal(t, failures, r.up.CountModel("m1"))
			a := r.post(t, v.path("m2"), v.body("m2"))
			require.Equal(t, 200, a.status, "%s", a.body)
			assert.Equal(t, 1, r.up.CountModel("m2"))
			other := newRig(t, scope)
			assert.Equal(t, 200, other.post(t, v.path("m1"), v.body("m1")).status, "another host is untouched")
			for _, req := range r.up.Requests() {
				want := v.body(req.Model)
				assert.Equal(t, int64(len(want)), req.Size)
				assert.Equal(t, int64(len(want)), req.Length)
				assert.True(t, strings.HasPrefix(want, string(req.Body)), "the bytes are unchanged")
			}
			assert.Equal(t, breaker.Closed, r.state(), "the provider's own breaker")
		})
	}
	t.Run("no model", func(t *testing.T) {
		t.Parallel()
		for name, body := range map[string]string{"no JSON": "hello", "half": `{"mod`, "none": `{"messages":[]}`, "9 MiB that is read once": ""} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, func(p *resilience.Policy) {
					p.CircuitBreaker.Scope = breaker.ScopeModel
					p.Retry.MaxRetries = 0
					p.CircuitBreaker.Timeout = time.Minute
					p.CircuitBreaker.FailureThreshold = 1
				})
				r.up.Default(ut.Status(500))
				req := r.request(t, t.Context(), http.MethodPost, chatPath, body)
				if body == "" {
					big := `{"messages":"` + pad + `","model":"m1"}`
					req = r.request(t, t.Context(), http.MethodPost, chatPath, big)
					req.GetBody = nil
				}
				require.Equal(t, 500, r.send(t, req).status)
				assert.Equal(t, breaker.Open, r.state(), "calls without a model share the provider's own")
				assert.Equal(t, "", r.tr.Breakers()[0].Key)
				assert.Equal(t, 1, r.up.Count())
			})
		}
	})
}

func TestCaseD8_WhatOpens(t *testing.T) {
	t.Parallel()
	once := func(p *resilience.Policy) { p.Retry.MaxRetries = 0 }
	for _, v := range []struct {
		name  string
		codes []int
		open  bool
		then  int // what the next call sees
	}{
		{"bad requests", []int{400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400}, false, 200},
		{"a 4xx between", []int{500, 500, 400, 500}, true, 503},
		{"two and a 4xx", []int{500, 500, 400}, false, 200},
		{"429 counts", []int{500, 500, 429}, true, 503},
		{"a success between", []int{500, 500, 200, 500, 500}, false, 200},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(p *resilience.Policy) { once(p); p.CircuitBreaker.Timeout = time.Minute })
			for _, code := range v.codes {
				if code != 200 {
					r.up.Next(ut.Status(code))
				}
				require.Equal(t, code, r.post(t, chatPath, plainBody).status)
			}
			assert.Equal(t, v.open, r.state() == breaker.Open)
			assert.Equal(t, v.then, r.post(t, chatPath, plainBody).status)
			reached := len(v.codes)
			if !v.open {
				reached++
			}
			assert.Equal(t, reached, r.up.Count())
		})
	}
}

func TestCaseD9_CallersThatLeave(t *testing.T) {
	t.Parallel()
	const callers = 20
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		r.prime(t)
		r.up.Default(ut.Silence())
		for i := range callers {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			a := r.send(t, r.request(t, ctx, http.MethodPost, chatPath, plainBody))
			require.ErrorIs(t, a.err, context.Canceled, "%d", i)
			cancel()
		}
		assert.Equal(t, wordNeutral, r.word(t))
	})
	stream := ut.RawStream(evA, evStop+evDone)
	for _, v := range []struct {
		name string
		step ut.Step
		read string // before Close
		word string
	}{
		{"closed after one chunk", ut.RawStream(evA).Stall(), evA, wordNeutral},
		{"closed before a chunk was read", ut.RawStream(evA).Stall(), "", wordNeutral},
		{"closed right after DONE", stream.Stall(), evA + evStop + evDone, wordOK},
		{"closed right after DONE before END", stream, evA + evStop + evDone, wordOK},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.prime(t)
			r.up.Default(v.step)
			for range callers {
				resp, err := r.tr.RoundTrip(r.request(t, t.Context(), http.MethodPost, chatPath, streamBody))
				require.NoError(t, err)
				_, err = io.ReadFull(resp.Body, make([]byte, len(v.read)))
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
			}
			assert.Equal(t, v.word, r.word(t))
		})
	}
}

func TestCaseD9_WhoeverSetTheDeadline(t *testing.T) {
	t.Parallel()
	const limit = time.Second // long enough for a slow machine to reach the upstream
	long := func(p *resilience.Policy) { p.Stream.IdleTimeout = time.Minute }
	for _, body := range []struct {
		name string
		step ut.Step
		ask  string
	}{{"headers", ut.Silence(), plainBody}, {"stream", ut.RawStream(evA).Stall(), streamBody}} {
		for _, v := range []struct {
			name   string
			change func(*resilience.Policy, *http.Transport, *http.Client)
			ctx    bool
			live   bool // it also ends a stream that has begun
		}{
			{"context", func(*resilience.Policy, *http.Transport, *http.Client) {}, true, true},
			{"client", func(_ *resilience.Policy, _ *http.Transport, c *http.Client) { c.Timeout = limit }, false, true},
			{"policy", func(p *resilience.Policy, _ *http.Transport, _ *http.Client) { p.Timeout = limit }, false, false},
			{"attempt", func(p *resilience.Policy, _ *http.Transport, _ *http.Client) { p.Retry.AttemptTimeout = limit }, false, false},
			{"response headers", func(_ *resilience.Policy, b *http.Transport, _ *http.Client) { b.ResponseHeaderTimeout = limit }, false, false},
		} {
			if body.name == "stream" && !v.live {
				continue
			}
			t.Run(v.name+" "+body.name, func(t *testing.T) {
				t.Parallel()
				client := new(http.Client)
				r := newRigWith(t, func(p *resilience.Policy) { long(p); v.change(p, new(http.Transport), client) }, func(b *resilience.Builder) {
					var p resilience.Policy
					v.change(&p, b.Base.(*http.Transport), client)
				})
				r.prime(t)
				r.up.Default(body.step)
				client.Transport = r.tr
				ctx := t.Context()
				if v.ctx {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, limit)
					defer cancel()
				}
				resp, err := client.Do(r.request(t, ctx, http.MethodPost, chatPath, body.ask))
				if err == nil {
					assert.Equal(t, "stream", body.name)
					_, err = io.Copy(io.Discard, resp.Body)
					assert.NoError(t, resp.Body.Close())
				}
				require.Error(t, err)
				assert.Equal(t, 504, resilience.StatusOf(err), "%v", err)
				assert.Equal(t, wordFail, r.word(t))
				assert.Equal(t, 2, r.up.Count())
			})
		}
	}
}

// What steps of the wall clock cannot reach: every instant that the library
// keeps has a monotonic reading, which is what differences are made of. The
// clock itself cannot be stepped from inside a process.
func TestCaseD10_MonotonicInstants(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.trip(t)
	monotonic := func(at time.Time) bool { return strings.Contains(at.String(), " m=") }
	assert.True(t, monotonic(r.tr.Breakers()[0].Since))
	call := r.calls.last(t)
	assert.True(t, monotonic(call.Start))
	for _, a := range call.Attempts {
		assert.True(t, monotonic(a.Start))
	}
}

// A wait in seconds is a timer; where the upstream gave a date it is relative
// to one reading of the clock.
func TestCaseD10_RetryAfterIsReadOnce(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for header, want := range map[string]time.Duration{
		"7": 7 * time.Second,
		now.UTC().Add(time.Hour).Format(http.TimeFormat): time.Hour,
	} {
		got, ok := layer.ParseWait(http.Header{"Retry-After": {header}}, now)
		require.True(t, ok)
		assert.InDelta(t, want, got, float64(time.Second), fmt.Sprint(header))
	}
}
