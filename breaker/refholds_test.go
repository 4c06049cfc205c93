package breaker_test

import (
	"slices"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
)

// refHolds is slow and obvious: every hold there ever was, of a key that was
// neither released nor put out since.
type refHolds struct {
	longest time.Duration
	most    int // models held at the same time
	all     []refHold
}

type refHold struct {
	key, kind string
	until     time.Time
	guess     bool
}

func (r *refHolds) hold(key, kind string, wait time.Duration, guess bool) {
	until := time.Now().Add(min(wait, r.longest))
	if wait <= 0 || !r.room(key, until) {
		return
	}
	r.all = append(r.all, refHold{key, kind, until, guess})
}

// room makes room for a hold of the key: of the models that are held the one
// that ends first goes, which may be the new one itself.
func (r *refHolds) room(key string, until time.Time) bool {
	if r.free(key) {
		return true
	}
	first, end := "", until
	for _, model := range r.models() {
		if at := r.end(model); at.Before(end) {
			first, end = model, at
		}
	}
	if first == "" {
		return false
	}
	r.release(first)
	return true
}

// free reports whether the key can be held without another's being put out.
func (r *refHolds) free(key string) bool {
	return key == "" || r.end(key).After(time.Now()) || len(r.models()) < r.most
}

// models are those that are held now.
func (r *refHolds) models() (out []string) {
	for _, e := range r.all {
		if e.key != "" && e.until.After(time.Now()) && !slices.Contains(out, e.key) {
			out = append(out, e.key)
		}
	}
	return out
}

// end is when the key's hold ends.
func (r *refHolds) end(key string) (end time.Time) {
	for _, e := range r.all {
		if e.key == key && e.until.After(end) {
			end = e.until
		}
	}
	return end
}

func (r *refHolds) release(key string) {
	r.all = slices.DeleteFunc(r.all, func(e refHold) bool { return e.key == key })
}

// held is the hold of some keys that ends last.
func (r *refHolds) held(guesses bool, keys ...string) (out breaker.Hold, ok bool) {
	for _, e := range r.all {
		left := time.Until(e.until)
		if left <= 0 || e.guess && !guesses || !slices.Contains(keys, e.key) {
			continue
		}
		// Of those that end together the account's is the one that is told, then
		// one that was named, then the first.
		same := left == out.RetryAfter
		if left > out.RetryAfter || same && e.key == "" && out.Key != "" || same && e.key == out.Key && out.Guess && !e.guess {
			out = breaker.Hold{Key: e.key, Kind: e.kind, RetryAfter: left, Guess: e.guess}
		}
	}
	return out, out.RetryAfter > 0
}

func (r *refHolds) snapshot(keys []string) (out []breaker.Hold) {
	for _, key := range keys {
		if h, ok := r.held(true, key); ok {
			out = append(out, h)
		}
	}
	return out
}
