// Package retry is an [http.RoundTripper] that makes several attempts against
// one upstream: it re-sends what may be sent twice, waits with jitter, obeys
// the waits that the upstream asks for, and hands the last answer back whole.
package retry

import "time"

// Modes of [Policy.Streams] and [Policy.Replay].
const (
	StreamsNever    = "never"     // a streaming call that was dispatched is never re-sent
	StreamsHeldBack = "held_back" // it may be re-sent while nothing of it has reached the caller

	ReplayInference = "inference" // a POST of a known wire format may be re-sent
	ReplaySafeOnly  = "safe_only" // only with an Idempotency-Key, or when it was provably not sent
)

// Policy says how often and how patiently a request is attempted. The zero
// Policy makes exactly one attempt.
type Policy struct {
	// RetryOnStatuses lists the statuses ("429") and classes ("5xx") that are
	// retried. Nil is the default list, which the word "default" stands for
	// inside a list; empty is none; transport failures count either way.
	RetryOnStatuses []string
	// MaxRetries is how many attempts may follow the first. 0 is one attempt.
	MaxRetries int
	// InitialBackoff is the wait before the first retry; it must be positive
	// where MaxRetries is.
	InitialBackoff time.Duration
	// MaxBackoff caps one wait, jitter included; it must be positive where
	// MaxRetries is. An upstream that asks for more is not retried.
	MaxBackoff time.Duration
	// BackoffFactor multiplies the wait from one retry to the next: at least 1.
	// 0 is the default, 2.
	BackoffFactor float64
	// JitterFactor is the share of the backoff, 0 to 1, by which a wait varies.
	JitterFactor float64
	// Streams is [StreamsNever] (also "") or [StreamsHeldBack].
	Streams string
	// Replay is [ReplayInference] (also "") or [ReplaySafeOnly].
	Replay string
	// AttemptTimeout bounds one attempt until the base transport returns: its
	// response headers, or what a layer below holds an answer back for. 0 is off.
	AttemptTimeout time.Duration
}

// DefaultPolicy returns the documented defaults: three retries from 1 s,
// doubling up to 30 s, with a jitter of a tenth.
func DefaultPolicy() Policy {
	return Policy{
		MaxRetries:     3,
		InitialBackoff: time.Second,
		MaxBackoff:     30 * time.Second,
		BackoffFactor:  2,
		JitterFactor:   0.1,
		Streams:        StreamsNever,
		Replay:         ReplayInference,
	}
}
