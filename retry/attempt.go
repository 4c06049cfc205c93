package retry

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/surefoot-go/surefoot/resilience/ending"
)

// Attempt is what is known of one attempt once it has ended.
type Attempt struct {
	Number  int           // from 1
	Status  int           // of the response; 0 if there was none
	Err     error         // what came in place of a response
	Wait    time.Duration // the wait before this attempt
	Start   time.Time
	Elapsed time.Duration // until the base transport returned
	Sent    bool          // it reached a connection, or may have
	Timeout bool          // Err is a local timeout
}

// flight watches one attempt through httptrace. The hooks may be called late
// and from other goroutines, so no flight is used twice. It is part of the
// attempt's context.
type flight struct {
	context.Context // of the call

	number int // of the attempt, from 1
	trace  httptrace.ClientTrace

	asked     atomic.Bool // GetConn was called: the base reports to httptrace
	connected atomic.Bool // GotConn was called
}

// watch returns ctx with the flight's hooks; a trace that the caller put there
// is called as well.
func (f *flight) watch(ctx context.Context, asked bool) context.Context {
	if asked {
		f.trace.GetConn = f.getConn
	}
	f.trace.GotConn = f.gotConn
	f.Context = ctx
	return httptrace.WithClientTrace(f, &f.trace)
}

type flightKey struct{}

// Value makes the flight visible to [AttemptNumber].
func (f *flight) Value(key any) any {
	if key == (flightKey{}) {
		return f
	}
	return f.Context.Value(key)
}

// AttemptNumber returns which attempt, from 1, a request with that context is:
// for what stands below a Transport, such as a base that is traced. It is 0
// outside of an attempt, and where neither retries nor hooks make the layer
// count. With retry layers in one another the innermost one answers.
func AttemptNumber(ctx context.Context) int {
	if f, ok := ctx.Value(flightKey{}).(*flight); ok {
		return f.number
	}
	return 0
}

func (f *flight) getConn(string) { f.asked.Store(true) }

func (f *flight) gotConn(httptrace.GotConnInfo) { f.connected.Store(true) }

// limit is the context of an attempt that is bounded by the attempt timeout.
type limit struct {
	context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	state  atomic.Int32 // of limitRunning, limitStopped, limitFired
	err    *ending.TimeoutError
}

const (
	limitRunning = iota
	limitStopped
	limitFired
)

type limitKey struct{}

func newLimit(ctx context.Context, after time.Duration) *limit {
	l := &limit{err: &ending.TimeoutError{What: "attempt_timeout", After: after}}
	l.Context, l.cancel = context.WithCancelCause(ctx)
	l.timer = time.AfterFunc(after, func() {
		if l.state.CompareAndSwap(limitRunning, limitFired) {
			l.cancel(l.err)
		}
	})
	return l
}

// Value makes the limit visible to [HeadersArrived].
func (l *limit) Value(key any) any {
	if key == (limitKey{}) {
		return l
	}
	return l.Context.Value(key)
}

// stop stops the timer and reports whether it came in time.
func (l *limit) stop() bool {
	if l.state.CompareAndSwap(limitRunning, limitStopped) {
		l.timer.Stop()
	}
	return l.state.Load() == limitStopped
}

// HeadersArrived tells the retry layers above that the response headers of req
// have come, which stops their attempt timeouts. A layer that holds a response
// back may have it called from below; without it an attempt's headers count as
// arrived when the base transport returns. It may be called any number of times
// and from any goroutine.
func HeadersArrived(req *http.Request) {
	for ctx := req.Context(); ; {
		l, ok := ctx.Value(limitKey{}).(*limit)
		if !ok {
			return
		}
		l.stop()
		ctx = l.Context
	}
}

// roundTrip sends r, whose context is or descends from l.
func (l *limit) roundTrip(base http.RoundTripper, r *http.Request) (*http.Response, error) {
	returned := false
	defer func() {
		if !returned { // base panicked
			l.stop()
			l.cancel(nil)
		}
	}()
	resp, err := base.RoundTrip(r)
	returned = true
	inTime := l.stop()
	// The caller may have been first even if the timer fired.
	late := !inTime && errors.Is(context.Cause(l), l.err)
	switch {
	case late:
		if resp != nil && resp.Body != nil {
			_ = resp.Body.Close()
		}
		return nil, l.err
	case err != nil || resp == nil:
		l.cancel(nil)
	case resp.Body == nil || resp.Body == http.NoBody:
		l.cancel(nil)
	default:
		resp.Body = newEndBody(resp.Body, l.cancel)
	}
	return resp, err
}
