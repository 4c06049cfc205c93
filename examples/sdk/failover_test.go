package main_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/llms"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/faults"
	"github.com/surefoot-go/surefoot/examples/sdk/internal/sdks"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// provider is an upstream with the stack that serves it.
type provider struct {
	*upstreamtest.Upstream
	stack *resilience.Transport
}

func newProvider(t *testing.T, name string) provider {
	t.Helper()
	up := upstreamtest.New()
	t.Cleanup(up.Close)
	stack, err := resilience.Builder{}.Build(name, faults.Policy())
	require.NoError(t, err)
	t.Cleanup(stack.CloseIdleConnections)
	return provider{up, stack}
}

func (p provider) target(model, secret string) failover.Target {
	return failover.Target{
		Name: p.stack.Provider() + "/" + model, Provider: p.stack.Provider(), Model: model,
		BaseURL: p.URL + "/v1", Header: http.Header{"Authorization": {"Bearer " + secret}}, Transport: p.stack,
	}
}

func newChain(t *testing.T, targets ...failover.Target) *failover.Chain {
	t.Helper()
	chain, err := failover.NewChain(failover.DefaultPolicy(), targets...)
	require.NoError(t, err)
	return chain
}

// A chain under openai-go: the SDK knows one model at one URL, and the backup
// answers when that is gone.
func TestChainUnderOpenAI(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for name, fail := range map[string]func(provider){
			"gone":        func(p provider) { p.Stop() },
			"overloaded":  func(p provider) { p.Default(upstreamtest.Status(http.StatusServiceUnavailable)) },
			"hidden":      func(p provider) { p.Default(upstreamtest.Hidden(upstreamtest.HiddenCode, 429)) },
			"first event": func(p provider) { p.Default(answer.FailAfter(0, 503)) },
		} {
			if name == "first event" && !stream {
				continue
			}
			t.Run(name+map[bool]string{true: " stream"}[stream], func(t *testing.T) {
				primary, backup := newProvider(t, "primary"), newProvider(t, "backup")
				fail(primary)
				backup.Default(answer)
				chain := newChain(t, primary.target("big", "primary-secret"), backup.target("small", "backup-secret"))
				ctx, trace := failover.WithTrace(t.Context())
				// Any retry of the SDK's own would show in the trace.
				text, err := callChat(ctx, chain.Client(), primary.URL, sdkDefault, stream)
				require.NoError(t, err)
				assert.Equal(t, said, text)

				attempts := trace.Attempts()
				require.Len(t, attempts, 2)
				assert.Equal(t, []string{"primary/big", "backup/small"}, []string{attempts[0].Target, attempts[1].Target})
				assert.NotEmpty(t, attempts[0].Reason)
				assert.Empty(t, attempts[1].Reason)
				assert.Equal(t, http.StatusOK, attempts[1].Status)

				last := backup.Last()
				assert.Equal(t, "small", last.Model)
				assert.Equal(t, "Bearer backup-secret", last.Header.Get("Authorization"))
				assert.NotContains(t, last.Dump(), "primary-secret")
				assert.NotContains(t, last.Dump(), "test-key", "the SDK's own key stays at home")
			})
		}
	}
}

// If no target answers, the SDK reports the last one's status, or the chain's
// error, and retries nothing where the stack has.
func TestChainWithoutAnswer(t *testing.T) {
	primary, backup := newProvider(t, "primary"), newProvider(t, "backup")
	primary.Stop()
	backup.Default(upstreamtest.Status(http.StatusServiceUnavailable))
	chain := newChain(t, primary.target("big", "a"), backup.target("small", "b"))
	ctx, trace := failover.WithTrace(t.Context())
	_, err := callChat(ctx, chain.Client(), primary.URL, sdkDefault, false)
	assert.Equal(t, http.StatusServiceUnavailable, officials()[0].status(err), "%v", err)
	assert.Len(t, trace.Attempts(), 2)
	assert.Equal(t, 4, backup.Count())

	backup.Stop()
	_, err = callChat(t.Context(), chain.Client(), primary.URL, 0, false)
	var e *failover.Error
	require.ErrorAs(t, err, &e)
	assert.Len(t, e.Attempts, 2)
	assert.Equal(t, http.StatusBadGateway, resilience.StatusOf(err))
}

// twoSDKs is a chain of openai-go, then anthropic-sdk-go.
func twoSDKs(t *testing.T) (first, second provider, chain *failover.Chain) {
	t.Helper()
	first, second = newProvider(t, "openai"), newProvider(t, "anthropic")
	second.Default(answer)
	return first, second, newChain(t,
		failover.Target{Name: "openai/gpt-x", Provider: "openai", Model: "gpt-x", BaseURL: first.URL, Transport: first.stack},
		failover.Target{Name: "anthropic/claude-x", Provider: "anthropic", Model: "claude-x", BaseURL: second.URL, Transport: second.stack},
	)
}

// askEither is what a service writes once for failover.Call.
func askEither(ctx context.Context, target failover.Target) (string, error) {
	client := &http.Client{Transport: target.Transport}
	if target.Provider == "openai" {
		return sdks.Chat(ctx, sdks.OpenAI(client, target.BaseURL), target.Model)
	}
	return sdks.Message(ctx, sdks.Anthropic(client, target.BaseURL), target.Model)
}

// failover.Call over two SDKs: what each of them reports decides.
func TestCallOverTwoSDKs(t *testing.T) {
	for name, c := range map[string]struct {
		step   upstreamtest.Step
		status int
	}{
		"overloaded":         {upstreamtest.Status(http.StatusServiceUnavailable), 503},
		"rate limited":       {upstreamtest.Status(http.StatusTooManyRequests), 429},
		"hidden rate limit":  {upstreamtest.Hidden(upstreamtest.HiddenWord, http.StatusTooManyRequests), 429},
		"empty":              {upstreamtest.Empty(), 502},
		"connection dropped": {upstreamtest.Drop(), 0},
		"model gone": {upstreamtest.Status(http.StatusNotFound).Body("application/json",
			`{"error":{"message":"The model does not exist","type":"invalid_request_error","param":null,"code":"model_not_found"}}`), 404},
	} {
		t.Run(name, func(t *testing.T) {
			first, second, chain := twoSDKs(t)
			first.Default(c.step)
			ctx, trace := failover.WithTrace(t.Context())
			text, err := failover.Call(ctx, chain, askEither)
			require.NoError(t, err)
			assert.Equal(t, said, text)
			attempts := trace.Attempts()
			require.Len(t, attempts, 2)
			assert.Equal(t, c.status, attempts[0].Status)
			assert.Empty(t, attempts[1].Reason)
			assert.Equal(t, "gpt-x", first.Last().Model)
			assert.Equal(t, "claude-x", second.Last().Model)
		})
	}
	t.Run("a fault of the request goes straight back", func(t *testing.T) {
		first, second, chain := twoSDKs(t)
		first.Default(upstreamtest.Status(http.StatusBadRequest))
		_, err := failover.Call(t.Context(), chain, askEither)
		var e *failover.Error
		require.ErrorAs(t, err, &e)
		assert.Len(t, e.Attempts, 1)
		assert.Equal(t, http.StatusBadRequest, officials()[0].status(err), "the SDK's error is inside")
		assert.Zero(t, second.Count())
	})
	t.Run("an open breaker is passed over", func(t *testing.T) {
		first, second, _ := twoSDKs(t)
		p := faults.Policy()
		p.CircuitBreaker.FailureThreshold = 5
		stack, err := resilience.Builder{}.Build("openai", p)
		require.NoError(t, err)
		stack.ForceOpen("", time.Minute)
		chain := newChain(t,
			failover.Target{Name: "openai/gpt-x", Provider: "openai", Model: "gpt-x", BaseURL: first.URL, Transport: stack},
			failover.Target{Name: "anthropic/claude-x", Provider: "anthropic", Model: "claude-x", BaseURL: second.URL, Transport: second.stack})
		ctx, trace := failover.WithTrace(t.Context())
		text, err := failover.Call(ctx, chain, askEither)
		require.NoError(t, err)
		assert.Equal(t, said, text)
		assert.True(t, trace.Attempts()[0].Skipped)
		assert.Zero(t, first.Count())
	})
	t.Run("the second SDK fails as well", func(t *testing.T) {
		first, second, chain := twoSDKs(t)
		first.Default(upstreamtest.Status(http.StatusServiceUnavailable))
		second.Default(upstreamtest.Status(529))
		_, err := failover.Call(t.Context(), chain, askEither)
		var e *failover.Error
		require.ErrorAs(t, err, &e)
		require.Len(t, e.Attempts, 2)
		assert.Equal(t, 529, e.Attempts[1].Status)
		assert.Equal(t, 529, officials()[2].status(err))
	})
}

// The ready classifier knows the SDKs' own error types: status, code, message.
func TestClassifyRealErrors(t *testing.T) {
	const body = `{"error":{"message":"slow down, please","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}`
	cases := map[string]struct {
		status  int
		body    string
		code    string // "": the type has no field of that name
		message string
	}{
		"openai-go chat":      {429, body, "rate_limit_exceeded", "slow down, please"},
		"openai-go responses": {429, body, "rate_limit_exceeded", "slow down, please"},
		"go-openai":           {429, body, "rate_limit_exceeded", "slow down, please"},
		"anthropic-sdk-go": {529, `{"type":"error","error":{"type":"overloaded_error","message":"slow down, please"},"request_id":"req_1"}`,
			"overloaded_error", "slow down, please"},
		"genai":          {503, `{"error":{"code":503,"message":"slow down, please","status":"UNAVAILABLE"}}`, "", "slow down, please"},
		"ollama/api":     {500, `{"error":"slow down, please"}`, "", "slow down, please"},
		"eino":           {429, body, "rate_limit_exceeded", "slow down, please"},
		"cohere-go":      {404, `{"id":"1","message":"slow down, please"}`, "", "slow down, please"},
		"bedrockruntime": {429, `{"message":"slow down, please"}`, "ThrottlingException", "slow down, please"},
	}
	for _, s := range sdks.All() {
		c, known := cases[s.Name]
		if !known {
			continue // langchaingo's are plain text: see TestCallOverPlainText
		}
		t.Run(s.Name, func(t *testing.T) {
			up := upstreamtest.New()
			defer up.Close()
			client := up.Client()
			defer client.CloseIdleConnections()
			for _, stream := range []bool{false, true} {
				up.Default(upstreamtest.Status(c.status).Body("application/json", c.body).Header("X-Amzn-Errortype", "ThrottlingException"))
				_, err := s.Ask(t.Context(), client, up.URL, stream)
				require.Error(t, err)
				for _, err := range []error{err, errors.Join(errors.New("while asking"), err)} {
					status, code, message, ok := failover.ClassifyError(err)
					require.True(t, ok, "%#v", err)
					assert.Equal(t, c.status, status)
					if c.code != "" {
						assert.Equal(t, c.code, code)
					}
					assert.Contains(t, message, c.message)
				}

				// A page from a proxy has a status, too.
				up.Default(upstreamtest.Status(http.StatusBadGateway).Body("text/html", "<html>bad gateway</html>"))
				_, err = s.Ask(t.Context(), client, up.URL, stream)
				status, _, _, ok := failover.ClassifyError(err)
				assert.True(t, ok, "%#v", err)
				assert.Equal(t, http.StatusBadGateway, status)
			}
			_, err := s.Ask(t.Context(), client, deadURL(), false)
			_, _, _, ok := failover.ClassifyError(err)
			assert.False(t, ok, "an error of the transport has no status: %v", err)
		})
	}
}

// langchaingo's errors are plain text: what the stack below saw decides.
func TestCallOverPlainText(t *testing.T) {
	good := upstreamtest.OK(said)
	for name, tc := range map[string]struct {
		step   upstreamtest.Step
		stream bool
		status int // of the first attempt
		moves  bool
	}{
		"400":                        {upstreamtest.Status(http.StatusBadRequest), false, 400, false},
		"401":                        {upstreamtest.Status(http.StatusUnauthorized), false, 401, false},
		"401 instead of a stream":    {upstreamtest.Status(http.StatusUnauthorized), true, 401, false},
		"404, the model is gone":     {upstreamtest.Status(http.StatusNotFound).Body("application/json", `{"error":{"message":"The model does not exist"}}`), false, 404, true},
		"503":                        {upstreamtest.Status(http.StatusServiceUnavailable), false, 503, true},
		"hidden 401":                 {upstreamtest.Hidden(upstreamtest.HiddenWord, http.StatusUnauthorized), false, 401, false},
		"hidden 429":                 {upstreamtest.Hidden(upstreamtest.HiddenWord, http.StatusTooManyRequests), false, 429, true},
		"400 told within the stream": {good.FailAfter(1, http.StatusBadRequest).NoDone(), true, 400, false},
		"503 told within the stream": {good.FailAfter(1, http.StatusServiceUnavailable).NoDone(), true, 503, true},
		"stream cut":                 {good.CutAfterText(1), true, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			first, second, chain := twoSDKs(t)
			first.Default(tc.step)
			second.Default(good)
			ctx, trace := failover.WithTrace(t.Context())
			_, err := failover.Call(ctx, chain, func(ctx context.Context, target failover.Target) (string, error) {
				llm, err := sdks.LangChain(&http.Client{Transport: target.Transport}, target.BaseURL, target.Model)
				if err != nil {
					return "", err
				}
				var opts []llms.CallOption
				if tc.stream {
					opts = append(opts, llms.WithStreamingFunc(func(context.Context, []byte) error { return nil }))
				}
				return llm.Call(ctx, "hello", opts...)
			})
			attempts := trace.Attempts()
			assert.Equal(t, tc.status, attempts[0].Status)
			assert.Equal(t, tc.moves, err == nil, "%v", err)
			assert.Equal(t, tc.moves, second.Count() == 1)
		})
	}
}
