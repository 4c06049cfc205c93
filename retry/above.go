package retry

import (
	"context"
	"net/http"
	"time"

	"github.com/surefoot-go/surefoot/internal/layer"
)

// A Call is what stands above a [Transport] and knows one of its calls: it
// decides what the Policy leaves open, and is told what happens. All methods are
// called on the goroutine of RoundTrip, under no lock.
type Call interface {
	// Under is the context that the attempts run under: the request's own context, or one
	// under it that ends with a time limit.
	Under() context.Context
	// Replayable says whether the request may be sent again; it is asked when an
	// attempt has failed.
	Replayable() Replay
	// Advise looks at an answer that would be retried, see [Transport.Judge].
	Advise(resp *http.Response, head []byte) Advice
	// MayRetry is asked before each wait and after it whether another attempt may
	// still be made: a circuit breaker that has opened meanwhile says no. Refused
	// before, the answer in hand goes back; refused after, its status, headers and
	// first 64 KiB do (contract 3).
	MayRetry() bool
	// MayWait is asked before each wait whether it may be begun, with the answer
	// in hand, nil after a transport failure, and the shortest that the wait can
	// be. It returns the longest that the wait may be. Where it refuses, the
	// answer in hand goes back (contract 11).
	MayWait(resp *http.Response, wait time.Duration) (longest time.Duration, ok bool)
	// OnAttempt is called after each attempt. A panic in it is dropped.
	OnAttempt(Attempt)
	// OnRetry is called before each wait, with the attempt that failed and the
	// wait. A panic in it is dropped.
	OnRetry(Attempt, time.Duration)
}

func (c *call) replayable() Replay {
	switch {
	case c.above != nil:
		return c.above.Replayable()
	case c.t.Replayable != nil:
		return c.t.Replayable(c.req)
	}
	return c.t.set.replayable(c.req)
}

// judged reports whether somebody looks at the bodies of failed answers.
func (c *call) judged() bool { return c.above != nil || c.t.Judge != nil }

func (c *call) advise(resp *http.Response, head []byte) Advice {
	if c.above != nil {
		return c.above.Advise(resp, head)
	}
	return c.t.Judge(c.req, resp, head)
}

func (c *call) mayRetry() bool { return c.above == nil || c.above.MayRetry() }

func (c *call) onAttempt(a Attempt) {
	switch {
	case c.above != nil:
		layer.Hook(nil, "OnAttempt", func() { c.above.OnAttempt(a) })
	case c.t.OnAttempt != nil:
		layer.Hook(nil, "OnAttempt", func() { c.t.OnAttempt(c.req, a) })
	}
}

func (c *call) onRetry(a Attempt, wait time.Duration) {
	switch {
	case c.above != nil:
		layer.Hook(nil, "OnRetry", func() { c.above.OnRetry(a, wait) })
	case c.t.OnRetry != nil:
		layer.Hook(nil, "OnRetry", func() { c.t.OnRetry(c.req, a, wait) })
	}
}
