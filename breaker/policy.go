// Package breaker holds one circuit breaker, a bounded map of them, and an
// [http.RoundTripper] that asks one before every call.
package breaker

import "time"

// Scopes of [Policy.Scope].
const (
	ScopeProvider = "provider" // one breaker for all of a provider's calls
	ScopeModel    = "model"    // one breaker a model
)

// Policy says what counts as a failure and when a breaker opens. The zero
// Policy has no breaker.
type Policy struct {
	// Disabled switches the breaker off and keeps the thresholds.
	Disabled bool
	// Scope is [ScopeProvider] (also "") or [ScopeModel].
	Scope string
	// FailureOnStatuses lists the statuses ("429") and classes ("5xx") that
	// are failures. Nil is the default list, which the word "default" stands
	// for inside a list; empty is none; transport failures and local timeouts
	// count either way.
	FailureOnStatuses []string
	// FailureThreshold is how many consecutive failures open the breaker.
	// 0 disables it.
	FailureThreshold int
	// SuccessThreshold is how many consecutive good probes close it: at least
	// 1 where the breaker is on.
	SuccessThreshold int
	// Timeout is how long it stays open before a probe is let through, and
	// for how long a probe keeps its place: positive where the breaker is on.
	Timeout time.Duration
	// TimeoutFactor lengthens the open time after each failed probe, until the
	// breaker closes. 0 counts as 1, which leaves it as it is; less than 1 is
	// an error.
	TimeoutFactor float64
	// MaxTimeout bounds what TimeoutFactor makes of the open time. 0 is 5
	// minutes. It never shortens Timeout itself.
	MaxTimeout time.Duration
	// Jitter is the share of an open time, 0 to 1, by which it is lengthened at
	// most, so that not all instances of a service probe at the same moment.
	Jitter float64
	// SlowCallThreshold makes a slower answer count as a failure. 0 is off.
	SlowCallThreshold time.Duration
}

// DefaultPolicy returns the documented defaults: five failures open for 30 s,
// two good probes close.
func DefaultPolicy() Policy {
	return Policy{
		Scope:            ScopeProvider,
		FailureThreshold: 5,
		SuccessThreshold: 2,
		Timeout:          30 * time.Second,
		TimeoutFactor:    1,
		MaxTimeout:       defaultMaxTimeout,
	}
}
