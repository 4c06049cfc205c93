package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// chainPatience is the chains' own, between one and two waits of the longest
// backoff.
const chainPatience = 120 * time.Millisecond

// troubles are the times in which a breaker may not have been closed.
type troubles struct {
	mu    sync.Mutex
	spans []span    // guarded by mu; the end of one that lasts is zero
	heard time.Time // guarded by mu: of the latest change
}

// changed hears of a change, in order but perhaps late.
func (t *troubles) changed(b breaker.Snapshot, to breaker.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.spans) - 1
	switch lasts := last >= 0 && t.spans[last].end.IsZero(); {
	case to == breaker.Closed && lasts:
		t.spans[last].end = time.Now()
	case to != breaker.Closed && !lasts:
		begin := t.heard // it has changed again, so nothing says when that was
		if b.State == to {
			begin = b.Since
		}
		t.spans = append(t.spans, span{begin: begin})
	}
	t.heard = time.Now()
}

// closed reports whether the breaker was closed for certain all the time.
func (t *troubles) closed(s span) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(t.spans) - 1; i >= 0; i-- {
		o := t.spans[i]
		if !o.begin.After(s.end) && (o.end.IsZero() || !o.end.Before(s.begin)) {
			return false
		}
	}
	return true
}

// lags knows how late this machine is, and when: with its timers, and with calls
// that wait for nothing.
type lags struct {
	mu  sync.Mutex
	all []lag // guarded by mu
}

type lag struct {
	at time.Time
	d  time.Duration
}

const lagTick = 10 * time.Millisecond

// watch measures until ctx ends, and says when it has begun.
func (l *lags) watch(ctx context.Context, begun chan<- struct{}) {
	begin := time.Now()
	for close(begun); ; begin = time.Now() {
		t := time.NewTimer(lagTick)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		for range 3 { // a timer's goroutine runs at once, one that works waits for its turn
			runtime.Gosched()
		}
		if d := time.Since(begin) - lagTick; d > lagTick {
			l.add(time.Now(), d)
		}
	}
}

func (l *lags) add(at time.Time, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, lag{at, d})
}

// busy is the lateness from which on times by the clock say nothing of a call.
const busy = 100 * time.Millisecond

// slack is what a time of the span may be too long by on a busy machine.
func (l *lags) slack(s span) time.Duration { return 200*time.Millisecond + 2*l.worst(s) }

// worst is how late a timer was at worst about the time of the span.
func (l *lags) worst(s span) (worst time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.all {
		if x.at.After(s.begin.Add(-time.Second)) && x.at.Before(s.end.Add(time.Second)) {
			worst = max(worst, x.d)
		}
	}
	return worst
}

// dueCheck is a check that has to wait.
type dueCheck struct {
	at time.Time
	do func()
}

// hearsay is after how long everything that others report is known.
const hearsay = 10 * time.Second

// later has a check made once everything is known.
func (s *soak) later(check func()) {
	s.mu.Lock()
	s.checks = append(s.checks, dueCheck{time.Now().Add(hearsay), check})
	s.mu.Unlock()
	s.runChecks(false)
}

// runChecks makes the checks that are due, or all of them.
func (s *soak) runChecks(all bool) {
	for {
		s.mu.Lock()
		if len(s.checks) == 0 {
			s.checks = nil // and what the array behind it still holds
		}
		if s.checks == nil || !all && time.Now().Before(s.checks[0].at) {
			s.mu.Unlock()
			return
		}
		c := s.checks[0]
		s.checks[0] = dueCheck{}
		s.checks = s.checks[1:]
		s.mu.Unlock()
		c.do()
	}
}

// patient checks that a call did not wait for one target for longer than the
// patience while it could have tried another.
func (s *soak) patient(p *plan, c *resilience.Call, attempts []failover.Attempt, fail func(string, ...any)) {
	var waited time.Duration
	for n := 1; n < len(c.Attempts) && !lastResort(c, attempts); n++ {
		if waited += c.Attempts[n].Wait; waited > chainPatience {
			w, before := waited, c.Attempts[n-1]
			began := span{before.Start.Add(before.Elapsed), c.Attempts[n].Start.Add(-c.Attempts[n].Wait)}
			s.later(func() {
				s.elsewhere(p, c, began, func(free string) {
					fail("the waits on %s add up to %v, and %s was free", c.Provider, w, free)
				})
			})
			break
		}
	}
	for _, a := range c.Attempts {
		if over := a.Elapsed - policy(index(c.Provider)).Retry.AttemptTimeout; over > 0 {
			s.lags.add(a.Start.Add(a.Elapsed), over)
		}
	}
	s.inQueue(p, c, attempts, fail)
}

// lastResort reports whether the call went to a target that had been passed over
// before: all others were as well, and the walk does not come back to them.
func lastResort(c *resilience.Call, attempts []failover.Attempt) bool {
	return slices.ContainsFunc(attempts, func(a failover.Attempt) bool {
		return a.Skipped && a.Provider == c.Provider && a.Start.Before(c.Start)
	})
}

// inQueue checks the wait for a place, which is in what passes before the first
// attempt, or before the call is rejected.
func (s *soak) inQueue(p *plan, c *resilience.Call, attempts []failover.Attempt, fail func(string, ...any)) {
	if policy(index(c.Provider)).Limits.MaxConcurrent == 0 {
		if len(c.Attempts) > 0 {
			s.lags.add(c.Attempts[0].Start, c.Attempts[0].Start.Sub(c.Start))
		}
		return
	}
	inQueue := span{c.Start, c.Start}
	if len(c.Attempts) > 0 {
		inQueue.end = c.Attempts[0].Start
	}
	for _, a := range attempts {
		if a.Provider == c.Provider && a.Reason == failover.ReasonConcurrency {
			inQueue.end = a.Start.Add(a.Elapsed)
		}
	}
	if inQueue.length() > chainPatience+200*time.Millisecond {
		s.later(func() {
			if s.lags.worst(inQueue) > busy {
				s.tally.count("limits", "waits that a busy machine makes long")
				return
			}
			if inQueue.length() <= chainPatience+s.lags.slack(inQueue) {
				return
			}
			s.elsewhere(p, c, inQueue, func(free string) {
				fail("the wait for a place of %s took %v, and %s was free", c.Provider, inQueue.length(), free)
			})
		})
	}
}

// elsewhere reports a target after the call's that could have been tried at any
// time of the span.
func (s *soak) elsewhere(p *plan, c *resilience.Call, at span, found func(free string)) {
	after := false
	for _, i := range p.order() {
		o := s.providers[i]
		if after && o.troubles.closed(at) && !o.holds.possible(p.model, at) {
			found(fmt.Sprintf("%s, from %v to %v", o.name, at.begin.Sub(c.Start), at.end.Sub(c.Start)))
			return
		}
		after = after || o.name == c.Provider
	}
}

func (s span) length() time.Duration { return s.end.Sub(s.begin) }
