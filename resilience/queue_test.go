package resilience_test

import (
	"context"
	"fmt"
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

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience"
)

// Places are given out in the order in which calls came for them, also where one
// in the middle of the queue leaves.
func TestPlacesAreGivenOutInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		up := roundTrip(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			order = append(order, req.Header.Get("X-Call"))
			mu.Unlock()
			time.Sleep(time.Second)
			return reply{status: 200, body: okJSON}.response(req)
		})
		p := quick()
		p.Limits.MaxConcurrent = 2
		tr, _ := build(t, up, p)
		var calls sync.WaitGroup
		for i := range 9 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if i == 4 { // in the queue from 0.4 s to 0.9 s
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), 900*time.Millisecond)
			}
			calls.Go(func() {
				defer cancel()
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				req := chat(t, ctx, plainBody)
				req.Header.Set("X-Call", fmt.Sprint(i))
				status, _, err := do(t, tr, req)
				assert.NoError(t, err)
				assert.Equal(t, map[bool]int{true: 429, false: 200}[i == 4], status)
			})
		}
		calls.Wait()
		assert.Equal(t, []string{"0", "1", "2", "3", "5", "6", "7", "8"}, order)
		assert.Zero(t, tr.InUse())
	})
}

// endings are the ways in which somebody else's code may end without returning.
var endings = map[string]func(){"a panic": func() { panic("boom") }, "the end of the goroutine": runtime.Goexit}

// A base or a hook that ends the goroutine gives the place back, whether anybody
// closes the body or not.
func TestWhateverEndsTheGoroutineGivesThePlaceBack(t *testing.T) {
	t.Parallel()
	answers := func(end func()) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			end()
			return reply{status: 503, body: `{}`}.response(req)
		})
	}
	for name, build := range map[string]func(end func(), b *resilience.Builder, p *resilience.Policy){
		"the base": func(end func(), b *resilience.Builder, _ *resilience.Policy) { b.Base = answers(end) },
		"its body": func(end func(), b *resilience.Builder, _ *resilience.Policy) {
			b.Base = roundTrip(func(req *http.Request) (*http.Response, error) {
				return reply{status: 200, rest: &ended{end: end}}.response(req)
			})
		},
		"OnCall": func(end func(), b *resilience.Builder, _ *resilience.Policy) {
			b.Base, b.OnCall = answers(nothing), func(context.Context, resilience.Call) { end() }
		},
		"OnStateChange": func(end func(), b *resilience.Builder, p *resilience.Policy) {
			b.Base, p.CircuitBreaker.FailureThreshold = answers(nothing), 1
			b.OnStateChange = func(_, _ string, _, _ breaker.State) { end() }
		},
		"the log": func(end func(), b *resilience.Builder, _ *resilience.Policy) {
			b.Base, b.Logger = answers(nothing), slog.New(&endingLog{Handler: slog.NewTextHandler(io.Discard, nil), end: end})
		},
		"the Read of the request's body": func(_ func(), b *resilience.Builder, _ *resilience.Policy) { b.Base = answers(nothing) },
		"what stands above": func(_ func(), b *resilience.Builder, _ *resilience.Policy) {
			b.Base = answers(nothing)
		},
	} {
		for how, end := range endings {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					p := quick()
					p.Retry.MaxRetries = 1
					p.Limits.MaxConcurrent = 1
					p.Stream.IdleTimeout = time.Hour
					var b resilience.Builder
					build(end, &b, &p)
					tr, err := b.Build("p", p)
					require.NoError(t, err)
					ctx := t.Context()
					if name == "what stands above" {
						ctx = resilience.WithPatience(ctx, endingPatience{end, end})
					}
					req := chat(t, ctx, plainBody)
					if name == "the Read of the request's body" {
						req.Body = &ended{end: end}
					}
					var call sync.WaitGroup
					call.Add(1)
					go func() {
						defer call.Done()
						defer func() { _ = recover() }()
						resp, err := tr.RoundTrip(req)
						if err != nil {
							return
						}
						_, _ = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					}()
					call.Wait()
					assert.Zero(t, tr.InUse())
				})
			})
		}
	}
}

// ended is a body whose Read ends the goroutine.
type ended struct{ end func() }

func (b *ended) Read([]byte) (int, error) { b.end(); return 0, io.EOF }
func (b *ended) Close() error             { return nil }

type endingLog struct {
	slog.Handler
	end func()
}

func (l *endingLog) Handle(context.Context, slog.Record) error { l.end(); return nil }

// endingPatience allows every wait, unless it ends when it is asked.
type endingPatience struct{ asked, told func() }

func (p endingPatience) MayWait(*http.Request, *http.Response, time.Duration) (time.Duration, bool) {
	p.asked()
	return time.Hour, true
}
func (p endingPatience) Waits(*http.Request, time.Duration) { p.told() }

func nothing() {}

// The same for a call that waits for its place: the queue goes on.
func TestAPanicInTheQueueKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	rows := make(map[string]endingPatience)
	for how, end := range endings {
		rows["before it waits, "+how], rows["behind its wait, "+how] = endingPatience{end, nothing}, endingPatience{nothing, end}
	}
	for name, patience := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tr, up, free := fullStack(t, quick(), reply{status: 200, body: okJSON})
				time.AfterFunc(2*time.Second, free)
				go func() {
					defer func() { _ = recover() }()
					_, _ = tr.RoundTrip(chat(t, resilience.WithPatience(t.Context(), patience), plainBody)) //nolint:bodyclose // it never returns
				}()
				time.Sleep(time.Second)
				status, body, err := do(t, tr, chat(t, t.Context(), plainBody))
				require.NoError(t, err)
				assert.Equal(t, 200, status)
				assert.True(t, strings.HasPrefix(body, "{"))
				assert.Equal(t, 2, up.count())
				assert.Zero(t, tr.InUse())
			})
		})
	}
}
