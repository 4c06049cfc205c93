package resilience

import (
	"sync/atomic"
	"time"
	"weak"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// replica is the stack as its [breaker.Replicas] know it. It does not keep the stack
// alive: a service that builds its stacks anew drops the old ones.
type replica struct {
	stack weak.Pointer[Transport]
	built atomic.Bool // until then the stack must not be touched
}

// join makes the stack one of those that share, as the last step of Build.
func (t *Transport) join(all breaker.Replicas) {
	if all == nil {
		return
	}
	r := &replica{stack: weak.Make(t)}
	if t.peers = all.Join(t.provider, r); t.peers == nil {
		return
	}
	t.breaker.Peers = t.peers
	r.built.Store(true)
	t.share("Peers.Changed", func(p breaker.Peers) { p.Changed("") })
}

// share calls a method of the replicas', if there are any.
func (t *Transport) share(what string, f func(breaker.Peers)) {
	if t.peers != nil {
		layer.Hook(t.log.l, what, func() { f(t.peers) })
	}
}

// account returns the name under which holds are kept of the account of a word.
func (t *Transport) account(word string) string {
	if word != "" {
		t.share("Peers.Account", func(p breaker.Peers) { word = p.Account(word) })
	}
	return word
}

// live returns the stack, nil before it is built and once it is gone.
func (r *replica) live() *Transport {
	if !r.built.Load() {
		return nil
	}
	return r.stack.Value()
}

func (r *replica) Gone() bool { return r.stack.Value() == nil }

func (r *replica) Breakers() []breaker.Snapshot {
	if t := r.live(); t != nil {
		return t.Breakers()
	}
	return nil
}

func (r *replica) Opinions(key string, quorum int, opinions []breaker.Opinion) {
	if t := r.live(); t != nil {
		t.breaker.Opinions(key, quorum, opinions)
	}
}

func (r *replica) PeerClosed(key string, ago time.Duration) {
	if t := r.live(); t != nil {
		t.breaker.PeerClosed(key, ago)
	}
}

// Hold does not trust where h comes from more than it must: a kind is a word of
// metrics and errors.
func (r *replica) Hold(account string, h breaker.Hold) {
	t := r.live()
	if t == nil || t.limits.holds == nil {
		return
	}
	switch wire.LimitKind(h.Kind) {
	case wire.LimitRate, wire.LimitQuota, wire.LimitBilling:
	default:
		h.Kind = string(wire.LimitRate)
	}
	t.limits.holds.hold(account, h.Key, h.Kind, h.RetryAfter, h.Guess)
}

func (r *replica) Release(key string) {
	if t := r.live(); t != nil && t.limits.holds != nil {
		t.limits.holds.release(key)
	}
}
