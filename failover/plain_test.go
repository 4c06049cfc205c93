package failover_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// plainText asks as a client does whose errors are plain text: langchaingo's
// openai, for one.
func plainText(stream bool) func(context.Context, failover.Target) (string, error) {
	return func(ctx context.Context, target failover.Target) (string, error) {
		body := fmt.Sprintf(`{"model":%q,"stream":%t}`, target.Model, stream)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.BaseURL+"/chat/completions", strings.NewReader(body))
		if err != nil {
			return "", err
		}
		resp, err := (&http.Client{Transport: target.Transport}).Do(req)
		if err != nil {
			return "", errors.New("http error")
		}
		said, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return "", errors.New("stream error")
		}
		if resp.StatusCode != http.StatusOK {
			return "", errors.New("API returned unexpected status code: " + string(said))
		}
		return string(said), nil
	}
}

// What the stack below knew decides where a client's error says nothing
// (contract 7.3, 7.10).
func TestCallOverAClientOfPlainTextErrors(t *testing.T) {
	inBand := func(code int) reply {
		return reply{status: 200, body: evA + fmt.Sprintf(`data: {"error":{"code":%d,"message":"x"}}`+"\n\n", code)}
	}
	for name, tc := range map[string]struct {
		first  reply
		stream bool
		want   string
	}{
		"400":                       {first: reply{status: 400, body: `{"error":{"message":"bad"}}`}, want: "a/a-1:400"},
		"401":                       {first: reply{status: 401, body: `{"error":{"message":"key"}}`}, want: "a/a-1:401"},
		"404":                       {first: reply{status: 404, body: `{"error":{"message":"no page"}}`}, want: "a/a-1:404"},
		"404 that matches a phrase": {first: reply{status: 404, body: `{"error":{"message":"The model does not exist"}}`}, want: "a/a-1:404 b/b-1:ok"},
		"429":                       {first: reply{status: 429, body: `{"error":{"message":"x"}}`}, want: "a/a-1:429 b/b-1:ok"},
		"503":                       {first: reply{status: 503, body: `{"error":{"message":"x"}}`}, want: "a/a-1:503 b/b-1:ok"},
		"hidden 400":                {first: reply{status: 200, body: `{"error":{"code":400,"message":"x"}}`}, want: "a/a-1:400"},
		"hidden 429":                {first: reply{status: 200, body: `{"error":{"code":429,"message":"x"}}`}, want: "a/a-1:429 b/b-1:ok"},
		"transport failure":         {first: reply{err: io.ErrUnexpectedEOF}, want: "a/a-1:transport_error b/b-1:ok"},
		"400 told in the stream":    {first: inBand(400), stream: true, want: "a/a-1:400"},
		"503 told in the stream":    {first: inBand(503), stream: true, want: "a/a-1:503 b/b-1:ok"},
		"stream cut":                {first: reply{status: 200, body: evA}, stream: true, want: "a/a-1:transport_error b/b-1:ok"},
		"whole stream":              {first: reply{status: 200, body: evA + evStop + evDone}, stream: true, want: "a/a-1:ok"},
		"no answer within the time": {first: reply{status: 200, body: okJSON, delay: time.Hour}, want: "a/a-1:timeout b/b-1:ok"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				second := reply{status: 200, body: okJSON}
				if tc.stream {
					second.body = evA + evStop + evDone
				}
				p := once()
				p.Timeout = time.Minute
				c := two(t, p, newUpstream(tc.first), newUpstream(second))
				ctx, trace := failover.WithTrace(t.Context())
				_, err := failover.Call(ctx, c, plainText(tc.stream))
				assert.Equal(t, tc.want, trail(trace.Attempts()))
				assert.Equal(t, strings.HasSuffix(tc.want, ":ok"), err == nil)
			})
		})
	}
}

func TestCallPassesOverAnOpenBreakerOfAPlainClient(t *testing.T) {
	s := stack(t, "a", healthy(), once())
	s.ForceOpen("", time.Minute)
	c := chain(t, failover.DefaultPolicy(),
		// Behind another transport the chain does not see the breaker beforehand.
		failover.Target{Name: "a", Provider: "a", BaseURL: "https://a.example/v1", Transport: hiding{s}},
		failover.Target{Name: "b", Provider: "b", BaseURL: "https://b.example/v1", Transport: stack(t, "b", healthy(), once())})
	ctx, trace := failover.WithTrace(t.Context())
	_, err := failover.Call(ctx, c, plainText(false))
	require.NoError(t, err)
	assert.Equal(t, "a:-circuit_open b:ok", trail(trace.Attempts()))
}

type hiding struct{ http.RoundTripper }

// An answer that went well says nothing of what fn made of it afterwards.
func TestCallMovesOnAfterAFailureOfItsOwn(t *testing.T) {
	c := two(t, once(), healthy(), healthy())
	ctx, trace := failover.WithTrace(t.Context())
	_, err := failover.Call(ctx, c, func(ctx context.Context, target failover.Target) (string, error) {
		said, err := plainText(false)(ctx, target)
		if err == nil && target.Provider == "a" {
			return "", errors.New("not what was asked for")
		}
		return said, err
	})
	require.NoError(t, err)
	assert.Equal(t, "a/a-1:transport_error b/b-1:ok", trail(trace.Attempts()))
}

// hostileError panics wherever it is asked.
type hostileError struct{}

func (hostileError) Error() string   { panic("error") }
func (hostileError) Unwrap() error   { panic("unwrap") }
func (hostileError) Is(error) bool   { panic("is") }
func (hostileError) As(any) bool     { panic("as") }
func (hostileError) StatusCode() int { panic("status") }

func TestCallContainsAnErrorThatPanics(t *testing.T) {
	for name, failure := range map[string]error{
		"alone":   hostileError{},
		"wrapped": fmt.Errorf("ask: %w", &wrapping{hostileError{}}),
	} {
		t.Run(name, func(t *testing.T) {
			_, _, _, ok := failover.ClassifyError(failure)
			assert.False(t, ok)
			c := two(t, once(), healthy(), healthy())
			ctx, trace := failover.WithTrace(t.Context())
			_, err := failover.Call(ctx, c, func(_ context.Context, target failover.Target) (string, error) {
				if target.Provider == "a" {
					return "", failure
				}
				return "", &openAIError{StatusCode: 401}
			})
			require.Error(t, err)
			assert.Equal(t, "a/a-1:transport_error b/b-1:401", trail(trace.Attempts()))
			assert.Equal(t, 401, resilience.StatusOf(err))
		})
	}
}

// wrapping is an error whose text is its own.
type wrapping struct{ err error }

func (*wrapping) Error() string   { return "wrapping" }
func (w *wrapping) Unwrap() error { return w.err }
