package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// sdkError is an SDK's error that carries the response, as openai.Error does.
type sdkError struct {
	StatusCode    int
	Code, Message string
	Response      *http.Response
}

func (e *sdkError) Error() string { return "sdk: " + e.Code }

// wrappedResponse is a response in a type of the SDK's own, as smithy has it.
type wrappedResponse struct{ *http.Response }

type smithyError struct {
	Response *wrappedResponse
	Err      error
}

func (e *smithyError) Error() string { return "smithy" }
func (e *smithyError) Unwrap() error { return e.Err }

// Errors of strangers that do what an error must not do.
type (
	panicsInUnwrap struct{ error }
	panicsInError  struct{ status int }
	panicsInIs     struct{}
)

func (panicsInUnwrap) Unwrap() error    { panic("unwrap") }
func (panicsInError) Error() string     { panic("error") }
func (e panicsInError) StatusCode() int { return e.status }
func (panicsInIs) Error() string        { return "is" }
func (panicsInIs) Is(error) bool        { panic("is") }
func (panicsInIs) As(any) bool          { panic("as") }
func (panicsInIs) Timeout() bool        { panic("timeout") }

func TestStatusOfAnSDKsError(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want int
	}{
		"its status":                    {&sdkError{StatusCode: 404}, 404},
		"wrapped":                       {fmt.Errorf("ask: %w", &sdkError{StatusCode: 429}), 429},
		"joined":                        {errors.Join(io.EOF, &sdkError{StatusCode: 503}), 503},
		"no status":                     {&sdkError{Code: "x"}, 502},
		"a status that is no failure":   {&sdkError{StatusCode: 200}, 502},
		"plain text":                    {errors.New("status 404"), 502},
		"beside a cancellation":         {errors.Join(context.Canceled, &sdkError{StatusCode: 400}), 0},
		"beside a limit of ours":        {errors.Join(&ending.TimeoutError{What: "timeout", After: time.Second}, &sdkError{StatusCode: 400}), 504},
		"beside a breaker's":            {errors.Join(&sdkError{StatusCode: 400}, &breaker.OpenError{Provider: "p"}), 503},
		"a stack's":                     {&resilience.Error{Provider: "p", Status: 504, Err: io.EOF}, 504},
		"Unwrap panics":                 {panicsInUnwrap{io.EOF}, 502},
		"Unwrap panics beside a status": {errors.Join(panicsInUnwrap{io.EOF}, &sdkError{StatusCode: 429}), 429},
		"Error panics":                  {panicsInError{}, 502},
		"Error panics, status known":    {panicsInError{418}, 418},
		"Is panics":                     {panicsInIs{}, 502},
		"Is panics beside a status":     {errors.Join(panicsInIs{}, &sdkError{StatusCode: 429}), 429},
		"nil pointer":                   {(*sdkError)(nil), 502},
	} {
		t.Run(name, func(t *testing.T) {
			assert.NotPanics(t, func() { assert.Equal(t, tc.want, resilience.StatusOf(tc.err)) })
			_, rejected := resilience.Rejection(nil, tc.err)
			assert.Equal(t, name == "beside a breaker's", rejected)
		})
	}
}

// exchange asks over the stack; the body is read and closed.
func exchange(t *testing.T, ctx context.Context, s *resilience.Transport, stream bool) (*http.Response, error) {
	t.Helper()
	body := fmt.Sprintf(`{"model":"m","stream":%t}`, stream)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, chatURL, strings.NewReader(body))
	require.NoError(t, err)
	resp, err := s.Client().Do(req)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, resp.Body.Close())
	return resp, err
}

func scripted(t *testing.T, r reply) *resilience.Transport {
	t.Helper()
	p := resilience.DefaultPolicy()
	p.Retry.MaxRetries = 0
	s, err := resilience.Builder{Base: roundTrip(r.response)}.Build("p", p)
	require.NoError(t, err)
	return s
}

// The stack's own record goes before what the SDK made of the answer.
func TestDetailsComeFromTheRecordOfTheResponse(t *testing.T) {
	t.Run("an open breaker's", func(t *testing.T) {
		s := scripted(t, reply{status: 200, body: okJSON})
		s.ForceOpen("", time.Minute)
		resp, err := exchange(t, t.Context(), s, false)
		require.NoError(t, err)
		for _, err := range []error{
			&sdkError{StatusCode: 503, Response: resp},
			&sdkError{Response: resp},
			&smithyError{Response: &wrappedResponse{resp}},
			fmt.Errorf("ask: %w", &smithyError{Response: &wrappedResponse{resp}, Err: io.EOF}),
		} {
			assert.Equal(t, 503, resilience.StatusOf(err))
			status, code, message, ok := resilience.DetailsOf(err)
			assert.True(t, ok)
			assert.Equal(t, 503, status)
			assert.Equal(t, "circuit_open", code)
			assert.Contains(t, message, "circuit breaker is open")
		}
	})
	t.Run("unmasked", func(t *testing.T) {
		s := scripted(t, reply{status: 200, body: `{"error":{"type":"rate_limit_error","message":"slow down"}}`})
		resp, err := exchange(t, t.Context(), s, false)
		require.NoError(t, err)
		status, code, message, ok := resilience.DetailsOf(&sdkError{Response: resp})
		assert.True(t, ok)
		assert.Equal(t, []any{429, "rate_limit_error", "slow down"}, []any{status, code, message})
	})
	t.Run("told in the stream", func(t *testing.T) {
		s := scripted(t, reply{status: 200, header: http.Header{"Content-Type": {"text/event-stream"}},
			body: evA + `data: {"error":{"code":429,"message":"slow down"}}` + "\n\n"})
		resp, err := exchange(t, t.Context(), s, true)
		require.Error(t, err)
		status, _, message, ok := resilience.DetailsOf(&sdkError{StatusCode: 200, Response: resp})
		assert.True(t, ok)
		assert.Equal(t, 429, status)
		assert.Equal(t, "slow down", message)
	})
	t.Run("a stream that broke off tells nothing", func(t *testing.T) {
		s := scripted(t, reply{status: 200, header: http.Header{"Content-Type": {"text/event-stream"}}, body: evA})
		resp, err := exchange(t, t.Context(), s, true)
		for _, err := range []error{err, fmt.Errorf("read: %w", err), &sdkError{StatusCode: 200, Response: resp}} {
			_, _, _, ok := resilience.DetailsOf(err)
			assert.False(t, ok)
			assert.Equal(t, 502, resilience.StatusOf(err))
		}
	})
	t.Run("a success tells nothing", func(t *testing.T) {
		resp, err := exchange(t, t.Context(), scripted(t, reply{status: 200, body: okJSON}), false)
		require.NoError(t, err)
		_, _, _, ok := resilience.DetailsOf(&sdkError{Response: resp})
		assert.False(t, ok)
	})
	t.Run("words of the SDK where the record has none", func(t *testing.T) {
		resp, err := exchange(t, t.Context(), scripted(t, reply{status: 404, body: `{"error":{"message":"x"}}`}), false)
		require.NoError(t, err)
		status, code, message, ok := resilience.DetailsOf(&sdkError{StatusCode: 404, Code: "model_not_found", Message: "no", Response: resp})
		assert.True(t, ok)
		assert.Equal(t, []any{404, "model_not_found", "no"}, []any{status, code, message})
	})
	t.Run("of no stack", func(t *testing.T) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, chatURL, nil)
		require.NoError(t, err)
		for _, resp := range []*http.Response{nil, {}, {Request: req}} {
			assert.Equal(t, 429, resilience.StatusOf(&sdkError{StatusCode: 429, Response: resp}))
			assert.Equal(t, 502, resilience.StatusOf(&smithyError{Response: &wrappedResponse{resp}}))
		}
	})
}

// A record knows the last call under its context, for clients that tell nothing.
func TestRecord(t *testing.T) {
	ctx, record := resilience.WithRecord(t.Context())
	_, made := record.Call()
	assert.False(t, made)
	_, _, _, failed := record.Details()
	assert.False(t, failed)

	_, err := exchange(t, ctx, scripted(t, reply{status: 401, body: `{"error":{"code":"invalid_api_key"}}`}), false)
	require.NoError(t, err)
	c, made := record.Call()
	assert.True(t, made)
	assert.Equal(t, 401, c.Status)
	status, _, _, failed := record.Details()
	assert.True(t, failed)
	assert.Equal(t, 401, status)

	_, err = exchange(t, ctx, scripted(t, reply{err: io.EOF}), false)
	require.Error(t, err)
	c, _ = record.Call()
	assert.Equal(t, resilience.OutcomeTransportError, c.Outcome)
	_, _, _, failed = record.Details()
	assert.False(t, failed, "a failure without an answer has no status of an upstream's")

	_, err = exchange(t, ctx, scripted(t, reply{status: 200, body: okJSON}), false)
	require.NoError(t, err)
	c, _ = record.Call()
	assert.Equal(t, resilience.OutcomeSuccess, c.Outcome)
	_, _, _, failed = record.Details()
	assert.False(t, failed)
}
