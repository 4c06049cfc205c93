package ending

import (
	"context"
	"errors"
	"time"
)

// A TimeoutError says that a time limit of this library gave an upstream up.
// It is a [net.Error] whose Timeout is true, and it matches
// [context.DeadlineExceeded] as the errors of net/http do. As the cause of a
// cancelled context it makes the cancellation a [Timer] and not the caller's,
// for layers of your own, too.
type TimeoutError struct {
	What  string        // the limit, by its configuration key: "idle_timeout"
	After time.Duration // the limit's length
}

// Error names the limit and its length.
func (e *TimeoutError) Error() string {
	return "timed out after " + e.After.String() + " (" + e.What + ")"
}

// Timeout returns true.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary returns true, as for every timeout in net/http.
func (e *TimeoutError) Temporary() bool { return true }

// Is reports whether target is [context.DeadlineExceeded].
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// A RequestError says that a request could not be sent for its own fault: its
// body could not be read, or was not as long as its ContentLength. It is never
// retried, and no upstream is blamed for it.
type RequestError struct {
	Err error // what was wrong; not nil
}

// Error describes what was wrong with the request.
func (e *RequestError) Error() string { return "request: " + e.Err.Error() }

// Unwrap returns what was wrong.
func (e *RequestError) Unwrap() error { return e.Err }

// AsRequestError returns err, wrapped in a [*RequestError] unless it is one.
func AsRequestError(err error) error {
	if _, ok := errors.AsType[*RequestError](err); ok {
		return err
	}
	return &RequestError{Err: err}
}

// Explain returns the error of a call that ended like e and for which the
// transport returned err, which may be nil. What the transport returned comes
// back as it is where it matches the ending by itself: [context.Canceled] for
// the caller, a timeout for a deadline. HTTP/1 returns the bare cause of a
// context, which matches neither; it is wrapped so that it matches both
// (contract 10). A limit of this library is always reported as its
// [*TimeoutError], and what nobody on this side ended stays err.
func (e Ending) Explain(err error) error {
	switch {
	case e.Limit != nil:
		if errors.Is(err, error(e.Limit)) {
			return err
		}
		return e.Limit
	case e.By == Caller && !errors.Is(err, context.Canceled):
		return e.wrap(context.Canceled, err)
	case e.By == Deadline && (err == nil || !SaysTimeout(err)):
		return e.wrap(context.DeadlineExceeded, err)
	}
	return err
}

// wrap makes err, and the context's cause, match state.
func (e Ending) wrap(state, err error) error {
	cause := e.cause
	if cause == nil || errors.Is(state, cause) || errors.Is(err, cause) {
		cause = nil
	}
	switch {
	case err == nil && cause == nil:
		return state
	case err == nil:
		err, cause = cause, nil
	}
	return &contextError{state: state, err: err, cause: cause}
}

// A contextError is what a transport returned for a call whose context ended
// it, where that does not match what the context says.
type contextError struct {
	state error // context.Canceled or context.DeadlineExceeded
	err   error // what the transport returned
	cause error // the context's cause where err does not match it, or nil
}

func (e *contextError) Error() string { return e.state.Error() + ": " + e.err.Error() }

func (e *contextError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.state, e.err}
	}
	return []error{e.state, e.err, e.cause}
}

// Timeout reports whether a deadline ended the call.
func (e *contextError) Timeout() bool { return e.state != context.Canceled } //nolint:errorlint // one of two

// Temporary is the same as Timeout.
func (e *contextError) Temporary() bool { return e.Timeout() }
