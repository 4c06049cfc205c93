package breaker

import (
	"errors"
	"net/http"
	"strings"
	"time"
)

// ErrOpen is what every rejection matches with [errors.Is]: an [OpenError]
// carries the data.
var ErrOpen = errors.New("circuit breaker is open")

// ErrLimited is what a rejection by a limit matches: see [OpenError.Limit].
var ErrLimited = errors.New("provider is at its limit")

// OpenError is a local rejection: nothing was sent. It matches [ErrOpen], or
// [ErrLimited] where a limit is the reason.
type OpenError struct {
	// Provider is the provider's configured name.
	Provider string
	// Key is the breaker's key: "" the provider's own, else a model (in its
	// bounded form, see [Map]).
	Key string
	// State is what the breaker was in: [Open], or [HalfOpen] while another
	// call probes. With Full it is Closed: there is no breaker.
	State State
	// RetryAfter is how long at most until a call may be let through: the rest
	// of the open time, or of the running probe's lease. 0 is now or, with
	// Full, unknown.
	RetryAfter time.Duration
	// Full says that no breaker could be made for the model: all places are
	// taken by breakers that are in use or not closed.
	Full bool
	// Limit is the kind of limit that rejected the call in place of a breaker: a
	// hold ("rate", "quota", "billing") until a time that the upstream named, or
	// "concurrency" where no place was free in time. "" is a breaker.
	Limit string
	// Guess says that RetryAfter is our own guess of a limit's end. A stack alone
	// rejects no call for that: it is a reason to ask somebody else first.
	Guess bool
}

// Error names the provider, never the model: its name is the caller's text.
func (e *OpenError) Error() string {
	switch e.Limit {
	case "":
	case "concurrency":
		return "too many calls at once - provider " + e.Provider + " has no place free"
	default:
		return e.Limit + " limit reached - provider " + e.Provider + " is left alone until it ends"
	}
	if e.Full {
		return "model circuit breaker capacity exhausted for provider " + e.Provider
	}
	return "circuit breaker is open - provider " + e.Provider + " temporarily unavailable"
}

// Is reports whether target is [ErrOpen], or [ErrLimited] for a limit.
func (e *OpenError) Is(target error) bool {
	if e.Limit != "" {
		return target == ErrLimited
	}
	return target == ErrOpen
}

// HTTPStatus returns 503 for a breaker's rejection and 429 for a limit's.
func (e *OpenError) HTTPStatus() int {
	if e.Limit != "" {
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}

// errorOf is a rejection as an error, nil for none.
func errorOf(e OpenError, rejected bool) *OpenError {
	if !rejected {
		return nil
	}
	if e.Full { // the error may outlive the text that the key is a piece of
		e.Key = strings.Clone(e.Key)
	}
	return new(e)
}
