package breaker

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
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
	// Peers are the other replicas of the service. Nil: the breakers are alone.
	Peers Peers
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
	peers     peers
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
		peers:     peers{c.Peers, c.Logger},
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

// A Cause is why a breaker left the state that it was in before.
type Cause string

// The causes. An open or half-open breaker has that of its opening.
const (
	CauseNone     Cause = ""         // it was never open
	CauseFailures Cause = "failures" // of this replica's own calls or probes
	CauseProbes   Cause = "probes"   // good ones of this replica's own
	CausePeers    Cause = "peers"    // what other replicas say, see [Replica]
	CauseOperator Cause = "operator" // ForceOpen or Reset
)

var causes = [...]Cause{CauseNone, CauseFailures, CauseProbes, CausePeers, CauseOperator}

// The word of a breaker packs what a call on a closed breaker must know into
// one atomic load: the state, whether failures are counted, and the number of
// the period, which changes with the state so that a verdict of an earlier
// period is told by comparison. It also has the cause's place in causes.
const (
	stateBits  = 3      // of the word: the state
	dirtyBit   = 1 << 2 // of the word: the failure count is not 0
	causeUnit  = 1 << 3 // of the word: the cause
	causeBits  = 7 * causeUnit
	periodUnit = 1 << 6 // of the word: the period counts in the bits above
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

func causeOf(w uint64) Cause { return causes[w&causeBits/causeUnit] }

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
	asked := false // the replicas let this one probe
	for {
		now := b.core.now()
		b.mu.Lock()
		w := b.word.Load()
		rejected, no := b.rejection(w, now)
		if no || stateOf(w) != Closed && !asked && b.core.peers.any() {
			b.mu.Unlock()
			if no {
				if asked {
					b.core.peers.probed(b.key)
				}
				return errorOf(rejected, true)
			}
			if asked = b.core.peers.probe(b.key, b.core.lease); !asked {
				return errorOf(b.waits(w), true)
			}
			continue
		}
		changed, unused := b.take(p, e, w, now, asked)
		b.mu.Unlock()
		if unused {
			b.core.peers.probed(b.key)
		}
		if changed {
			b.core.events.deliver()
		}
		return nil
	}
}

// take fills in the permit of a call that is let through; unused says that it
// needs no leave of the replicas, or ends the one of a probe before it. b.mu is held.
func (b *Breaker) take(p *Permit, e *entry, w uint64, now time.Duration, asked bool) (changed, unused bool) {
	if changed = stateOf(w) == Open; changed {
		b.enter(HalfOpen, causeOf(w), now)
	}
	if stateOf(w) == Closed {
		unused = asked
	} else {
		unused = b.taken != 0 && b.core.peers.any() // its lease ran out
		b.probes++
		b.taken, b.lease = b.probes, after(now, b.core.lease)
		p.probe = b.taken
	}
	// The permit is complete before a hook runs: should that end the
	// goroutine, a deferred Settle still gives the place back.
	p.breaker, p.entry, p.word, p.start = b, e, b.word.Load()&^dirtyBit, now
	return changed, unused
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
	w := b.word.Load()
	rejected, no := b.rejection(w, now)
	b.mu.Unlock()
	if no || stateOf(w) == Closed || b.core.peers.mayProbe(b.key) {
		return rejected, no
	}
	return b.waits(w), true
}

// enter begins a new period. b.mu is held; the caller delivers the event once
// it has given that up. It reports whether a probe has lost its place, which the
// caller then passes on to the replicas.
func (b *Breaker) enter(to State, cause Cause, now time.Duration) (lost bool) {
	w := b.word.Load()
	from := stateOf(w)
	code := uint64(slices.Index(causes[:], cause)) * causeUnit
	b.word.Store((w&^(stateBits|dirtyBit|causeBits) + periodUnit) | code | uint64(to))
	lost = b.taken != 0
	b.count, b.probes, b.taken = 0, 0, 0
	if to == Closed {
		b.failed = 0
	}
	if from != to {
		b.since = now
		b.core.events.push(event{key: b.key, from: from, to: to})
	}
	return lost
}

// open begins an open period of d. b.mu is held.
func (b *Breaker) open(cause Cause, now, d time.Duration) (lost bool) {
	lost = b.enter(Open, cause, now)
	b.until = after(now, d)
	return lost
}

// record counts the verdict of a permit. It reports whether an event waits, and
// how many probes have given back their place, or lost it.
func (b *Breaker) record(p *Permit, v Verdict) (changed bool, freed int) {
	now := b.core.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.word.Load()
	if w&^dirtyBit != p.word {
		return false, 0 // the period in which the call was admitted is over
	}
	if stateOf(w) == HalfOpen {
		return b.recordProbe(p, v, now)
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
			b.open(CauseFailures, now, b.core.open.after(b.failed))
			return true, 0
		}
	}
	return false, 0
}

// recordProbe is record for a half-open breaker.
func (b *Breaker) recordProbe(p *Permit, v Verdict, now time.Duration) (changed bool, freed int) {
	if b.taken == p.probe {
		b.taken = 0 // else the lease ran out and another holds the place
		freed = 1
	}
	lost := false
	switch v {
	case Success:
		if b.count++; int(b.count) >= b.core.successes {
			changed, lost = true, b.enter(Closed, CauseProbes, now)
		}
	case Failure:
		if b.failed < math.MaxInt32 {
			b.failed++
		}
		changed, lost = true, b.open(CauseFailures, now, b.core.open.after(b.failed))
	}
	if lost {
		freed++
	}
	return changed, freed
}

// ForceOpen opens the breaker for d from now on, whatever its state; d of 0 or
// less is the policy's timeout, without factor and jitter. Calls in flight no
// longer count. A breaker that is off stays off. Other replicas do not hear of it.
func (b *Breaker) ForceOpen(d time.Duration) {
	if d <= 0 {
		d = b.core.open.first
	}
	b.operate(func(now time.Duration) bool { return b.open(CauseOperator, now, d) })
}

// Reset closes the breaker and forgets its counts. Calls in flight no longer
// count. What other replicas said before opens it no more.
func (b *Breaker) Reset() {
	b.operate(func(now time.Duration) bool { return b.enter(Closed, CauseOperator, now) })
}

// operate changes the state from outside; do reports whether a probe has lost its
// place.
func (b *Breaker) operate(do func(now time.Duration) (lost bool)) {
	if b.core.off {
		return
	}
	now := b.core.now()
	b.mu.Lock()
	lost := do(now)
	b.mu.Unlock()
	if lost {
		b.core.peers.probed(b.key)
	}
	b.core.peers.changed(b.key)
	b.core.events.deliver()
}

// A Snapshot is a breaker as it stood at one moment.
type Snapshot struct {
	// Key is "" for the provider's own breaker, else the model.
	Key string
	// State is [Open] until a probe is admitted, also after the open time.
	State State
	// Cause is why it opened, or why it closed after that.
	Cause Cause
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
		Cause:   causeOf(w),
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
