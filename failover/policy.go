package failover

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// Strategies of [Policy.Strategy].
const (
	StrategyFailover   = "failover"    // the listed order
	StrategyRoundRobin = "round_robin" // by weight, smooth
	StrategyCost       = "cost"        // the cheapest first
)

// Modes of [Policy.Bound].
const (
	BoundAccount = "account" // targets of the account that the request is bound to
	BoundIgnore  = "ignore"  // every target
)

// Policy says when a chain moves on to the next target. The zero Policy is
// the default one but for Patience: it waits on no target while another could
// be tried.
type Policy struct {
	// Disabled serves the chosen target, with its own retries, and no other.
	// It contradicts a Strategy that is spelled out as [StrategyFailover].
	Disabled bool
	// Strategy is [StrategyFailover] (also ""), [StrategyRoundRobin] or
	// [StrategyCost]: which target is first. The rest follow as listed.
	Strategy string
	// RetryOnStatuses lists the statuses ("429") and classes ("5xx") that are
	// eligible. Nil and empty are the default, and so is the entry "default".
	RetryOnStatuses []string
	// RetryOnErrors lists phrases that make an error eligible: each word must
	// occur in its code or message, a numeric word ("404", "4xx") constrains
	// its status. Nil and empty are the default, and so is the entry "default";
	// the entry [TooLong] stands for what says that a request is too long.
	RetryOnErrors []string
	// Words.ModelGone are further phrases for a model that is no longer served.
	// They and the built-in ones count whatever RetryOnErrors lists.
	// Words.Credentials are further names of headers and query keys that hold
	// credentials. What else there is belongs to a stack's policy.
	Words wire.Words
	// Patience is how long a target's stack may wait between its attempts, in sum,
	// while another target could be tried at once: a wait that would exceed it is
	// not begun, and the chain moves on ([Attempt.MovedOn]). It is judged before
	// each wait, so that the last target that is left keeps its whole budget of
	// retries, and it never shortens a call that could not fail over. 0 never
	// waits there, [PatienceOff] waits as if there were no other target.
	// DefaultPolicy has 3.5 s: time for two retries of the default backoff (1 s,
	// 2 s), or for a Retry-After of 2 s.
	Patience time.Duration
	// WaitFor is how long a call may wait for recovery where the breakers of all
	// targets, or holds, let nothing through: until the first of them does, and up to a tenth
	// longer, so that not all come back at once. What would take longer, or longer
	// than the deadline, is rejected at once. 0: never wait.
	WaitFor time.Duration
	// Bound says what becomes of a request that names what only one account knows,
	// such as a previous_response_id or a file: with [BoundAccount] (also "") it
	// goes to targets of that account alone, which is the chain's first enabled
	// target's, or that of the target that the request names. [BoundIgnore] asks
	// all targets. The chain that a request meets first decides.
	Bound string
	// Affinity has calls that belong together answered by the same target, where
	// that can answer. Zero is off.
	Affinity Affinity
	// MaxAttempts is how many targets may be tried after the first. 0: no cap.
	MaxAttempts int
	// MaxBody is how many bytes a request's body may have that is read into
	// memory, so that any number of targets can get it and a target's model be
	// put into it. A larger one is sent to the first target alone, and not to a
	// target with a model: that is a [*BodyError] with status 413. 0: 64 MiB.
	MaxBody int64
	// Classify turns an SDK's error into status, code and message for [Call].
	// ok is false for an error that it does not know, which then counts as a
	// transport failure. Nil: [ClassifyError].
	Classify func(error) (status int, code, message string, ok bool)
	// OnAttempt is called after every attempt and for every target that was
	// passed over, with the call's context. It must not block; a panic in it
	// is recovered and logged.
	OnAttempt func(context.Context, Attempt)
	// OnFailover is called with the attempts of a call, all chains below included,
	// when it is over and went on behind the target that came first in it: one that
	// the configuration or the request rules out does not come first, and from an
	// answer that goes straight back no call goes on. It must not block; a panic in
	// it is recovered and logged.
	OnFailover func(context.Context, []Attempt)
	// Logger receives a line for every move to another target and for every
	// call that no target answered. Nil: silent.
	Logger *slog.Logger
	// MeterProvider receives the counters surefoot.failover.attempts and
	// surefoot.failover.calls. Nil: none.
	MeterProvider metric.MeterProvider
}

// maxBody resolves MaxBody.
func (p *Policy) maxBody() int64 {
	if p.MaxBody == 0 {
		return defaultMaxBody
	}
	return p.MaxBody
}

// DefaultPolicy returns the documented defaults, spelled out: rate limits,
// server errors, and errors that say that a model or its upstream is gone.
func DefaultPolicy() Policy {
	return Policy{
		RetryOnStatuses: []string{"429", "5xx"},
		RetryOnErrors: []string{
			"model not found", "model does not exist", "model unsupported",
			"model unavailable", "model not available", "model deprecated",
			"model retired", "model disabled",
			"upstream failed", "upstream error", "upstream unavailable",
			"upstream timed out", "upstream timeout",
			"404 unsupported", "404 unavailable", "404 not available",
			"404 deprecated", "404 retired", "404 disabled",
		},
		Patience: 3500 * time.Millisecond,
		Affinity: Affinity{TTL: DefaultAffinityTTL, Max: DefaultAffinityMax},
		Bound:    BoundAccount,
		MaxBody:  64 << 20,
	}
}
