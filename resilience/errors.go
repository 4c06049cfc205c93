package resilience

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/streamguard"
)

// Error is a call that ended without a response and without its caller's
// doing: a transport failure, a local timeout of ours, or a request that could
// not be sent. What the caller itself ended comes back as the base transport
// returned it. Error answers Timeout, Temporary, errors.Is and errors.As as the
// error that it wraps does.
type Error struct {
	Provider string // configured name
	Status   int    // 502 for a transport failure, 504 for a local timeout
	Err      error  // of the transport, or an [ending.TimeoutError]; not nil

	own []string // what may be quoted: of the request itself, and no secret
}

// newError is the error of req's call. A plain HTTP answer to an https request
// matches [http.ErrSchemeMismatch], as http.Client has it over a bare transport.
func newError(provider string, status int, req *http.Request, err error) *Error {
	if tlsErr, ok := errors.AsType[tls.RecordHeaderError](err); ok && string(tlsErr.RecordHeader[:]) == "HTTP/" {
		err = fmt.Errorf("%w: %w", http.ErrSchemeMismatch, err)
	}
	e := &Error{Provider: provider, Status: status, Err: err}
	if req == nil {
		return e
	}
	if req.URL != nil {
		e.own = append(e.own, req.URL.Scheme, req.URL.Host, req.URL.Hostname(), req.Host)
	}
	e.own = append(e.own, req.Method)
	e.own = slices.AppendSeq(e.own, maps.Keys(req.Header))
	e.own = slices.AppendSeq(e.own, maps.Keys(req.Trailer))
	return e
}

// Error names the provider and says what the transport said. Of what it quotes
// only the request's own method, scheme, host and names of headers and trailers
// stay: the rest may be the upstream's bytes, or a URL with its query. Err has
// it all.
func (e *Error) Error() string {
	text := e.Err.Error()
	var header textproto.ProtocolError
	if errors.As(e.Err, &header) { // quotes without marks
		text = "malformed response header"
	}
	prefix := "provider " + e.Provider + ": "
	return prefix + e.withoutQuotes(strings.TrimPrefix(text, prefix)) // a layer's own error names it, too
}

// withoutQuotes empties what stands between double quotes, as %q writes them,
// unless it is the request's own.
func (e *Error) withoutQuotes(text string) string {
	var b strings.Builder
	for {
		start := strings.IndexByte(text, '"')
		if start < 0 {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(text[:start+1])
		quoted, rest, closed := cutQuote(text[start+1:])
		if word, err := strconv.Unquote(`"` + quoted + `"`); err == nil && slices.Contains(e.own, word) {
			b.WriteString(quoted)
		}
		if !closed {
			return b.String()
		}
		b.WriteByte('"')
		text = rest
	}
}

// cutQuote cuts text behind the quotation mark that ends it. Within it a
// backslash escapes the byte that follows.
func cutQuote(text string) (quoted, rest string, closed bool) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}

// Unwrap returns the error that Error wraps.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports what the wrapped error answers; it makes Error a net.Error.
// The TLS handshake that took too long says so, although it is a transport
// failure with status 502: ask [StatusOf] what a failure counts as.
func (e *Error) Timeout() bool { return ending.SaysTimeout(e.Err) }

// Temporary reports what the wrapped error answers, for net.Error.
func (e *Error) Temporary() bool {
	var t interface{ Temporary() bool }
	return errors.As(e.Err, &t) && t.Temporary()
}

// StatusOf returns the HTTP status that stands for err: 503 for a breaker's
// rejection, 429 for a limit's, 504 for a local timeout, what a stream reported of itself, what
// HTTPStatus returns for an error that has such a method (failover.BodyError), 413
// for a request's body that [http.MaxBytesReader] cut off, 0 for nil and for a cancellation by the caller. An SDK's error stands for the
// status that it was made of, see [DetailsOf]; any other failure to get a whole
// answer is 502.
func StatusOf(err error) int {
	if status, ok := ownStatus(err); ok {
		return status
	}
	if status, _, _, ok := DetailsOf(err); ok {
		return status
	}
	return http.StatusBadGateway
}

// ownStatus is StatusOf for the errors of this library and of the standard one.
func ownStatus(err error) (status int, ok bool) {
	defer func() {
		if recover() != nil { // a method of a stranger's error in the tree
			status, ok = 0, false
		}
	}()
	var (
		own interface{ HTTPStatus() int }
		e   *Error
		op  *net.OpError
		inc *streamguard.IncompleteError
	)
	switch {
	case err == nil:
		return 0, true
	case errors.Is(err, breaker.ErrOpen):
		return http.StatusServiceUnavailable, true
	case tooLarge(err):
		return http.StatusRequestEntityTooLarge, true
	case errors.As(err, &own):
		return own.HTTPStatus(), true
	case errors.As(err, &e):
		return e.Status, true
	case errors.As(err, &inc) && inc.Reason == streamguard.ReasonInBandError:
		return inc.Status, true
	case errors.As(err, &op) && op.Op == "dial": // a dial timeout is a transport failure
		return http.StatusBadGateway, true
	case ending.SaysTimeout(err):
		return http.StatusGatewayTimeout, true
	case errors.Is(err, context.Canceled):
		return 0, true
	}
	return 0, false
}

// tooLarge reports whether the caller's own limit cut off the request's body.
func tooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}

// Rejection tells a breaker's rejection, as a response or as an error, from
// an upstream's own 503.
func Rejection(resp *http.Response, err error) (*breaker.OpenError, bool) {
	if open, ok := find[*breaker.OpenError](err); ok {
		return open, true
	}
	c := callOfResponse(resp)
	if c == nil || c.open == nil {
		return nil, false
	}
	return c.open, true
}
