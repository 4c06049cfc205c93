package ending

// Outcomes of a call, as in resilience.Call.Outcome.
const (
	OutcomeSuccess        = "success"         // a whole answer
	OutcomeError          = "error"           // the upstream answered with a failure, openly or in a 2xx
	OutcomeTransportError = "transport_error" // no answer: refused, reset, DNS, TLS
	OutcomeTimeout        = "timeout"         // no answer: a deadline or a time limit
	OutcomeRejected       = "rejected"        // the breaker let nothing through
	OutcomeCanceled       = "canceled"        // the caller cancelled, or closed the body early
	OutcomeStreamError    = "stream_error"    // a stream that broke off, stalled or reported an error
)

// Reasons, the values of error.type that are not a status: of calls, attempts,
// streams and metrics alike.
const (
	ReasonTransportError = "transport_error"   // no answer: refused, reset, DNS, TLS
	ReasonTimeout        = "timeout"           // a deadline or a time limit without a word of its own
	ReasonCanceled       = "canceled"          // the caller cancelled
	ReasonClosed         = "closed"            // the caller closed the body early
	ReasonRequestError   = "request_error"     // the request could not be sent for its own fault
	ReasonPanic          = "panic"             // a layer or the transport panicked
	ReasonCircuitOpen    = "circuit_open"      // rejected: the breaker is open
	ReasonCircuitFull    = "circuit_capacity"  // rejected: no place for another breaker
	ReasonRateLimited    = "rate_limited"      // rejected or passed over: the key is held until a time that the upstream named
	ReasonConcurrency    = "concurrency"       // rejected: no place was free in time
	ReasonMovedOn        = "moved_on"          // not waited for: another target could be tried in the meantime
	ReasonBound          = "bound"             // passed over: the request names what another account has
	ReasonIncomplete     = "stream_incomplete" // a stream ended cleanly before its end
	ReasonStreamError    = "stream_error"      // a stream broke in another way
	ReasonIdleTimeout    = "idle_timeout"      // silent for longer than stream.idle_timeout
	ReasonEventTimeout   = "event_timeout"     // no data event for longer than stream.event_timeout
	ReasonMinRate        = "min_rate"          // less content a second than stream.min_rate
	ReasonMalformed      = "malformed"         // a stream event that does not parse
	ReasonInBandError    = "in_band_error"     // a stream reported an error, or a finish that names a failure
)
