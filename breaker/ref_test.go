package breaker_test

import (
	"slices"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
)

// The reference model of a breaker: slow and obvious. It keeps everything that
// ever happened, by period, and works every answer out of that.

type refChange struct {
	key      string
	from, to breaker.State
}

type refPeriod struct {
	state    breaker.State
	cause    breaker.Cause
	began    time.Time         // of this period
	until    time.Time         // open: the end
	drawn    bool              // open: the end has a jitter that is not known yet
	verdicts []breaker.Verdict // in the order given
	probes   []*refCall        // half-open: in the order admitted
}

type refCall struct {
	period  *refPeriod
	entry   *refEntry // of a map's model
	at      time.Time
	probe   bool
	first   bool
	answer  time.Time // zero: not marked
	settled bool
}

type refBreaker struct {
	key     string
	policy  breaker.Policy
	periods []*refPeriod
	changes *[]refChange
}

func newRefBreaker(key string, p breaker.Policy, changes *[]refChange) *refBreaker {
	return &refBreaker{
		key: key, policy: p, changes: changes,
		periods: []*refPeriod{{state: breaker.Closed, began: time.Now()}},
	}
}

func (r *refBreaker) now() *refPeriod { return r.periods[len(r.periods)-1] }

func (r *refBreaker) enter(s breaker.State, cause breaker.Cause, until time.Time) {
	if from := r.now().state; from != s {
		*r.changes = append(*r.changes, refChange{r.key, from, s})
	}
	r.periods = append(r.periods, &refPeriod{state: s, cause: cause, began: time.Now(), until: until})
}

// since is the start of the oldest period from which on the state is the same.
func (r *refBreaker) since() time.Time {
	i := len(r.periods) - 1
	for i > 0 && r.periods[i-1].state == r.periods[i].state {
		i--
	}
	return r.periods[i].began
}

// run counts how often v was given last in a row, neutral ones aside.
func (p *refPeriod) run(v breaker.Verdict) (n int) {
	for _, got := range slices.Backward(p.verdicts) {
		switch got {
		case breaker.Neutral:
		case v:
			n++
		default:
			return n
		}
	}
	return n
}

// place is the probe that keeps others out now.
func (r *refBreaker) place() *refCall {
	p := r.now()
	if len(p.probes) == 0 {
		return nil
	}
	last := p.probes[len(p.probes)-1]
	if last.settled || time.Since(last.at) >= r.policy.Timeout {
		return nil
	}
	return last
}

// wait is how long a call is kept out, 0 if it is let in.
func (r *refBreaker) wait() time.Duration {
	switch p := r.now(); p.state {
	case breaker.Open:
		return max(0, time.Until(p.until))
	case breaker.HalfOpen:
		if c := r.place(); c != nil {
			return r.policy.Timeout - time.Since(c.at)
		}
	}
	return 0
}

func (r *refBreaker) rejection() *breaker.OpenError {
	if d := r.wait(); d > 0 {
		return &breaker.OpenError{Provider: "acme", Key: r.key, State: r.now().state, RetryAfter: d}
	}
	return nil
}

func (r *refBreaker) admit() *refCall {
	if r.now().state == breaker.Open {
		r.enter(breaker.HalfOpen, r.now().cause, time.Time{})
	}
	p := r.now()
	c := &refCall{period: p, at: time.Now(), probe: p.state == breaker.HalfOpen}
	if c.probe {
		p.probes = append(p.probes, c)
	}
	return c
}

func (r *refBreaker) slow(c *refCall, at time.Time) bool {
	return r.policy.SlowCallThreshold > 0 && at.Sub(c.at) > r.policy.SlowCallThreshold
}

func (r *refBreaker) firstEvent(c *refCall) {
	if c.settled || c.first {
		return
	}
	c.first = true
	if r.slow(c, time.Now()) {
		r.settle(c, breaker.Failure)
	} else if c.probe {
		r.settle(c, breaker.Success)
	}
}

// answered marks that the answer is there; the first mark counts.
func (c *refCall) answered() {
	if !c.settled && c.answer.IsZero() {
		c.answer = time.Now()
	}
}

func (r *refBreaker) settle(c *refCall, v breaker.Verdict) {
	if c.settled {
		return
	}
	c.settled = true
	end := time.Now()
	if !c.answer.IsZero() {
		end = c.answer
	}
	if v == breaker.Success && !c.first && r.slow(c, end) {
		v = breaker.Failure
	}
	p := r.now()
	if c.period != p {
		return
	}
	p.verdicts = append(p.verdicts, v)
	switch {
	case p.state == breaker.Closed && p.run(breaker.Failure) >= r.policy.FailureThreshold,
		p.state == breaker.HalfOpen && v == breaker.Failure:
		d := r.openTime()
		r.enter(breaker.Open, breaker.CauseFailures, time.Now().Add(d))
		r.now().drawn = true
	case p.state == breaker.HalfOpen && p.run(breaker.Success) >= r.policy.SuccessThreshold:
		r.enter(breaker.Closed, breaker.CauseProbes, time.Time{})
	}
}

// openTime is the next open time without its jitter: the first one, once more by
// the factor for each failed probe since the breaker was closed.
func (r *refBreaker) openTime() time.Duration {
	d := float64(r.policy.Timeout)
	limit := max(r.policy.Timeout, r.policy.MaxTimeout)
	if r.policy.MaxTimeout == 0 {
		limit = max(r.policy.Timeout, 5*time.Minute)
	}
	for _, p := range slices.Backward(r.periods) {
		if p.state == breaker.Closed {
			break
		}
		if slices.Contains(p.verdicts, breaker.Failure) {
			d *= max(1, r.policy.TimeoutFactor)
		}
	}
	return min(time.Duration(min(d, 1e18)), limit)
}

// draw takes over what the real breaker, which is open for wait from now on,
// has drawn, and reports whether it may have drawn that.
func (r *refBreaker) draw(wait time.Duration) bool {
	p := r.now()
	if !p.drawn {
		return true
	}
	p.drawn = false
	d := time.Until(p.until)
	p.until = time.Now().Add(wait)
	return d <= wait && float64(wait) <= float64(d)*(1+r.policy.Jitter)+1
}

func (r *refBreaker) forceOpen(d time.Duration) {
	if d <= 0 {
		d = r.policy.Timeout
	}
	r.enter(breaker.Open, breaker.CauseOperator, time.Now().Add(d))
}

func (r *refBreaker) snapshot() breaker.Snapshot {
	s := breaker.Snapshot{Key: r.key, State: r.now().state, Cause: r.now().cause, RetryAfter: r.wait(), Since: r.since()}
	switch s.State {
	case breaker.Closed:
		s.Failures = r.now().run(breaker.Failure)
	case breaker.HalfOpen:
		s.Successes = r.now().run(breaker.Success)
		s.Probing = r.place() != nil
	}
	return s
}

// The reference model of a map: a list that is searched from end to end.

type refEntry struct {
	*refBreaker
	used  time.Time // when the last use ended
	order int       // counts uses that ended
	inUse int
}

type refMap struct {
	policy  breaker.Policy
	most    int // models
	own     *refBreaker
	models  []*refEntry
	changes []refChange
	uses    int
}

func newRefMap(p breaker.Policy) *refMap {
	m := &refMap{policy: p, most: 1024}
	m.own = newRefBreaker("", p, &m.changes)
	return m
}

func (m *refMap) find(key string) *refEntry {
	for _, e := range m.models {
		if e.key == key {
			return e
		}
	}
	return nil
}

func (e *refEntry) expired() bool {
	p := e.now()
	return e.inUse == 0 && time.Since(e.used) >= 10*time.Minute &&
		(p.state != breaker.Open || !time.Now().Before(p.until))
}

// room makes room for one more, or reports that there is none. With dry it
// only says so.
func (m *refMap) room(dry bool) bool {
	left := slices.DeleteFunc(slices.Clone(m.models), (*refEntry).expired)
	if len(left) >= m.most {
		oldest := -1
		for i, e := range left {
			if e.inUse == 0 && e.now().state == breaker.Closed && (oldest < 0 || e.order < left[oldest].order) {
				oldest = i
			}
		}
		if oldest < 0 {
			if !dry {
				m.models = left
			}
			return false
		}
		left = slices.Delete(left, oldest, oldest+1)
	}
	if !dry {
		m.models = left
	}
	return true
}

// lookup returns the key's entry, made if need be; nil if there is no room.
func (m *refMap) lookup(key string) *refEntry {
	e := m.find(key)
	if e == nil && m.room(false) {
		e = &refEntry{refBreaker: newRefBreaker(key, m.policy, &m.changes)}
		m.models = append(m.models, e)
	}
	return e
}

func (m *refMap) endUse(e *refEntry) {
	m.uses++
	e.used, e.order = time.Now(), m.uses
}

func (m *refMap) peek(key string) *breaker.OpenError {
	if key == "" {
		return m.own.rejection()
	}
	if e := m.find(key); e != nil {
		return e.rejection()
	}
	if !m.room(true) {
		return &breaker.OpenError{Provider: "acme", Key: key, Full: true}
	}
	return nil
}

func (m *refMap) admit(key string) (*refCall, *breaker.OpenError) {
	if key == "" {
		if err := m.own.rejection(); err != nil {
			return nil, err
		}
		return m.own.admit(), nil
	}
	e := m.lookup(key)
	if e == nil {
		return nil, &breaker.OpenError{Provider: "acme", Key: key, Full: true}
	}
	if err := e.rejection(); err != nil {
		m.endUse(e)
		return nil, err
	}
	c := e.admit()
	c.entry = e
	e.inUse++
	return c, nil
}

func (m *refMap) of(c *refCall) *refBreaker {
	if c.entry != nil {
		return c.entry.refBreaker
	}
	return m.own
}

// after does f to a call and ends its use if that settled it.
func (m *refMap) after(c *refCall, f func(*refBreaker)) {
	was := c.settled
	f(m.of(c))
	if !was && c.settled && c.entry != nil {
		c.entry.inUse--
		m.endUse(c.entry)
	}
}

func (m *refMap) snapshots() []breaker.Snapshot {
	out := []breaker.Snapshot{m.own.snapshot()}
	for _, e := range m.models {
		out = append(out, e.snapshot())
	}
	slices.SortFunc(out, func(a, b breaker.Snapshot) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	return out
}
