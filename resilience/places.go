package resilience

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// InUse returns how many calls hold a place of Limits.MaxConcurrent now.
func (t *Transport) InUse() int { return int(t.limits.taken.Load()) }

// A place is one of Limits.MaxConcurrent, held until the call is over. A body
// that its caller has left lying gives it back after the idle timeout. The zero
// place is none.
type place struct {
	limits *limits // nil: nothing is held
	idle   time.Duration

	mu    sync.Mutex
	timer *time.Timer // guarded by mu: from the hand-out of a body on
	given bool        // guarded by mu
}

// takePlace waits for a place, as long as the caller's deadline, Policy.Timeout
// and what stands above allow; the places are given out in the order of the
// calls. A rejection says that there was none in time.
func (c *call) takePlace() error {
	l := &c.t.limits
	if l.places == nil {
		return nil
	}
	if l.places.TryAcquire(1) {
		c.place.take(l, c.t.policy.Stream.IdleTimeout)
		return nil
	}
	if open, rejects := c.t.opened(c.wire.Model); rejects {
		return new(open) // at once (contract 4): no place is worth waiting for
	}
	if err := c.waitForPlace(); err != nil {
		return err
	}
	if open := c.held(); open != nil { // by a call that ended meanwhile
		return open
	}
	return nil
}

// waitForPlace waits in the queue, for as long at a time as what stands above has
// patience: that is judged anew before each wait (contract 11).
func (c *call) waitForPlace() error {
	ctx, cancel := context.WithCancel(c.within())
	defer cancel()
	if c.canceled != nil { // deprecated, and the one signal that is no context: it takes a goroutine
		go func() {
			select {
			case <-c.canceled:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	for {
		longest, may := c.mayWait(1)
		if !may {
			return c.noPlace()
		}
		if c.queue(ctx, longest) {
			return nil
		}
		if ctx.Err() != nil {
			return c.noPlace()
		}
	}
}

// mayWait is Patience.MayWait of what stands above the call, where something does.
func (c *call) mayWait(wait time.Duration) (longest time.Duration, ok bool) {
	if p := patienceOf(c.caller); p != nil {
		return p.MayWait(c.orig, nil, wait)
	}
	return math.MaxInt64, true
}

// queue waits for a place at most that long, and reports whether it has one.
func (c *call) queue(ctx context.Context, longest time.Duration) bool {
	if longest < math.MaxInt64 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, longest)
		defer cancel()
	}
	start := time.Now()
	err := c.t.limits.places.Acquire(ctx, 1)
	if err == nil { // first: whoever is told of the wait may panic
		c.place.take(&c.t.limits, c.t.policy.Stream.IdleTimeout)
	}
	if p := patienceOf(c.caller); p != nil {
		p.Waits(c.orig, time.Since(start))
	}
	return err == nil
}

// noPlace is why a call that got no place ends.
func (c *call) noPlace() error {
	if e := ending.Under(c.caller, c.canceled, nil); e.By == ending.Caller {
		return e.Explain(nil)
	}
	return &breaker.OpenError{Provider: c.t.provider, Limit: ending.ReasonConcurrency}
}

// take is for a place that was acquired.
func (p *place) take(l *limits, idle time.Duration) {
	l.taken.Add(1)
	p.limits, p.idle = l, idle
}

// busy says that a Read of the body begins, which lasts as long as it must: the
// wait for a first byte is bounded by nothing of ours (contract 6).
func (p *place) busy() {
	if p.limits == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
}

// touch says that the body is its caller's now, or that a Read has ended.
func (p *place) touch() {
	if p.limits == nil || p.idle <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.given:
	case p.timer == nil:
		p.timer = time.AfterFunc(p.idle, p.giveBack)
	default:
		p.timer.Reset(p.idle)
	}
}

// giveBack frees the place, once.
func (p *place) giveBack() {
	if p.limits == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.given {
		return
	}
	p.given = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.limits.taken.Add(-1)
	p.limits.places.Release(1)
}
