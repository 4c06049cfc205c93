package streamguard

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// firstEvent bounds the wait for the first data event, from before the request
// is sent. A nil *firstEvent has no limit. It needs a context of its own, which
// is released when the body has ended.
type firstEvent struct {
	err    *ending.TimeoutError
	timer  *time.Timer
	cancel context.CancelCauseFunc

	mu   sync.Mutex
	wait wait
	body *watch
}

// A wait is under way, or was over in time, or too long.
type wait uint8

const (
	waiting wait = iota
	inTime
	tooLong
)

// startFirstEvent bounds the wait of a streaming call that is about to be sent.
func startFirstEvent(req *http.Request, d time.Duration) (*firstEvent, *http.Request) {
	ctx, cancel := context.WithCancelCause(req.Context())
	return newFirstEvent(d, d, cancel), req.WithContext(ctx)
}

// newFirstEvent bounds the wait by d, of which left is left. cancel may do
// nothing where only the answer shows that the call is a streaming one: the body
// that is watched is closed.
func newFirstEvent(d, left time.Duration, cancel context.CancelCauseFunc) *firstEvent {
	f := &firstEvent{err: &ending.TimeoutError{What: limitFirstEvent, After: d}, cancel: cancel}
	f.timer = time.AfterFunc(left, f.expire)
	return f
}

func (f *firstEvent) expire() {
	if !f.settle(tooLong) {
		return
	}
	f.cancel(f.err)
	f.mu.Lock()
	body := f.body
	f.mu.Unlock()
	if body != nil {
		// Nobody above this frame could recover; the pending Read tells the fault.
		defer func() { _ = recover() }()
		_ = body.close()
	}
}

// watch has the timer close w, for bodies that do not look at the context.
func (f *firstEvent) watch(w *watch) {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.body = w
	late := f.wait == tooLong
	f.mu.Unlock()
	if late {
		_ = w.close()
	}
}

// settle ends the wait, if it is under way, and reports whether it was too long.
func (f *firstEvent) settle(as wait) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wait == waiting {
		f.wait = as
	}
	return f.wait == tooLong
}

// stop ends the wait and reports whether it had been too long by then.
func (f *firstEvent) stop() bool {
	if f == nil {
		return false
	}
	f.timer.Stop()
	return f.settle(inTime)
}

// end is for a call that failed with err: its timer and context go, and the
// error becomes the timer's if that was the reason.
func (f *firstEvent) end(err error) error {
	if f.stop() {
		err = f.err
	}
	f.release()
	return err
}

// release gives the context back; the body must have ended.
func (f *firstEvent) release() {
	if f != nil {
		f.cancel(nil)
	}
}

// leave is for an answer that is no stream: the wait is over, the context goes
// with the body.
func (f *firstEvent) leave(resp *http.Response) *http.Response {
	if f == nil {
		return resp
	}
	f.stop()
	resp.Body = layer.AtEnd(resp.Body, f.release)
	return resp
}
