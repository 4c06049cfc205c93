package breaker

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A State is where a breaker stands. The numbers are the gauge's.
type State int

// The states of a breaker.
const (
	Closed   State = iota // calls pass and are counted
	HalfOpen              // one probe at a time passes
	Open                  // every call is rejected
)

// String returns "closed", "half-open" or "open".
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case HalfOpen:
		return "half-open"
	case Open:
		return "open"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Config is what [New] and [NewMap] need.
type Config struct {
	// Policy is checked by [Policy.Validate]; it is not changed.
	Policy Policy
	// Provider is named by errors and log lines.
	Provider string
	// OnStateChange hears every change, in order and one at a time, after the
	// locks are given up, on the goroutine of one of the calls. It may use the
	// breaker; a panic is recovered and logged. Nil: nobody listens. While it
	// hangs, at most 4,096 changes wait; beyond, the oldest are dropped.
	OnStateChange func(key string, from, to State)
	// Logger gets state changes and the hook's panics. Nil is silent.
	Logger *slog.Logger
}

// A core is what the breakers of one provider share.
type core struct {
	off       bool // no breaker: everything passes, nothing is counted
	threshold int
	successes int
	open      openTimes
	lease     time.Duration // of a probe's place
	slow      time.Duration // 0: off
	base      time.Time     // the monotonic clock's zero
	events    notifier
	owner     *Map // nil: a breaker alone
}

func newCore(c *Config) (*core, error) {
	if err := c.Policy.Validate(); err != nil {
		return nil, fmt.Errorf("breaker: invalid policy of provider %s: %w", c.Provider, err)
	}
	return &core{
		off:       !c.Policy.on(),
		threshold: c.Policy.FailureThreshold,
		successes: c.Policy.SuccessThreshold,
		open:      c.Policy.openTimes(),
		lease:     c.Policy.Timeout,
		slow:      c.Policy.SlowCallThreshold,
		base:      time.Now(),
		events:    notifier{hook: c.OnStateChange, log: c.Logger, provider: c.Provider},
	}, nil
}

// now is the monotonic time since base: a step of the wall clock is not seen.
func (c *core) now() time.Duration { return time.Since(c.base) }

// after is t+d without overflow.
func after(t, d time.Duration) time.Duration {
	if d > math.MaxInt64-t {
		return math.MaxInt64
	}
	return t + d
}

// The word of a breaker packs what a call on a closed breaker must know into
// one atomic load: the state, whether failures are counted, and the number of
// the period, which changes with the state so that a verdict of an earlier
// period is told by comparison.
const (
	stateBits  = 3      // of the word: the state
	dirtyBit   = 1 << 2 // of the word: the failure count is not 0
	periodUnit = 1 << 3 // of the word: the period counts in the bits above
)

// A Breaker counts consecutive failures and, once open, keeps calls away until
// probes have shown that the upstream is back. Time is monotonic. It is safe
// for concurrent use; a closed breaker with no failures counted is only read.
// Use [New] to make one.
type Breaker struct {
	core *core
	key  string
	word atomic.Uint64 // written under mu

	mu     sync.Mutex
	count  int32         // guarded by mu: consecutive failures while closed, good probes in a row while half-open
	failed int32         // guarded by mu: failed probes since it was last closed
	probes uint32        // guarded by mu: number of the last probe of this period
	taken  uint32        // guarded by mu: the probe that holds the place, 0: free
	until  time.Duration // guarded by mu: end of the open time
	lease  time.Duration // guarded by mu: end of the taken place
	since  time.Duration // guarded by mu: when the state was entered
}

// New returns a closed breaker, or an error if the policy is invalid. The
// policy's scope does not matter here.
func New(c Config) (*Breaker, error) {
	co, err := newCore(&c)
	if err != nil {
		return nil, err
	}
	return &Breaker{core: co}, nil
}

// State returns the state. An open breaker whose time is over stays [Open]
// until a probe asks.
func (b *Breaker) State() State { return stateOf(b.word.Load()) }

func stateOf(w uint64) State { return State(w & stateBits) }

// Admit asks for a call. Nil means go: p then belongs to this call and must be
// settled once its outcome is known. Otherwise the error is an [*OpenError] and
// p is left inert. What p held before is settled as [Neutral]. Admitting does
// not allocate.
func (b *Breaker) Admit(p *Permit) error {
	p.clear()
	return b.admit(p, nil)
}

// admit is Admit with p clear. e is the breaker's entry in a map.
func (b *Breaker) admit(p *Permit, e *entry) error {
	if b.core.off {
		return nil
	}
	w := b.word.Load()
	if stateOf(w) != Closed {
		return b.admitSlow(p, e)
	}
	p.breaker, p.entry, p.word = b, e, w&^dirtyBit
	if b.core.slow > 0 {
		p.start = b.core.now()
	}
	return nil
}

func (b *Breaker) admitSlow(p *Permit, e *entry) error {
	now := b.core.now()
	b.mu.Lock()
	w := b.word.Load()
	if rejected, no := b.rejection(w, now); no {
		b.mu.Unlock()
		return errorOf(rejected, true)
	}
	changed := stateOf(w) == Open
	if changed {
		b.enter(HalfOpen, now)
	}
	if stateOf(w) != Closed {
		b.probes++
		b.taken, b.lease = b.probes, after(now, b.core.lease)
		p.probe = b.taken
	}
	// The permit is complete before a hook runs: should that end the
	// goroutine, a deferred Settle still gives the place back.
	p.breaker, p.entry, p.word, p.start = b, e, b.word.Load()&^dirtyBit, now
	b.mu.Unlock()
	if changed {
		b.core.events.deliver()
	}
	return nil
}

// rejection says why a call may not pass at now, false if it may. b.mu is held.
func (b *Breaker) rejection(w uint64, now time.Duration) (OpenError, bool) {
	var end time.Duration
	switch stateOf(w) {
	case Closed:
		return OpenError{}, false
	case Open:
		end = b.until
	case HalfOpen:
		if b.taken == 0 {
			return OpenError{}, false
		}
		end = b.lease
	}
	if now >= end {
		return OpenError{}, false
	}
	return OpenError{
		Provider:   b.core.events.provider,
		Key:        b.key,
		State:      stateOf(w),
		RetryAfter: end - now,
	}, true
}

// Peek returns the error that [Breaker.Admit] would return now, nil if it
// would admit. It takes no place and changes nothing.
func (b *Breaker) Peek() *OpenError { return errorOf(b.Rejects()) }

// Rejects is [Breaker.Peek] without an allocation.
func (b *Breaker) Rejects() (OpenError, bool) {
	if b.core.off || stateOf(b.word.Load()) == Closed {
		return OpenError{}, false
	}
	now := b.core.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rejection(b.word.Load(), now)
}

// enter begins a new period. b.mu is held; the caller delivers the event once
// it has given that up.
func (b *Breaker) enter(to State, now time.Duration) {
	w := b.word.Load()
	from := stateOf(w)
	b.word.Store((w&^(stateBits|dirtyBit) + periodUnit) | uint64(to))
	b.count, b.probes, b.taken = 0, 0, 0
	if to == Closed {
		b.failed = 0
	}
	if from == to {
		return
	}
	b.since = now
	b.core.events.push(event{key: b.key, from: from, to: to})
}

// open begins an open period of d. b.mu is held.
func (b *Breaker) open(now, d time.Duration) {
	b.enter(Open, now)
	b.until = after(now, d)
}

// record counts the verdict of a permit and reports whether an event waits.
func (b *Breaker) record(p *Permit, v Verdict) (changed bool) {
	now := b.core.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.word.Load()
	if w&^dirtyBit != p.word {
		return false // the period in which the call was admitted is over
	}
	if stateOf(w) == HalfOpen {
		if b.taken == p.probe {
			b.taken = 0 // else the lease ran out and another holds the place
		}
		switch v {
		case Success:
			if b.count++; int(b.count) >= b.core.successes {
				b.enter(Closed, now)
				return true
			}
		case Failure:
			if b.failed < math.MaxInt32 {
				b.failed++
			}
			b.open(now, b.core.open.after(b.failed))
			return true
		}
		return false
	}
	switch v {
	case Success:
		b.count = 0
		b.word.Store(w &^ dirtyBit)
	case Failure:
		if b.count < math.MaxInt32 {
			b.count++
		}
		b.word.Store(w | dirtyBit)
		if int(b.count) >= b.core.threshold {
			b.open(now, b.core.open.after(b.failed))
			return true
		}
	}
	return false
}

// ForceOpen opens the breaker for d from now on, whatever its state; d of 0 or
// less is the policy's timeout, without factor and jitter. Calls in flight no longer count. A breaker that
// is off stays off.
func (b *Breaker) ForceOpen(d time.Duration) {
	if b.core.off {
		return
	}
	if d <= 0 {
		d = b.core.open.first
	}
	now := b.core.now()
	b.mu.Lock()
	b.open(now, d)
	b.mu.Unlock()
	b.core.events.deliver()
}

// Reset closes the breaker and forgets its counts. Calls in flight no longer
// count.
func (b *Breaker) Reset() {
	if b.core.off {
		return
	}
	now := b.core.now()
	b.mu.Lock()
	b.enter(Closed, now)
	b.mu.Unlock()
	b.core.events.deliver()
}

// A Snapshot is a breaker as it stood at one moment.
type Snapshot struct {
	// Key is "" for the provider's own breaker, else the model.
	Key string
	// State is [Open] until a probe is admitted, also after the open time.
	State State
	// Failures counts consecutive failures while closed.
	Failures int
	// Successes counts good probes in a row while half-open.
	Successes int
	// Probing says that a probe is under way and holds the place.
	Probing bool
	// RetryAfter is how long at most until a call may be let through; 0 is now.
	RetryAfter time.Duration
	// Since is when the state was entered.
	Since time.Time
}

// Snapshot returns the breaker as it stands.
func (b *Breaker) Snapshot() Snapshot {
	wall := time.Now()
	now := wall.Sub(b.core.base)
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.word.Load()
	s := Snapshot{
		Key:     b.key,
		State:   stateOf(w),
		Probing: b.taken != 0 && now < b.lease,
		Since:   wall.Add(b.since - now),
	}
	switch s.State {
	case Closed:
		s.Failures = int(b.count)
	case HalfOpen:
		s.Successes = int(b.count)
	}
	r, _ := b.rejection(w, now)
	s.RetryAfter = r.RetryAfter
	return s
}
