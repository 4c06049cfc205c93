package breaker

import (
	"context"
	"log/slog"
	"sync"

	"github.com/surefoot-go/surefoot/internal/layer"
)

// maxEvents bounds the state changes that wait while a hook is busy. A hook
// that hangs costs the oldest ones, never memory without end.
const maxEvents = 4096

// An event is one state change.
type event struct {
	key      string
	from, to State
}

// A notifier hands state changes to the hook and the log: in the order of the
// changes, outside every lock, one at a time. Whoever finds nobody delivering
// delivers what is queued, the changes of others too; a hook that changes a
// state again finds itself delivering and only queues.
type notifier struct {
	hook     func(key string, from, to State) // nil: none
	log      *slog.Logger                     // nil: silent
	provider string

	mu    sync.Mutex
	queue []event // guarded by mu
	lost  int     // guarded by mu: dropped since the last delivery
	busy  bool    // guarded by mu: somebody delivers
}

// push queues an event. It is called under the breaker's lock, which gives
// the order.
func (n *notifier) push(e event) {
	if n.hook == nil && n.log == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queue) >= maxEvents {
		n.queue = append(n.queue[:0], n.queue[1:]...)
		n.lost++
	}
	n.queue = append(n.queue, e)
}

// deliver hands over what is queued unless somebody is at it. It is called
// without any lock.
func (n *notifier) deliver() {
	if n.hook == nil && n.log == nil {
		return
	}
	n.mu.Lock()
	if n.busy {
		n.mu.Unlock()
		return
	}
	n.busy = true
	n.mu.Unlock()
	n.drain()
}

func (n *notifier) drain() {
	for {
		n.mu.Lock()
		if len(n.queue) == 0 {
			n.queue, n.busy = nil, false
			n.mu.Unlock()
			return
		}
		e, lost := n.queue[0], n.lost
		n.queue, n.lost = n.queue[1:], 0
		n.mu.Unlock()
		n.call(e, lost)
	}
}

// call never panics. A hook that ends its goroutine (runtime.Goexit, as
// testing.T.FailNow does) must not end the deliveries, too.
func (n *notifier) call(e event, lost int) {
	returned := false
	defer func() {
		if !returned {
			n.drain()
		}
	}()
	if lost > 0 {
		n.write(slog.LevelError, "surefoot: circuit breaker hook is too slow, state changes were dropped", e, slog.Int("dropped", lost))
	}
	level := slog.LevelInfo
	if e.to == Open {
		level = slog.LevelWarn
	}
	n.write(level, "surefoot: circuit breaker state changed", e)
	if n.hook != nil {
		layer.Hook(n.log, "OnStateChange", func() { n.hook(e.key, e.from, e.to) }, n.attrs(e)...)
	}
	returned = true
}

// write logs; a handler that panics costs its line only.
func (n *notifier) write(level slog.Level, msg string, e event, more ...any) {
	if n.log == nil {
		return
	}
	defer func() { _ = recover() }()
	n.log.Log(context.Background(), level, msg, append(n.attrs(e), more...)...)
}

// attrs are what every line about an event has.
func (n *notifier) attrs(e event) []any {
	return []any{"provider", n.provider, "key", e.key, "from", e.from.String(), "to", e.to.String()}
}
