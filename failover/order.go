package failover

import (
	"slices"
	"sync"
)

// balancer is nginx's smooth weighted round robin: over a run of calls every
// target is first as often as its weight says, and never in bursts.
type balancer struct {
	weights []int64

	mu      sync.Mutex
	current []int64 // guarded by mu
}

func newBalancer(targets []*target) *balancer {
	b := &balancer{weights: make([]int64, len(targets)), current: make([]int64, len(targets))}
	for i, t := range targets {
		b.weights[i] = int64(max(t.Weight, 1))
	}
	return b
}

// pick returns the next of the indexes in ready, -1 if there is none. Those
// that are not ready keep their turn and lose no weight.
func (b *balancer) pick(ready []bool) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	best, total := -1, int64(0)
	for i, ok := range ready {
		if !ok {
			continue
		}
		b.current[i] += b.weights[i]
		total += b.weights[i]
		if best < 0 || b.current[i] > b.current[best] {
			best = i
		}
	}
	if best >= 0 {
		b.current[best] -= total
	}
	return best
}

// cheapest returns the index of the cheapest target that may answer the call,
// whether or not it could now.
func (w *walk) cheapest() int {
	best := -1
	for i, t := range w.chain.targets {
		if t.Disabled || w.embeds && w.modelOf(t, w.model) != w.vectors {
			continue
		}
		if best < 0 || t.Cost < w.chain.targets[best].Cost {
			best = i
		}
	}
	return max(best, 0)
}

// firstModel returns the model of a chain's first target that is this
// caller's, or of the preferred one if that is not nil.
func (w *walk) firstModel(c *Chain, preferred *target, asked string) string {
	if preferred != nil {
		return w.modelOf(preferred, asked)
	}
	for _, t := range c.targets {
		if !t.Disabled && (t.Allow == nil || t.Allow(w.ask)) {
			return w.modelOf(t, asked)
		}
	}
	return ""
}

// modelOf returns the model that would answer through t a request for asked.
func (w *walk) modelOf(t *target, asked string) string {
	switch {
	case t.virtual != nil:
		return w.firstModel(t.virtual.chain, t.virtual.preferred, asked)
	case t.nested != nil:
		return w.firstModel(t.nested, nil, t.model(asked))
	}
	return t.model(asked)
}

// first returns the index of the target that the call begins at, before the
// others as they are listed, and of the one that counts as the strategy's
// choice. The two differ where listed targets before it are disabled, and where
// the call's key is pinned to a backup.
func (w *walk) first() (front, first int) {
	c := w.chain
	if w.preferred != nil {
		i := max(slices.Index(c.targets, w.preferred), 0)
		return i, i
	}
	attached := w.attached()
	switch {
	case c.balance != nil && attached >= 0:
		return attached, attached
	case c.balance != nil:
		ready := make([]bool, len(c.targets))
		for i, t := range c.targets {
			reason, _ := w.skip(t, false)
			ready[i] = reason == ""
		}
		if i := c.balance.pick(ready); i >= 0 {
			return i, i
		}
	case c.policy.Strategy == StrategyCost:
		front = w.cheapest()
		first = front
	default:
		first = max(0, slices.IndexFunc(c.targets, func(t *target) bool { return !t.Disabled }))
	}
	if attached >= 0 {
		front = attached
	}
	return front, first
}

// at returns the index of the k-th target in the order of a call that begins
// at front.
func at(k, front int) int {
	switch {
	case k == 0:
		return front
	case k <= front:
		return k - 1
	}
	return k
}
