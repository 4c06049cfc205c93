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
	// Guess says that the upstream named no time: a reason to ask another
	// upstream first but not to refuse a call.
	Guess bool
}

// Holds keeps the holds of one account with a provider: of the account itself,
// key "", and of at most 1,024 models. With more than that the one that ends
// first makes room, since it is worth least; memory is bounded for any input,
// keys of a megabyte too. Time is monotonic. No goroutine and no timer is
// needed: a hold that is over is forgotten by a later [Holds.Hold].
//
// It is safe for concurrent use. Until something is held, asking is one atomic
// load. Use [NewHolds] to make one.
type Holds struct {
	longest time.Duration
	most    int         // models that are held at the same time
	base    time.Time   // the monotonic clock's zero
	used    atomic.Bool // something may be held; written under mu

	mu      sync.RWMutex
	account held             // guarded by mu
	models  map[string]*held // guarded by mu
	ends    endHeap          // guarded by mu: the models, the first to end on top
}

// A held is what one key is kept for: by a time that the upstream named, by a
// guess, or by both, which never mix.
type held struct {
	key            string
	named, guessed span
	index          int // in the heap
}

// A span is a hold's kind and end, in time since base. The zero span is over.
type span struct {
	kind  string
	until time.Duration
}

// extend makes the later of two ends stand, with its kind.
func (s *span) extend(kind string, until time.Duration) {
	if until > s.until {
		*s = span{kind, until}
	}
}

// until is when the key is free.
func (e *held) until() time.Duration { return max(e.named.until, e.guessed.until) }

// NewHolds returns an account without holds. No hold lasts longer than longest,
// whatever an upstream says; 0 or less is [DefaultMaxHold].
func NewHolds(longest time.Duration) *Holds {
	if longest <= 0 {
		longest = DefaultMaxHold
	}
	return &Holds{longest: longest, most: maxModels, base: time.Now(), models: make(map[string]*held)}
}

// Hold keeps calls of the key away for wait from now on: of a model, or with
// the key "" of the whole account. guess says that the upstream named no time.
// Where the key is held already, the later end stands, with its kind; a guess
// does not move what the upstream named. A wait of 0 or less does nothing.
func (h *Holds) Hold(key, kind string, wait time.Duration, guess bool) {
	if wait <= 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Since(h.base)
	until := after(now, min(wait, h.longest))
	for len(h.ends) > 0 && h.ends[0].until() <= now {
		h.remove(h.ends[0])
	}
	if h.account.until() <= now {
		h.account = held{}
	}
	e := h.entry(boundedKey(key), until)
	if e == nil {
		return
	}
	if guess {
		e.guessed.extend(kind, until)
	} else {
		e.named.extend(kind, until)
	}
	if e != &h.account {
		heap.Fix(&h.ends, e.index)
	}
	h.used.Store(true)
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
	if len(h.models) >= h.most {
		if until <= h.ends[0].until() {
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

// Held returns the hold that keeps a call of the key away longest from now on,
// its model's or its account's; false if there is none. guesses says that those
// count whose time the upstream did not name. It does not allocate (but for a
// key that is too long).
func (h *Holds) Held(key string, guesses bool) (Hold, bool) {
	if !h.used.Load() {
		return Hold{}, false
	}
	key = boundedKey(key)
	h.mu.RLock()
	defer h.mu.RUnlock()
	model := h.models[key]
	if model == nil && h.account == (held{}) {
		return Hold{}, false // the clock need not be read
	}
	// Under the lock: a hold that is set while this call waits for it would
	// otherwise seem to last longer than it was set for.
	now := time.Since(h.base)
	out := h.account.at(now, guesses)
	if model != nil {
		if m := model.at(now, guesses); m.RetryAfter > out.RetryAfter {
			out = m
		}
	}
	return out, out.RetryAfter > 0
}

// at is the hold as it stands at now, the longer of the two where guesses count;
// nothing is left of one that is over.
func (e *held) at(now time.Duration, guesses bool) Hold {
	s, guess := e.named, false
	if guesses && e.guessed.until > s.until {
		s, guess = e.guessed, true
	}
	if s.until <= now {
		return Hold{}
	}
	return Hold{Key: e.key, Kind: s.kind, RetryAfter: s.until - now, Guess: guess}
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
	h.used.Store(len(h.models) > 0 || h.account != (held{}))
}

// Snapshot returns the hold of each key that ends last, a guess included: the
// account's first, then the models by name; nil if there are none.
func (h *Holds) Snapshot() []Hold {
	h.mu.RLock()
	defer h.mu.RUnlock()
	now := time.Since(h.base)
	var out []Hold
	if a := h.account.at(now, true); a.RetryAfter > 0 {
		out = append(out, a)
	}
	for _, e := range h.ends {
		if m := e.at(now, true); m.RetryAfter > 0 {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b Hold) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// endHeap implements [heap.Interface] by the ends of the holds.
type endHeap []*held

func (q endHeap) Len() int           { return len(q) }
func (q endHeap) Less(i, j int) bool { return q[i].until() < q[j].until() }
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
