package failover_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// Errors in the shapes of SDKs.
type (
	openAIError struct {
		Code, Message, Param, Type string
		StatusCode                 int
		Request                    *http.Request
	}
	anthropicError struct {
		StatusCode int
		raw        string
	}
	genAIError struct {
		Code            int
		Message, Status string
	}
	goOpenAIError struct {
		Code           any
		Message        string
		Param          *string
		HTTPStatusCode int
	}
	smithyError struct{ code int }
	badError    struct{ inner *int }
)

func (e *openAIError) Error() string        { return "openai" }
func (e *anthropicError) Error() string     { return "anthropic" }
func (e *anthropicError) RawJSON() string   { return e.raw }
func (e genAIError) Error() string          { return "genai" }
func (e *goOpenAIError) Error() string      { return "go-openai" }
func (e *smithyError) Error() string        { return "smithy" }
func (e *smithyError) HTTPStatusCode() int  { return e.code }
func (e *smithyError) ErrorCode() string    { return "ThrottlingException" }
func (e *smithyError) ErrorMessage() string { return "slow down" }
func (e *badError) Error() string           { return "bad" }
func (e *badError) StatusCode() int         { return *e.inner }

func TestClassifyError(t *testing.T) {
	type want struct {
		status        int
		code, message string
	}
	for name, tc := range map[string]struct {
		err  error
		want want
	}{
		"openai":        {&openAIError{StatusCode: 404, Code: "model_not_found", Message: "m"}, want{404, "model_not_found", "m"}},
		"openai, type":  {&openAIError{StatusCode: 400, Type: "invalid_request_error"}, want{400, "invalid_request_error", ""}},
		"anthropic":     {&anthropicError{529, `{"type":"error","error":{"type":"overloaded_error","message":"m"}}`}, want{529, "overloaded_error", "m"}},
		"genai":         {genAIError{Code: 429, Message: "m", Status: "RESOURCE_EXHAUSTED"}, want{429, "RESOURCE_EXHAUSTED", "m"}},
		"go-openai":     {&goOpenAIError{HTTPStatusCode: 400, Code: "c", Message: "m"}, want{400, "c", "m"}},
		"smithy":        {&smithyError{429}, want{429, "ThrottlingException", "slow down"}},
		"wrapped":       {fmt.Errorf("call: %w", errors.Join(io.EOF, &openAIError{StatusCode: 500})), want{500, "", ""}},
		"nil inside":    {&badError{}, want{}},
		"nil pointer":   {(*openAIError)(nil), want{}},
		"no status":     {&openAIError{Code: "c"}, want{}},
		"not a failure": {&openAIError{StatusCode: 200}, want{}},
		"plain":         {io.EOF, want{}},
		"a stack's":     {&resilience.Error{Provider: "p", Status: 502, Err: io.EOF}, want{}},
		"nil":           {nil, want{}},
	} {
		t.Run(name, func(t *testing.T) {
			status, code, message, ok := failover.ClassifyError(tc.err)
			assert.Equal(t, tc.want, want{status, code, message})
			assert.Equal(t, tc.want.status != 0, ok)
		})
	}
}

func TestCallRules(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for name, tc := range map[string]struct {
		policy failover.Policy
		first  error
		want   string
	}{
		"success":             {first: nil, want: "a:ok"},
		"status":              {first: &openAIError{StatusCode: 503}, want: "a:503 b:ok"},
		"validation":          {first: &openAIError{StatusCode: 400, Code: "invalid"}, want: "a:400"},
		"phrase":              {first: &openAIError{StatusCode: 404, Message: "The model does not exist"}, want: "a:404 b:ok"},
		"dial":                {first: dial, want: "a:transport_error b:ok"},
		"unknown":             {first: errors.New("x"), want: "a:transport_error b:ok"},
		"deadline of its own": {first: context.DeadlineExceeded, want: "a:timeout b:ok"},
		"rejected":            {first: &breaker.OpenError{Provider: "a"}, want: "a:-circuit_open b:ok"},
		"rejected, by an SDK": {first: &openAIError{StatusCode: 503, Code: "circuit_open"}, want: "a:-circuit_open b:ok"},
		"its own classifier":  {failover.Policy{Classify: func(error) (int, string, string, bool) { return 400, "", "", true }}, errors.New("x"), "a:400"},
		"switched off":        {failover.Policy{Disabled: true}, dial, "a:transport_error"},
	} {
		t.Run(name, func(t *testing.T) {
			c := chain(t, tc.policy, failover.Target{Name: "a", Model: "ma"}, failover.Target{Name: "b", Model: "mb"})
			ctx, trace := failover.WithTrace(t.Context())
			got, err := failover.Call(ctx, c, func(ctx context.Context, tg failover.Target) (string, error) {
				assert.Equal(t, tg.Model, resilience.ModelOf(ctx))
				if tg.Name == "a" && tc.first != nil {
					return "half", tc.first
				}
				return "from " + tg.Name, nil
			})
			assert.Equal(t, tc.want, trail(trace.Attempts()))
			if err != nil {
				require.ErrorIs(t, err, tc.first)
				assert.Empty(t, got)
				var e *failover.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, trace.Attempts(), e.Attempts)
				return
			}
			a := trace.Attempts()
			assert.Equal(t, "from "+a[len(a)-1].Target, got)
		})
	}
}

func TestCallHandsOutTheDefaultStack(t *testing.T) {
	c := chain(t, failover.Policy{}, failover.Target{Name: "a", Provider: "p"}, failover.Target{Name: "b", Provider: "p"})
	var got []http.RoundTripper
	_, err := failover.Call(t.Context(), c, func(_ context.Context, tg failover.Target) (int, error) {
		got = append(got, tg.Transport)
		return 0, io.ErrUnexpectedEOF
	})
	require.Error(t, err)
	require.IsType(t, &resilience.Transport{}, got[0])
	assert.Same(t, got[0], got[1], "one a provider")
}

func TestCallSkipsOpenBreakers(t *testing.T) {
	s := stack(t, "a", healthy(), knobs())
	s.ForceOpen("", time.Minute)
	inner := chain(t, failover.Policy{}, failover.Target{Name: "x", Provider: "a", Model: "m", Transport: s}, failover.Target{Name: "y", Provider: "y", Model: "m"})
	c := chain(t, failover.Policy{}, failover.Target{Name: "a", Provider: "a", Model: "m2", Transport: s}, failover.Target{Name: "in", Transport: inner})
	ctx, trace := failover.WithTrace(t.Context())
	got, err := failover.Call(ctx, c, func(_ context.Context, tg failover.Target) (string, error) { return tg.Name, nil })
	require.NoError(t, err)
	assert.Equal(t, "y", got)
	assert.Equal(t, "a:-circuit_open x:-circuit_open y:ok", trail(trace.Attempts()))
}

func TestCallTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := chain(t, failover.Policy{}, failover.Target{Name: "a", Timeout: time.Second}, failover.Target{Name: "b"})
		wait := func(ctx context.Context, tg failover.Target) (context.Context, error) {
			if tg.Name == "b" {
				return ctx, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		start := time.Now()
		ctx, trace := failover.WithTrace(t.Context())
		_, err := failover.Call(ctx, c, wait)
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(start))
		assert.Equal(t, "a:timeout b:ok", trail(trace.Attempts()))

		kept, err := failover.Call(ctx, c, func(ctx context.Context, _ failover.Target) (context.Context, error) { return ctx, nil })
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.NoError(t, kept.Err(), "a stream lives on")

		why := errors.New("why")
		cancelled, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		_, err = failover.Call(cancelled, c, wait)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)
		short, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		_, err = failover.Call(short, c, wait)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
