package breaker

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultMaxHold is the longest hold of a [Holds] that was given no other.
const DefaultMaxHold = time.Hour

// maxHeld bounds the models that are held at the same time.
const maxHeld = maxModels

// A Hold is a key from which calls are kept until a time that its upstream
// named: a rate limit, a quota, an account without credit. It is no failure of
// the upstream and ends by itself.
type Hold struct {
	// Key is "" for the whole account, else a model (in its bounded form, see
	// [Map]).
	Key string
	// Kind is the word for the limit that the caller of [Holds.Hold] gave.
	Kind string
	// RetryAfter is how long the hold lasts from now on.
	RetryAfter time.Duration
	// Named is the part of RetryAfter that the upstream named. The rest is a
	// guess, a reason to ask another upstream first but not to refuse a call.
	Named time.Duration
}

// Holds keeps the holds of one account with a provider: of the account itself,
// key "", and of at most 1,024 models. With more than that the one that ends
// first makes room, since it is worth least; memory is bounded for any input,
// keys of a megabyte too. Time is monotonic. No goroutine and no timer is
// needed: a hold that is over is forgotten by a later [Holds.Hold].
//
// It is safe for concurrent use. While nothing is held, asking is one atomic
// load. Use [NewHolds] to make one.
type Holds struct {
	longest time.Duration
	base    time.Time    // the monotonic clock's zero
	last    atomic.Int64 // end of the last hold to end, 0: none; written under mu

	mu      sync.RWMutex
	account held             // guarded by mu
	models  map[string]*held // guarded by mu
	ends    endHeap          // guarded by mu: the models, the first to end on top
}

// A held is one key's hold, in time since base.
type held struct {
	key, kind    string
	until, named time.Duration
	index        int // in the heap
}

// NewHolds returns an account without holds. No hold lasts longer than longest,
// whatever an upstream says; 0 or less is [DefaultMaxHold].
func NewHolds(longest time.Duration) *Holds {
	if longest <= 0 {
		longest = DefaultMaxHold
	}
	return &Holds{longest: longest, base: time.Now(), models: make(map[string]*held)}
}

// Hold keeps calls of the key away for wait from now on: of a model, or with
// the key "" of the whole account. Where the key is held already, the later end
// stands. guess says that the upstream named no time. A wait of 0 or less does
// nothing.
func (h *Holds) Hold(key, kind string, wait time.Duration, guess bool) {
	if wait <= 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Since(h.base)
	until := after(now, min(wait, h.longest))
	for len(h.ends) > 0 && h.ends[0].until <= now {
		h.remove(h.ends[0])
	}
	e := h.entry(boundedKey(key), until)
	if e == nil {
		return
	}
	if until > e.until {
		e.until, e.kind = until, kind
	}
	if !guess {
		e.named = max(e.named, until)
	}
	if e != &h.account {
		heap.Fix(&h.ends, e.index)
	}
	h.last.Store(max(h.last.Load(), int64(until)))
}

// entry returns the key's hold, made if need be; nil if there are too many and
// all of them end later. h.mu is held.
func (h *Holds) entry(key string, until time.Duration) *held {
	if key == "" {
		return &h.account
	}
	if e := h.models[key]; e != nil {
		return e
	}
	if len(h.models) >= maxHeld {
		if until <= h.ends[0].until {
			return nil
		}
		h.remove(h.ends[0])
	}
	// The key may be a piece of a large text, which must not be kept alive.
	e := &held{key: strings.Clone(key)}
	h.models[e.key] = e
	heap.Push(&h.ends, e)
	return e
}

// remove forgets a model's hold. h.mu is held.
func (h *Holds) remove(e *held) {
	heap.Remove(&h.ends, e.index)
	delete(h.models, e.key)
}

// Held returns the hold that a call of the key meets now, its model's or its
// account's, whichever ends later; false if there is none.
func (h *Holds) Held(key string) (Hold, bool) {
	last := h.last.Load()
	if last == 0 {
		return Hold{}, false
	}
	if int64(time.Since(h.base)) >= last {
		return Hold{}, false
	}
	key = boundedKey(key)
	h.mu.RLock()
	defer h.mu.RUnlock()
	// Read again: a hold that was set while this call waited for the lock would
	// otherwise seem to last longer than it was set for.
	now := time.Since(h.base)
	out := h.account.at(now)
	if e := h.models[key]; e != nil {
		model := e.at(now)
		named := max(model.Named, out.Named)
		if model.RetryAfter > out.RetryAfter {
			out = model
		}
		out.Named = named
	}
	return out, out.RetryAfter > 0
}

// at is the hold as it stands at now; nothing is left of one that is over.
func (e *held) at(now time.Duration) Hold {
	if e.until <= now {
		return Hold{}
	}
	return Hold{Key: e.key, Kind: e.kind, RetryAfter: e.until - now, Named: max(0, e.named-now)}
}

// Release ends the key's hold.
func (h *Holds) Release(key string) {
	key = boundedKey(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	if key == "" {
		h.account = held{}
	} else if e := h.models[key]; e != nil {
		h.remove(e)
	}
	last := h.account.until
	for _, e := range h.ends {
		last = max(last, e.until)
	}
	h.last.Store(int64(last))
}

// Snapshot returns all holds, the account's first, then the models by name; nil
// if there are none.
func (h *Holds) Snapshot() []Hold {
	h.mu.RLock()
	defer h.mu.RUnlock()
	now := time.Since(h.base)
	var out []Hold
	if a := h.account.at(now); a.RetryAfter > 0 {
		out = append(out, a)
	}
	for _, e := range h.ends {
		if m := e.at(now); m.RetryAfter > 0 {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b Hold) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// endHeap implements [heap.Interface] by the ends of the holds.
type endHeap []*held

func (q endHeap) Len() int           { return len(q) }
func (q endHeap) Less(i, j int) bool { return q[i].until < q[j].until }
func (q endHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *endHeap) Push(e any) {
	h := e.(*held)
	h.index = len(*q)
	*q = append(*q, h)
}

func (q *endHeap) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
