package failover_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
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

var placeSchedules = flag.Uint64("place-schedules", 300, "how many schedules of two stacks with places are compared")

// Contract 11: two stacks with places under one chain send every attempt at the
// very moment at which the reference does, and hold as many places, one by one
// and together, whatever ends the calls: an answer that is read, closed or left
// lying, a failure, a deadline, a cancellation, a panic or runtime.Goexit.
func TestPlacesOfTwoStacksAgreeWithReference(t *testing.T) {
	for seed := range *placeSchedules {
		synctest.Test(t, func(t *testing.T) { placeSchedule(t, newPlacePlan(rand.New(rand.NewPCG(seed, 6)))) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// some is a time of at most so many ms; no two are the same.
func some(r *rand.Rand, ms int) time.Duration {
	return 1 + time.Duration(r.Int64N(int64(ms)*int64(time.Millisecond)))
}

func newPlacePlan(r *rand.Rand) *placePlan {
	p := &placePlan{
		sizes: [2]int{1 + r.IntN(3), r.IntN(4)}, retries: r.IntN(2), backoff: some(r, 120), idle: 200*time.Millisecond + some(r, 200),
		patience: []time.Duration{0, failover.PatienceOff, some(r, 100), some(r, 300)}[r.IntN(4)],
	}
	if r.IntN(2) == 0 {
		p.away = some(r, 500)
		p.back = p.away + some(r, 500)
	}
	for i := range 2 + r.IntN(12) {
		c := placeCall{id: i, at: some(r, 600), cancels: r.IntN(2) == 0}
		c.leaves = c.at + time.Hour
		if r.IntN(3) == 0 {
			c.leaves = c.at + some(r, 400)
		}
		for target := range c.scripts {
			for n := range c.scripts[target] {
				c.scripts[target][n] = placeScript{takes: some(r, 150), end: r.IntN(placesEnds), hold: some(r, 500)}
			}
		}
		p.calls = append(p.calls, c)
	}
	for range 12 {
		p.looks = append(p.looks, some(r, 1500))
	}
	return p
}

// placeWorld plays a plan with real stacks.
type placeWorld struct {
	plan  *placePlan
	start time.Time

	mu  sync.Mutex
	log []placeEvent // guarded by mu
}

func (w *placeWorld) add(e placeEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.at = time.Since(w.start)
	w.log = append(w.log, e)
}

// placeUpstream is one target's upstream.
type placeUpstream struct {
	w      *placeWorld
	target int
}

type placeCallKey struct{}

// placeTries counts the attempts of a call.
type placeTries struct {
	*placeCall
	n    [2]int
	last placeScript
}

func (u *placeUpstream) RoundTrip(req *http.Request) (*http.Response, error) {
	c := req.Context().Value(placeCallKey{}).(*placeTries)
	_ = req.Body.Close()
	n := c.n[u.target]
	c.n[u.target]++
	u.w.add(placeEvent{call: c.id, target: u.target, n: n})
	s := c.scripts[u.target][n]
	c.last = s
	select {
	case <-time.After(s.takes):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	status, body := http.StatusOK, okJSON
	switch s.end {
	case endStatus:
		status, body = http.StatusServiceUnavailable, `{"error":{"message":"x"}}`
	case endError:
		return nil, errors.New("no answer")
	case endPanic:
		panic("below the stack")
	case endGoexit:
		runtime.Goexit()
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: -1, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
	}, nil
}

func (w *placeWorld) stacks(t *testing.T) (stacks [2]*resilience.Transport, c *failover.Chain) {
	t.Helper()
	var targets []failover.Target
	for i, name := range []string{"a", "b"} {
		p := resilience.DefaultPolicy()
		p.CircuitBreaker.Disabled = true
		p.Retry.MaxRetries, p.Retry.JitterFactor = w.plan.retries, 0
		p.Retry.InitialBackoff, p.Retry.MaxBackoff = w.plan.backoff, w.plan.backoff
		p.Stream.IdleTimeout = w.plan.idle
		p.Limits.MaxConcurrent = w.plan.sizes[i]
		stacks[i] = stack(t, name, &placeUpstream{w, i}, p)
		targets = append(targets, failover.Target{Name: name, Provider: name, Model: name, BaseURL: "https://" + name + ".example/v1", Transport: stacks[i]})
	}
	targets[1].Allow = func(*http.Request) bool { return w.plan.allowed(time.Since(w.start)) }
	policy := failover.DefaultPolicy()
	policy.Patience = w.plan.patience
	return stacks, chain(t, policy, targets...)
}

// call plays one call, on a goroutine of its own that may be ended below.
func (w *placeWorld) call(c *placeCall, rt http.RoundTripper) {
	time.Sleep(c.at - time.Since(w.start))
	tries := &placeTries{placeCall: c}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), placeCallKey{}, tries))
	defer cancel()
	if c.cancels {
		defer time.AfterFunc(c.leaves-c.at, cancel).Stop()
	} else {
		ctx, cancel = context.WithDeadline(ctx, w.start.Add(c.leaves))
		defer cancel()
	}
	returned := false
	defer func() {
		if !returned { // a panic or Goexit
			_ = recover()
			w.add(placeEvent{call: c.id, target: -1})
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, chatURL, strings.NewReader(chatBody("m")))
	if err != nil {
		return
	}
	resp, err := rt.RoundTrip(req)
	returned = true
	w.add(placeEvent{call: c.id, target: -1, ok: err == nil && resp.StatusCode == http.StatusOK})
	if err != nil {
		return
	}
	defer func() { _ = resp.Body.Close() }()
	time.Sleep(tries.last.hold)
	switch tries.last.end {
	case endOK:
		_, _ = io.Copy(io.Discard, resp.Body)
	case endAbandon:
		time.Sleep(time.Hour)
	}
}

func placeSchedule(t *testing.T, p *placePlan) {
	w := &placeWorld{plan: p, start: time.Now()}
	stacks, c := w.stacks(t)
	var all sync.WaitGroup
	for i := range p.calls {
		all.Go(func() { w.call(&p.calls[i], c) })
	}
	for _, at := range p.looks {
		all.Go(func() {
			time.Sleep(at)
			synctest.Wait()
			a, b := stacks[0].InUse(), stacks[1].InUse()
			w.add(placeEvent{call: -1, inUse: a, total: a + b})
		})
	}
	all.Wait()
	time.Sleep(time.Hour)
	assert.Zero(t, stacks[0].InUse()+stacks[1].InUse(), "places that are not given back")
	want := refRun(p)
	slices.SortFunc(want, compareEvents)
	slices.SortFunc(w.log, compareEvents)
	require.Equal(t, want, w.log)
}

func compareEvents(a, b placeEvent) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.call, b.call), cmp.Compare(a.target, b.target))
}
