package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	eapache "github.com/eapache/go-resiliency/breaker"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/sony/gobreaker/v2"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience"
)

const (
	breakerExecute = "gobreaker, Execute"
	breakerOurs    = "surefoot"
	breakerTwo     = "surefoot, all cores"

	failures = 5                // in a row open the breaker, everywhere
	openTime = 30 * time.Second // and for so long
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // a set-up that cannot fail
	}
	return v
}

func nothing() error { return nil }

func newGobreaker(name string) *gobreaker.CircuitBreaker[any] {
	return gobreaker.NewCircuitBreaker[any](gobreakerSettings(name))
}

func gobreakerSettings(name string) gobreaker.Settings {
	return gobreaker.Settings{
		Name: name, Timeout: openTime, MaxRequests: 2,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failures },
	}
}

func newFailsafe[T any]() circuitbreaker.CircuitBreaker[T] {
	return circuitbreaker.NewBuilder[T]().WithFailureThreshold(failures).WithSuccessThreshold(2).WithDelay(openTime).Build()
}

func policyOf(scope string) breaker.Policy {
	p := breaker.DefaultPolicy() // five failures, 30 s, two probes
	p.Scope = scope
	return p
}

func breakerSection() *section {
	ours := must(breaker.New(breaker.Config{Policy: policyOf(breaker.ScopeProvider)}))
	gb := newGobreaker("acme")
	two := gobreaker.NewTwoStepCircuitBreaker[any](gobreakerSettings("acme"))
	eb := eapache.New(failures, 2, openTime)
	fs := newFailsafe[any]()
	executor := failsafe.With(fs)
	var admitted, settled atomic.Int64
	oursOnce := func() {
		var p breaker.Permit
		if ours.Admit(&p) == nil {
			p.Settle(breaker.Success)
		}
	}
	gbOnce := func() { _, _ = gb.Execute(func() (any, error) { return nil, nil }) }
	return &section{
		title: "Breaker, closed: admit a call and report its success",
		note:  "All open after five failures in a row for 30 s.",
		base:  breakerExecute,
		rows: []*row{
			timed("two atomic adds", loop(func() { admitted.Add(1); settled.Add(1) })),
			timed("eapache/go-resiliency (remembers no success)", loop(func() { _ = eb.Run(nothing) })),
			timed("failsafe-go, permit only", loop(func() {
				if fs.TryAcquirePermit() {
					fs.RecordSuccess()
				}
			})),
			timed(breakerExecute, loop(gbOnce)),
			spread("gobreaker, Execute, all cores", gbOnce),
			timed("gobreaker, two-step", loop(func() {
				if done, err := two.Allow(); err == nil {
					done(nil)
				}
			})),
			timed("failsafe-go, executor", loop(func() { _ = executor.Run(nothing) })),
			timed(breakerOurs, loop(oursOnce)),
			spread(breakerTwo, oursOnce),
		},
		targets: []target{
			ratio(breakerOurs, breakerExecute, 0.25, 0.1),
			{
				what: breakerTwo + " / " + breakerOurs + ", by the wall's clock", limit: 1,
				of: func(r round) float64 { return r[breakerTwo].wall / r[breakerOurs].wall },
			},
			allocs(breakerOurs, 0),
			allocs(breakerTwo, 0),
		},
	}
}

func loop(fn func()) func(b *testing.B) {
	return func(b *testing.B) {
		for b.Loop() {
			fn()
		}
	}
}

func parallel(fn func()) func(b *testing.B) {
	return func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				fn()
			}
		})
	}
}

func rejectionSection() *section {
	never := roundTrip(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("the breaker let a call through")
	})
	ours := &breaker.Transport{Base: never, Policy: policyOf(breaker.ScopeProvider), Provider: "acme"}
	ours.ForceOpen("", time.Hour)
	p := resilience.DefaultPolicy()
	p.ErrorsAsResponses = resilience.RenderNone
	stack := must(resilience.Builder{Base: never}.Build("acme", p))
	stack.ForceOpen("", time.Hour)
	fs := newFailsafe[*http.Response]() //nolint:bodyclose // a type argument
	fs.Open()
	failsafeLayer := failsafehttp.NewRoundTripper(never, fs)
	gb := newGobreaker("acme")
	for gb.State() != gobreaker.StateOpen {
		_, _ = gb.Execute(func() (any, error) { return nil, errors.New("down") })
	}
	get := must(http.NewRequestWithContext(context.Background(), http.MethodGet, chatURL, nil))
	same := func(*testing.B) *http.Request { return get }
	post := func(b *testing.B) *http.Request { return newRequest(b, chatURL) }
	rejected := func(rt http.RoundTripper, req func(*testing.B) *http.Request) func(b *testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				resp, err := rt.RoundTrip(req(b))
				if err == nil {
					_ = resp.Body.Close()
					b.Fatal("not rejected")
				}
			}
		}
	}
	const theirs, layer = "failsafe-go, layer", "surefoot, layer"
	const none, theirPost, ourPost = "a new request of 2 KB, and no more", "failsafe-go, layer, with it", "surefoot, whole stack, with it"
	return &section{
		title: "Rejection while open, as an error",
		note: "A request without a body, the same one each time: what is measured is the rejection. The stack also keeps a record of the call. " +
			"With a body the cost of making the request is taken off the ratio.",
		base: theirs,
		rows: []*row{
			timed("gobreaker, Execute (no request)", loop(func() { _, _ = gb.Execute(func() (any, error) { return nil, nil }) })),
			timed(theirs, rejected(failsafeLayer, same)),
			timed(layer, rejected(ours, same)),
			timed("surefoot, whole stack", rejected(stack, same)),
			timed(none, func(b *testing.B) {
				for b.Loop() {
					post(b)
				}
			}),
			timed(theirPost, rejected(failsafeLayer, post)),
			timed(ourPost, rejected(stack, post)),
		},
		targets: []target{
			ratio(layer, theirs, 1.0/3, 0),
			{
				what: ourPost + " / " + theirPost, limit: 1.0 / 3,
				of: func(r round) float64 { return (r[ourPost].ns - r[none].ns) / (r[theirPost].ns - r[none].ns) },
			},
		},
	}
}
