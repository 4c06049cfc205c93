package resilience

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
)

// AccountKey is the key under which a context carries a word (a string) for the
// account whose credentials a call is sent with, where a stack serves several.
// What an upstream says of one account's limits then holds no other. A
// failover.Chain sets it for targets that share a stack and differ in their
// credentials. Without it a call is of the stack's own account.
type AccountKey struct{}

// maxAccounts bounds the accounts beside a stack's own that are held at the same
// time. Nothing is held of a further one: it must not hold another.
const maxAccounts = 64

// accounts are the holds of a stack, by account.
type accounts struct {
	longest time.Duration
	own     *breaker.Holds
	used    atomic.Bool // something was held before

	mu     sync.RWMutex
	others map[string]*breaker.Holds // guarded by mu
}

func newAccounts(longest time.Duration) *accounts {
	return &accounts{longest: longest, own: breaker.NewHolds(longest)}
}

// find returns the holds of an account, nil for one of which nothing was held.
func (a *accounts) find(account string) *breaker.Holds {
	if account == "" {
		return a.own
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.others[account]
}

// hold keeps calls of an account from a key.
func (a *accounts) hold(account, key, kind string, wait time.Duration, guess bool) {
	h := a.own
	if account != "" {
		a.mu.Lock()
		defer a.mu.Unlock()
		if h = a.place(account); h == nil {
			return
		}
	}
	h.Hold(key, kind, wait, guess)
	a.used.Store(true)
}

// place returns the holds of another account than the stack's own, made if need
// be; nil if there are too many. a.mu is held.
func (a *accounts) place(account string) *breaker.Holds {
	if h := a.others[account]; h != nil {
		return h
	}
	if len(a.others) >= maxAccounts {
		for word, h := range a.others {
			if h.Snapshot() == nil {
				delete(a.others, word)
			}
		}
		if len(a.others) >= maxAccounts {
			return nil
		}
	}
	if a.others == nil {
		a.others = make(map[string]*breaker.Holds)
	}
	h := breaker.NewHolds(a.longest)
	a.others[strings.Clone(account)] = h
	return h
}

// all returns the holds of every account, the stack's own first.
func (a *accounts) all() []*breaker.Holds {
	a.mu.RLock()
	defer a.mu.RUnlock()
	out := []*breaker.Holds{a.own}
	for _, h := range a.others {
		out = append(out, h)
	}
	return out
}

// snapshot returns the holds of all accounts, by key.
func (a *accounts) snapshot() []breaker.Hold {
	var out []breaker.Hold
	for _, h := range a.all() {
		out = append(out, h.Snapshot()...)
	}
	slices.SortStableFunc(out, func(x, y breaker.Hold) int { return strings.Compare(x.Key, y.Key) })
	return out
}

func (a *accounts) release(key string) {
	for _, h := range a.all() {
		h.Release(key)
	}
}
