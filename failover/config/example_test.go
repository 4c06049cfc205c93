package config_test

import (
	"fmt"

	"github.com/surefoot-go/surefoot/failover/config"
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
	// line 8: providers.vllm.resilience.circuit_breaker.failure_treshold: found an unknown key, want one of enabled, scope, failure_on_statuses, failure_threshold, success_threshold, timeout or slow_call_threshold; did you mean "failure_threshold"?
}
