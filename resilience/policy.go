package resilience

import (
	"errors"
	"fmt"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/retry"
	"github.com/surefoot-go/surefoot/streamguard"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// Modes of [Policy.ErrorsAsResponses].
const (
	RenderRejections = "rejections" // an open breaker answers with a 503 response
	RenderAll        = "all"        // transport failures and local timeouts are responses, too
	RenderNone       = "none"       // rejections are errors as well
)

// Policy is everything that a stack may be told about one provider. The zero
// Policy is a passive stack: no retries, no breaker, no time limits; answers
// and streams are still judged.
type Policy struct {
	Retry          retry.Policy
	CircuitBreaker breaker.Policy
	Stream         streamguard.Policy
	// Timeout bounds a whole call with all its retries until its answer is
	// handed out: a whole answer read and judged, a stream's first data event
	// (or what Stream.HoldUntil holds it back for), any other answer's headers.
	// 0 leaves it to the caller's client or context.
	Timeout time.Duration
	// ErrorsAsResponses is [RenderRejections] (also ""), [RenderAll] or
	// [RenderNone].
	ErrorsAsResponses string
	// Limits says what becomes of a provider's limits and how many calls it gets
	// at once.
	Limits Limits
	// Words are this provider's own words for kinds of failures; they are added
	// to the built-in ones.
	Words wire.Words
}

// Limits says how a stack meets the limits of a provider. The zero Limits keeps
// nothing back.
type Limits struct {
	// Hold keeps calls from a key (an account, or a model of it) until the time
	// that the upstream named when it refused one.
	Hold bool
	// MaxHold is the longest hold; a time beyond it is cut to it. 0 is one hour.
	MaxHold time.Duration
	// Preempt holds a key already when a success says that nothing remains.
	Preempt bool
	// MaxConcurrent is how many calls the provider has at once, until their
	// bodies have ended or were closed; an answer from 400 up ends its call here
	// already. 0 is any number.
	MaxConcurrent int
}

// DefaultPolicy returns the documented defaults of every layer.
func DefaultPolicy() Policy {
	return Policy{
		Retry:             retry.DefaultPolicy(),
		CircuitBreaker:    breaker.DefaultPolicy(),
		Stream:            streamguard.DefaultPolicy(),
		ErrorsAsResponses: RenderRejections,
		Limits:            Limits{Hold: true, MaxHold: time.Hour},
	}
}

// Validate reports every field that is out of range, by the name it has in a
// configuration file. Build calls it: an invalid policy never reaches an
// upstream.
func (p Policy) Validate() error {
	errs := []error{p.Retry.Validate(), p.CircuitBreaker.Validate(), p.Stream.Validate(), p.Words.Validate()}
	if p.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout: %v is negative, want 0 (off) or more", p.Timeout))
	}
	errs = append(errs, p.Limits.validate())
	switch p.ErrorsAsResponses {
	case "", RenderRejections, RenderAll, RenderNone:
	default:
		errs = append(errs, fmt.Errorf("errors_as_responses: unknown mode %q, want rejections, all or none", p.ErrorsAsResponses))
	}
	return errors.Join(errs...)
}

func (l Limits) validate() error {
	var errs []error
	if l.MaxHold < 0 {
		errs = append(errs, fmt.Errorf("limits.max_hold: %v is negative, want 0 (1h) or more", l.MaxHold))
	}
	if l.MaxConcurrent < 0 {
		errs = append(errs, fmt.Errorf("limits.max_concurrent: %d is negative, want 0 (any number) or more", l.MaxConcurrent))
	}
	return errors.Join(errs...)
}
