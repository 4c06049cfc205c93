package failover

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/surefoot-go/surefoot/resilience/ending"
)

// Reasons of an [Attempt] that are no status.
const (
	ReasonDisabled       = "disabled"               // skipped: the target is switched off
	ReasonNotAllowed     = "not_allowed"            // skipped: not for this caller
	ReasonUnavailable    = "unavailable"            // skipped: known to be unavailable
	ReasonCircuitOpen    = ending.ReasonCircuitOpen // skipped or rejected: its breaker lets nothing through
	ReasonOtherModel     = "other_model"            // skipped: an embedding of another model than the first target's
	ReasonRateLimited    = ending.ReasonRateLimited // skipped or rejected: held until a time that its upstream named
	ReasonConcurrency    = ending.ReasonConcurrency // rejected: no place was free in time
	ReasonBound          = ending.ReasonBound       // skipped: the request names what only another account has
	ReasonTried          = "already_tried"          // skipped: the same target was tried in this call
	ReasonTooLong        = "too_long"               // skipped: the request was too long for the same model elsewhere
	ReasonUnfit          = "not_rewritable"         // skipped: the request's body could not be re-written for it
	ReasonTransportError = ending.ReasonTransportError
	ReasonTimeout        = ending.ReasonTimeout
	ReasonCanceled       = ending.ReasonCanceled
	ReasonRequestError   = ending.ReasonRequestError
	ReasonNotSent        = "not_sent" // no answer: its request could not be built, so nothing was sent
	// ReasonIncomplete, or another word of the stack's record: an answer that
	// broke off after it had begun. In a [Trace] alone.
	ReasonIncomplete = ending.ReasonIncomplete
)

// Attempt is one target of a call: tried, or passed over.
type Attempt struct {
	Target   string        // its name
	Provider string        // configured name
	Model    string        // what the target was asked for; "" when nobody named one
	Status   int           // of the answer, or of the error of a [Call]; 0: none
	Err      error         // instead of an answer; nil for one that was skipped
	Skipped  bool          // nothing was sent to it
	Reason   string        // "" for a success, else the status ("503") or one of the Reason constants
	MovedOn  bool          // a retry that its stack would have waited for was not made: another target could be tried
	Start    time.Time     // when it was tried or passed over
	Elapsed  time.Duration // up to the response headers, on a stream up to its first data event
}

// Error is a call that no target gave a response to. It wraps what the last
// target tried failed with, and is a net.Error.
type Error struct {
	Attempts []Attempt // all of the call, in order
	Err      error     // of the last target tried, or why none was

	host string // where that target's request went; "" if there was none
}

// Error says how many targets were tried, and what the last one failed with
// and where: an http.Client puts the URL that the caller asked for before it.
func (e *Error) Error() string {
	tried := 0
	for _, a := range e.Attempts {
		if !a.Skipped {
			tried++
		}
	}
	where := ""
	if e.host != "" {
		where = e.host + ": "
	}
	return fmt.Sprintf("failover: no target answered (%d tried, %d skipped): %s%v", tried, len(e.Attempts)-tried, where, e.Err)
}

// Unwrap returns the last target's error.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether the last target ended by a deadline or time limit.
func (e *Error) Timeout() bool { return ending.SaysTimeout(e.Err) }

// Temporary reports what the last target's error answers, for net.Error.
func (e *Error) Temporary() bool {
	var t interface{ Temporary() bool }
	return errors.As(e.Err, &t) && t.Temporary()
}

// Why a call ended without any target, or any further one, to try.
var (
	errNoTarget = errors.New("every target is disabled or not allowed for this caller")
	errNoneLeft = errors.New("no target is left to try")
)

type offKey struct{}

// WithoutFailover makes the chains serve their chosen target only, with its
// own retries, for every call under the context.
func WithoutFailover(ctx context.Context) context.Context {
	return context.WithValue(ctx, offKey{}, true)
}

func failoverOff(ctx context.Context) bool {
	off, _ := ctx.Value(offKey{}).(bool)
	return off
}

// legOf returns the target's leg that answered with resp, nil if no chain did.
func legOf(resp *http.Response) *leg {
	if resp == nil || resp.Request == nil {
		return nil
	}
	return legFrom(resp.Request.Context())
}

// AttemptsOf returns a copy of the attempts of the call that resp answers,
// nil for a response that came through no chain. It reads resp.Request, so it
// also works under an http.Client.
func AttemptsOf(resp *http.Response) []Attempt {
	l := legOf(resp)
	if l == nil {
		return nil
	}
	return l.call.list()
}

// FromBackup reports whether resp is the answer of another target than the
// one that the strategy put first: a cache should not keep it for the model
// that was asked for.
func FromBackup(resp *http.Response) bool {
	l := legOf(resp)
	return l != nil && l.backup
}
