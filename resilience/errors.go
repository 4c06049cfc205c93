package resilience

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/surefoot-go/surefoot/breaker"
)

// Error is a call that ended without a response. It wraps the transport's
// error and, where the caller cancelled, context.Canceled and the caller's
// cause.
type Error struct {
	Provider string // configured name
	Status   int    // 502 for a transport failure, 504 for a local timeout, 0 for a cancellation
	Err      error

	cause error // of the caller's cancellation, or nil
}

// Error names the provider and says what the transport said, but for what it
// quotes: the upstream's bytes, or a URL with its query. Err has it all.
func (e *Error) Error() string {
	text := e.Err.Error()
	var header textproto.ProtocolError
	switch {
	case errors.As(e.Err, &header): // quotes without marks
		text = "malformed response header"
	case e.Status != 0: // a cancellation's text is the caller's own
		text = withoutQuotes(text)
	}
	return "provider " + e.Provider + ": " + text
}

// withoutQuotes empties what stands between double quotes, as %q writes them.
func withoutQuotes(text string) string {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++ // and what it escapes
		case c == '"':
			quoted = !quoted
			b.WriteByte(c)
		case !quoted:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Unwrap returns the transport's error and what the caller cancelled with.
func (e *Error) Unwrap() []error {
	if e.Status != 0 {
		return []error{e.Err}
	}
	if e.cause == nil || errors.Is(e.Err, e.cause) {
		return []error{e.Err, context.Canceled}
	}
	return []error{e.Err, context.Canceled, e.cause}
}

// Timeout reports whether the call ended by a local timeout; it makes Error a
// net.Error.
func (e *Error) Timeout() bool { return e.Status == http.StatusGatewayTimeout }

// Temporary reports the same as Timeout, for net.Error.
func (e *Error) Temporary() bool { return e.Timeout() }

// errTimeout is the cause with which Policy.Timeout cancels a call.
var errTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string   { return "timeout of the whole call" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }
func (timeoutError) Is(target error) bool {
	return target == context.DeadlineExceeded
}

// StatusOf returns the HTTP status that stands for err: 503 for a breaker's
// rejection, 504 for a local timeout, 502 for any other failure to get a
// whole answer, 0 for nil and for a cancellation by the caller.
func StatusOf(err error) int {
	var (
		e  *Error
		ne net.Error
		op *net.OpError
	)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, breaker.ErrOpen):
		return http.StatusServiceUnavailable
	case errors.As(err, &e):
		return e.Status
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	case errors.Is(err, context.Canceled):
		return 0
	case errors.As(err, &op) && op.Op == "dial": // a dial timeout is a transport failure
		return http.StatusBadGateway
	case errors.As(err, &ne) && ne.Timeout():
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// Rejection tells a breaker's rejection, as a response or as an error, from
// an upstream's own 503.
func Rejection(resp *http.Response, err error) (*breaker.OpenError, bool) {
	var open *breaker.OpenError
	if errors.As(err, &open) {
		return open, true
	}
	c := callOfResponse(resp)
	if c == nil || c.open == nil {
		return nil, false
	}
	return c.open, true
}
