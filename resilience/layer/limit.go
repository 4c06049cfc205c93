package layer

import (
	"context"
	"sync/atomic"
	"time"
)

// Limit is a time limit until an answer is handed out: a context that ends with
// an error of the limit's own unless [Limit.Stop] comes first, and which then
// lives until [Limit.Release], as long as the answer's body does. It is one
// timer and no goroutine; any number of goroutines may use it.
type Limit struct {
	context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	state  atomic.Int32 // limitRunning, limitStopped or limitFired
	err    error
}

const (
	limitRunning = iota
	limitStopped
	limitFired
)

// NewLimit starts a limit under ctx. err is the cause with which it ends the
// context, a pointer or another value that can be compared.
func NewLimit(ctx context.Context, after time.Duration, err error) *Limit {
	l := &Limit{err: err}
	l.Context, l.cancel = context.WithCancelCause(ctx)
	l.timer = time.AfterFunc(after, func() {
		if l.state.CompareAndSwap(limitRunning, limitFired) {
			l.cancel(err)
		}
	})
	return l
}

// Stop ends the limit and reports whether the answer came in time. Where the
// caller had ended the context first, it did: what happened is not the limit's.
func (l *Limit) Stop() (inTime bool) {
	if l.state.CompareAndSwap(limitRunning, limitStopped) {
		l.timer.Stop()
	}
	return !l.Fired()
}

// Fired reports whether the limit has ended the context.
func (l *Limit) Fired() bool {
	if l.state.Load() != limitFired {
		return false
	}
	l.cancel(l.err)                          // the timer may be about to
	return context.Cause(l.Context) == l.err //nolint:errorlint // this very one
}

// Release stops the limit and gives the context back. Whoever stopped a limit
// releases it once the answer's body has ended, see [AtEnd].
func (l *Limit) Release() {
	l.Stop()
	l.cancel(nil)
}
