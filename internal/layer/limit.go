package layer

import (
	"context"
	"math"
	"sync"
	"time"
)

// Limit is a time limit until an answer is handed out: a context that ends with
// an error of the limit's own unless [Limit.Stop] comes first, and which then
// lives until [Limit.Release], as long as the answer's body does. It is one
// timer and no goroutine; any number of goroutines may use it once it was
// opened.
type Limit struct {
	context.Context
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer // guarded by mu; nil: never started
	state limitState  // guarded by mu
	end   time.Time   // guarded by mu; of a limit that runs
	err   error       // guarded by mu; what it ends the context with
}

type limitState int8

const (
	limitStopped limitState = iota
	limitRunning
	limitFired
)

// NewLimit starts a limit under ctx. err is the cause with which it ends the
// context, a pointer or another value that can be compared.
func NewLimit(ctx context.Context, after time.Duration, err error) *Limit {
	l := new(Limit)
	l.Open(ctx)
	l.Start(after, err)
	return l
}

// Open makes a zero Limit, which must not be copied from then on, a context
// under ctx. It has no end until it is started.
func (l *Limit) Open(ctx context.Context) {
	l.Context, l.cancel = context.WithCancelCause(ctx)
}

// Start has the limit end its context after that time, unless it is stopped
// before. err is as for [NewLimit]. A limit that was stopped may be started
// again, one that has fired may not.
func (l *Limit) Start(after time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.err, l.end = limitRunning, err, time.Now().Add(after)
	if l.timer == nil {
		l.timer = time.AfterFunc(after, l.expire)
	} else {
		l.timer.Reset(after)
	}
}

// expire runs on the timer's own goroutine.
func (l *Limit) expire() {
	l.mu.Lock()
	if l.state != limitRunning || time.Now().Before(l.end) { // of a start before this one
		l.mu.Unlock()
		return
	}
	l.state = limitFired
	err := l.err
	l.mu.Unlock()
	l.cancel(err)
}

// Stop ends the limit and reports whether the answer came in time. Where the
// caller had ended the context first, it did: what happened is not the limit's.
func (l *Limit) Stop() (inTime bool) {
	l.mu.Lock()
	if l.state == limitRunning {
		l.state = limitStopped
		l.timer.Stop()
	}
	l.mu.Unlock()
	return !l.Fired()
}

// Fired reports whether the limit has ended the context.
func (l *Limit) Fired() bool {
	l.mu.Lock()
	fired, err := l.state == limitFired, l.err
	l.mu.Unlock()
	if !fired {
		return false
	}
	l.cancel(err)                          // the timer may be about to
	return context.Cause(l.Context) == err //nolint:errorlint // this very one
}

// Release stops the limit and gives the context back. Whoever stopped a limit
// releases it once the answer's body has ended, see [AtEnd].
func (l *Limit) Release() {
	l.Stop()
	l.cancel(nil)
}

type limitKey struct{}

// Value makes the limit visible to [Until].
func (l *Limit) Value(key any) any {
	if key == (limitKey{}) {
		return l
	}
	return l.Context.Value(key)
}

// Until returns how much time is left under ctx: to its deadline, or to the end
// of the first [Limit] that runs, whichever comes first.
func Until(ctx context.Context) time.Duration {
	left := time.Duration(math.MaxInt64)
	if ctx.Done() == nil { // as under context.WithoutCancel
		return left
	}
	if d, ok := ctx.Deadline(); ok {
		left = time.Until(d)
	}
	for {
		l, ok := ctx.Value(limitKey{}).(*Limit)
		if !ok {
			return left
		}
		l.mu.Lock()
		if l.state == limitRunning {
			left = min(left, time.Until(l.end))
		}
		l.mu.Unlock()
		ctx = l.Context
	}
}
