package discovery

import (
	"context"
	"errors"
	"net/http"
	"strconv"
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
	err := contained(e.Err)
	switch {
	case errors.Is(err, ErrUnknownModel):
		return http.StatusNotFound
	case errors.Is(err, ErrUnavailable):
		return http.StatusServiceUnavailable
	case errors.Is(err, context.Canceled):
		return 0
	default:
		return http.StatusGatewayTimeout
	}
}
