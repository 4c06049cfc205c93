package breaker

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	maxModels  = 1024             // model breakers of a map
	idleExpiry = 10 * time.Minute // a breaker without a call for that long may go
	maxKey     = 128              // bytes of a key that is kept as it is
	keyPrefix  = 64               // bytes of a longer key that are kept
)

// A Map holds a provider's breakers: its own, key "", and with [ScopeModel] one
// for each of at most 1,024 models; with [ScopeProvider] every key means the
// provider's own. It is safe for concurrent use. Use [NewMap] to make one.
//
// A look-up of a model that is new lets the breakers expire that had no call for
// 10 minutes and whose open time, if any, is over; at 1,024 the closed one idle
// longest makes room. A breaker in use, open or half-open is never put out: if
// all are, the new model is rejected (see [OpenError.Full]). Both cost the same
// at any number of models.
//
// A key longer than 128 bytes stands for its first 64 bytes and a hash of the
// whole, so memory is bounded for any input.
type Map struct {
	core     *core
	perModel bool
	most     int // models
	own      Breaker

	mu      sync.Mutex
	entries map[string]*entry // guarded by mu: models only
	// Every entry that is not in use is in one of two rings, guarded by mu:
	// closed, last used first, or tripped (open or half-open), in no order.
	closed, tripped entry
	// nextExpiry is no later than the first expiry of a tripped entry; guarded
	// by mu. A scan before would be in vain, and a scan sets it to a true expiry,
	// so the cost of all scans is small beside the calls that made the entries.
	nextExpiry time.Duration
}

// An entry is one model's breaker.
type entry struct {
	Breaker
	prev, next *entry        // guarded by Map.mu
	used       time.Duration // guarded by Map.mu: when the last call ended
	inUse      int           // guarded by Map.mu: permits not settled
}

// NewMap returns a map with the provider's own breaker, or an error if the
// policy is invalid.
func NewMap(c Config) (*Map, error) {
	co, err := newCore(&c)
	if err != nil {
		return nil, err
	}
	m := &Map{core: co, perModel: c.Policy.Scope == ScopeModel, most: maxModels, nextExpiry: math.MaxInt64}
	m.own.core = co
	m.entries = make(map[string]*entry)
	m.closed.prev, m.closed.next = &m.closed, &m.closed
	m.tripped.prev, m.tripped.next = &m.tripped, &m.tripped
	co.owner = m
	return m, nil
}

// normal returns the key under which a model is kept.
func (m *Map) normal(key string) string {
	if !m.perModel || m.core.off {
		return ""
	}
	return boundedKey(key)
}

// boundedKey returns what stands for a key of any length.
func boundedKey(key string) string {
	if len(key) <= maxKey {
		return key
	}
	cut := keyPrefix
	for cut > keyPrefix-utf8.UTFMax && !utf8.RuneStart(key[cut]) {
		cut--
	}
	sum := sha256.Sum256([]byte(key))
	return key[:cut] + "~" + hex.EncodeToString(sum[:16])
}

// Admit asks the key's breaker for a call. Nil means go: p then belongs to this
// call and must be settled once its outcome is known, until when the breaker is
// in use. Otherwise the error is an [*OpenError] and p is left inert. What p
// held before is settled as [Neutral]. Admitting to a known breaker does not
// allocate (but for a key that is too long).
func (m *Map) Admit(key string, p *Permit) error {
	p.clear()
	key = m.normal(key)
	if key == "" {
		return m.own.admit(p, nil)
	}
	e := m.pin(key, true)
	if e == nil {
		return errorOf(m.full(key), true)
	}
	err := e.admit(p, e)
	if err != nil {
		m.release(e)
	}
	return err
}

func (m *Map) full(key string) OpenError {
	return OpenError{Provider: m.core.events.provider, Key: key, Full: true}
}

// Peek returns the error that [Map.Admit] would return for the key now, nil if
// it would admit. It makes no breaker, takes no place, and counts as no use.
func (m *Map) Peek(key string) *OpenError { return errorOf(m.Rejects(key)) }

// Rejects is [Map.Peek] without an allocation (but for a key that is too long).
func (m *Map) Rejects(key string) (OpenError, bool) {
	key = m.normal(key)
	if key == "" {
		return m.own.Rejects()
	}
	m.mu.Lock()
	e := m.entries[key]
	if e == nil && !m.hasRoom() {
		m.mu.Unlock()
		return m.full(key), true
	}
	m.mu.Unlock()
	if e == nil {
		return OpenError{}, false
	}
	return e.Rejects()
}

// Snapshots returns all breakers, the provider's own first, then the models by
// name; nil if the policy has no breaker.
func (m *Map) Snapshots() []Snapshot {
	if m.core.off {
		return nil
	}
	m.mu.Lock()
	all := make([]*Breaker, 1, len(m.entries)+1)
	all[0] = &m.own
	for _, e := range m.entries {
		all = append(all, &e.Breaker)
	}
	m.mu.Unlock()
	out := make([]Snapshot, len(all))
	for i, b := range all {
		out[i] = b.Snapshot()
	}
	slices.SortFunc(out, func(a, b Snapshot) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// ForceOpen opens the key's breaker for d from now on, whatever its state; d of
// 0 or less is the policy's timeout. A model not known yet gets a breaker, unless
// all places are protected: then its calls are rejected for that reason anyway.
// Where the policy has no breaker nothing happens.
func (m *Map) ForceOpen(key string, d time.Duration) {
	m.operate(key, true, func(b *Breaker) { b.ForceOpen(d) })
}

// Reset closes the key's breaker and forgets its counts; an unknown key is left
// unknown.
func (m *Map) Reset(key string) {
	m.operate(key, false, (*Breaker).Reset)
}

// operate pins the breaker meanwhile, so that it is filed by its new state.
func (m *Map) operate(key string, add bool, do func(*Breaker)) {
	key = m.normal(key)
	if key == "" {
		do(&m.own)
		return
	}
	if e := m.pin(key, add); e != nil {
		defer m.release(e)
		do(&e.Breaker)
	}
}

// pin returns the key's entry, in use until it is released. A new model's is
// made if add is set; nil if there is none or no room.
func (m *Map) pin(key string, add bool) *entry {
	m.mu.Lock()
	e := m.entries[key]
	switch {
	case e == nil && add:
		e = m.add(key)
	case e != nil && e.inUse == 0:
		e.unlink()
	}
	if e != nil {
		e.inUse++
	}
	m.mu.Unlock()
	return e
}

// release ends one use of e. Idle time begins with the end of the last.
func (m *Map) release(e *entry) {
	now := m.core.now()
	m.mu.Lock()
	e.inUse--
	if e.inUse == 0 {
		e.used = now
		if e.State() == Closed {
			e.linkAfter(&m.closed)
		} else {
			e.linkAfter(&m.tripped)
			m.nextExpiry = min(m.nextExpiry, e.expiry())
		}
	}
	m.mu.Unlock()
}

// add makes an entry, expiring or evicting others; nil if there is no room.
// m.mu is held.
func (m *Map) add(key string) *entry {
	now := m.core.now()
	for e := m.closed.prev; e != &m.closed && now-e.used >= idleExpiry; e = m.closed.prev {
		m.remove(e)
	}
	m.expireTripped(now)
	if len(m.entries) >= m.most {
		if m.closed.prev == &m.closed {
			return nil
		}
		m.remove(m.closed.prev)
	}
	// The key may be a piece of a large text, which must not be kept alive.
	e := &entry{Breaker: Breaker{core: m.core, key: strings.Clone(key), since: now}}
	m.entries[e.key] = e
	return e
}

// expireTripped removes the tripped entries that are due. m.mu is held.
func (m *Map) expireTripped(now time.Duration) {
	if now < m.nextExpiry {
		return
	}
	m.nextExpiry = math.MaxInt64
	for e := m.tripped.next; e != &m.tripped; {
		next, due := e.next, e.expiry()
		if now >= due {
			m.remove(e)
		} else {
			m.nextExpiry = min(m.nextExpiry, due)
		}
		e = next
	}
}

// hasRoom reports whether add would find room; it removes nothing. m.mu is
// held.
func (m *Map) hasRoom() bool {
	if len(m.entries) < m.most || m.closed.prev != &m.closed {
		return true
	}
	now := m.core.now()
	if now < m.nextExpiry {
		return false
	}
	next := time.Duration(math.MaxInt64)
	for e := m.tripped.next; e != &m.tripped; e = e.next {
		due := e.expiry()
		if now >= due {
			// In front the next one to ask finds it at once.
			e.unlink()
			e.linkAfter(&m.tripped)
			return true
		}
		next = min(next, due)
	}
	m.nextExpiry = next
	return false
}

// remove forgets an entry that is not in use. m.mu is held.
func (m *Map) remove(e *entry) {
	e.unlink()
	delete(m.entries, e.key)
}

// expiry is when a tripped entry without further calls may go. Map.mu is held,
// and never taken under Breaker.mu.
func (e *entry) expiry() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(after(e.used, idleExpiry), e.until)
}

func (e *entry) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

func (e *entry) linkAfter(root *entry) {
	e.prev, e.next = root, root.next
	root.next.prev, root.next = e, e
}
