package main

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/sony/gobreaker/v2"

	"github.com/surefoot-go/surefoot/breaker"
)

func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("vendor/model-%018d", i) // 31 bytes, kept in 32
	}
	return out
}

// cycle calls fn with one key after the other.
func cycle(keys []string, fn func(key string)) func(b *testing.B) {
	return func(b *testing.B) {
		for _, k := range keys { // all known, as far as they have room
			fn(k)
		}
		i := 0
		for b.Loop() {
			fn(keys[i])
			if i++; i == len(keys) {
				i = 0
			}
		}
	}
}

// lru is a bounded map of breakers as services write it by hand.
type lru struct {
	mu  sync.Mutex
	lru *simplelru.LRU[string, *gobreaker.CircuitBreaker[any]]
}

func newLRU(n int) *lru {
	return &lru{lru: must(simplelru.NewLRU[string, *gobreaker.CircuitBreaker[any]](n, nil))}
}

func (l *lru) get(key string) *gobreaker.CircuitBreaker[any] {
	l.mu.Lock()
	defer l.mu.Unlock()
	cb, ok := l.lru.Get(key)
	if !ok {
		cb = newGobreaker(key)
		l.lru.Add(key, cb)
	}
	return cb
}

func mapSection() *section {
	const places = 1024
	execute := func(cb *gobreaker.CircuitBreaker[any]) {
		_, _ = cb.Execute(func() (any, error) { return nil, nil })
	}
	var plain sync.Map
	viaPlain := func(key string) {
		cb, ok := plain.Load(key)
		if !ok {
			cb, _ = plain.LoadOrStore(key, newGobreaker(key))
		}
		execute(cb.(*gobreaker.CircuitBreaker[any]))
	}
	viaLRU := func(l *lru) func(key string) { return func(key string) { execute(l.get(key)) } }
	viaOurs := func() func(key string) {
		m := must(breaker.NewMap(breaker.Config{Policy: policyOf(breaker.ScopeModel), Provider: "acme"}))
		return func(key string) {
			var p breaker.Permit
			if m.Admit(key, &p) == nil {
				p.Settle(breaker.Success)
			}
		}
	}
	const hitPlain, hitOurs = "sync.Map + gobreaker, hit", "surefoot, hit"
	const evictLRU, evictOurs = "LRU + mutex + gobreaker, eviction", "surefoot, eviction"
	return &section{
		title: "A breaker a model: look it up, admit, report the success",
		note:  "A hit: 1,024 known keys in turn. An eviction: 4,096 keys in turn over 1,024 places, so that every look-up puts one out. sync.Map is not bounded.",
		base:  hitPlain,
		rows: []*row{
			timed(hitPlain, cycle(names(places), viaPlain)),
			timed("LRU + mutex + gobreaker, hit", cycle(names(places), viaLRU(newLRU(places)))),
			timed(hitOurs, cycle(names(places), viaOurs())),
			timed(evictLRU, cycle(names(4*places), viaLRU(newLRU(places)))),
			timed(evictOurs, cycle(names(4*places), viaOurs())),
		},
		targets: []target{
			ratio(hitOurs, hitPlain, 0.5, 0),
			allocs(hitOurs, 0),
			ratio(evictOurs, evictLRU, 1, 0),
		},
	}
}

func retainedSection() *section {
	const n, sets = 1000, 20
	// Every set makes keys of its own, which are garbage unless it keeps them.
	retained := func(fill func(keys []string) any) func() float64 {
		return func() float64 {
			kept := make([]any, sets)
			before := heap()
			for i := range kept {
				kept[i] = fill(names(n))
			}
			each := (heap() - before) / sets / n
			runtime.KeepAlive(kept)
			return each
		}
	}
	const ours = "surefoot, map entry and key included"
	return &section{
		title:   "Bytes that a breaker retains",
		note:    "1,000 closed breakers that have made a call; a key takes 32 bytes.",
		columns: []string{"bytes"},
		rows: []*row{
			weighed("sync.Map + gobreaker, key included", retained(func(keys []string) any {
				m := new(sync.Map)
				for _, k := range keys {
					cb := newGobreaker(k)
					_, _ = cb.Execute(func() (any, error) { return nil, nil })
					m.Store(k, cb)
				}
				return m
			})),
			weighed("failsafe-go, without a map or key", retained(func(keys []string) any {
				all := make([]circuitbreaker.CircuitBreaker[any], len(keys))
				for i := range keys {
					all[i] = newFailsafe[any]()
					if all[i].TryAcquirePermit() {
						all[i].RecordSuccess()
					}
				}
				return all
			})),
			weighed(ours, retained(func(keys []string) any {
				m := must(breaker.NewMap(breaker.Config{Policy: policyOf(breaker.ScopeModel), Provider: "acme"}))
				for _, k := range keys {
					var p breaker.Permit
					if m.Admit(k, &p) == nil {
						p.Settle(breaker.Success)
					}
				}
				return m
			})),
		},
		targets: []target{{
			what: ours, unit: " B", limit: 256 + 32,
			of: func(r round) float64 { return r[ours].bytes },
		}},
	}
}
