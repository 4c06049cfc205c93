package failover

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/surefoot-go/surefoot/resilience/ending"
)

// limit is a target's own time limit. It runs up to the response headers (of
// a stream that the stack holds back: up to the first data event) and is
// lifted then, while its context lives as long as the body.
type limit struct {
	err    *ending.TimeoutError
	at     time.Time
	cancel context.CancelCauseFunc
	timer  *time.Timer
	lifted atomic.Bool
}

// newLimit starts the limit of l's target, nil if it has none.
func newLimit(l *leg) *limit {
	d := l.target.Timeout
	if d <= 0 {
		return nil
	}
	lim := &limit{err: &ending.TimeoutError{What: "timeout of target " + l.target.Name, After: d}, at: time.Now().Add(d)}
	l.limit = lim
	l.Context, lim.cancel = context.WithCancelCause(l.Context)
	lim.timer = time.AfterFunc(d, func() { lim.cancel(lim.err) })
	return lim
}

// lift ends the limit. A result that came too late is a timeout; the answer
// behind it died with its context.
func (lim *limit) lift(w *walk, r *result) {
	if lim == nil {
		return
	}
	fired := !lim.timer.Stop()
	lim.lifted.Store(true)
	switch {
	case fired && (r.ok || r.resp == nil) && !gone(w.ctx):
		w.runner.drop(r)
		*r = result{err: lim.err, reason: ReasonTimeout, certain: true, empty: r.empty}
		lim.cancel(lim.err)
	case r.resp != nil:
		r.resp.Body = releaseAtEnd(r.resp.Body, func() { lim.cancel(context.Canceled) })
	case !r.ok: // a function's good result may still hang on its context
		lim.cancel(context.Canceled)
	}
}

// releaseAtEnd calls release when the body has ended or was closed.
func releaseAtEnd(body io.ReadCloser, release func()) io.ReadCloser {
	if body == nil {
		release()
		return nil
	}
	b := &releasing{ReadCloser: body, release: release}
	if w, ok := body.(io.Writer); ok { // 101 Switching Protocols
		return struct {
			*releasing
			io.Writer
		}{b, w}
	}
	return b
}

type releasing struct {
	io.ReadCloser
	release func()
}

func (b *releasing) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.release()
	}
	return n, err
}

func (b *releasing) Close() error {
	err := b.ReadCloser.Close()
	b.release()
	return err
}
