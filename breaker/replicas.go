package breaker

import (
	"log/slog"
	"slices"
	"time"

	"github.com/surefoot-go/surefoot/internal/layer"
)

// Replicas let the replicas of a service share what they learn of its upstreams
// (contract 14): facts, such as the limit of an account, and opinions, such as that
// an upstream is down. Every replica decides for itself, and no call waits for
// another replica. The module breaker/redisstate has one over Redis.
//
// It is safe for concurrent use.
type Replicas interface {
	// Join is called once for each stack, when it is built. Stacks of one provider's
	// name share, in whatever process they are. What r is told before the first call
	// of a method of the result may get lost.
	Join(provider string, r Replica) Peers
}

// Peers are what a stack tells of itself, and asks before a probe. A key is that of a
// breaker or a hold: "" or a model in its bounded form (see [Map]).
//
// The methods return at once, whatever has become of the other replicas. They are
// called outside the stack's locks, by several goroutines at the same time; a panic
// in one is recovered and logged.
type Peers interface {
	// Changed says that the key's breaker has entered another state, which
	// [Replica.Breakers] shows, or "" at the start.
	Changed(key string)
	// MayProbe reports whether [Peers.Probe] would allow a probe now, and says that
	// one is wanted.
	MayProbe(key string) bool
	// Probe reports whether this replica may send a probe now, which takes as long
	// as lease at most: no two replicas may at the same time, unless they cannot
	// reach each other. After each time that it may, Probed is called once.
	Probe(key string, lease time.Duration) bool
	// Probed says that a probe is over, or was not sent.
	Probed(key string)
	// Account returns what stands for the word of an account among replicas, from
	// which nobody can find the word without a key.
	Account(word string) string
	// Held says that an upstream named a limit of the account, by its name from
	// Account, "" for the stack's own.
	Held(account string, h Hold)
	// Released says that an operator ended the key's holds, of all accounts.
	Released(key string)
}

// A Replica is what other replicas' knowledge is given to: a stack. Its methods may
// call [Peers.Probed], so they are called outside locks. They are safe for concurrent
// use.
type Replica interface {
	// Gone reports whether nobody can use the stack any more, which may then be
	// forgotten.
	Gone() bool
	// Breakers returns the stack's breakers as they stand.
	Breakers() []Snapshot
	// Opinions gives all that live replicas, this one included, say of a key. If
	// quorum of them have it open, so has this one for as long as they do.
	Opinions(key string, quorum int, opinions []Opinion)
	// PeerClosed says that good probes closed the breaker of another replica, that
	// long ago. Where only opinions had opened this one it closes; where own failures
	// had, its open time is over and one good probe closes it.
	PeerClosed(key string, ago time.Duration)
	// Hold says that an upstream named a limit of an account.
	Hold(account string, h Hold)
	// Release ends the key's holds, of all accounts.
	Release(key string)
}

// An Opinion is that a replica's own failures have opened its breaker.
type Opinion struct {
	// Age is how long ago it opened.
	Age time.Duration
	// Rest is for how long it stays open from now on.
	Rest time.Duration
}

// peers guards the calls of a [Peers], which may be nil.
type peers struct {
	p   Peers
	log *slog.Logger
}

func (s peers) any() bool { return s.p != nil }

func (s peers) changed(key string) {
	if s.p != nil {
		layer.Hook(s.log, "Peers.Changed", func() { s.p.Changed(key) })
	}
}

func (s peers) probed(key string) {
	if s.p != nil {
		layer.Hook(s.log, "Peers.Probed", func() { s.p.Probed(key) })
	}
}

func (s peers) mayProbe(key string) bool {
	return s.p == nil || s.ask("Peers.MayProbe", func() bool { return s.p.MayProbe(key) })
}

func (s peers) probe(key string, lease time.Duration) bool {
	return s.ask("Peers.Probe", func() bool { return s.p.Probe(key, lease) })
}

// ask lets a probe go where the answer is a panic.
func (s peers) ask(what string, f func() bool) bool {
	may := true
	layer.Hook(s.log, what, func() { may = f() })
	return may
}

// peerProbe is the longest that a call is told to wait for another replica's probe.
const peerProbe = time.Second

// waits is the rejection of a call that another replica's probe keeps away.
func (b *Breaker) waits(w uint64) OpenError {
	return OpenError{Provider: b.core.events.provider, Key: b.key, State: stateOf(w), RetryAfter: peerProbe}
}

// opinions is [Replica.Opinions]. What was said before a closed breaker closed, or
// before a half-open one was allowed to probe, is past; a probe under way decides
// for itself.
func (b *Breaker) opinions(quorum int, said []Opinion) {
	if b.core.off {
		return
	}
	now := b.core.now()
	b.mu.Lock()
	w := b.word.Load()
	state, cause := stateOf(w), causeOf(w)
	var rests []time.Duration
	for _, o := range said {
		if o.Rest > 0 && (state == Open || cause == CauseNone || o.Age < now-b.since) {
			rests = append(rests, min(o.Rest, b.core.open.most()))
		}
	}
	if quorum < 1 || len(rests) < quorum || state == HalfOpen && b.taken != 0 {
		b.mu.Unlock()
		return
	}
	slices.Sort(rests)
	rest := rests[len(rests)-quorum]
	switch state {
	case Open:
		b.until = max(b.until, after(now, rest))
	case HalfOpen:
		b.open(cause, now, rest)
	case Closed:
		b.open(CausePeers, now, rest)
	}
	b.mu.Unlock()
	b.core.events.deliver()
}

// peerClosed is [Replica.PeerClosed].
func (b *Breaker) peerClosed(ago time.Duration) {
	if b.core.off {
		return
	}
	now := b.core.now()
	b.mu.Lock()
	w := b.word.Load()
	if stateOf(w) == Closed || causeOf(w) == CauseOperator || now-ago <= b.since {
		b.mu.Unlock()
		return
	}
	lost := false
	switch {
	case causeOf(w) == CausePeers:
		lost = b.enter(Closed, CausePeers, now)
	case stateOf(w) == Open:
		b.enter(HalfOpen, CauseFailures, now)
	}
	if stateOf(b.word.Load()) == HalfOpen {
		b.count = max(b.count, int32(b.core.successes)-1) //nolint:gosec // small
	}
	b.mu.Unlock()
	if lost {
		b.core.peers.probed(b.key)
	}
	b.core.events.deliver()
}

// Opinions is [Replica.Opinions]. With [ScopeProvider] what is said of a model is
// ignored.
func (m *Map) Opinions(key string, quorum int, opinions []Opinion) {
	if key == "" || m.perModel {
		add := quorum > 0 && len(opinions) >= quorum
		m.operate(key, add, func(b *Breaker) { b.opinions(quorum, opinions) })
	}
}

// PeerClosed is [Replica.PeerClosed], as for Opinions.
func (m *Map) PeerClosed(key string, ago time.Duration) {
	if key == "" || m.perModel {
		m.operate(key, false, func(b *Breaker) { b.peerClosed(ago) })
	}
}

// Opinions is [Replica.Opinions].
func (t *Transport) Opinions(key string, quorum int, opinions []Opinion) {
	if m := t.init(); m != nil {
		m.Opinions(key, quorum, opinions)
	}
}

// PeerClosed is [Replica.PeerClosed].
func (t *Transport) PeerClosed(key string, ago time.Duration) {
	if m := t.init(); m != nil {
		m.PeerClosed(key, ago)
	}
}
