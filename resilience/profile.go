package resilience

import (
	"fmt"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/retry"
	"github.com/surefoot-go/surefoot/streamguard"
)

// Names for [Profile].
const (
	ProfileDefault = "default" // the documented defaults
	ProfileLive    = "live"    // for people who wait for tokens
	ProfileWhole   = "whole"   // for agents, batch and tools: an answer is whole or not there
)

// Profiles lists the names that [Profile] knows, the default first. The slice
// is the caller's own.
func Profiles() []string { return []string{ProfileDefault, ProfileLive, ProfileWhole} }

// Profile returns the policy of a profile, a named set of defaults to change or
// to use as it is. "" is [ProfileDefault], which is [DefaultPolicy]; an unknown
// name is an error.
//
// [ProfileLive] hands a stream out with its first content, retries it until
// then, and leaves an upstream that is silent for 10 s to begin with, or for
// 20 s later on. A model that thinks for longer without a sign of life needs
// larger limits (Stream.FirstEventTimeout, Stream.IdleTimeout). [ProfileWhole]
// is the same, but holds a stream until its end, so that a break anywhere can be
// retried or failed over; its caller sees no token before the last.
//
// Both set of Retry: MaxRetries 2, InitialBackoff 500 ms, Streams held_back, and
// RetryOnStatuses the default ones and 408, 500, 520, 521, 523, 529; of Stream:
// HoldUntil, FirstEventTimeout 10 s, IdleTimeout 20 s; of CircuitBreaker: Scope
// model (one breaker a model), Timeout 10 s, Jitter 0.1. All else is as in
// [DefaultPolicy].
//
// Retry.AttemptTimeout stays off in all of them: it would cut off whole answers,
// which may take minutes. On a stream Stream.FirstEventTimeout bounds an attempt.
//
// A profile says nothing about chains. To make one go on where a request is too
// long for a model, as the profiles live and whole of a configuration file do,
// add failover.TooLong to its RetryOnErrors.
func Profile(name string) (Policy, error) {
	switch name {
	case "", ProfileDefault:
		return DefaultPolicy(), nil
	case ProfileLive:
		return live(), nil
	case ProfileWhole:
		p := live()
		p.Stream.HoldUntil = streamguard.HoldComplete
		return p, nil
	}
	return Policy{}, fmt.Errorf("profile: unknown name %q, want %s, %s or %s", name, ProfileDefault, ProfileLive, ProfileWhole)
}

func live() Policy {
	p := DefaultPolicy()
	// A request timeout and a fault of the server's or of its edge (Cloudflare's
	// 52x, Anthropic's 529) mostly pass within a second. Where they do not, two
	// retries cost 1.5 s, which somebody who watches still bears.
	p.Retry.RetryOnStatuses = []string{"default", "408", "500", "520", "521", "523", "529"}
	p.Retry.MaxRetries = 2
	p.Retry.InitialBackoff = 500 * time.Millisecond
	p.Retry.Streams = retry.StreamsHeldBack

	// A role or a lifecycle event proves no answer: errors come behind them.
	p.Stream.HoldUntil = streamguard.HoldFirstContent
	// Silence of 10 s leaves a backup 5 s to begin, so that somebody has an answer
	// within 15 s. It ends with the first data event; idle_timeout goes on.
	p.Stream.FirstEventTimeout = 10 * time.Second
	// Servers send a comment or a ping "every 15 seconds or so" to keep a
	// stream open (WHATWG HTML §9.2.7), and any byte restarts this limit. So 20 s
	// is silence of a server that has stopped, whatever its model is thinking.
	p.Stream.IdleTimeout = 20 * time.Second

	// One model that is overloaded does not take the provider's others along. A
	// probe costs a chain's caller little, so it comes soon; the jitter keeps
	// the instances of a service from probing at the same moment.
	p.CircuitBreaker.Scope = breaker.ScopeModel
	p.CircuitBreaker.Timeout = 10 * time.Second
	p.CircuitBreaker.Jitter = 0.1
	return p
}
