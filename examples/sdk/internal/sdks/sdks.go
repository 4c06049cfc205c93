// Package sdks calls the Go SDKs of language model providers the way their
// manuals do, one adapter an SDK, so that they can be compared.
//
// What a user has to set for the stack below an SDK:
//
//   - Retries off, option.WithMaxRetries(0) in openai-go and anthropic-sdk-go:
//     they retry 408, 409, 429, 5xx and any transport error twice by default.
//     Where the stack has retried itself it marks its last answer with
//     x-should-retry: false, which both obey; an error from the transport cannot
//     be marked, so each of their retries is a whole call with all the stack's
//     attempts, unless errors_as_responses is "all". go-openai and ollama have
//     no retries; genai has none unless HTTPOptions.RetryOptions is set.
//   - The client: option.WithHTTPClient, ClientConfig.HTTPClient,
//     api.NewClient(url, client). The stack belongs under all middleware of the
//     SDK: openai-go refuses a request whose host a middleware changed, not one
//     that a transport sends elsewhere.
//   - A time limit as the SDK has it, or the stack's own Timeout and
//     Stream.IdleTimeout: none of the SDKs notices a silent stream.
//
// What a user has to look at:
//
//   - The error of a stream after its last event. An SDK wraps neither response
//     nor header into it: what the stack knows of a call is in OnCall, what a
//     chain knows in failover.WithTrace.
//   - Responses: response.failed and response.incomplete arrive as events, and
//     an answer of status "failed" as an answer, without an error from the SDK.
//   - Errors inside a stream carry no HTTP status, except genai's. go-openai's
//     APIError and openai-go's StreamError have the event's code, which is
//     stream_incomplete for one that the guard wrote; anthropic.Error has the
//     StatusCode 200 of the response.
//   - ollama's client never looks at errors of reading: it reports a broken
//     stream by the guard's error line alone. Its error has the line's text only,
//     and an error that it gets in a 200 has no status, so that under the stack it
//     is a 502.
//   - genai takes the status from the body's error.code, all others from the
//     response. It logs broken streams through the standard logger, and bare it
//     panics on a body of null.
package sdks

import (
	"context"
	"fmt"
	"net/http"

	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// Model is what every adapter asks for.
const Model = "model-x"

const (
	key    = "test-key"
	prompt = "hello"
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
	Status func(err error) int
}

// All are the SDKs, in the order of the table.
func All() []SDK {
	return []SDK{
		{"openai-go chat", upstreamtest.HiddenCode, http.StatusTooManyRequests, askChat, openaiStatus},
		{"openai-go responses", upstreamtest.HiddenCode, http.StatusTooManyRequests, askResponses, openaiStatus},
		{"anthropic-sdk-go", upstreamtest.HiddenTyped, http.StatusTooManyRequests, askMessages, anthropicStatus},
		{"go-openai", upstreamtest.HiddenCode, http.StatusTooManyRequests, askGoOpenAI, goOpenAIStatus},
		{"genai", upstreamtest.HiddenGoogle, http.StatusTooManyRequests, askGemini, genaiStatus},
		{"ollama/api", upstreamtest.HiddenText, http.StatusBadGateway, askOllama, ollamaStatus},
	}
}

// unfinished is what a careful caller makes of an answer that says itself that
// it failed, where the SDK reports no error.
func unfinished(status string) error { return fmt.Errorf("the answer's status is %q", status) }
