package streamguard

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// ErrIncomplete is what every [*IncompleteError] matches.
var ErrIncomplete = errors.New("incomplete stream")

// Reasons of an [IncompleteError].
const (
	ReasonClosed       = "closed"    // the upstream ended the body cleanly, before the stream's end
	ReasonTransport    = "transport" // reading failed: reset, cut chunk, HTTP/2 stream error
	ReasonIdleTimeout  = ending.ReasonIdleTimeout
	ReasonEventTimeout = ending.ReasonEventTimeout
	ReasonMinRate      = ending.ReasonMinRate
	ReasonMalformed    = ending.ReasonMalformed
	ReasonInBandError  = ending.ReasonInBandError
)

// An IncompleteError says that a stream ended before it was complete, or that it
// ended by reporting a failure of its own. It matches [ErrIncomplete] and its
// cause.
type IncompleteError struct {
	Provider string     // as configured; may be empty
	Format   string     // wire format, in the words of [wire.Format.String]
	Events   int        // data events that arrived whole before the end
	Reason   string     // one of the Reason constants
	Status   int        // the HTTP status it stands for: what an in-band error maps to, 504 for a timeout, else 502
	Err      error      // the cause: io.ErrUnexpectedEOF for a clean close and an in-band error, an [*ending.TimeoutError], the transport's error
	Usage    wire.Usage // what the stream had said that it takes

	// Resume is where the stream broke off, for a vendor that keeps it: a response
	// that was asked for with "background": true, an interaction whose events have
	// names. Nil is for all others, and where the stream has not said yet. See
	// [Policy.Resume].
	Resume *Resume
}

// Error names the provider, the format, the reason and, where it cannot hold
// the upstream's text, the cause. Err has it all.
func (e *IncompleteError) Error() string {
	if e.Reason == ReasonInBandError {
		return fmt.Sprintf("%s%s stream failed after %d events (%s, status %d)",
			providerPrefix(e.Provider), e.Format, e.Events, e.Reason, e.Status)
	}
	text := fmt.Sprintf("%s%s stream incomplete after %d events (%s)",
		providerPrefix(e.Provider), e.Format, e.Events, e.Reason)
	var (
		op      *net.OpError
		timeout *ending.TimeoutError
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

// Timeout reports whether the upstream was given up for its silence or slowness.
func (e *IncompleteError) Timeout() bool { return ending.SaysTimeout(e.Err) }

// errMalformed is the cause of an IncompleteError whose reason is malformed. It
// quotes nothing of what the upstream sent.
var errMalformed = errors.New("malformed event")

// errPanicked is what [End.Err] says when the upstream's Read panicked. The
// panic itself reaches the caller.
var errPanicked = errors.New("reading the upstream panicked")

// callerDone returns what ended req's call for its caller, nil while the call
// lives. A read that the caller cancelled can end like any other, so err, what
// it returned, is reported as it is where it says so itself.
func callerDone(req *http.Request, err error) error {
	e := ending.Of(req, nil)
	if e.By == ending.Upstream {
		return nil
	}
	if err == io.EOF {
		err = nil
	}
	return e.Explain(err)
}

func providerPrefix(name string) string {
	if name == "" {
		return ""
	}
	return "provider " + name + ": "
}
