package failover_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// fuse counts the calls of what the user configured and blows at one of them,
// by a panic or the end of the goroutine. It keeps the books of open bodies.
type fuse struct {
	at   int
	exit bool

	mu    sync.Mutex
	count int
	where string
	open  map[string]int
}

func (f *fuse) tick(where string) {
	f.mu.Lock()
	f.count++
	blows := f.count == f.at
	if blows {
		f.where = where
	}
	f.mu.Unlock()
	switch {
	case blows && f.exit:
		runtime.Goexit()
	case blows:
		panic("boom")
	}
}

func (f *fuse) body(name, text string) io.ReadCloser {
	b := &fusedBody{Reader: strings.NewReader(text), fuse: f, name: name}
	b.book(1)
	return b
}

// fusedBody gives little at a time, so that there is a Read to blow at wherever
// it is looked at.
type fusedBody struct {
	io.Reader
	fuse *fuse
	name string
	once sync.Once
}

func (b *fusedBody) book(n int) {
	b.fuse.mu.Lock()
	defer b.fuse.mu.Unlock()
	b.fuse.open[b.name] += n
}

func (b *fusedBody) Read(p []byte) (int, error) {
	b.fuse.tick(b.name + ".Read")
	return b.Reader.Read(p[:min(len(p), 64)])
}

func (b *fusedBody) Close() error {
	b.once.Do(func() { b.book(-1) })
	b.fuse.tick(b.name + ".Close")
	return nil
}

// fusedLog is a slog.Handler.
type fusedLog struct{ *fuse }

func (h fusedLog) Enabled(context.Context, slog.Level) bool  { return true }
func (h fusedLog) Handle(context.Context, slog.Record) error { h.tick("log"); return nil }
func (h fusedLog) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h fusedLog) WithGroup(string) slog.Handler             { return h }

// rig is a chain of three targets on which everything that a user can configure
// is fused.
type rig struct {
	path, body     string
	answers        map[string]reply
	policy         failover.Policy
	stacks, nested bool
	layer          bool // before the nested chain
	keep           bool // the request's model
	timeout        time.Duration
}

func (r rig) upstream(t *testing.T, f *fuse, name string) http.RoundTripper {
	base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
		swallow(req)
		f.tick(name + ".RoundTrip")
		a := r.answers[name]
		h := http.Header{"Content-Type": {"application/json"}}
		if strings.HasPrefix(a.body, "data:") {
			h.Set("Content-Type", "text/event-stream")
		}
		return &http.Response{StatusCode: a.status, Header: h, Body: f.body(name, a.body), ContentLength: -1, ProtoMajor: 1, Request: req}, nil
	})
	if !r.stacks {
		return base
	}
	p := knobs()
	p.Limits.MaxConcurrent = 1
	s, err := resilience.Builder{
		Base: base, Logger: slog.New(fusedLog{f}), OnCall: func(context.Context, resilience.Call) { f.tick("OnCall") },
	}.Build(name, p)
	require.NoError(t, err)
	return s
}

// swallow reads and closes the request's body, whatever that does.
func swallow(req *http.Request) {
	if req.Body == nil {
		return
	}
	defer func() { _ = req.Body.Close() }()
	_, _ = io.Copy(io.Discard, req.Body) // what is wrong with it does not matter here
}

func (r rig) target(f *fuse, name string, rt http.RoundTripper) failover.Target {
	target := failover.Target{
		Name: name, Provider: name, Model: name + "-1", BaseURL: "https://" + name + ".example/v1", Transport: rt, Timeout: r.timeout,
		Allow:     func(*http.Request) bool { f.tick(name + ".Allow"); return true },
		Available: func() bool { f.tick(name + ".Available"); return true },
		Rewrite:   func(*http.Request) error { f.tick(name + ".Rewrite"); return nil },
	}
	if r.keep {
		target.Model = ""
	}
	return target
}

func (r rig) chain(t *testing.T, f *fuse) *failover.Chain {
	p := r.policy
	p.OnAttempt = func(context.Context, failover.Attempt) { f.tick("OnAttempt") }
	p.Logger = slog.New(fusedLog{f})
	var targets []failover.Target
	for _, name := range []string{"a", "b", "c"} {
		targets = append(targets, r.target(f, name, r.upstream(t, f, name)))
	}
	if !r.nested {
		return chain(t, p, targets...)
	}
	var inner http.RoundTripper = chain(t, p, targets[1:]...)
	if r.layer {
		below := inner
		inner = roundTripFunc(func(req *http.Request) (*http.Response, error) { return below.RoundTrip(req.Clone(req.Context())) })
	}
	n := r.target(f, "n", inner)
	n.Model, n.Provider = "", ""
	return chain(t, p, targets[0], n)
}

// call makes a call on a goroutine that it may end.
func (r rig) call(f *fuse, c *failover.Chain) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }() // it is what is left open that matters
		req, err := http.NewRequest(http.MethodPost, "https://a.example"+r.path, f.body("request", r.body))
		if err != nil {
			panic(err)
		}
		req.ContentLength = int64(len(r.body))
		req.Header.Set("Content-Type", "application/json")
		resp, err := c.Do(req)
		if err == nil {
			defer func() { _ = resp.Body.Close() }()
			_, _ = io.Copy(io.Discard, resp.Body)
		}
	}()
	<-done
}

// Whatever a user's func, transport, body or log handler does, and at whichever
// of its calls: no body stays open behind it, no goroutine stays, and no
// target's only place is lost.
func TestNothingStaysOpenWhateverPanics(t *testing.T) {
	busy := reply{status: 503, body: `{"error":{"message":"` + strings.Repeat("overloaded ", 20) + `"}}`}
	gone := reply{status: 400, body: `{"error":{"message":"model not found ` + strings.Repeat("here ", 40) + `"}}`}
	good := reply{status: 200, body: okJSON}
	stream := reply{status: 200, body: evRole + evA + evStop + evDone}
	first, waiting := failover.DefaultPolicy(), failover.DefaultPolicy()
	waiting.Strategy, waiting.WaitFor = failover.StrategyRoundRobin, time.Second
	small := failover.DefaultPolicy()
	small.MaxBody = 64
	const path = "/v1/chat/completions"
	bound := `{"model":"m","previous_response_id":"r1","input":"` + strings.Repeat("x", 500) + `"}`
	for name, r := range map[string]rig{
		"the last one answers":        {path: path, body: chatBody("m"), policy: first, answers: map[string]reply{"a": busy, "b": gone, "c": good}},
		"none answers":                {path: path, body: chatBody("m"), policy: first, answers: map[string]reply{"a": gone, "b": busy, "c": busy}},
		"round robin":                 {path: path, body: chatBody("m"), policy: waiting, answers: map[string]reply{"a": busy, "b": gone, "c": good}},
		"limits":                      {path: path, body: chatBody("m"), policy: first, timeout: time.Minute, answers: map[string]reply{"a": busy, "b": gone, "c": good}},
		"stacks":                      {path: path, body: chatBody("m"), policy: first, stacks: true, answers: map[string]reply{"a": busy, "b": gone, "c": good}},
		"stacks, none answers":        {path: path, body: chatBody("m"), policy: waiting, stacks: true, answers: map[string]reply{"a": gone, "b": busy, "c": busy}},
		"stacks, limits, a stream":    {path: path, body: chatBody("m"), policy: first, stacks: true, timeout: time.Minute, answers: map[string]reply{"a": busy, "b": busy, "c": stream}},
		"nested":                      {path: path, body: chatBody("m"), policy: first, nested: true, answers: map[string]reply{"a": busy, "b": gone, "c": good}},
		"nested behind a layer":       {path: path, body: chatBody("m"), policy: first, nested: true, layer: true, stacks: true, answers: map[string]reply{"a": busy, "b": busy, "c": stream}},
		"bound":                       {path: "/v1/responses", body: bound, policy: first, answers: map[string]reply{"a": busy}},
		"bound, larger than max_body": {path: "/v1/responses", body: bound, policy: small, keep: true, answers: map[string]reply{"a": busy}},
		"embeddings":                  {path: "/v1/embeddings", body: `{"model":"m","input":"x"}`, policy: waiting, answers: map[string]reply{"a": busy, "b": busy, "c": busy}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, exit := range []bool{false, true} {
				for at, blew := 1, true; blew; at++ {
					synctest.Test(t, func(t *testing.T) { blew = r.check(t, &fuse{at: at, exit: exit, open: map[string]int{}}) })
				}
			}
		})
	}
}

// check makes the call that blows, then some that do not. It reports whether
// the fuse blew.
func (r rig) check(t *testing.T, f *fuse) bool {
	c := r.chain(t, f)
	r.call(f, c)
	time.Sleep(time.Hour) // whatever waits is over; breakers let calls through
	synctest.Wait()
	for name, n := range f.open {
		assert.Zero(t, n, "body of %s: open after %s, call %d, exit %v", name, f.where, f.at, f.exit)
	}
	blew := f.where != ""
	f.at = 0
	for range 2 {
		start := time.Now()
		r.call(f, c)
		assert.Less(t, time.Since(start), 20*time.Second, "a call after %s, call %d", f.where, f.at)
		time.Sleep(time.Hour)
	}
	return blew
}

// A panic of a transport, or of a function, ends the target's time limit, whose
// timer and context would last until it fires.
func TestAPanicGivesTheLimitBack(t *testing.T) {
	var under context.Context
	boom := roundTripFunc(func(req *http.Request) (*http.Response, error) { under = req.Context(); panic("boom") })
	nested := chain(t, failover.Policy{}, failover.Target{Name: "i", Transport: boom})
	for name, rt := range map[string]http.RoundTripper{"a transport": boom, "a nested chain": nested} {
		t.Run(name, func(t *testing.T) {
			c := chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: rt, Timeout: time.Hour})
			assert.Panics(t, func() { _, _ = c.Do(post(t, chatURL, chatBody("m"))) }) //nolint:bodyclose // it panics
			require.ErrorIs(t, under.Err(), context.Canceled)
			assert.Panics(t, func() {
				_, _ = failover.Call(t.Context(), c, func(ctx context.Context, _ failover.Target) (int, error) { under = ctx; panic("boom") })
			})
			require.ErrorIs(t, under.Err(), context.Canceled)
		})
	}
}
