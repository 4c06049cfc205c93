package retry

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"
)

// errBodyBusy ends a call whose next attempt would have to share a body that
// is still in use.
var errBodyBusy = errors.New("retry: the previous attempt is still reading the request body")

// errBodyReleased is what a reader gets who comes back for more of a body that
// was closed or whose attempt is over.
var errBodyReleased = errors.New("retry: the request body was read after its attempt had ended")

var errNoResponse = errors.New("retry: the base transport returned neither a response nor an error")

// TimeoutError says that one attempt had no response headers within the
// policy's attempt timeout. It is a [net.Error].
type TimeoutError struct {
	After time.Duration // the limit
}

func (e *TimeoutError) Error() string {
	return "retry: no response headers within " + e.After.String()
}

// Timeout is always true.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary is always true, as for every timeout in net/http.
func (e *TimeoutError) Temporary() bool { return true }

// contextError reports that the context ended a call, where the error at hand
// does not match what the context says.
type contextError struct {
	err   error // context.Canceled or context.DeadlineExceeded
	cause error // the context's cause, or what the base transport returned
}

func (e *contextError) Error() string {
	if e.cause == nil {
		return "retry: " + e.err.Error()
	}
	return "retry: " + e.err.Error() + ": " + e.cause.Error()
}

func (e *contextError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.err}
	}
	return []error{e.err, e.cause}
}

// Timeout reports whether the context's deadline ended the call.
func (e *contextError) Timeout() bool { return errors.Is(e.err, context.DeadlineExceeded) }

// Temporary is the same as Timeout.
func (e *contextError) Temporary() bool { return e.Timeout() }

// end says who ended a call.
type end int

const (
	endNone     end = iota // nobody: what happened is the upstream's
	endTimeout             // a local timeout
	endCanceled            // the caller
)

// endOf decides by the clock and by what our timers left in the context, never
// by the text of an error: under http.Client.Timeout a RoundTripper often sees
// no more than "request canceled".
func endOf(req *http.Request) end {
	ctx := req.Context()
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return endTimeout
	}
	if ctx.Err() != nil {
		if saysTimeout(context.Cause(ctx)) {
			return endTimeout
		}
		return endCanceled
	}
	select {
	case <-req.Cancel: // deprecated, and what http.Client.Timeout uses for us
		return endCanceled
	default:
		return endNone
	}
}

// contextErr is the error for a call that the caller or a local timeout ended:
// it matches context.Canceled and the caller's cause, or says Timeout and does
// not match context.Canceled. err is what the base transport returned, if
// anything: HTTP/1 returns the bare cause, HTTP/2 the context's error.
func contextErr(req *http.Request, e end, err error) error {
	cause := context.Cause(req.Context())
	if e == endCanceled {
		if cause == nil {
			cause = context.Canceled // req.Cancel
		}
		if errors.Is(err, context.Canceled) && errors.Is(err, cause) {
			return err
		}
		if cause == context.Canceled { //nolint:errorlint // no cause of the caller's own
			if err == nil {
				return context.Canceled
			}
			cause = err
		}
		return &contextError{err: context.Canceled, cause: cause}
	}
	if saysTimeout(err) && !errors.Is(err, context.Canceled) && (cause == nil || errors.Is(err, cause)) {
		return err
	}
	switch {
	case cause == nil || errors.Is(cause, context.Canceled):
		return context.DeadlineExceeded
	case saysTimeout(cause):
		return cause
	}
	return &contextError{err: context.DeadlineExceeded, cause: cause}
}

// localTimeout reports whether err, from an attempt whose context is intact,
// is a timer of ours or of the base transport (ResponseHeaderTimeout): one that
// says Timeout and is not the network's. Before there was a connection it is a
// dial or handshake that took too long, a transport failure.
func localTimeout(err error, connected bool) bool {
	if !connected || !saysTimeout(err) {
		return false
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return false
	}
	_, ok := errors.AsType[syscall.Errno](err)
	return !ok
}

func saysTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
