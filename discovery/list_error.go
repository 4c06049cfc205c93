package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"syscall"
)

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
	ReasonTooLarge  = "too_large"       // more bytes, entries or pages than a list may have; see NewLister
	ReasonCursor    = "repeated_cursor" // the paging does not end
	ReasonNoKey     = "no_key"          // there is no key to ask with, and nobody was asked; of a custom lister
	ReasonHung      = "hung"            // an earlier fetch has not come back
	ReasonPanic     = "panic"           // the lister, or the error it returned, panicked
	ReasonOther     = "error"           // any other error of a custom lister
)

// ListError says why a list could not be had. Its text is in our own words: it
// holds no word of the upstream or of a custom lister, and no credential. Only
// the cause, reached through Unwrap, may hold them.
type ListError struct {
	Reason string // one of the Reason constants
	Status int    // of the answer; 0: none
	Err    error  // the cause; nil where Reason says it all

	words string // the text, where it says more than the reason does
}

// Error returns the reason in words.
func (e *ListError) Error() string { return "list models: " + e.summary() }

// Unwrap returns Err.
func (e *ListError) Unwrap() error {
	if e == nil { // a nil pointer in an error, as a custom lister may return it
		return nil
	}
	return e.Err
}

func (e *ListError) summary() string {
	switch {
	case e == nil:
		return "an error of the lister"
	case e.words != "":
		return e.words
	}
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
	case ReasonNoKey:
		return "no key is configured"
	case ReasonHung:
		return "an earlier fetch has not returned"
	case ReasonTransport:
		return "connection failed"
	case ReasonTimeout:
		return "no answer in time"
	case ReasonPanic:
		return "the lister panicked"
	default:
		return "an error of the lister"
	}
}

// transportWords names a transport failure without its text, which may hold an
// address that nobody wants on a page, or bytes of the upstream.
func transportWords(err error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	case errors.As(err, &dns):
		return "name not resolved"
	default:
		return ""
	}
}

// transportError classes an error of http.Client.Do or of reading a body. The
// *url.Error around it goes: it repeats the URL, with a key in its query for
// some providers.
func transportError(ctx context.Context, err error) error {
	var u *url.Error
	if errors.As(err, &u) && u != nil {
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
	return &ListError{Reason: ReasonTransport, Err: err, words: transportWords(err)}
}

// asListError turns the error of any lister into one of ours, whose methods are
// safe to call anywhere. It calls methods of the lister's error, which may
// panic: that is for [provider.fetch] to contain, like a panic of the lister.
func asListError(err error) *ListError {
	var le *ListError
	switch {
	case errors.As(err, &le) && le != nil:
		// A copy: the lister may keep its own and change it.
		return &ListError{Reason: le.Reason, Status: le.Status, Err: contained(err), words: le.words}
	case errors.Is(err, context.DeadlineExceeded):
		return &ListError{Reason: ReasonTimeout, Err: contained(err)}
	default:
		// The type alone: the text may be the upstream's.
		return &ListError{Reason: ReasonOther, Err: contained(err), words: fmt.Sprintf("an error of the lister (%T)", err)}
	}
}
