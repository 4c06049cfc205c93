package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// call is a call of provider p that ended with a status.
func call(model string, status int) resilience.Call {
	c := resilience.Call{Provider: "p", Model: model, Status: status, Outcome: resilience.OutcomeSuccess}
	if status >= 400 {
		c.Outcome, c.Reason = resilience.OutcomeError, fmt.Sprint(status)
	}
	return c
}

func observe(r *discovery.Registry, n int, c resilience.Call) {
	for range n {
		r.Observe(context.Background(), c)
	}
}

// Every discovery state, with a failing model and with each breaker state.
func TestStatusPrecedence(t *testing.T) {
	discoveryStates := []struct {
		status string
		setup  func(t *testing.T, r *discovery.Registry, f *fake, brk func() []breaker.Snapshot)
	}{
		{discovery.StatusUnhealthy, func(t *testing.T, r *discovery.Registry, f *fake, brk func() []breaker.Snapshot) {
			require.NoError(t, r.Add(discovery.Provider{Name: "p", Lister: f, Breakers: brk}))
			f.set(errDown)
			require.Error(t, r.Refresh(t.Context()))
		}},
		{discovery.StatusOffline, func(t *testing.T, r *discovery.Registry, f *fake, brk func() []breaker.Snapshot) {
			require.NoError(t, r.Add(discovery.Provider{Name: "p", Lister: f, Breakers: brk}))
			require.NoError(t, r.Add(discovery.Provider{Name: "other", Lister: newFake("o")}))
			require.NoError(t, r.Refresh(t.Context()))
			f.set(errDown)
			require.Error(t, r.Refresh(t.Context()))
		}},
		{discovery.StatusDegraded, func(t *testing.T, r *discovery.Registry, f *fake, brk func() []breaker.Snapshot) {
			require.NoError(t, r.Add(discovery.Provider{Name: "p", Lister: f, Breakers: brk}))
			require.NoError(t, r.Refresh(t.Context()))
			f.set(errDown)
			require.Error(t, r.Refresh(t.Context()))
		}},
		{discovery.StatusStarting, func(t *testing.T, r *discovery.Registry, f *fake, brk func() []breaker.Snapshot) {
			require.NoError(t, r.Add(discovery.Provider{Name: "p", Lister: f, Breakers: brk}))
		}},
		{discovery.StatusConfigured, func(t *testing.T, r *discovery.Registry, f *fake, brk func() []breaker.Snapshot) {
			require.NoError(t, r.Add(discovery.Provider{Name: "p", Lister: f, Breakers: brk}))
			f.set(nil)
			require.NoError(t, r.Refresh(t.Context()))
		}},
		{discovery.StatusHealthy, func(t *testing.T, r *discovery.Registry, f *fake, brk func() []breaker.Snapshot) {
			require.NoError(t, r.Add(discovery.Provider{Name: "p", Lister: f, Breakers: brk}))
			require.NoError(t, r.Refresh(t.Context()))
		}},
	}
	order := []string{"Unhealthy", "Offline", "Circuit Open", "Recovering", "Degraded", "Starting", "Configured", "Healthy"}
	strongest := func(all ...string) string {
		for _, s := range order {
			for _, a := range all {
				if a == s {
					return s
				}
			}
		}
		return ""
	}
	for _, d := range discoveryStates {
		for state, byBreaker := range map[string]string{"none": "Healthy", "closed": "Healthy", "half-open": "Recovering", "open": "Circuit Open"} {
			for failing, byWindow := range map[bool]string{false: "Healthy", true: "Degraded"} {
				t.Run(fmt.Sprintf("%s, breaker %s, failing %v", d.status, state, failing), func(t *testing.T) {
					r := registry(t, discovery.Config{})
					d.setup(t, r, newFake("m"), func() []breaker.Snapshot {
						switch state {
						case "closed":
							return []breaker.Snapshot{{State: breaker.Closed}}
						case "half-open":
							return []breaker.Snapshot{{State: breaker.HalfOpen}}
						case "open":
							return []breaker.Snapshot{{State: breaker.Open, RetryAfter: time.Second}}
						}
						return nil
					})
					if failing {
						observe(r, 3, call("m", 500))
					} else {
						observe(r, 30, call("m", 200)) // good calls mend nothing
					}
					s := statusOf(t, r, "p")
					want := strongest(d.status, byBreaker, byWindow)
					assert.Equal(t, want, s.Status)
					assert.Equal(t, want == "Healthy", s.Reason == "", "reason %q", s.Reason)
					assert.Equal(t, state == "none", s.Breaker == nil)
				})
			}
		}
	}
}

func TestBreakerShownPerModel(t *testing.T) {
	all := []breaker.Snapshot{{Key: ""}, {Key: "a", State: breaker.Open, RetryAfter: 10 * time.Second, Failures: 5}, {Key: "b"}}
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"a", "b"}, Mode: discovery.ModeAllowlist,
		Breakers: func() []breaker.Snapshot { return all }})
	s := statusOf(t, r, "p")
	assert.Nil(t, s.Breaker, "no call has ended")
	assert.Equal(t, "Healthy", s.Status)
	require.Len(t, s.Breakers, 1, "what is not closed is listed anyway")
	for _, tc := range []struct{ model, status, key string }{{"a", "Circuit Open", "a"}, {"b", "Healthy", "b"}, {"a", "Circuit Open", "a"}, {"", "Healthy", ""}} {
		observe(r, 1, resilience.Call{Provider: "p", Model: tc.model, Status: 200, Outcome: resilience.OutcomeSuccess})
		s = statusOf(t, r, "p")
		assert.Equal(t, tc.status, s.Status, tc.model)
		require.NotNil(t, s.Breaker)
		assert.Equal(t, tc.key, s.Breaker.Key)
	}
	observe(r, 1, call("gone", 200))
	assert.Nil(t, statusOf(t, r, "p").Breaker, "its breaker has expired")
}

func TestWindowCounts(t *testing.T) {
	down := errors.New("refused")
	for _, tc := range []struct {
		name            string
		call            resilience.Call
		calls, failures int
	}{
		{"success", call("m", 200), 1, 0},
		{"redirect", call("m", 302), 1, 0},
		{"client error", call("m", 404), 1, 1},
		{"server error", call("m", 503), 1, 1},
		{"unmasked", resilience.Call{Model: "m", Status: 502, Unmasked: true, Outcome: resilience.OutcomeError}, 1, 1},
		{"rejected", resilience.Call{Model: "m", Status: 503, Outcome: resilience.OutcomeRejected}, 1, 1},
		{"transport", resilience.Call{Model: "m", Status: 502, Outcome: resilience.OutcomeTransportError, Err: down}, 1, 1},
		{"timeout", resilience.Call{Model: "m", Status: 504, Outcome: resilience.OutcomeTimeout, Err: context.DeadlineExceeded}, 1, 1},
		{"stream error", resilience.Call{Model: "m", Status: 200, Outcome: resilience.OutcomeStreamError, Err: down}, 1, 1},
		{"cancelled", resilience.Call{Model: "m", Outcome: resilience.OutcomeCanceled, Err: context.Canceled}, 0, 0},
		{"cancelled stream", resilience.Call{Model: "m", Status: 200, Outcome: resilience.OutcomeCanceled}, 0, 0},
		{"request that cannot be sent", resilience.Call{Model: "m", Status: 502, Outcome: resilience.OutcomeTransportError,
			Reason: ending.ReasonRequestError, Err: &ending.RequestError{Err: down}}, 0, 0},
		{"request that cannot be sent, made by hand", resilience.Call{Model: "m", Err: fmt.Errorf("x: %w", &ending.RequestError{Err: down})}, 0, 0},
		{"no model", resilience.Call{Status: 500, Outcome: resilience.OutcomeError}, 0, 0},
		{"other provider", resilience.Call{Provider: "q", Model: "m", Status: 500, Outcome: resilience.OutcomeError}, 0, 0},
		{"made by hand", resilience.Call{Model: "m", Err: down}, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}})
			if tc.call.Provider == "" {
				tc.call.Provider = "p"
			}
			r.Observe(t.Context(), tc.call)
			s := statusOf(t, r, "p")
			assert.Equal(t, tc.calls, s.Calls)
			assert.Equal(t, tc.failures, s.Failures)
			assert.Equal(t, tc.failures > 0, s.LastFailure != nil)
		})
	}
}

func TestWindowLeavesOutTheRegistrysOwnCalls(t *testing.T) {
	var r *discovery.Registry
	r = registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: listFunc(func(ctx context.Context) ([]discovery.Model, error) {
		r.Observe(ctx, call("m", 500)) // what a stack below the lister's client would do
		return models("m"), nil
	})})
	require.NoError(t, r.Refresh(t.Context()))
	assert.Zero(t, statusOf(t, r, "p").Calls)
}

// A service that makes requests which cannot be sent shows nothing of its
// providers (contract 4).
func TestRequestsThatCannotBeSentAreNotInTheWindow(t *testing.T) {
	reg := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}})
	ended := map[string]int{}
	stack, err := resilience.Builder{
		Base: roundTripper((&http.Transport{}).RoundTrip), // wrapped, as for tracing
		OnCall: func(ctx context.Context, c resilience.Call) {
			ended[c.Reason]++
			reg.Observe(ctx, c)
		},
	}.Build("p", resilience.DefaultPolicy())
	require.NoError(t, err)
	for name, spoil := range map[string]func(*http.Request){
		"header value": func(req *http.Request) { req.Header["X-User"] = []string{"a\nb"} },
		"header name":  func(req *http.Request) { req.Header["X User"] = []string{"a"} },
		"method":       func(req *http.Request) { req.Method = "PO ST" },
		"no host":      func(req *http.Request) { req.URL.Host = "" },
		"length":       func(req *http.Request) { req.ContentLength = 1 << 20 },
		"body":         func(req *http.Request) { req.Body = io.NopCloser(iotest.ErrReader(errDown)) },
	} {
		for range 3 {
			req, err := http.NewRequestWithContext(resilience.WithModel(t.Context(), "m"), http.MethodPost,
				"http://upstream.invalid/v1/chat/completions", strings.NewReader(`{"model":"m"}`))
			require.NoError(t, err)
			spoil(req)
			_, err = stack.RoundTrip(req) //nolint:bodyclose // it fails
			require.Error(t, err, name)
		}
	}
	assert.Equal(t, map[string]int{ending.ReasonRequestError: 18}, ended)
	s := statusOf(t, reg, "p")
	assert.Zero(t, s.Calls)
	assert.Equal(t, "Healthy", s.Status)
}

func TestDegradedThreshold(t *testing.T) {
	for _, tc := range []struct {
		good, bad int
		degraded  bool
	}{{0, 2, false}, {0, 3, true}, {3, 3, true}, {4, 3, false}, {100, 99, false}, {100, 100, true}} {
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}})
		observe(r, tc.good, call("m", 200))
		observe(r, tc.bad, call("m", 429))
		observe(r, 1000, call("other", 200)) // each model for itself
		s := statusOf(t, r, "p")
		assert.Equal(t, tc.degraded, s.Status == "Degraded", "%+v", tc)
		if tc.degraded {
			assert.Equal(t, []discovery.ModelHealth{{Model: "m", Calls: tc.good + tc.bad, Failures: tc.bad}}, s.FailingModels)
		}
	}
}

func TestWindowIsTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}})
		time.Sleep(7 * time.Second)
		observe(r, 3, call("m", 500))
		time.Sleep(5 * time.Minute)
		observe(r, 2, call("n", 200))
		time.Sleep(5*time.Minute - time.Second)
		s := statusOf(t, r, "p")
		assert.Equal(t, "Degraded", s.Status)
		assert.Equal(t, 5, s.Calls)
		require.Len(t, s.Window, 20)
		assert.Equal(t, discovery.Bucket{Calls: 3, Failures: 3}, s.Window[0])
		assert.Equal(t, discovery.Bucket{Calls: 2}, s.Window[10])
		time.Sleep(time.Second)
		s = statusOf(t, r, "p")
		assert.Equal(t, "Healthy", s.Status)
		assert.Equal(t, 2, s.Calls)
		assert.Nil(t, s.LastFailure)
		time.Sleep(24 * time.Hour)
		assert.Zero(t, statusOf(t, r, "p").Calls)
		observe(r, 1, call("m", 200))
		assert.Equal(t, 1, statusOf(t, r, "p").Calls)
	})
}

func TestWindowIsBoundedInModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}})
		for i := range 5000 {
			r.Observe(t.Context(), call(fmt.Sprintf("invented-%d", i), 404))
		}
		r.Observe(t.Context(), call(strings.Repeat("x", 1<<20), 404))
		s := statusOf(t, r, "p")
		assert.Equal(t, 5001, s.Calls)
		require.Len(t, s.FailingModels, 1)
		assert.Equal(t, discovery.ModelHealth{Model: "(other models)", Calls: 5001 - 512, Failures: 5001 - 512}, s.FailingModels[0])
		time.Sleep(11 * time.Minute)
		observe(r, 3, call("m", 500))
		s = statusOf(t, r, "p")
		require.Len(t, s.FailingModels, 1)
		assert.Equal(t, "m", s.FailingModels[0].Model, "idle models made room")
	})
}

func TestObserveAllocatesNothing(t *testing.T) {
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}})
	good, bad := call("m", 200), call("n", 500)
	ctx := t.Context()
	observe(r, 1, good)
	observe(r, 1, bad)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { r.Observe(ctx, good) }))
}

// Rejections follow what opened the breaker and must not hide it.
func TestLastFailureIsNoRejectionIfThereIsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}})
		rejected := resilience.Call{Provider: "p", Model: "m", Status: 503, Outcome: resilience.OutcomeRejected, Reason: "circuit_open"}
		observe(r, 1, call("m", 500))
		time.Sleep(time.Minute)
		observe(r, 10, rejected)
		s := statusOf(t, r, "p")
		assert.Equal(t, 11, s.Failures, "they count all the same")
		assert.Equal(t, "500", s.LastFailure.Reason)
		time.Sleep(9*time.Minute + time.Second)
		assert.Nil(t, statusOf(t, r, "p").LastFailure, "it has left the window")
		observe(r, 1, rejected)
		assert.Equal(t, "circuit_open", statusOf(t, r, "p").LastFailure.Reason)
	})
}

func TestReasonShowsWhatCannotBeSeen(t *testing.T) {
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}})
	observe(r, 3, call("a\u202eb\x1b[31m\xff\nö", 500))
	assert.Equal(t, `a\u202eb\x1b[31m\xff\nö fails: 3 of 3 calls`, statusOf(t, r, "p").Reason)
}

func TestBreakersShownAreTheFirstByName(t *testing.T) {
	var all []breaker.Snapshot
	for i := range 50 {
		all = append(all, breaker.Snapshot{Key: fmt.Sprintf("m%02d", 49-i), State: breaker.Open})
	}
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}, Breakers: func() []breaker.Snapshot { return all }})
	s := statusOf(t, r, "p")
	require.Len(t, s.Breakers, 32)
	assert.Equal(t, "m00", s.Breakers[0].Key)
	assert.Equal(t, "m31", s.Breakers[31].Key)
	assert.True(t, s.Breakers[0].NextProbe.IsZero(), "due: the next call is let through")
}

// A step of the wall clock neither hides a failure nor brings one back.
func TestWindowGoesByTheMonotonicClock(t *testing.T) {
	for _, step := range []time.Duration{10 * time.Minute, 24 * time.Hour, -10 * time.Minute, -24 * time.Hour} {
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}})
		begin := time.Now()
		stepped := func(after time.Duration) time.Time {
			return discovery.StepWallClock(begin.Add(after), int64(step/time.Second))
		}
		require.Equal(t, time.Second, stepped(time.Second).Sub(begin), "the monotonic clock does not step")
		require.InDelta(t, step, stepped(0).Round(0).Sub(begin.Round(0)), 0, "the wall clock does")

		r.ObserveAt(call("m", 500), begin)
		f, ok := r.LastFailureAt("p", stepped(time.Second))
		require.True(t, ok, "a second old, whatever the clock on the wall shows")
		assert.Equal(t, "500", f.Reason)
		// A rejection does not hide it before it has left the window …
		rejected := resilience.Call{Provider: "p", Model: "m", Status: 503, Outcome: resilience.OutcomeRejected, Reason: "circuit_open"}
		r.ObserveAt(rejected, stepped(9*time.Minute))
		f, ok = r.LastFailureAt("p", stepped(9*time.Minute))
		require.True(t, ok)
		assert.Equal(t, "500", f.Reason)
		// … and ten minutes are ten minutes.
		_, ok = r.LastFailureAt("p", stepped(10*time.Minute))
		assert.False(t, ok)
	}
}

// A request that could not be sent for its own fault says nothing of the
// provider (contract 4), whatever a client sends; a rejection counts (contract 8).
func TestTheWindowAndWhatWasNotSent(t *testing.T) {
	for name, row := range map[string]struct {
		call resilience.Call
		want string
	}{
		"request_error": {resilience.Call{Outcome: resilience.OutcomeTransportError, Status: 502, Reason: "request_error"}, discovery.StatusHealthy},
		"transport":     {resilience.Call{Outcome: resilience.OutcomeTransportError, Status: 502, Reason: "transport_error"}, discovery.StatusDegraded},
		"rejected":      {resilience.Call{Outcome: resilience.OutcomeRejected, Status: 503, Reason: "circuit_open"}, discovery.StatusDegraded},
	} {
		t.Run(name, func(t *testing.T) {
			r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}})
			row.call.Provider, row.call.Model = "p", "m"
			observe(r, 5, row.call)
			assert.Equal(t, row.want, statusOf(t, r, "p").Status)
		})
	}
}
