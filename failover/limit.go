package failover

import (
	"sync/atomic"
	"time"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// limit is a target's own time limit. It runs until the target's answer is
// handed out and is lifted then, while its context lives as long as the body.
type limit struct {
	*layer.Limit
	err    *ending.TimeoutError
	at     time.Time
	lifted atomic.Bool
}

// newLimit starts the limit of l's target, nil if it has none.
func newLimit(l *leg) *limit {
	d := l.target.Timeout
	if d <= 0 {
		return nil
	}
	lim := &limit{err: &ending.TimeoutError{What: "timeout of target " + l.target.Name, After: d}, at: time.Now().Add(d)}
	lim.Limit = layer.NewLimit(l.Context, d, lim.err)
	l.Context, l.limit = lim.Limit, lim
	return lim
}

// lift ends the limit. A result that came too late is a timeout; the answer
// behind it died with its context.
func (lim *limit) lift(w *walk, r *result) {
	if lim == nil {
		return
	}
	inTime := lim.Stop()
	lim.lifted.Store(true)
	switch {
	case !inTime && (r.ok || r.resp == nil) && !gone(w.ctx):
		w.runner.drop(r)
		*r = result{err: lim.err, reason: ReasonTimeout, certain: true, empty: r.empty}
	case r.resp != nil:
		r.resp.Body = layer.AtEnd(r.resp.Body, lim.Release)
	case !r.ok: // a function's good result may still hang on its context
		lim.Release()
	}
}
