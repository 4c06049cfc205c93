package main_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	eino "github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/ollama/ollama/api"
	"github.com/openai/openai-go/v3"
	goopenai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
	"github.com/surefoot-go/surefoot/examples/sdk/internal/faults"
	"github.com/surefoot-go/surefoot/examples/sdk/internal/sdks"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// vendor is how an SDK's provider words its errors.
type vendor struct {
	payload func(status int) string // the body of an answer with that status
	event   string                  // of a stream, with the payload for %s; "": it has none
	hidden  func(status int) int    // what a 200 with that payload stands for
	typed   func(err error) any     // all that the SDK's own error says
}

const cause = "slow down, please"

// kinds are errors as the vendors name them.
var kinds = map[int]struct{ openai, code, anthropic, google string }{
	400: {"invalid_request_error", "invalid_request", "invalid_request_error", "INVALID_ARGUMENT"},
	401: {"authentication_error", "invalid_api_key", "authentication_error", "UNAUTHENTICATED"},
	403: {"permission_error", "permission_denied", "permission_error", "PERMISSION_DENIED"},
	404: {"not_found_error", "model_not_found", "not_found_error", "NOT_FOUND"},
	429: {"rate_limit_error", "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"},
	503: {"service_unavailable_error", "server_is_overloaded", "overloaded_error", "UNAVAILABLE"},
}

func same(status int) int    { return status }
func unknown(status int) int { return http.StatusBadGateway }

func as[E error](err error, say func(E) any) any {
	e, ok := errors.AsType[E](err)
	if !ok {
		return fmt.Sprintf("no %T in %#v", e, err)
	}
	return say(e)
}

func vendors() map[string]vendor {
	chat := func(status int) string {
		k := kinds[status]
		return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%q}}`, cause, k.openai, k.code)
	}
	text := func(int) string { return fmt.Sprintf(`{"error":%q}`, cause) }
	openaiTyped := func(err error) any {
		return as(err, func(e *openai.Error) any { return []any{e.StatusCode, e.Code, e.Type, e.Param, e.Message} })
	}
	return map[string]vendor{
		"openai-go chat":      {chat, "data: %s\n\n", same, openaiTyped},
		"openai-go responses": {chat, "data: %s\n\n", same, openaiTyped},
		"anthropic-sdk-go": {func(status int) string {
			return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_1"}`, kinds[status].anthropic, cause)
		}, "event: error\ndata: %s\n\n", same, func(err error) any {
			return as(err, func(e *anthropic.Error) any { return []any{e.StatusCode, e.Type()} })
		}},
		"go-openai": {chat, "data: %s\n\n", same, func(err error) any {
			return as(err, func(e *goopenai.APIError) any {
				return []any{e.HTTPStatusCode, e.HTTPStatus, e.Code, e.Type, e.Message}
			})
		}},
		"genai": {func(status int) string {
			return fmt.Sprintf(`{"error":{"code":%d,"message":%q,"status":%q}}`, status, cause, kinds[status].google)
		}, "data: %s\r\n\r\n", same, func(err error) any {
			return as(err, func(e genai.APIError) any { return []any{e.Code, e.Status, e.Message} })
		}},
		"ollama/api": {text, "%s\n", unknown, func(err error) any {
			return as(err, func(e api.StatusError) any { return e })
		}},
		"langchaingo": {chat, "data: %s\n\n", same, func(err error) any { return err.Error() }},
		"eino": {chat, "data: %s\n\n", same, func(err error) any {
			return as(err, func(e *eino.APIError) any {
				return []any{e.HTTPStatusCode, e.HTTPStatus, e.Code, e.Type, e.Message}
			})
		}},
		// Its errors are told apart by status; a stream has no place for one.
		"cohere-go": {func(status int) string { return fmt.Sprintf(`{"message":%q,"code":%d}`, cause, status) }, "", same, func(err error) any {
			status, _, message, _ := resilience.DetailsOf(err)
			return []any{fmt.Sprintf("%T", err), status, message}
		}},
	}
}

// failure is how an SDK over client fails where the provider does step.
func failure(t *testing.T, ask func(context.Context, *http.Client, string) error, over func(*testing.T) *http.Client, step upstreamtest.Step) error {
	t.Helper()
	up := upstreamtest.New()
	defer up.Close()
	up.Default(step)
	err := ask(t.Context(), over(t), up.URL)
	require.Error(t, err)
	return err
}

func bare(t *testing.T) *http.Client {
	t.Helper()
	transport := adapter.NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func stacked(t *testing.T) *http.Client {
	t.Helper()
	p := faults.Policy()
	p.Retry.MaxRetries = 0
	stack, err := resilience.Builder{Base: adapter.NewTransport()}.Build("demo", p)
	require.NoError(t, err)
	t.Cleanup(stack.CloseIdleConnections)
	return stack.Client()
}

// A failure that a 200 hides is to the SDK what the vendor's real status would
// have been: the same type with the same members.
func TestUnmaskedFailuresKeepTheSDKsType(t *testing.T) {
	all := vendors()
	for _, s := range sdks.All() {
		v, ok := all[s.Name]
		if !ok {
			continue // bedrockruntime has a test of its own
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			for status := range kinds {
				if s.Name == "cohere-go" && status == http.StatusServiceUnavailable {
					continue // its client sleeps before it reports one: 429 stands for both
				}
				payload := v.payload(status)
				ask := func(stream bool) func(context.Context, *http.Client, string) error {
					return func(ctx context.Context, hc *http.Client, url string) error {
						_, err := s.Ask(ctx, hc, url, stream)
						return err
					}
				}
				real := upstreamtest.Status(v.hidden(status)).Body("application/json", payload)
				want := v.typed(failure(t, ask(false), bare, real))
				t.Logf("%d: %v", status, want)
				assert.Equal(t, want, v.typed(failure(t, ask(false), stacked, real)), "a real status passes unchanged")
				ways := map[string]upstreamtest.Step{
					"body of a 200":              upstreamtest.Body("application/json", payload),
					"body of a 200 for a stream": upstreamtest.Body("application/json", payload),
				}
				if v.event != "" {
					ways["first event"] = upstreamtest.RawStream(fmt.Sprintf(v.event, payload))
				}
				for way, step := range ways {
					t.Run(fmt.Sprintf("%d, %s", status, way), func(t *testing.T) {
						assert.Equal(t, want, v.typed(failure(t, ask(way != "body of a 200"), stacked, step)))
					})
				}
			}
		})
	}
}

// A breaker's rejection is to each SDK what a real 503 of the vendor is.
func TestRejectionsAreTyped(t *testing.T) {
	for _, s := range sdks.All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			up := upstreamtest.New()
			defer up.Close()
			p := faults.Policy()
			p.CircuitBreaker.FailureThreshold = 5
			stack, err := resilience.Builder{Base: adapter.NewTransport()}.Build("demo", p)
			require.NoError(t, err)
			defer stack.CloseIdleConnections()
			stack.ForceOpen("", time.Minute)
			for _, stream := range []bool{false, true} {
				_, err := s.Ask(t.Context(), stack.Client(), up.URL, stream)
				require.Error(t, err)
				if s.Status == nil {
					continue
				}
				assert.Equal(t, http.StatusServiceUnavailable, s.Status(err))
				assert.Equal(t, http.StatusServiceUnavailable, resilience.StatusOf(err))
			}
			assert.Zero(t, up.Count())
		})
	}
}
