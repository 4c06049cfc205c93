package breaker

import (
	"sync/atomic"
	"time"
)

// A Verdict is what a call says about the upstream.
type Verdict int

// The verdicts.
const (
	// Neutral says nothing: counters stay, a probe's place is given back.
	Neutral Verdict = iota
	// Success resets the count or, from a probe, counts towards closing.
	Success
	// Failure counts towards opening or, from a probe, opens.
	Failure
	// Pending is no verdict yet: the owner of the permit settles it later.
	Pending
)

// String returns "neutral", "success", "failure" or "pending".
func (v Verdict) String() string {
	switch v {
	case Neutral:
		return "neutral"
	case Success:
		return "success"
	case Failure:
		return "failure"
	case Pending:
		return "pending"
	}
	return "unknown"
}

// Bits of Permit.flags.
const (
	flagSettled = 1 << iota
	flagFirst   // the first data event has been seen
)

// A Permit is one admitted call. It is a value to be kept where the call is
// kept and must not be copied once admitted. The zero Permit is inert: it
// counts nothing, and so does the permit of a rejected call or of a breaker
// that is off. Once [Breaker.Admit] or [Map.Admit] has returned, its methods
// may be used from several goroutines.
//
// A slow call (slow_call_threshold) is measured from the admission: on a stream
// until [Permit.FirstEvent], else until [Permit.Answered] or, without it, until
// [Permit.Settle]. Only a success turns into a failure by being slow: a
// cancelled call or a bad request stays neutral, however long it took.
type Permit struct {
	_       noCopy
	breaker *Breaker // nil: inert
	entry   *entry   // nil: not of a map, or its own breaker
	word    uint64   // the period of the admission, as in Breaker.word
	start   time.Duration
	probe   uint32 // 0: no probe
	// Written by sync/atomic once admitted, plainly before: an atomic store
	// costs as much as all else that admitting does.
	flags uint32
	mark  int64 // time to the answer plus 1, 0: not answered
}

// noCopy makes go vet complain about copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// clear makes p inert; an unsettled admission must not be left behind, it
// would keep its breaker in use for good.
func (p *Permit) clear() {
	if p.breaker == nil {
		return
	}
	if !p.Settled() {
		p.Settle(Neutral)
	}
	*p = Permit{}
}

// Probe reports whether the call is a half-open breaker's probe, which makes
// one attempt and no retries.
func (p *Permit) Probe() bool { return p.probe != 0 }

// BreakerClosed reports whether the breaker of the call is closed now, so that
// the call may go on with another attempt; an inert permit has none in its way.
func (p *Permit) BreakerClosed() bool { return p.breaker == nil || p.breaker.State() == Closed }

// Settled reports whether the verdict has been given; an inert permit has
// nothing to settle and reports true.
func (p *Permit) Settled() bool {
	return p.breaker == nil || atomic.LoadUint32(&p.flags)&flagSettled != 0
}

// Answered marks that the whole judged answer is there, so that the time a
// caller takes to read it is not counted as slow. The first mark counts. It is
// for calls that are settled later; on a stream FirstEvent overrides it.
func (p *Permit) Answered() {
	if b := p.breaker; b != nil && b.core.slow > 0 {
		atomic.CompareAndSwapInt64(&p.mark, 0, int64(b.core.now()-p.start)+1)
	}
}

// FirstEvent says that a stream's first data event is there. If it took longer
// than the slow call threshold the call is settled as a [Failure]; else a probe
// is settled as a [Success], so that one long answer keeps nobody out, and any
// other call is no longer slow. Only the first FirstEvent counts, and none does
// once the call is settled.
func (p *Permit) FirstEvent() {
	b := p.breaker
	if b == nil || atomic.LoadUint32(&p.flags) != 0 {
		return
	}
	slow := b.core.slow > 0 && b.core.now()-p.start > b.core.slow
	if atomic.OrUint32(&p.flags, flagFirst)&flagFirst != 0 {
		return
	}
	switch {
	case slow:
		p.Settle(Failure)
	case p.probe != 0:
		p.Settle(Success)
	}
}

// Settle gives the verdict, once: later ones are ignored, and so is [Pending].
// A verdict whose period is over changes nothing.
func (p *Permit) Settle(v Verdict) {
	b := p.breaker
	if b == nil || v < Neutral || v >= Pending {
		return
	}
	flags := atomic.OrUint32(&p.flags, flagSettled)
	if flags&flagSettled != 0 {
		return
	}
	if v == Success && b.core.slow > 0 && flags&flagFirst == 0 && p.late() {
		v = Failure
	}
	changed, freed := false, 0
	if p.counts(v) {
		changed, freed = b.record(p, v)
	}
	if p.entry != nil {
		b.core.owner.release(p.entry)
	}
	for range freed {
		b.core.peers.probed(b.key)
	}
	if changed {
		b.core.peers.changed(b.key)
		b.core.events.deliver()
	}
}

// late reports whether the answer took longer than the threshold.
func (p *Permit) late() bool {
	took := time.Duration(atomic.LoadInt64(&p.mark) - 1)
	if took < 0 {
		took = p.breaker.core.now() - p.start
	}
	return took > p.breaker.core.slow
}

// counts reports whether the verdict may change anything: the usual ones, a
// success with no failures counted or a verdict of an earlier period, are told
// by one load.
func (p *Permit) counts(v Verdict) bool {
	w := p.breaker.word.Load()
	switch {
	case w&^dirtyBit != p.word:
		return false
	case p.probe != 0:
		return true
	case v == Success:
		return w&dirtyBit != 0
	}
	return v == Failure
}
