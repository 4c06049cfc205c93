package main

import (
	"net/http"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// outage: connections are refused, so every call goes to the backup; once the
// breaker is open it does so without a single attempt at the primary.
func outage(l *lab) error {
	p := policy()
	alpha, err := l.provider("alpha", p)
	if err != nil {
		return err
	}
	beta, err := l.provider("beta", p)
	if err != nil {
		return err
	}
	if err := l.chain("alpha/large", "beta/large"); err != nil {
		return err
	}
	if _, err := l.ask("all is well", answered("alpha/large", 1)); err != nil {
		return err
	}
	alpha.Stop()
	tries := 1 + p.Retry.MaxRetries // a refused connection is retried before the chain moves on
	for range p.CircuitBreaker.FailureThreshold {
		if _, err := l.ask("alpha refuses connections",
			failed("alpha/large", failover.ReasonTransportError, tries), answered("beta/large", 1)); err != nil {
			return err
		}
	}
	if _, err := l.ask("its breaker is open", passedOver("alpha/large"), answered("beta/large", 1)); err != nil {
		return err
	}
	l.check(alpha.Count() == 1, "alpha was sent %d requests, not the one before the outage", alpha.Count())
	want := p.CircuitBreaker.FailureThreshold + 1
	l.check(beta.Count() == want, "beta was sent %d requests, not %d", beta.Count(), want)
	return nil
}

// slow: the slow answers are delivered, and count. Once there were enough of
// them traffic goes to the backup at once, and comes back when probes answer
// in time. Another model of the same provider is not concerned.
func slow(l *lab) error {
	p := policy()
	p.CircuitBreaker.Scope = breaker.ScopeModel
	p.CircuitBreaker.SlowCallThreshold = 300 * time.Millisecond
	p.CircuitBreaker.FailureThreshold = 3
	alpha, err := l.provider("alpha", p)
	if err != nil {
		return err
	}
	if _, err := l.provider("beta", p); err != nil {
		return err
	}
	threshold := p.CircuitBreaker.SlowCallThreshold
	slowly := upstreamtest.OK("at last").Delay(threshold + 150*time.Millisecond)
	alpha.Model("large", slowly.Times(p.CircuitBreaker.FailureThreshold+1), upstreamtest.OK("at once"))
	if err := l.chain("alpha/large", "beta/large"); err != nil {
		return err
	}
	for range p.CircuitBreaker.FailureThreshold {
		a, err := l.ask("alpha/large takes its time", answered("alpha/large", 1))
		if err != nil {
			return err
		}
		l.check(a.took >= threshold, "answered after %v, which is not slow", a.took)
	}
	a, err := l.ask("its breaker is open: no waiting", passedOver("alpha/large"), answered("beta/large", 1))
	if err != nil {
		return err
	}
	l.check(a.took < threshold, "the backup's answer took %v: somebody waited for the primary", a.took)
	l.check(l.breaker("alpha/large").State == breaker.Open, "the breaker of alpha/large is %v", l.breaker("alpha/large").State)
	l.check(l.stacks["alpha"].Peek("small") == nil, "alpha/small is blocked with scope: model")

	if err := l.waitOpen("alpha/large"); err != nil {
		return err
	}
	if _, err := l.ask("a probe, still too slow", answered("alpha/large", 1)); err != nil {
		return err
	}
	l.check(l.breaker("alpha/large").State == breaker.Open, "after a slow probe the breaker is %v", l.breaker("alpha/large").State)
	if _, err := l.ask("so it is open again", passedOver("alpha/large"), answered("beta/large", 1)); err != nil {
		return err
	}
	return probesCloseIt(l, p.CircuitBreaker)
}

// gatewayTimeout: Cloudflare's 524 is retried; then another model of the same
// provider is asked, which has a retry budget of its own. Whether the first
// one's open breaker blocks it is what the scope says.
func gatewayTimeout(l *lab, scope string) error {
	const cloudflare524 = 524
	p := policy()
	p.CircuitBreaker.Scope = scope
	p.CircuitBreaker.FailureThreshold = 1
	cf, err := l.provider("cloudflare", p)
	if err != nil {
		return err
	}
	other, err := l.provider("other", p)
	if err != nil {
		return err
	}
	cf.Model("model1", upstreamtest.Status(cloudflare524))
	cf.Model("model2", upstreamtest.Status(522), upstreamtest.OK("hello"))
	if err := l.chain("cloudflare/model1", "cloudflare/model2", "other/model3"); err != nil {
		return err
	}
	tries := 1 + p.Retry.MaxRetries
	first := []expectation{failed("cloudflare/model1", "524", tries)}
	second := []expectation{passedOver("cloudflare/model1")}
	model2, model3 := 0, 0
	switch scope {
	case breaker.ScopeModel: // model2 is free: one retry of its 522, then an answer
		first = append(first, answered("cloudflare/model2", 2))
		second = append(second, answered("cloudflare/model2", 1))
		model2 = 3
	case breaker.ScopeProvider: // model1 has opened the breaker of both
		first = append(first, passedOver("cloudflare/model2"), answered("other/model3", 1))
		second = append(second, passedOver("cloudflare/model2"), answered("other/model3", 1))
		model3 = 2
	}
	if _, err := l.ask("model1 times out behind Cloudflare", first...); err != nil {
		return err
	}
	if _, err := l.ask("once more", second...); err != nil {
		return err
	}
	l.check(cf.CountModel("model1") == tries, "model1 was sent %d requests, not %d", cf.CountModel("model1"), tries)
	l.check(cf.CountModel("model2") == model2, "model2 was sent %d requests, not %d", cf.CountModel("model2"), model2)
	l.check(other.Count() == model3, "model3 was sent %d requests, not %d", other.Count(), model3)
	return nil
}

// recovery: a probe makes one attempt without retries. A bad one opens the
// breaker again, and its caller still gets the backup's answer; good ones
// close it, and the primary has its traffic back.
func recovery(l *lab) error {
	p := policy()
	p.CircuitBreaker.FailureThreshold = 1
	alpha, err := l.provider("alpha", p)
	if err != nil {
		return err
	}
	if _, err := l.provider("beta", p); err != nil {
		return err
	}
	tries := 1 + p.Retry.MaxRetries
	down := upstreamtest.Status(http.StatusServiceUnavailable).Times(tries + 1)
	alpha.Model("large", down, upstreamtest.OK("back"))
	if err := l.chain("alpha/large", "beta/large"); err != nil {
		return err
	}
	if _, err := l.ask("alpha is overloaded", failed("alpha/large", "503", tries), answered("beta/large", 1)); err != nil {
		return err
	}
	if err := l.waitOpen("alpha"); err != nil {
		return err
	}
	if _, err := l.ask("a probe, too early", failed("alpha/large", "503", 1), answered("beta/large", 1)); err != nil {
		return err
	}
	if _, err := l.ask("open again", passedOver("alpha/large"), answered("beta/large", 1)); err != nil {
		return err
	}
	return probesCloseIt(l, p.CircuitBreaker)
}

// probesCloseIt waits until alpha lets probes through and sees them close its
// breaker.
func probesCloseIt(l *lab, p breaker.Policy) error {
	name := "alpha"
	if p.Scope == breaker.ScopeModel {
		name = "alpha/large"
	}
	if err := l.waitOpen(name); err != nil {
		return err
	}
	for range p.SuccessThreshold {
		if _, err := l.ask("a probe, in time", answered("alpha/large", 1)); err != nil {
			return err
		}
	}
	l.check(l.breaker(name).State == breaker.Closed, "after %d good probes the breaker is %v", p.SuccessThreshold, l.breaker(name).State)
	_, err := l.ask("closed: all is well", answered("alpha/large", 1))
	return err
}
