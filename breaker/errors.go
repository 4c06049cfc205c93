package breaker

import (
	"errors"
	"time"
)

// ErrOpen is what every rejection matches with [errors.Is]: an [OpenError]
// carries the data.
var ErrOpen = errors.New("circuit breaker is open")

// OpenError is a local rejection: nothing was sent. It matches [ErrOpen].
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
}

// Error names the provider, never the model: its name is the caller's text.
func (e *OpenError) Error() string {
	if e.Full {
		return "model circuit breaker capacity exhausted for provider " + e.Provider
	}
	return "circuit breaker is open - provider " + e.Provider + " temporarily unavailable"
}

// Is reports whether target is [ErrOpen].
func (e *OpenError) Is(target error) bool { return target == ErrOpen }
