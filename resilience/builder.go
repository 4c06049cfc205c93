// Package resilience stacks the layers of surefoot over an
// [http.RoundTripper]: a [Builder] turns a [Policy] into a [Transport], which
// fits any http.Client or SDK. Most callers should use
//
//	t, err := resilience.Builder{}.Build("openai-eu", resilience.DefaultPolicy())
//	client := t.Client()
//
// The package manual of the module root says what each layer does.
//
// # What happened
//
// [CallOf] reads the record of a call (attempts, status, outcome) from its
// response; Builder.OnCall is given the record of every call, those that ended
// in an error too. [Rejection] tells an open breaker from an upstream's own 503.
//
// # Log lines
//
// Builder.Logger receives these. Each has "provider", and each of a call has
// "model", "format" and "stream"; never an answer, a prompt, a credential or an
// upstream's text.
//
//	INFO   surefoot: retry                                  attempt, status or error_type, wait
//	WARN   surefoot: circuit breaker rejected a call        reason, retry_after
//	INFO   surefoot: key held                               kind, wait, guess (the upstream named no time)
//	WARN   surefoot: empty answer                           reason; unknown_shape is an answer in no known form
//	WARN   surefoot: incomplete stream                      reason, events, outcome
//	INFO   surefoot: broken stream resumed                  reconnects
//	WARN   surefoot: broken stream not resumed              reason, reconnects
//	ERROR  surefoot: panic in a hook                        hook, panic; not of a call, and not all have provider
//	INFO   surefoot: circuit breaker state changed          key, from, to; WARN where it opened
//	ERROR  surefoot: circuit breaker hook is too slow, …    the same, dropped
package resilience

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/retry"
	"github.com/surefoot-go/surefoot/streamguard"
)

// Builder stacks the layers. The zero Builder works; one Builder may build
// any number of stacks.
type Builder struct {
	// Base sends the attempts. Nil is a clone of http.DefaultTransport with a
	// ResponseHeaderTimeout of 600 s. Over any other base without one of its own
	// the stack bounds that wait alike, unless the call has a deadline.
	Base http.RoundTripper
	// Nested allows a Base that is itself a stack: each of this stack's attempts
	// is then a call of that one. Without it Build refuses, since a nil Base
	// after http.DefaultTransport was replaced by a stack, a chain or a router
	// means it by accident.
	Nested bool
	// MeterProvider receives the metrics. Nil: none.
	MeterProvider metric.MeterProvider
	// Conventions says by which names of the OpenTelemetry GenAI conventions calls
	// are measured: [ConventionsOld], [ConventionsNew] or [ConventionsBoth]. "":
	// the new ones where OTEL_SEMCONV_STABILITY_OPT_IN has
	// gen_ai_latest_experimental, else both until the next minor version, and from
	// then on the new ones.
	Conventions string
	// Logger receives the lines that the package documentation lists. Nil:
	// silent.
	Logger *slog.Logger
	// ProviderType is the provider's kind ("openai", "anthropic", "gemini", …)
	// for the attribute gen_ai.provider.name. "": the format's usual vendor.
	ProviderType string
	// Passthrough leaves the bytes of every call alone, as [WithPassthrough]
	// does for one.
	Passthrough bool
	// OmitShouldRetry leaves the header x-should-retry off the answers that
	// come after a retry, so that an SDK above may retry them once more.
	OmitShouldRetry bool
	// Replicas share what stacks of the same provider learn in other processes, see
	// breaker/redisstate. Nil: every stack finds out by itself.
	Replicas breaker.Replicas
	// OnCall is called once a call, when its body has ended or its error was
	// returned. It must not block; a panic in it is recovered and logged.
	OnCall func(context.Context, Call)
	// OnStateChange is called in order, outside any lock. key is "" for the
	// provider's own breaker, a model's name otherwise.
	OnStateChange func(provider, key string, from, to breaker.State)
}

// Build validates p and returns the stack of one provider, which is named in
// its errors, logs and metrics.
func (b Builder) Build(provider string, p Policy) (*Transport, error) {
	if provider == "" {
		return nil, errors.New("resilience: a provider needs a name")
	}
	// The lists stay the caller's, who may go on changing them.
	p.Retry.RetryOnStatuses = slices.Clone(p.Retry.RetryOnStatuses)
	p.CircuitBreaker.FailureOnStatuses = slices.Clone(p.CircuitBreaker.FailureOnStatuses)
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("resilience: policy of provider %s: %w", provider, err)
	}
	t := &Transport{
		provider:    provider,
		policy:      p,
		words:       p.Words.Compile(),
		passthrough: b.Passthrough,
		onCall:      b.OnCall,
		log:         logger{l: b.Logger, provider: provider},
		now:         time.Now,
	}
	base := b.Base
	if base == nil {
		base = layer.DefaultBase()
		if layer.Stacked(base) && !b.Nested {
			return nil, fmt.Errorf("resilience: the base of provider %s would be http.DefaultTransport, which is a stack, a chain or a router: "+
				"set Builder.Base, or Builder.Nested if that is meant", provider)
		}
	}
	if below, ok := base.(*Transport); ok && !b.Nested {
		return nil, fmt.Errorf("resilience: the base of provider %s is the stack of provider %s, which would retry and count every attempt: "+
			"set Builder.Base (is http.DefaultTransport a stack?), or Builder.Nested if that is meant", provider, below.provider)
	}
	t.limits.init(p.Limits)
	t.stack(base, b)
	var err error
	if t.metrics, err = newMetrics(b.MeterProvider, b.Conventions, b.ProviderType, t); err != nil {
		return nil, fmt.Errorf("resilience: metrics of provider %s: %w", provider, err)
	}
	t.join(b.Replicas)
	return t, nil
}

// stack puts one layer above the other; the package manual of the module root
// says why in this order. Each finds its call in the request's context: whatever
// is sent through them belongs to one.
func (t *Transport) stack(base http.RoundTripper, b Builder) {
	if t.headers = t.policy.Timeout <= 0 && !boundsHeaders(base); t.headers {
		base = headerLimit{base}
	}
	idle := &streamguard.Idle{Base: base, Timeout: t.policy.Stream.IdleTimeout}
	unmask := &streamguard.Unmasker{
		Base: idle, Provider: t.provider, KeepStreams: true, Words: t.words,
		Call: func(req *http.Request) streamguard.Call { return callOf(req.Context()) }, Logger: b.Logger,
	}
	guard := &streamguard.Guard{
		Base: unmask, Provider: t.provider, Policy: t.policy.Stream, Words: t.words,
		Call: unmask.Call, Logger: b.Logger,
	}
	attempts := &retry.Transport{
		Base: guard, Policy: t.policy.Retry, KeepShouldRetry: b.OmitShouldRetry,
		Call: func(req *http.Request) retry.Call { return callOf(req.Context()) },
	}
	t.breaker = breaker.Transport{
		Base: attempts, Policy: t.policy.CircuitBreaker, Provider: t.provider,
		Call:          func(req *http.Request) breaker.Call { return callOf(req.Context()) },
		OnStateChange: t.stateHook(b.OnStateChange), Logger: b.Logger,
	}
}
