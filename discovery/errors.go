package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"
)

var (
	// ErrUnknownModel says that no provider lists the model: a 404.
	ErrUnknownModel = errors.New("unknown model")
	// ErrUnavailable says that there is no list to find the model in: a 503.
	ErrUnavailable = errors.New("no models to serve from")
)

// ResolveError is the error of [Registry.Resolve]. It matches
// [ErrUnknownModel], [ErrUnavailable] or, when the caller gave up waiting, the
// context's error.
type ResolveError struct {
	Name string // as asked for
	Err  error
}

// Error names the model.
func (e *ResolveError) Error() string {
	return "resolve model " + strconv.Quote(clip(e.Name, 128)) + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *ResolveError) Unwrap() error { return e.Err }

// StatusCode returns what an HTTP caller should see: 404 for an unknown model,
// 503 when there is nothing to serve from, 504 when a deadline passed while
// waiting, and 0 when the caller went away.
func (e *ResolveError) StatusCode() int {
	switch {
	case errors.Is(e.Err, ErrUnknownModel):
		return http.StatusNotFound
	case errors.Is(e.Err, ErrUnavailable):
		return http.StatusServiceUnavailable
	case errors.Is(e.Err, context.Canceled):
		return 0
	default:
		return http.StatusGatewayTimeout
	}
}

// Reasons of [ListError.Reason].
const (
	ReasonStatus    = "status"          // the upstream answered with a failure; see Status
	ReasonTransport = "transport"       // no answer, or one that broke off
	ReasonTimeout   = "timeout"         // the discovery time limit passed
	ReasonHidden    = "error_in_200"    // an error object in a 2xx
	ReasonHTML      = "html"            // a web page in place of JSON
	ReasonMalformed = "malformed"       // not JSON, or not a list of models
	ReasonNoList    = "no_list"         // JSON without a list, or with null in its place
	ReasonEmpty     = "empty_list"      // no models where there were some
	ReasonTooLarge  = "too_large"       // a page, or the number of models or pages, beyond the bounds
	ReasonCursor    = "repeated_cursor" // the paging does not end
	ReasonHung      = "hung"            // an earlier fetch has not come back
	ReasonPanic     = "panic"           // the lister panicked
	ReasonOther     = "error"           // any other error of a custom lister
)

// ListError says why a list could not be had. Its text holds no word of the
// upstream and no credential.
type ListError struct {
	Reason string // one of the Reason constants
	Status int    // of the answer; 0: none
	Err    error  // the cause; nil where Reason says it all
}

// Error returns the reason in words.
func (e *ListError) Error() string {
	s := "list models: " + e.summary()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns Err.
func (e *ListError) Unwrap() error { return e.Err }

func (e *ListError) summary() string {
	switch e.Reason {
	case ReasonStatus:
		return "status " + strconv.Itoa(e.Status)
	case ReasonHidden:
		return "an error in a 2xx answer"
	case ReasonHTML:
		return "a web page in place of a list"
	case ReasonMalformed:
		return "not a list of models"
	case ReasonNoList:
		return "an answer without a list"
	case ReasonEmpty:
		return "an empty list where there were models"
	case ReasonTooLarge:
		return "more than a list of models can be"
	case ReasonCursor:
		return "a page cursor that repeats or is missing"
	case ReasonHung:
		return "an earlier fetch has not returned"
	case ReasonTransport:
		return transportWord(e.Err)
	case ReasonTimeout:
		return "no answer in time"
	case ReasonPanic:
		return "the lister panicked"
	default:
		return "an error of the lister"
	}
}

// transportWord names a transport failure without its text, which may hold an
// address that nobody wants on a page.
func transportWord(err error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	case errors.As(err, &dns):
		return "name not resolved"
	default:
		return "connection failed"
	}
}

// transportError classes an error of http.Client.Do or of reading a body. The
// *url.Error around it goes: it repeats the URL, with a key in its query for
// some providers.
func transportError(ctx context.Context, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, context.DeadlineExceeded) {
			return &ListError{Reason: ReasonTimeout, Err: cause}
		}
		return fmt.Errorf("list models: %w", cause)
	}
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) {
		return &ListError{Reason: ReasonTimeout, Err: err}
	}
	return &ListError{Reason: ReasonTransport, Err: err}
}

// asListError makes any lister's error one whose summary can be shown.
func asListError(err error) *ListError {
	var le *ListError
	switch {
	case errors.As(err, &le):
		return le
	case errors.Is(err, context.DeadlineExceeded):
		return &ListError{Reason: ReasonTimeout, Err: err}
	default:
		return &ListError{Reason: ReasonOther, Err: err}
	}
}

// clip shortens s to at most n bytes, between two characters, and an ellipsis.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// visible writes out what would not be seen for what it is: control characters,
// marks that turn the direction of the text around them, blanks of no width.
// Callers' and upstreams' names hold anything.
func visible(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch _, size := utf8.DecodeRuneInString(s[i:]); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}
