package config_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/failover/config"
	"github.com/surefoot-go/surefoot/resilience"
)

func ExampleParse() {
	cfg, err := config.Parse([]byte(`
resilience:
  retry: {max_retries: 2}
providers:
  openai:
    api_key: ${OPENAI_API_KEY}
  anthropic:
    api_key: ${ANTHROPIC_API_KEY}
    resilience:
      retry: {max_retries: 5}
`), func(name string) (string, bool) { return "secret", name == "OPENAI_API_KEY" })
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range cfg.Providers() {
		fmt.Println(p, cfg.Policy(p.Name).Retry.MaxRetries)
	}
	// Output:
	// openai (openai) https://api.openai.com/v1 2
	// anthropic (anthropic) https://api.anthropic.com unavailable: no value in the environment variable ANTHROPIC_API_KEY 5
}

func ExampleErrors() {
	_, err := config.Parse([]byte(`
providers:
  vllm:
    base_url: http://localhost:8000/v1
    resilience:
      circuit_breaker:
        timeout: 15
        failure_treshold: 3
`), nil)
	fmt.Println(err)
	// Output:
	// line 7: providers.vllm.resilience.circuit_breaker.timeout: found "15", want a duration such as 15s or 500ms, or 0; a number needs a unit: ns, us, ms, s, m or h
	// line 8: providers.vllm.resilience.circuit_breaker.failure_treshold: found an unknown key, want one of enabled, scope, failure_on_statuses, failure_threshold, success_threshold, timeout, timeout_factor, max_timeout, jitter or slow_call_threshold; did you mean "failure_threshold"?
}

// A client and a status page of what a file describes. The base transport
// stands in for the providers: the first one is down.
func ExampleAssemble() {
	cfg, err := config.Parse([]byte(`
resilience: {retry: {max_retries: 0}}
providers:
  openai: {api_key: "${OPENAI_API_KEY}"}
  groq: {api_key: "${GROQ_API_KEY}"}
virtual_models:
  - {source: smart, targets: [{model: openai/gpt-4o}, {model: groq/llama-3.3-70b-versatile}]}
`), func(name string) (string, bool) { return "secret", strings.HasSuffix(name, "_API_KEY") })
	if err != nil {
		fmt.Println(err)
		return
	}
	app, err := config.Assemble(cfg, config.Options{
		Builder: resilience.Builder{Base: &cloud{calls: map[string]int{"api.openai.com": 500}}},
		OnAttempt: func(_ context.Context, a failover.Attempt) {
			fmt.Println(a.Provider, a.Model, a.Status)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer app.Close()
	// A service also keeps app.Run(ctx) going and serves app.Registry().Handler().
	resp, err := app.Router().Client().Post("https://any.example.com/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"smart","messages":[]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	fmt.Println(resp.StatusCode, len(app.Stack("openai").Breakers()), app.Registry().Status()[0].Failures)
	// Output:
	// openai gpt-4o 500
	// groq llama-3.3-70b-versatile 200
	// 200 1 1
}
