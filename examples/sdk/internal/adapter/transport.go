package adapter

import (
	"context"
	"net/http"
)

// NewTransport returns a transport of its own, set up as the standard
// library's default one is.
func NewTransport() *http.Transport { return standard.Clone() }

var standard = http.DefaultTransport.(*http.Transport)

// A service does no more for a client that takes no http.Client than
//
//	http.DefaultTransport = stack
//
// before it starts anything. Here many stacks are in use at a time, so that the
// context says which one a call is for.
func init() { http.DefaultTransport = defaultTransport{} }

type defaultTransport struct{}

type transportKey struct{}

// WithTransport makes http.DefaultTransport send the calls under the context
// through rt.
func WithTransport(ctx context.Context, rt http.RoundTripper) context.Context {
	return context.WithValue(ctx, transportKey{}, rt)
}

// RoundTrip sends the request through the context's transport, once: what that
// sends itself goes out by the standard one.
func (defaultTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	rt, ok := req.Context().Value(transportKey{}).(http.RoundTripper)
	if !ok {
		return standard.RoundTrip(req)
	}
	return rt.RoundTrip(req.WithContext(WithTransport(req.Context(), nil)))
}
