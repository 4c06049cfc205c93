package main

import (
	"slices"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// known is a limit that a stack was told of. Its hold began between begin and
// heard and ends between first and last.
type known struct {
	key                       string
	guess                     bool // the upstream named no time
	begin, heard, first, last time.Time
}

// holdTimes are the limits that one stack was told of.
type holdTimes struct {
	mu  sync.Mutex
	all []known // guarded by mu
}

func (h *holdTimes) add(k known) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, k)
}

// about calls f with those of a model and its account that a span may meet, the
// latest first, until it returns true.
func (h *holdTimes) about(model string, s span, f func(*known) bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range slices.Backward(h.all) {
		k := &h.all[i]
		if k.heard.Before(s.begin.Add(-maxHold - 2*deadline)) {
			return false // they come in the order in which they were heard of
		}
		if (k.key == "" || k.key == model) && !k.begin.After(s.end) && !k.last.Before(s.begin) && f(k) {
			return true
		}
	}
	return false
}

// certain reports whether the key was held for certain all the time.
func (h *holdTimes) certain(model string, s span) bool {
	return h.about(model, s, func(k *known) bool {
		return !k.guess && k.heard.Before(s.begin) && k.first.After(s.end)
	})
}

// possible reports whether the key may have been held at any time of it.
func (h *holdTimes) possible(model string, s span) bool {
	return h.about(model, s, func(*known) bool { return true })
}

// checked is when the stack at the earliest looked, before attempt n of the call,
// whether its key is held.
func checked(c *resilience.Call, n int) time.Time {
	if n == 0 {
		return c.Start
	}
	before := c.Attempts[n-1]
	return before.Start.Add(before.Elapsed + c.Attempts[n].Wait)
}

// heldKeys checks that no request of the call was read by an upstream that had
// told the stack before to keep it away: reads are when it has read them.
func (s *soak) heldKeys(model string, c *resilience.Call, reads []time.Time, fail func(string, ...any)) {
	for _, at := range reads {
		n := len(c.Attempts) - 1
		for n >= 0 && c.Attempts[n].Start.After(at) {
			n--
		}
		if n < 0 {
			continue
		}
		i := index(c.Provider)
		held := func(since time.Time) bool {
			ok := s.providers[i].holds.certain(model, span{since, at})
			if ok {
				fail("%s was sent attempt %d although its key was held", c.Provider, n+1)
			}
			return ok
		}
		if held(checked(c, n)) || n > 0 || policy(i).Limits.MaxConcurrent == 0 {
			continue
		}
		// Who has waited for a place has looked again just before it was sent.
		s.later(func() { held(c.Attempts[0].Start.Add(-s.lags.slack(span{c.Start, at}))) })
	}
}

// skips checks that nothing is passed over for a hold that has ended.
func (s *soak) skips(model string, attempts []failover.Attempt, ended time.Time, fail func(string, ...any)) {
	for i, a := range attempts {
		if a.Reason != failover.ReasonRateLimited || !a.Skipped {
			continue
		}
		until := ended
		for _, next := range attempts[i+1:] {
			if !next.Skipped {
				until = next.Start
				break
			}
		}
		p := s.providers[index(a.Provider)]
		s.later(func() {
			if !p.holds.possible(model, span{a.Start, until}) {
				fail("%s was passed over for a hold that is none", a.Provider)
			}
		})
	}
}
