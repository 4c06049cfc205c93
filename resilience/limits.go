package resilience

import (
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// unnamedBilling is how long an account without credit is held where the
// upstream named no time: a guess, for chains to ask somebody else first.
const unnamedBilling = 5 * time.Minute

// limits are a stack's holds and its places; both nil where the policy has none.
type limits struct {
	holds  *accounts
	places *semaphore.Weighted
	taken  atomic.Int64
}

func (l *limits) init(p Limits) {
	if p.Hold || p.Preempt {
		l.holds = newAccounts(p.MaxHold)
	}
	if p.MaxConcurrent > 0 {
		l.places = semaphore.NewWeighted(int64(p.MaxConcurrent))
	}
}

// runsModel reports whether the call asks a model for something. Holds are of
// such calls alone: what only looks (a list of models, an answer that is kept)
// uses nothing up, and discovery could not do without it.
func (c *call) runsModel() bool {
	return c.wire.Format.Inference() && c.orig.Method == http.MethodPost
}

// held is the rejection of the call by a hold, nil for none. A time of our own is
// a reason to ask somebody else first, and none to refuse a call.
func (c *call) held() *breaker.OpenError {
	if h := c.t.limits.holds; h == nil || !h.used.Load() || !c.runsModel() {
		return nil
	}
	if open, held := c.t.heldBy(c.account(), c.wire.Model, false); held {
		return new(open)
	}
	return nil
}

// account is the word for the account of the call, "" for the stack's own.
func (c *call) account() string {
	word, _ := c.caller.Value(AccountKey{}).(string)
	return word
}

// heldBy is the rejection by a hold of a call of that account and model, false for
// none. guesses says that a time of our own counts as well.
func (t *Transport) heldBy(account, model string, guesses bool) (breaker.OpenError, bool) {
	if t.limits.holds == nil || !t.limits.holds.used.Load() {
		return breaker.OpenError{}, false
	}
	holds := t.limits.holds.find(t.account(account))
	if holds == nil {
		return breaker.OpenError{}, false
	}
	hold, held := holds.Held(model, guesses)
	if !held {
		return breaker.OpenError{}, false
	}
	return breaker.OpenError{Provider: t.provider, Key: hold.Key, RetryAfter: hold.RetryAfter, Limit: hold.Kind, Guess: hold.Guess}, true
}

// Holds returns the keys that calls are kept from now, and until when, the
// account's own (key "") first; nil for none. A key is listed once for each
// account that the stack serves, see [AccountKey].
func (t *Transport) Holds() []breaker.Hold {
	if t.limits.holds == nil {
		return nil
	}
	return t.limits.holds.snapshot()
}

// ReleaseHold ends the hold of a model, or with "" of the account, for every
// account that the stack serves.
func (t *Transport) ReleaseHold(key string) {
	if t.limits.holds != nil {
		t.limits.holds.release(key)
		t.share("Peers.Released", func(p breaker.Peers) { p.Released(key) })
	}
}

// learn holds a key by what the answer that goes back says of a limit.
func (c *call) learn(resp *http.Response) {
	p := c.t.policy.Limits
	switch {
	case resp.StatusCode < http.StatusBadRequest:
		if p.Preempt && c.inference() && c.runsModel() {
			if l, ok := wire.Remaining(resp.Header, time.Now()); ok {
				c.hold(l)
			}
		}
	case p.Hold && wire.TellsOfLimit(resp.StatusCode) && c.runsModel():
		if l, ok := c.limitOf(resp); ok && (l.Kind == wire.LimitBilling || !c.waitedOut(l.Wait)) {
			c.hold(l)
		}
	}
}

// waitedOut reports whether the retry waits for as long as that, and did: such
// a limit is none to keep other calls away for.
func (c *call) waitedOut(wait time.Duration) bool {
	p := c.t.policy.Retry
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.MaxRetries > 0 && len(c.rec.Attempts) > p.MaxRetries && wait <= p.MaxBackoff
}

// limitOf reads what a failed answer says of a limit.
func (c *call) limitOf(resp *http.Response) (wire.Limit, bool) {
	c.mu.Lock()
	f := c.failure
	c.mu.Unlock()
	if f == nil || f.Status != resp.StatusCode {
		head := layer.Peek(resp, layer.PeekBytes, layer.PeekTime).Head()
		read := c.t.words.ParseFailure(resp.StatusCode, head)
		f = &read
	}
	return f.ReadLimit(resp.Header, time.Now())
}

// hold keeps calls from the key of a limit: the account for a quota and for
// billing, else the model (contract 11). What never fits, or clears in seconds,
// is nothing to keep away from.
func (c *call) hold(l wire.Limit) {
	key, guess := c.wire.Model, false
	switch l.Kind {
	case wire.LimitNeverFits, wire.LimitConcurrency:
		return
	case wire.LimitBilling:
		if key = ""; l.Wait == 0 {
			l.Wait, guess = unnamedBilling, true
		}
	case wire.LimitQuota:
		key = ""
	case "":
		l.Kind = wire.LimitRate
	}
	if l.Wait <= 0 {
		return
	}
	if key == "" && l.Kind == wire.LimitRate {
		return // the call named no model: the account's key would keep all of them away
	}
	account := c.t.account(c.account())
	c.t.limits.holds.hold(account, key, string(l.Kind), l.Wait, guess)
	c.t.share("Peers.Held", func(p breaker.Peers) {
		p.Held(account, breaker.Hold{Key: key, Kind: string(l.Kind), RetryAfter: l.Wait, Guess: guess})
	})
	c.t.log.held(c, l, guess)
}
