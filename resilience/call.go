package resilience

import (
	"time"

	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/retry"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// Outcomes of [Call.Outcome]; package ending says what each means.
const (
	OutcomeSuccess        = ending.OutcomeSuccess
	OutcomeError          = ending.OutcomeError
	OutcomeTransportError = ending.OutcomeTransportError
	OutcomeTimeout        = ending.OutcomeTimeout
	OutcomeRejected       = ending.OutcomeRejected
	OutcomeCanceled       = ending.OutcomeCanceled
	OutcomeStreamError    = ending.OutcomeStreamError
)

// Call is what is known of one logical request through the stack, all its
// retries included. It is a plain copy: reading it needs no lock.
type Call struct {
	Provider string // configured name
	Model    string // "" when the request names none
	Format   string // wire format in words, "unknown" for everything that is no inference call
	Stream   bool   // the request asked for a stream or the answer is one
	Attempts []retry.Attempt
	Status   int    // what the caller saw, or [StatusOf] the error; 0 for a caller's cancellation
	Unmasked bool   // Status was mapped from a 2xx
	Original []byte // first 64 KiB of an unmasked body as the upstream sent it
	Outcome  string // one of the Outcome constants; "" while the call is under way
	Reason   string // error.type: a status ("503") or a word such as "stream_incomplete"; "" on success
	NoRetry  string // why a retry that the policy allows was not made: "circuit_open" where the breaker had opened, "moved_on" where a chain had another target to try; else ""
	Empty    string // "no_choices", "no_usage", "no_output", "unknown_shape", or ""
	Accepted bool   // the answer is a ticket for work to be done later; Outcome is success
	Err      error  // transport failure, timeout, rejection, cancellation or broken stream, rendered or not; nil for a whole answer of any status
	Events   int    // whole events that a stream delivered
	Resumes  int    // how often the stream broke off and was taken up again, see streamguard.Policy.Resume
	NoResume string // why it was not, the last time: "gap", "older", "no_event", a status, "circuit_open", "timeout", "canceled", "transport_error"; "" where it was, or was not asked for
	// Usage is what the upstream said that the call took, in tokens: the sum of
	// all attempts, those included whose answers nobody saw. Zero where it says
	// nothing; nothing is counted here.
	Usage wire.Usage

	Start      time.Time
	FirstEvent time.Duration // from Start to a stream's first data event; 0: none
	Duration   time.Duration // from Start to the body's end; 0 while under way
}
