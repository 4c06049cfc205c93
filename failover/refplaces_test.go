package failover_test

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/surefoot-go/surefoot/failover"
)

// The reference of a chain of two stacks with places: events in the order of
// time, each of which is worked out by itself. Time is since the start.

// How a call's exchange with a target ends, and what its caller does.
const (
	endOK      = iota // the caller reads the body after a while
	endClose          // or closes it then
	endAbandon        // or leaves it lying for long
	endStatus         // 503
	endError          // no answer
	endPanic          // below the stack
	endGoexit         // below the stack
	placesEnds        // how many there are
)

type placeScript struct {
	takes time.Duration // until the upstream answers
	end   int
	hold  time.Duration // of the body
}

type placeCall struct {
	id      int
	at      time.Duration
	leaves  time.Duration // by a cancellation or a deadline
	cancels bool
	scripts [2][2]placeScript // by target and attempt
}

type placePlan struct {
	sizes         [2]int        // 0: any number
	patience      time.Duration // or PatienceOff
	retries       int
	backoff, idle time.Duration
	away, back    time.Duration // when the second target may not be tried
	calls         []placeCall
	looks         []time.Duration // when the places in use are looked at
}

// allowed reports whether the second target may be tried.
func (p *placePlan) allowed(at time.Duration) bool { return at < p.away || at >= p.back }

// placeEvent is what is compared.
type placeEvent struct {
	at           time.Duration
	call         int // -1: a look
	target       int // of an attempt; -1: the call has ended
	n            int // number of the attempt, or in use of the first
	ok           bool
	inUse, total int
}

type refPlaces struct {
	plan   *placePlan
	now    time.Duration
	due    []refDue
	taken  [2]int
	queues [2][]*refWait
	log    []placeEvent
}

type refDue struct {
	at time.Duration
	do func()
}

type refWait struct{ granted func() }

func (r *refPlaces) after(at time.Duration, do func()) {
	i, _ := slices.BinarySearchFunc(r.due, at, func(d refDue, at time.Duration) int { return cmp.Compare(d.at, at) })
	r.due = slices.Insert(r.due, i, refDue{at, do})
}

// refRun is everything that has to happen.
func refRun(p *placePlan) []placeEvent {
	r := &refPlaces{plan: p}
	for i := range p.calls {
		c := &p.calls[i]
		r.after(c.at, func() { r.enter(c, 0) })
	}
	for _, at := range p.looks {
		r.after(at, func() {
			r.log = append(r.log, placeEvent{at: at, call: -1, inUse: r.taken[0], total: r.taken[0] + r.taken[1]})
		})
	}
	for len(r.due) > 0 {
		next := r.due[0]
		r.due = r.due[1:]
		r.now = next.at
		next.do()
	}
	return r.log
}

// elsewhere reports whether a call at a target could go to another.
func (r *refPlaces) elsewhere(target int) bool { return target == 0 && r.plan.allowed(r.now) }

// left is what the patience lets a call that has waited still wait.
func (r *refPlaces) left(target int, waited time.Duration) time.Duration {
	if r.plan.patience == failover.PatienceOff || !r.elsewhere(target) {
		return math.MaxInt64
	}
	return max(0, r.plan.patience-waited)
}

func (r *refPlaces) enter(c *placeCall, target int) {
	size := r.plan.sizes[target]
	if size == 0 || r.taken[target] < size {
		r.grant(c, target, 0)
		return
	}
	r.wait(c, target, r.now)
}

// wait puts the call at the end of the queue. Its patience is judged anew when it
// is over: where there is no other target any more the call queues again.
func (r *refPlaces) wait(c *placeCall, target int, began time.Duration) {
	left := r.left(target, r.now-began)
	if left == 0 {
		r.moveOn(c, target)
		return
	}
	w := &refWait{granted: func() { r.grant(c, target, r.now-began) }}
	r.queues[target] = append(r.queues[target], w)
	until, gone := c.leaves, true
	if left < until-r.now {
		until, gone = r.now+left, false
	}
	r.after(until, func() {
		i := slices.Index(r.queues[target], w)
		if i < 0 {
			return // it has a place
		}
		r.queues[target] = slices.Delete(r.queues[target], i, i+1)
		if gone {
			r.end(c, false)
		} else {
			r.wait(c, target, began)
		}
	})
}

func (r *refPlaces) grant(c *placeCall, target int, waited time.Duration) {
	if r.plan.sizes[target] > 0 {
		r.taken[target]++
	}
	r.attempt(c, target, 0, waited)
}

func (r *refPlaces) release(target int) {
	if r.plan.sizes[target] == 0 {
		return
	}
	r.taken[target]--
	if q := r.queues[target]; len(q) > 0 {
		r.queues[target] = q[1:]
		q[0].granted()
	}
}

func (r *refPlaces) attempt(c *placeCall, target, n int, waited time.Duration) {
	r.log = append(r.log, placeEvent{at: r.now, call: c.id, target: target, n: n})
	s := c.scripts[target][n]
	if c.leaves < r.now+s.takes {
		r.leave(c, target)
		return
	}
	r.after(r.now+s.takes, func() {
		switch s.end {
		case endOK, endClose:
			r.after(r.now+min(s.hold, r.plan.idle), func() { r.release(target) })
			r.end(c, true)
		case endAbandon:
			r.after(r.now+r.plan.idle, func() { r.release(target) })
			r.end(c, true)
		case endPanic, endGoexit:
			r.release(target)
			r.end(c, false)
		default:
			r.failed(c, target, n, waited)
		}
	})
}

// leave ends the call, which is at a target, when its caller has gone.
func (r *refPlaces) leave(c *placeCall, target int) {
	r.after(c.leaves, func() {
		r.release(target)
		r.end(c, false)
	})
}

func (r *refPlaces) failed(c *placeCall, target, n int, waited time.Duration) {
	b := r.plan.backoff
	if n < r.plan.retries && b <= r.left(target, waited) {
		switch {
		case r.now+b < c.leaves:
			r.after(r.now+b, func() { r.attempt(c, target, n+1, waited+b) })
			return
		case c.cancels: // nobody knew
			r.leave(c, target)
			return
		}
	}
	r.release(target)
	r.moveOn(c, target)
}

func (r *refPlaces) moveOn(c *placeCall, target int) {
	if r.elsewhere(target) {
		r.enter(c, 1)
	} else {
		r.end(c, false)
	}
}

func (r *refPlaces) end(c *placeCall, ok bool) {
	r.log = append(r.log, placeEvent{at: r.now, call: c.id, target: -1, ok: ok})
}
