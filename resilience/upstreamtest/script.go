package upstreamtest

import (
	"slices"
	"time"
)

// flap alternates by the clock.
type flap struct {
	period time.Duration
	a, b   Step
}

// script hands out its steps, one a request or as long as each stands. The
// last repeats, unless the script loops or is a queue. Guarded by Upstream.mu.
type script struct {
	steps []Step
	loop  bool
	queue bool // used-up steps are gone; an empty queue has nothing to say

	pos  int
	used int       // requests that steps[pos] answered
	from time.Time // first of them
	subs [2]*script
}

// next is the step for a request that arrived now; false if the script is
// empty or used up.
func (s *script) next(now time.Time) (Step, bool) {
	for range len(s.steps) + 1 {
		if s.pos >= len(s.steps) {
			break
		}
		st := s.steps[s.pos]
		if s.used == 0 {
			s.from = now
		}
		if !s.over(st, now) {
			s.used++
			return s.resolve(st, now)
		}
		s.advance()
	}
	return Step{}, false
}

// over tells whether the step at pos has answered all that it stands for.
func (s *script) over(st Step, now time.Time) bool {
	if s.used == 0 || !s.loop && !s.queue && s.pos == len(s.steps)-1 {
		return false
	}
	if st.lasts > 0 {
		return now.Sub(s.from) >= st.lasts
	}
	return s.used >= max(st.times, 1)
}

// advance goes to the following step.
func (s *script) advance() {
	s.pos, s.used, s.subs = s.pos+1, 0, [2]*script{}
	if s.loop && s.pos == len(s.steps) {
		s.pos = 0
	}
	if s.queue && s.pos > 0 {
		s.steps, s.pos = slices.Delete(s.steps, 0, s.pos), 0
	}
}

// resolve goes down into a step that is made of steps.
func (s *script) resolve(st Step, now time.Time) (Step, bool) {
	which := 0
	switch {
	case st.flap != nil:
		if now.Sub(s.from)/st.flap.period%2 == 1 {
			which = 1
		}
		if s.subs[which] == nil {
			s.subs[which] = &script{steps: []Step{[]Step{st.flap.a, st.flap.b}[which]}}
		}
	case st.cycle != nil:
		if s.subs[0] == nil {
			s.subs[0] = &script{steps: st.cycle, loop: true}
		}
	default:
		return st, true
	}
	return s.subs[which].next(now)
}

// rule is a script for the requests that a function picks.
type rule struct {
	match  func(*Request) bool
	script *script
}

// Default sets the script for requests that no other one answers, unless they
// ask for a model list that [Upstream.Models] or [Upstream.List] gave. Without
// it known endpoints are answered with OK("ok") and others with a 404.
func (u *Upstream) Default(steps ...Step) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fallback = &script{steps: slices.Clone(steps)}
}

// Model sets the script for requests that name this model, in the body or the
// path. It replaces an earlier one; without steps it removes it.
func (u *Upstream) Model(name string, steps ...Step) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.models[name] = &script{steps: slices.Clone(steps)}
}

// When adds a script for the requests that match tells; the latest one that
// matches decides. match is called with the Upstream locked: it must not call
// its methods.
func (u *Upstream) When(match func(*Request) bool, steps ...Step) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rules = append(u.rules, rule{match, &script{steps: slices.Clone(steps)}})
}

// Next queues steps for the next requests, whatever they name, one each;
// requests for a model list leave the queue alone. It goes before [Upstream.When],
// [Upstream.Model] and [Upstream.Default].
func (u *Upstream) Next(steps ...Step) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.queue.steps = append(u.queue.steps, steps...)
}

// Models sets the models that a request for the model list is told, in the
// format and the pages that it asks for.
func (u *Upstream) Models(ids ...string) { u.List(ModelList(ids...)) }

// List sets the script for requests for a model list: [ModelList] steps and
// any others.
func (u *Upstream) List(steps ...Step) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lists = &script{steps: slices.Clone(steps)}
}

// pick is the step that answers r. Callers hold u.mu.
func (u *Upstream) pick(r *Request) Step {
	if k := u.keptFor(r); k != nil {
		return u.rest(k, r)
	}
	list := r.Format == Models
	if !list {
		if st, ok := u.queue.next(r.Time); ok {
			return st
		}
	}
	for _, ru := range slices.Backward(u.rules) {
		if ru.match(r) {
			if st, ok := ru.script.next(r.Time); ok {
				return st
			}
		}
	}
	candidates := []*script{u.fallback}
	if list {
		candidates = []*script{u.lists, u.fallback}
	} else if r.Model != "" {
		candidates = []*script{u.models[r.Model], u.fallback}
	}
	for _, sc := range candidates {
		if sc != nil {
			if st, ok := sc.next(r.Time); ok {
				return st
			}
		}
	}
	if r.Format == Unknown || list {
		return Status(404)
	}
	return OK("ok")
}
