package main

import (
	"context"
	"net/http"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/retry"
	"github.com/surefoot-go/surefoot/streamguard"
)

const (
	primaryKey = "key-of-the-primary"
	backupKey  = "key-of-the-backup"
)

// ask makes one call and says what the caller got. It is called by several
// goroutines at once.
type ask func(context.Context, *fault) result

// contender is a way to call a provider. open sets one up against a site,
// without any state of an earlier one, and returns what closes it.
type contender struct {
	name  string
	about string // how it is set up
	open  func(*site) (ask, func(), error)
}

var contenders = []contender{
	{"http.Client", "the zero `http.Client`: no retries, no limits", func(s *site) (ask, func(), error) {
		return overTransport(bare(), s)
	}},
	{"openai-go", "v3 with its defaults: two retries, a response header timeout of 10 minutes", func(s *site) (ask, func(), error) {
		a, closeIdle := newSDK(s)
		return a, closeIdle, nil
	}},
	{"go-retryablehttp", "`NewClient` with its defaults (four retries, 1 s to 30 s) and its `PassthroughErrorHandler`, so that the caller sees the last answer", openRetryable},
	{"failsafe-go", "its HTTP retry policy (three retries, 1 s to 30 s, Retry-After honoured, last failure returned) around a circuit breaker (five failures, 30 s or what Retry-After asks for)", openFailsafe},
	{"surefoot", "one stack, `resilience.DefaultPolicy()`", func(s *site) (ask, func(), error) {
		return openStack(s, defaults(s.times))
	}},
	{"surefoot, chain", "`failover.NewChain` of a primary and a backup, every policy the default", func(s *site) (ask, func(), error) {
		return openChain(s, defaults(s.times), failover.DefaultPolicy())
	}},
	{"surefoot, chain, whole answers", "the same with `stream.hold_until: complete`, `retry.streams: held_back`, `stream.first_event_timeout` 10 s, `stream.idle_timeout` 10 s, `retry.attempt_timeout` 15 s and `timeout` 60 s", func(s *site) (ask, func(), error) {
		return openChain(s, wholeAnswers(s.times), failover.DefaultPolicy())
	}},
}

func overTransport(rt http.RoundTripper, s *site) (ask, func(), error) {
	client := &http.Client{Transport: rt}
	return plain(client, s.primary.URL, nil), client.CloseIdleConnections, nil
}

func openRetryable(s *site) (ask, func(), error) {
	c := retryablehttp.NewClient()
	c.Logger = nil
	c.RetryWaitMin, c.RetryWaitMax = s.times.backoff, s.times.maxBackoff
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	return plain(c.StandardClient(), s.primary.URL, nil), c.HTTPClient.CloseIdleConnections, nil
}

//nolint:bodyclose // what the linter sees are builders of policies for responses
func openFailsafe(s *site) (ask, func(), error) {
	retries := failsafehttp.NewRetryPolicyBuilder().
		WithMaxRetries(3).
		WithBackoff(s.times.backoff, s.times.maxBackoff).
		ReturnLastFailure().
		Build()
	breaker := circuitbreaker.NewBuilder[*http.Response]().
		HandleIf(func(resp *http.Response, err error) bool {
			return err != nil || resp != nil && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500)
		}).
		WithFailureThreshold(5).
		WithSuccessThreshold(2).
		WithDelay(s.times.open).
		WithDelayFunc(failsafehttp.DelayFunc).
		Build()
	base := bare()
	client := &http.Client{Transport: failsafehttp.NewRoundTripper(base, retries, breaker)}
	return plain(client, s.primary.URL, nil), base.CloseIdleConnections, nil
}

// defaults is the default policy at the run's speed; in a full run it is
// the default policy.
func defaults(t times) resilience.Policy {
	p := resilience.DefaultPolicy()
	p.Retry.InitialBackoff, p.Retry.MaxBackoff = t.backoff, t.maxBackoff
	p.CircuitBreaker.Timeout = t.open
	p.Stream.IdleTimeout = t.idle
	return p
}

// wholeAnswers hands out nothing but whole answers, and none too late.
func wholeAnswers(t times) resilience.Policy {
	p := defaults(t)
	p.Retry.Streams = retry.StreamsHeldBack
	p.Retry.AttemptTimeout = t.attempt
	p.Stream.HoldUntil = streamguard.HoldComplete
	p.Stream.FirstEventTimeout = t.firstEvent
	p.Stream.IdleTimeout = t.shortIdle
	p.Timeout = t.call
	return p
}

func openStack(s *site, p resilience.Policy) (ask, func(), error) {
	stack, err := resilience.Builder{Base: s.base()}.Build("primary", p)
	if err != nil {
		return nil, nil, err
	}
	return plain(stack.Client(), s.primary.URL, nil), stack.CloseIdleConnections, nil
}

func openChain(s *site, p resilience.Policy, f failover.Policy) (ask, func(), error) {
	var targets []failover.Target
	for _, t := range []struct{ provider, model, url, key string }{
		{"primary", primaryModel, s.primary.URL, primaryKey},
		{"backup", backupModel, s.backup.URL, backupKey},
	} {
		stack, err := resilience.Builder{Base: s.base()}.Build(t.provider, p)
		if err != nil {
			return nil, nil, err
		}
		targets = append(targets, failover.Target{
			Provider: t.provider, Model: t.model, BaseURL: t.url + "/v1", Transport: stack,
			Header: http.Header{"Authorization": {"Bearer " + t.key}},
		})
	}
	chain, err := failover.NewChain(f, targets...)
	if err != nil {
		return nil, nil, err
	}
	return plain(chain.Client(), s.primary.URL, servedBy), chain.CloseIdleConnections, nil
}

// servedBy is the model that the chain itself says answered.
func servedBy(resp *http.Response) string {
	attempts := failover.AttemptsOf(resp)
	if len(attempts) == 0 {
		return ""
	}
	return attempts[len(attempts)-1].Model
}
