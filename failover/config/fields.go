package config

import (
	"math"
	"slices"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/retry"
	"github.com/surefoot-go/surefoot/streamguard"
)

// settings is what all keys together resolve to, for one provider.
type settings struct {
	profile          string
	policy           resilience.Policy
	failover         failover.Policy
	affinityKey      string // what failover.Affinity.Key is made of
	refresh, recheck time.Duration
	modelsMode       string
}

// copied gives every list a backing array of its own, for whoever is handed the
// settings.
func (s settings) copied() settings {
	for _, f := range allFields {
		if list, ok := f.at(&s).(*[]string); ok && *list != nil {
			*list = append([]string{}, *list...)
		}
	}
	return s
}

// A field is one key of the configuration: its name, the variable that sets
// it for everyone, what it may be and where it goes. This table is the only
// place that lists them.
type field struct {
	key   string
	env   string // "" for none
	kind  kind
	at    func(*settings) any // a pointer into the settings
	usual []string            // what a nil list stands for
}

// inverted points at a switch that is false where its key is true.
type inverted struct{ off *bool }

// resilienceFields are the keys of a resilience block, global or a provider's.
var resilienceFields = []field{
	profileField,

	{key: "retry.retry_on_statuses", env: "RETRY_ON_STATUSES", kind: noStatus, usual: []string{"429", "502", "503", "504", "522", "524"},
		at: func(s *settings) any { return &s.policy.Retry.RetryOnStatuses }},
	{key: "retry.max_retries", env: "RETRY_MAX_RETRIES", kind: counts,
		at: func(s *settings) any { return &s.policy.Retry.MaxRetries }},
	{key: "retry.initial_backoff", env: "RETRY_INITIAL_BACKOFF", kind: durations,
		at: func(s *settings) any { return &s.policy.Retry.InitialBackoff }},
	{key: "retry.max_backoff", env: "RETRY_MAX_BACKOFF", kind: durations,
		at: func(s *settings) any { return &s.policy.Retry.MaxBackoff }},
	{key: "retry.backoff_factor", env: "RETRY_BACKOFF_FACTOR", kind: kind{want: "a number of at least 1", quotes: quoteNumbers, parse: factor(1, math.MaxFloat64)},
		at: func(s *settings) any { return &s.policy.Retry.BackoffFactor }},
	{key: "retry.jitter_factor", env: "RETRY_JITTER_FACTOR", kind: kind{want: "a number from 0 to 1", quotes: quoteNumbers, parse: factor(0, 1)},
		at: func(s *settings) any { return &s.policy.Retry.JitterFactor }},
	{key: "retry.streams", kind: words(retry.StreamsNever, retry.StreamsHeldBack),
		at: func(s *settings) any { return &s.policy.Retry.Streams }},
	{key: "retry.replay", kind: words(retry.ReplayInference, retry.ReplaySafeOnly),
		at: func(s *settings) any { return &s.policy.Retry.Replay }},
	{key: "retry.attempt_timeout", kind: durations,
		at: func(s *settings) any { return &s.policy.Retry.AttemptTimeout }},

	{key: "circuit_breaker.enabled", env: "CIRCUIT_BREAKER_ENABLED", kind: switches,
		at: func(s *settings) any { return inverted{&s.policy.CircuitBreaker.Disabled} }},
	{key: "circuit_breaker.scope", env: "CIRCUIT_BREAKER_SCOPE", kind: words(breaker.ScopeProvider, breaker.ScopeModel),
		at: func(s *settings) any { return &s.policy.CircuitBreaker.Scope }},
	{key: "circuit_breaker.failure_on_statuses", env: "CIRCUIT_BREAKER_FAILURE_ON_STATUSES", kind: noStatus, usual: []string{"429", "5xx"},
		at: func(s *settings) any { return &s.policy.CircuitBreaker.FailureOnStatuses }},
	{key: "circuit_breaker.failure_threshold", env: "CIRCUIT_BREAKER_FAILURE_THRESHOLD", kind: counts,
		at: func(s *settings) any { return &s.policy.CircuitBreaker.FailureThreshold }},
	{key: "circuit_breaker.success_threshold", env: "CIRCUIT_BREAKER_SUCCESS_THRESHOLD", kind: counts,
		at: func(s *settings) any { return &s.policy.CircuitBreaker.SuccessThreshold }},
	{key: "circuit_breaker.timeout", env: "CIRCUIT_BREAKER_TIMEOUT", kind: durations,
		at: func(s *settings) any { return &s.policy.CircuitBreaker.Timeout }},
	{key: "circuit_breaker.timeout_factor", env: "CIRCUIT_BREAKER_TIMEOUT_FACTOR", kind: kind{want: "a number of at least 1", quotes: quoteNumbers, parse: factor(1, math.MaxFloat64)},
		at: func(s *settings) any { return &s.policy.CircuitBreaker.TimeoutFactor }},
	{key: "circuit_breaker.max_timeout", env: "CIRCUIT_BREAKER_MAX_TIMEOUT", kind: durations,
		at: func(s *settings) any { return &s.policy.CircuitBreaker.MaxTimeout }},
	{key: "circuit_breaker.jitter", env: "CIRCUIT_BREAKER_JITTER", kind: kind{want: "a number from 0 to 1", quotes: quoteNumbers, parse: factor(0, 1)},
		at: func(s *settings) any { return &s.policy.CircuitBreaker.Jitter }},
	{key: "circuit_breaker.slow_call_threshold", env: "CIRCUIT_BREAKER_SLOW_CALL_THRESHOLD", kind: durations,
		at: func(s *settings) any { return &s.policy.CircuitBreaker.SlowCallThreshold }},

	{key: "stream.idle_timeout", env: "HTTP_STREAM_IDLE_TIMEOUT", kind: durations,
		at: func(s *settings) any { return &s.policy.Stream.IdleTimeout }},
	{key: "stream.event_timeout", kind: durations,
		at: func(s *settings) any { return &s.policy.Stream.EventTimeout }},
	{key: "stream.first_event_timeout", kind: durations,
		at: func(s *settings) any { return &s.policy.Stream.FirstEventTimeout }},
	{key: "stream.min_rate", env: "HTTP_STREAM_MIN_RATE", kind: counts,
		at: func(s *settings) any { return &s.policy.Stream.MinRate }},
	{key: "stream.rate_window", env: "HTTP_STREAM_RATE_WINDOW", kind: durations,
		at: func(s *settings) any { return &s.policy.Stream.RateWindow }},
	{key: "stream.hold_until", kind: words(streamguard.HoldFirstEvent, streamguard.HoldFirstContent, streamguard.HoldComplete),
		at: func(s *settings) any { return &s.policy.Stream.HoldUntil }},
	{key: "stream.hold_limit", kind: sizes,
		at: func(s *settings) any { return &s.policy.Stream.HoldLimit }},
	{key: "stream.incomplete_read", kind: words(streamguard.IncompleteReadError, streamguard.IncompleteReadEOF),
		at: func(s *settings) any { return &s.policy.Stream.IncompleteRead }},
	{key: "stream.strip_comments", kind: switches,
		at: func(s *settings) any { return &s.policy.Stream.StripComments }},
	{key: "stream.resume", env: "HTTP_STREAM_RESUME", kind: words(streamguard.ResumeOff, streamguard.ResumeOn),
		at: func(s *settings) any { return &s.policy.Stream.Resume }},

	{key: "limits.hold", env: "LIMITS_HOLD", kind: switches,
		at: func(s *settings) any { return &s.policy.Limits.Hold }},
	{key: "limits.max_hold", env: "LIMITS_MAX_HOLD", kind: durations,
		at: func(s *settings) any { return &s.policy.Limits.MaxHold }},
	{key: "limits.preempt", env: "LIMITS_PREEMPT", kind: switches,
		at: func(s *settings) any { return &s.policy.Limits.Preempt }},
	{key: "limits.max_concurrent", env: "LIMITS_MAX_CONCURRENT", kind: counts,
		at: func(s *settings) any { return &s.policy.Limits.MaxConcurrent }},

	{key: "words.rate_limited", kind: addedWords(func(p *resilience.Policy) *[]string { return &p.Words.RateLimited }),
		at: func(s *settings) any { return &s.policy.Words.RateLimited }},
	{key: "words.quota", kind: addedWords(func(p *resilience.Policy) *[]string { return &p.Words.Quota }),
		at: func(s *settings) any { return &s.policy.Words.Quota }},
	{key: "words.overloaded", kind: addedWords(func(p *resilience.Policy) *[]string { return &p.Words.Overloaded }),
		at: func(s *settings) any { return &s.policy.Words.Overloaded }},
	{key: "words.client", kind: addedWords(func(p *resilience.Policy) *[]string { return &p.Words.Client }),
		at: func(s *settings) any { return &s.policy.Words.Client }},
	{key: modelGone, kind: gonePhrases,
		at: func(s *settings) any { return &s.policy.Words.ModelGone }},
	{key: credentialNames, kind: addedWords(func(p *resilience.Policy) *[]string { return &p.Words.Credentials }),
		at: func(s *settings) any { return &s.policy.Words.Credentials }},

	{key: "timeout", env: "HTTP_TIMEOUT", kind: durations,
		at: func(s *settings) any { return &s.policy.Timeout }},
	{key: "errors_as_responses", kind: words(resilience.RenderRejections, resilience.RenderAll, resilience.RenderNone),
		at: func(s *settings) any { return &s.policy.ErrorsAsResponses }},
}

// The words of a provider that chains have to know as well.
const (
	modelGone       = "words.model_gone"
	credentialNames = "words.credentials"
)

// failoverFields are the keys of the failover block, and of a virtual model's.
var failoverFields = []field{
	{key: "failover.enabled", env: "FAILOVER_ENABLED", kind: switches,
		at: func(s *settings) any { return inverted{&s.failover.Disabled} }},
	{key: "failover.retry_on_statuses", env: "FAILOVER_RETRY_ON_STATUSES", kind: someStatus, usual: []string{"429", "5xx"},
		at: func(s *settings) any { return &s.failover.RetryOnStatuses }},
	{key: "failover.retry_on_errors", env: "FAILOVER_RETRY_ON_ERRORS", kind: phrases, usual: []string{"the built-in phrases"},
		at: func(s *settings) any { return &s.failover.RetryOnErrors }},
	{key: "failover.max_attempts", env: "FAILOVER_MAX_ATTEMPTS", kind: counts,
		at: func(s *settings) any { return &s.failover.MaxAttempts }},
	{key: "failover.patience", env: "FAILOVER_PATIENCE", kind: patience,
		at: func(s *settings) any { return &s.failover.Patience }},
	{key: "failover.wait_for", env: "FAILOVER_WAIT_FOR", kind: durations,
		at: func(s *settings) any { return &s.failover.WaitFor }},
	{key: "failover.bound", env: "FAILOVER_BOUND", kind: words(failover.BoundAccount, failover.BoundIgnore),
		at: func(s *settings) any { return &s.failover.Bound }},
	{key: "failover.affinity.key", env: "FAILOVER_AFFINITY_KEY", kind: affinities,
		at: func(s *settings) any { return &s.affinityKey }},
	{key: "failover.affinity.ttl", env: "FAILOVER_AFFINITY_TTL", kind: durations,
		at: func(s *settings) any { return &s.failover.Affinity.TTL }},
	{key: "failover.affinity.max", kind: counts,
		at: func(s *settings) any { return &s.failover.Affinity.Max }},
	{key: "failover.max_body", kind: sizes,
		at: func(s *settings) any { return &s.failover.MaxBody }},
}

// cacheFields are the keys of the cache block. Numbers are seconds.
var cacheFields = []field{
	{key: "cache.model.refresh_interval", env: "CACHE_REFRESH_INTERVAL", kind: intervals,
		at: func(s *settings) any { return &s.refresh }},
	{key: "cache.model.recheck_interval", env: "PROVIDER_RECHECK_INTERVAL", kind: intervals,
		at: func(s *settings) any { return &s.recheck }},
}

// modeField is the one key outside a resilience block that a provider and the
// environment both set.
var modeField = field{key: "models_mode", env: "CONFIGURED_PROVIDER_MODELS_MODE", kind: words(discovery.ModeFallback, discovery.ModeAllowlist),
	at: func(s *settings) any { return &s.modelsMode }}

// allFields is every field, in the order of the documentation.
var allFields = slices.Concat(resilienceFields, failoverFields, cacheFields, []field{modeField})

// assign stores a parsed value where the field points. A list stays the
// configuration's own until it is handed out: see [settings.copied].
func assign(at, v any) {
	switch p := at.(type) {
	case inverted:
		*p.off = !v.(bool)
	case *bool:
		*p = v.(bool)
	case *int:
		*p = v.(int)
	case *int64:
		*p = v.(int64)
	case *float64:
		*p = v.(float64)
	case *string:
		*p = v.(string)
	case *time.Duration:
		*p = v.(time.Duration)
	case *[]string:
		*p = v.([]string)
	}
}

// read is the value at a field's place.
func read(at any) any {
	switch p := at.(type) {
	case inverted:
		return !*p.off
	case *bool:
		return *p
	case *int:
		return *p
	case *int64:
		return *p
	case *float64:
		return *p
	case *string:
		return *p
	case *time.Duration:
		return *p
	case *[]string:
		return *p
	}
	return nil
}
