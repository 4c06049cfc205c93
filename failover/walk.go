package failover

import (
	"context"
	"net/http"
	"time"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience"
)

// result is how one target's leg ended.
type result struct {
	resp     *http.Response // nil for an error, and in a function's call
	err      error
	status   int    // of the answer, 0 for none
	code     string // of a function's error, where it was classified
	message  string
	reason   string        // as in Attempt
	ok       bool          // a success
	certain  bool          // a failure that is eligible whatever the lists say
	backup   bool          // not from the target that the strategy put first
	rejected bool          // by the target's breaker
	wait     time.Duration // that the breaker asks for
	canceled bool          // by the caller
	empty    bool          // a nested chain had nothing left to try
	unfit    bool          // the request could not be re-written for the target: nothing was sent
}

// runner is what is done with a target: an HTTP exchange, or a function.
type runner interface {
	run(w *walk, l *leg) result
	sub(t *target) *link                   // the chain to walk in place of t, nil: run t
	hold(r *result)                        // another target is tried before r is seen, if ever
	drop(r *result)                        // nobody will see r
	text(r *result) (code, message string) // what a failure says
	affinity(w *walk) string               // the key of the call, "" for none
}

// walk is the way of one call through one chain.
type walk struct {
	chain     *Chain
	call      *call
	ctx       context.Context // the caller's
	ask       *http.Request   // what Allow is asked with
	cancel    <-chan struct{} // the request's Cancel, nil for most
	model     string          // that the request names
	runner    runner
	may       bool     // the call may fail over
	pinned    bool     // an open breaker is no reason to choose another target
	plain     bool     // the call runs no model: a limit's hold is none of it
	embeds    bool     // vectors are asked for: those of two models must not mix
	vectors   string   // the only model that may give them
	backup    bool     // the chain itself is a backup in the call
	keyed     bool     // the chain's first target is the whole call's first
	repeats   bool     // the request can be sent again
	owner     *account // of what the request names; nil: it is bound to none
	above     *leg     // of the target that the chain is; nil: the call's outermost chain
	preferred *target  // that the request names; nil: the strategy picks
	key       string   // of the call's affinity, "" for none
	hash      uint64   // of key

	last   result
	unfit  *result // of the first target that the request could not be re-written for
	have   bool    // last is the answer of a target
	listed bool    // what is tried was recorded as passed over
	limit  *limit  // of the target at hand, nil if it has none
	tried  int
	front  int       // where the order begins
	next   int       // where in that order it goes on after the target at hand
	again  bool      // the targets were gone through before
	now    time.Time // of the targets passed over since the last one tried
}

// do asks the targets until one answers well.
func (w *walk) do() result {
	w.attach()
	if w.embeds {
		w.vectors = w.firstModel(w.chain, w.preferred, w.model)
	}
	if w.chain.policy.WaitFor <= 0 {
		return w.sweep()
	}
	r := newRecovery(w)
	for {
		r.wait()
		if last := w.sweep(); !r.again(&last) {
			return last
		}
	}
}

// sweep asks the targets in order until one answers well.
func (w *walk) sweep() result {
	c := w.chain
	var first int
	w.front, first = w.first()
	for k := range c.targets {
		i := at(k, w.front)
		t := c.targets[i]
		w.next = k + 1
		if w.full(w.tried) {
			break
		}
		if reason, _ := w.skip(t, w.pinned); reason != "" {
			w.skipped(t, reason)
			continue
		}
		if w.left() {
			break
		}
		if w.try(t, i == first) {
			return w.last
		}
	}
	if !w.have && !w.left() {
		w.lastResort(first)
	}
	if !w.have {
		return w.nothing()
	}
	return w.last
}

// left reports whether nobody waits for an answer any more.
func (w *walk) left() bool {
	if gone(w.ctx) {
		return true
	}
	select {
	case <-w.cancel:
		return true
	default:
		return false
	}
}

// full reports whether the cap on targets after the first is used up where so
// many were tried.
func (w *walk) full(tried int) bool {
	limit := w.chain.policy.MaxAttempts
	return limit > 0 && tried > limit
}

// try runs one target. It reports whether the walk ends with its answer.
func (w *walk) try(t *target, isFirst bool) bool {
	if w.have {
		w.moveOn(t)
	}
	l := &leg{
		Context: w.ctx, call: w.call, target: t,
		backup: w.backup || !isFirst, first: w.keyed && isFirst,
		walk: w, next: w.next, front: w.front, tried: w.tried,
	}
	lim := newLimit(l)
	w.limit = lim
	start := time.Now()
	known := w.call.size()
	sub := w.runner.sub(t)
	var r result
	if sub != nil {
		r = w.descend(l, sub)
	} else {
		l.before = w.call.mark(t, w.model)
		r = w.runner.run(w, l)
	}
	lim.lift(w, &r)
	w.now = time.Time{}
	r.backup = r.backup || l.backup
	if r.empty {
		w.skipped(t, ReasonTried)
		return false
	}
	if r.unfit {
		w.skipped(t, r.reason)
		if w.unfit == nil {
			w.unfit = &r
		}
		return false
	}
	w.outgrown(t, &r)
	w.keep(&r)
	below := w.call.recorded(known, &r)
	if !below && r.err != nil {
		w.call.failedAt(l.sent)
	}
	if !below && (!w.listed || !r.rejected) {
		w.record(t, Attempt{
			Status: r.status, Err: r.err, Skipped: r.rejected, Reason: r.reason,
			Start: start, Elapsed: time.Since(start), MovedOn: !r.ok && l.moved.Load(),
		})
	}
	if r.rejected { // between the look at the breaker and the call it opened
		return !w.may
	}
	w.tried++
	over := r.ok || r.canceled
	moves := !over && (w.may || w.key != "") && w.eligible(w.tried, &r)
	w.settle(t, &r, moves)
	return over || !w.may || !moves
}

// moveOn gets the answer in hand out of the way of the next target: it goes
// back only where that one lets nothing through.
func (w *walk) moveOn(to *target) {
	if !w.last.rejected {
		w.chain.tele.moved(w.ctx, &w.last, to)
		w.call.sweep()
	}
	w.runner.hold(&w.last)
}

// keep makes r the answer in hand, unless it is a breaker's rejection and a
// tried target's answer, or a rejection with a shorter wait, is there already.
func (w *walk) keep(r *result) {
	switch {
	case !w.have:
		w.last, w.have = *r, true
	case r.rejected && (!w.last.rejected || w.last.wait <= r.wait):
		w.runner.drop(r)
	default:
		before := w.last
		w.last = *r // first: a body that panics while it is dropped leaves nothing open
		w.runner.drop(&before)
	}
}

// descend walks the chain that a target stands for.
func (w *walk) descend(l *leg, sub *link) result {
	down := &walk{
		chain: sub.chain, call: w.call, ctx: l, ask: w.ask, cancel: w.cancel, model: w.model, runner: w.runner,
		may: w.may && !sub.chain.policy.Disabled, pinned: w.pinned || sub.chain.policy.Disabled,
		plain: w.plain, embeds: w.embeds, backup: l.backup, keyed: l.first, preferred: sub.preferred,
		repeats: w.repeats, owner: w.owner, above: l,
	}
	if l.target.Lenient {
		down.ctx = resilience.WithLenient(l)
	}
	done := false
	defer func() {
		if !done { // a panic passes on, but nothing stays open behind it
			down.abandon()
		}
	}()
	r := down.do()
	done = true
	return r
}

// abandon gives back what a walk holds that will not end: the answer in hand,
// and the time limit of the target that it was at.
func (w *walk) abandon() {
	if w.limit != nil {
		w.limit.Release()
	}
	if resp := w.last.resp; resp != nil && resp.Body != nil {
		layer.Abandon(resp.Body.Close) // nobody will see it
	}
}

// eligible reports whether a failure of the first target tried makes the call
// fail over. From then on every failure does. tried counts the one that failed.
func (w *walk) eligible(tried int, r *result) bool {
	if tried > 1 || r.certain || w.call.sweeping() || w.chain.rules.statuses.Has(r.status) {
		return true
	}
	code, message := w.runner.text(r)
	return w.chain.rules.match(r.status, code, message, false) != nil
}

func (w *walk) skipped(t *target, reason string) {
	if w.again {
		return // it was passed over before
	}
	if w.now.IsZero() {
		w.now = time.Now()
	}
	w.record(t, Attempt{Skipped: true, Reason: reason, Start: w.now})
}

// record completes a and tells everybody who listens.
func (w *walk) record(t *target, a Attempt) {
	a.Target, a.Provider, a.Model = t.Name, t.Provider, t.model(w.model)
	w.call.add(a)
	w.chain.tele.attempt(w.ctx, t, a)
}
