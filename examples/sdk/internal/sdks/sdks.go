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
//     no retries; genai has none unless HTTPOptions.RetryOptions is set. cohere-go
//     is told WithMaxAttempts(1), bedrockruntime aws.NopRetryer. langchaingo and
//     eino have none.
//   - The client: option.WithHTTPClient, ClientConfig.HTTPClient,
//     api.NewClient(url, client), HTTPClient in bedrockruntime.Options. The stack belongs under all middleware of the
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
//   - langchaingo's errors are plain text without a status: a chain over several
//     of them knows it from the stack below, see failover.Call. Of an error event
//     in a stream it takes no notice, and reads on to [DONE], which the stack
//     leaves out behind one, so that it comes to the error that ends the stream.
//   - cohere-go v2.15.3 takes the blank line behind an event for an event where it
//     is all that was read: Recv returns "unexpected end of JSON input" and has to
//     be called again. It never looks at a finish_reason of ERROR.
//   - genai takes the status from the body's error.code, all others from the
//     response. It logs broken streams through the standard logger, and bare it
//     panics on a body of null.
package sdks

import (
	"fmt"
	"net/http"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

const (
	// Model is what every adapter asks for.
	Model  = adapter.Model
	key    = adapter.Key
	prompt = adapter.Prompt
)

// All are the SDKs, in the order of the table.
func All() []adapter.SDK {
	return []adapter.SDK{
		{Name: "openai-go chat", Hidden: upstreamtest.HiddenCode, HiddenStatus: http.StatusTooManyRequests, Ask: askChat, Status: openaiStatus},
		{Name: "openai-go responses", Hidden: upstreamtest.HiddenCode, HiddenStatus: http.StatusTooManyRequests, Ask: askResponses, Status: openaiStatus},
		{Name: "anthropic-sdk-go", Hidden: upstreamtest.HiddenTyped, HiddenStatus: http.StatusTooManyRequests, Ask: askMessages, Status: anthropicStatus},
		{Name: "go-openai", Hidden: upstreamtest.HiddenCode, HiddenStatus: http.StatusTooManyRequests, Ask: askGoOpenAI, Status: goOpenAIStatus},
		{Name: "genai", Hidden: upstreamtest.HiddenGoogle, HiddenStatus: http.StatusTooManyRequests, Ask: askGemini, Status: genaiStatus},
		{Name: "ollama/api", Hidden: upstreamtest.HiddenText, HiddenStatus: http.StatusBadGateway, Ask: askOllama, Status: ollamaStatus},
		{Name: "langchaingo", Hidden: upstreamtest.HiddenCode, HiddenStatus: http.StatusTooManyRequests, Ask: askLangChain},
		{Name: "eino", Hidden: upstreamtest.HiddenCode, HiddenStatus: http.StatusTooManyRequests, Ask: askEino, Status: einoStatus},
		{Name: "cohere-go", Hidden: upstreamtest.HiddenMessage, HiddenStatus: http.StatusBadGateway, Ask: askCohere, Status: cohereStatus},
		{Name: "bedrockruntime", Hidden: upstreamtest.HiddenCoral, HiddenStatus: http.StatusTooManyRequests, Ask: askBedrock, Status: bedrockStatus},
	}
}

// unfinished is what a careful caller makes of an answer that says itself that
// it failed, where the SDK reports no error.
func unfinished(status string) error { return fmt.Errorf("the answer's status is %q", status) }
