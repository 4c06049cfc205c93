package resilience

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/resilience/layer"
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

func newLimits(p Limits) *limits {
	l := new(limits)
	if p.Hold || p.Preempt {
		l.holds = newAccounts(p.MaxHold)
	}
	if p.MaxConcurrent > 0 {
		l.places = semaphore.NewWeighted(int64(p.MaxConcurrent))
	}
	return l
}

// held is the rejection of the call by a hold, nil for none. A time of our own is
// a reason to ask somebody else first, and none to refuse a call.
func (c *call) held() *breaker.OpenError {
	if h := c.t.limits.holds; h == nil || !h.used.Load() {
		return nil
	}
	return c.t.heldBy(c.account(), c.wire.Model, false)
}

// account is the word for the account of the call, "" for the stack's own.
func (c *call) account() string {
	word, _ := c.caller.Value(AccountKey{}).(string)
	return word
}

// heldBy is the rejection by a hold of a call of that account and model, nil for
// none. guesses says that a time of our own counts as well.
func (t *Transport) heldBy(account, model string, guesses bool) *breaker.OpenError {
	if t.limits.holds == nil {
		return nil
	}
	holds := t.limits.holds.find(account)
	if holds == nil {
		return nil
	}
	hold, ok := holds.Held(model)
	wait := hold.Named
	if guesses {
		wait = hold.RetryAfter
	}
	if !ok || wait <= 0 {
		return nil
	}
	return &breaker.OpenError{Provider: t.provider, Key: hold.Key, RetryAfter: wait, Limit: hold.Kind}
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
	}
}

// InUse returns how many calls hold a place of Limits.MaxConcurrent now.
func (t *Transport) InUse() int { return int(t.limits.taken.Load()) }

// learn holds a key by what the answer that goes back says of a limit.
func (c *call) learn(resp *http.Response) {
	p := c.t.policy.Limits
	switch {
	case resp.StatusCode < http.StatusBadRequest:
		if p.Preempt && c.inference() {
			if l, ok := wire.Remaining(resp.Header, time.Now()); ok {
				c.hold(l)
			}
		}
	case p.Hold && wire.TellsOfLimit(resp.StatusCode) && c.wire.Format.Inference():
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
	c.t.limits.holds.hold(c.account(), key, string(l.Kind), l.Wait, guess)
	c.t.log.held(c, l, guess)
}

// A place is one of Limits.MaxConcurrent, held until the call is over. A body
// that its caller has left lying gives it back after the idle timeout.
type place struct {
	limits *limits
	idle   time.Duration

	mu    sync.Mutex
	timer *time.Timer // guarded by mu: from the hand-out of a body on
	given bool        // guarded by mu
}

// takePlace waits for a place, as long as the caller's deadline, Policy.Timeout
// and what stands above allow; the places are given out in the order of the
// calls. A rejection says that there was none in time.
func (c *call) takePlace() error {
	l := c.t.limits
	if l.places == nil {
		return nil
	}
	waits := !l.places.TryAcquire(1)
	if waits {
		if open := c.t.opened(c.wire.Model); open != nil {
			return open // at once (contract 4): no place is worth waiting for
		}
		if err := c.waitForPlace(); err != nil {
			return err
		}
	}
	l.taken.Add(1)
	c.place = &place{limits: l, idle: c.t.policy.Stream.IdleTimeout}
	if !waits {
		return nil
	}
	if open := c.held(); open != nil { // by a call that ended meanwhile
		return open
	}
	return nil
}

func (c *call) waitForPlace() error {
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	if c.canceled != nil { // deprecated, and the one signal that is no context: it takes a goroutine
		go func() {
			select {
			case <-c.canceled:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	start := time.Now()
	p := patienceOf(c.caller)
	if p != nil {
		longest, _ := p.MayWait(c.orig, nil, 0)
		timer := time.AfterFunc(longest, cancel)
		defer timer.Stop()
	}
	err := c.t.limits.places.Acquire(ctx, 1)
	if p != nil {
		p.Waits(c.orig, time.Since(start))
	}
	if err == nil {
		return nil
	}
	if e := ending.Under(c.caller, c.canceled, nil); e.By == ending.Caller {
		return e.Explain(nil)
	}
	return &breaker.OpenError{Provider: c.t.provider, Limit: ending.ReasonConcurrency}
}

// busy says that a Read of the body begins, which lasts as long as it must: the
// wait for a first byte is bounded by nothing of ours (contract 6).
func (p *place) busy() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
}

// touch says that the body is its caller's now, or that a Read has ended.
func (p *place) touch() {
	if p == nil || p.idle <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.given:
	case p.timer == nil:
		p.timer = time.AfterFunc(p.idle, p.giveBack)
	default:
		p.timer.Reset(p.idle)
	}
}

// giveBack frees the place, once.
func (p *place) giveBack() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.given {
		return
	}
	p.given = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.limits.taken.Add(-1)
	p.limits.places.Release(1)
}
