package streamguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// ErrIncomplete is what every [*IncompleteError] matches.
var ErrIncomplete = errors.New("incomplete stream")

// Reasons of an [IncompleteError].
const (
	ReasonClosed       = "closed"        // the upstream ended the body cleanly, before the stream's end
	ReasonTransport    = "transport"     // reading failed: reset, cut chunk, HTTP/2 stream error
	ReasonIdleTimeout  = "idle_timeout"  // silent for longer than Policy.IdleTimeout
	ReasonEventTimeout = "event_timeout" // no data event for longer than Policy.EventTimeout
	ReasonMalformed    = "malformed"     // an event that does not parse
)

// An IncompleteError says that a stream ended before it was complete. It
// matches [ErrIncomplete] and its cause.
type IncompleteError struct {
	Provider string // as configured; may be empty
	Format   string // wire format, in the words of [wire.Format.String]
	Events   int    // data events that arrived whole before the end
	Reason   string // one of the Reason constants
	Err      error  // the cause: io.ErrUnexpectedEOF for a clean close, a [*TimeoutError], the transport's error
}

// Error names the provider, the format, the reason and, where it cannot hold
// the upstream's text, the cause. Err has it all.
func (e *IncompleteError) Error() string {
	text := fmt.Sprintf("%s%s stream incomplete after %d events (%s)",
		providerPrefix(e.Provider), e.Format, e.Events, e.Reason)
	var (
		op      *net.OpError
		timeout *TimeoutError
	)
	if errors.Is(e.Err, io.ErrUnexpectedEOF) || errors.As(e.Err, &op) || errors.As(e.Err, &timeout) {
		text += ": " + e.Err.Error() // an HTTP/2 GOAWAY or a bad trailer would be quoted
	}
	return text
}

// Unwrap returns the cause.
func (e *IncompleteError) Unwrap() error { return e.Err }

// Is reports whether target is [ErrIncomplete].
func (e *IncompleteError) Is(target error) bool { return target == ErrIncomplete }

// Timeout reports whether the upstream was given up for its silence.
func (e *IncompleteError) Timeout() bool { return isTimeout(e.Err) }

// Kinds of a [TimeoutError].
const (
	TimeoutIdle       = "idle"
	TimeoutEvent      = "event"
	TimeoutFirstEvent = "first_event"
)

// A TimeoutError says that one of this package's timers gave an upstream up. It
// is a [net.Error] whose Timeout is true.
type TimeoutError struct {
	Kind  string        // one of the Timeout constants
	After time.Duration // how long was waited
}

// Error says which timer fired and after what time.
func (e *TimeoutError) Error() string {
	switch e.Kind {
	case TimeoutFirstEvent:
		return fmt.Sprintf("no data event within %v of the request (first_event_timeout)", e.After)
	case TimeoutEvent:
		return fmt.Sprintf("no data event for %v (event_timeout)", e.After)
	default:
		return fmt.Sprintf("upstream silent for %v (idle_timeout)", e.After)
	}
}

// Timeout returns true.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary returns true; it completes [net.Error].
func (e *TimeoutError) Temporary() bool { return true }

// errMalformed is the cause of an IncompleteError whose reason is malformed. It
// quotes nothing of what the upstream sent.
var errMalformed = errors.New("malformed event")

var errNoResponse = errors.New("the base transport returned neither a response nor an error")

// errPanicked is what [End.Err] says when the upstream's Read panicked. The
// panic itself reaches the caller.
var errPanicked = errors.New("reading the upstream panicked")

// doneError is a call that its caller's context ended, for a reason of its own.
type doneError struct {
	err   error // ctx.Err()
	cause error // context.Cause(ctx)
}

func (e *doneError) Error() string   { return e.err.Error() + ": " + e.cause.Error() }
func (e *doneError) Unwrap() []error { return []error{e.err, e.cause} }
func (e *doneError) Timeout() bool   { return errors.Is(e.err, context.DeadlineExceeded) }

// callerDone returns why req's call is over for its caller, nil if it is not: a
// deadline that has passed by the clock comes first, then a cause that is a
// timeout, then cancellation. It never looks at the text of an error.
func callerDone(req *http.Request) error {
	ctx := req.Context()
	err, cause := ctx.Err(), context.Cause(ctx)
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		err = context.DeadlineExceeded
		if cause == nil || errors.Is(cause, context.Canceled) {
			cause = err
		}
	}
	switch {
	case err == nil:
		return requestCanceled(req)
	case errors.Is(cause, err), isTimeout(cause):
		return cause
	default:
		return &doneError{err: err, cause: cause}
	}
}

// requestCanceled tells whether the older Cancel channel of req was closed.
func requestCanceled(req *http.Request) error {
	select {
	case <-req.Cancel: //nolint:staticcheck // deprecated, yet still honored by net/http
		return context.Canceled
	default:
		return nil
	}
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

func providerPrefix(name string) string {
	if name == "" {
		return ""
	}
	return "provider " + name + ": "
}
