package failover

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// Call runs fn for one target of c after the other by the chain's rules, for
// code that uses a different SDK per target: its order, skipping, time limits,
// cap and attempts. It returns the first good result, or an [*Error] that
// wraps the last target's error.
//
// fn gets a context that carries the target's model and ends with the target's
// time limit (of the whole of fn; lifted once it returned well, so that a
// stream lives on), and a copy of the target, whose Transport is its stack. It
// may be run several times, one after the other, so it must build its requests
// anew each time; over a chain or router, each of them is a call of its own. Where
// [Policy.Classify] does not know the error, what the last stack under fn's context
// saw decides, so that clients whose errors are plain text fit; what neither knows
// counts as a transport failure and moves on.
// Allow is asked with a request that has no more than the context.
func Call[T any](ctx context.Context, c *Chain, fn func(context.Context, Target) (T, error)) (T, error) {
	if len(c.targets) == 0 {
		var zero T
		return zero, errZeroChain
	}
	state := newCall(ctx)
	f := &function[T]{fn: fn, classify: c.policy.Classify}
	if f.classify == nil {
		f.classify = ClassifyError
	}
	off := c.policy.Disabled || failoverOff(ctx)
	ask := &http.Request{Method: http.MethodPost, URL: &url.URL{}, Header: http.Header{}}
	w := &walk{
		chain: c, call: state, ctx: ctx, ask: ask.WithContext(ctx), model: resilience.ModelOf(ctx),
		runner: f, may: !off, pinned: off, keyed: true, repeats: true,
	}
	done := false
	defer func() {
		if !done { // a panic of fn passes on
			w.abandon()
		}
	}()
	r := w.do()
	done = true
	c.tele.ended(ctx, state, &r)
	if r.ok {
		return f.value, nil
	}
	var zero T
	return zero, state.failed(nil, ending.Under(ctx, nil, nil), r.err)
}

// function is a call that is a Go function.
type function[T any] struct {
	fn       func(context.Context, Target) (T, error)
	classify func(error) (int, string, string, bool)
	value    T // of the last run
}

// sub implements runner.
func (f *function[T]) sub(t *target) *link {
	if t.virtual == nil && t.nested != nil {
		return &link{chain: t.nested}
	}
	return t.virtual
}

// affinity implements runner: a function's requests are not seen.
func (f *function[T]) affinity(w *walk) string {
	return w.chain.policy.Affinity.of(w.ctx, nil, nil)
}

// run implements runner.
func (f *function[T]) run(w *walk, l *leg) result {
	t := l.target.Target
	t.Header, t.Query = t.Header.Clone(), cloneQuery(t.Query)
	t.Transport = l.target.rt // the default stack where none was given
	ctx, record := resilience.WithRecord(l.requestContext())
	var err error
	f.value, err = f.fn(ctx, t)
	if err == nil {
		return result{ok: true}
	}
	return f.judge(w, l, record, err)
}

// judge says how a run failed. An error whose methods panic says nothing.
func (f *function[T]) judge(w *walk, l *leg, record *resilience.Record, err error) (r result) {
	defer func() {
		if recover() != nil {
			r = result{err: err}
			r.blame(ending.Upstream)
		}
	}()
	r = result{err: err}
	open, rejected := resilience.Rejection(nil, err)
	switch {
	case rejected:
		r.rejected, r.wait, r.reason = true, open.RetryAfter, rejectedBy(open)
		return r
	case canceled(w.ctx):
		r.canceled, r.reason = true, ReasonCanceled
		return r
	case gone(l):
		r.certain, r.reason = true, ReasonTimeout
		return r
	}
	if f.known(&r, record) {
		return r
	}
	by := ending.Under(w.ctx, nil, err).By
	if by == ending.Upstream {
		by = blamed(record)
	}
	r.blame(by)
	return r
}

// known reads what is known of r's error, from the error or, where that is a
// plain text, from the record of the last call that a stack made for it.
func (f *function[T]) known(r *result, record *resilience.Record) bool {
	status, code, message, ok := f.classify(r.err)
	if !ok {
		if status, code, message, ok = record.Details(); !ok {
			return false
		}
		message = cmp.Or(message, r.err.Error())
	}
	if open, rejected := rejectionIn(record, status, code); rejected {
		r.rejected, r.wait, r.reason = true, open.RetryAfter, rejectedBy(open)
		return true
	}
	r.status, r.code, r.message, r.reason = status, code, message, strconv.Itoa(status)
	return true
}

// rejectionIn is a stack's rejection that a client tells as an error of its own:
// the record has it, or the words are those of a breaker's. A limit's are an
// upstream's words as well.
func rejectionIn(record *resilience.Record, status int, code string) (*breaker.OpenError, bool) {
	c, _ := record.Call()
	if open, rejected := resilience.Rejection(nil, c.Err); rejected && open.HTTPStatus() == status {
		return open, true
	}
	opened := code == ReasonCircuitOpen || code == ending.ReasonCircuitFull
	return new(breaker.OpenError), opened && status == http.StatusServiceUnavailable
}

// blamed is who ended the last call of a record, for an error that hides it.
func blamed(record *resilience.Record) ending.By {
	c, _ := record.Call()
	switch {
	case c.Outcome == resilience.OutcomeTimeout:
		return ending.Timer
	case c.Reason == ending.ReasonRequestError:
		return ending.Request
	}
	return ending.Upstream
}

// hold implements runner.
func (f *function[T]) hold(*result) {}

// drop implements runner: a failed run leaves nothing behind.
func (f *function[T]) drop(*result) {}

// text implements runner.
func (f *function[T]) text(r *result) (code, message string) { return r.code, r.message }
