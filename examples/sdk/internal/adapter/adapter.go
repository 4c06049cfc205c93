// Package adapter is what all adapters of SDKs have in common.
package adapter

import (
	"context"
	"net/http"

	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// Model is what every adapter asks for.
const Model = "model-x"

// What every adapter sends.
const (
	Key    = "test-key"
	Prompt = "hello"
)

// SDK is one way of calling a provider.
type SDK struct {
	Name string
	// Hidden is how this API's gateways put an error into a 200.
	Hidden upstreamtest.Shape
	// HiddenStatus is the status of a rate limit that is hidden so: 502 where
	// the shape has no place for one.
	HiddenStatus int
	// Ask makes one call and returns the text that came, also beside an error.
	// stream asks for a stream and reads it to its end. baseURL has no path.
	Ask func(ctx context.Context, client *http.Client, baseURL string, stream bool) (text string, err error)
	// Status is the HTTP status that the SDK's own error type carries, else 0.
	// Nil where its errors are plain text.
	Status func(err error) int
}

// StatusOf is the status of the SDK's own error, 0 where it has none.
func (s SDK) StatusOf(err error) int {
	if s.Status == nil {
		return 0
	}
	return s.Status(err)
}
