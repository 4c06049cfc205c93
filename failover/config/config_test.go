package config_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/failover/config"
	"github.com/surefoot-go/surefoot/resilience"
)

// env is a lookup over a map.
func env(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

func parse(t *testing.T, text string, vars map[string]string) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte(text), env(vars))
	require.NoError(t, err)
	return c
}

func TestEmptyIsTheDefaults(t *testing.T) {
	for name, text := range map[string]string{
		"no bytes": "", "a comment": "# nothing\n", "null": "~", "empty mapping": "{}", "one marker": "---\n",
		"null blocks": "resilience:\nfailover:\nproviders:\nvirtual_models:\ncache:\n",
		"null keys":   "resilience: {retry: {max_retries: null, retry_on_statuses: ~}, circuit_breaker: , timeout: null}\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := parse(t, text, nil)
			assert.Equal(t, resilience.DefaultPolicy(), c.Policy("anyone"))
			assert.Equal(t, failover.DefaultPolicy(), c.Failover())
			assert.Equal(t, time.Hour, c.RefreshInterval())
			assert.Equal(t, time.Minute, c.RecheckInterval())
			assert.Empty(t, c.Providers())
			assert.Empty(t, c.Warnings())
		})
	}
	c, err := config.Parse(nil, nil)
	require.NoError(t, err)
	assert.Equal(t, resilience.DefaultPolicy(), c.Policy(""))
}

// The worked example of examples/config.
const worked = `
resilience:
  retry:
    max_retries: 2
    initial_backoff: 500ms
    max_backoff: 10s
    backoff_factor: 1.5
    jitter_factor: 0.05
  circuit_breaker:
    enabled: true
    failure_threshold: 3
    success_threshold: 1
    timeout: 15s

providers:
  openai:
    api_key: ${OPENAI_API_KEY}
  anthropic:
    type: anthropic
    api_key: ${ANTHROPIC_API_KEY}
    resilience:
      retry:
        max_retries: 5
  ollama:
    type: ollama
    base_url: ${OLLAMA_BASE_URL:-http://localhost:11434/v1}
    resilience:
      circuit_breaker:
        failure_threshold: 10
        timeout: 5s
  vllm:
    type: vllm
    base_url: ${VLLM_BASE_URL:-http://localhost:8000/v1}
    resilience:
      circuit_breaker:
        enabled: false
`

func TestWorkedInheritanceTable(t *testing.T) {
	c := parse(t, worked, nil)
	for _, row := range []struct {
		provider                    string
		retries                     int
		enabled                     bool
		threshold                   int
		timeout                     time.Duration
		retriesFrom, thresholdsFrom config.Origin
	}{
		{"openai", 2, true, 3, 15 * time.Second, config.FromFile, config.FromFile},
		{"anthropic", 5, true, 3, 15 * time.Second, config.FromProvider, config.FromFile},
		{"ollama", 2, true, 10, 5 * time.Second, config.FromFile, config.FromProvider},
		{"vllm", 2, false, 3, 15 * time.Second, config.FromFile, config.FromFile},
		{"not-configured", 2, true, 3, 15 * time.Second, config.FromFile, config.FromFile},
	} {
		t.Run(row.provider, func(t *testing.T) {
			p := c.Policy(row.provider)
			assert.Equal(t, row.retries, p.Retry.MaxRetries)
			assert.Equal(t, row.enabled, !p.CircuitBreaker.Disabled)
			assert.Equal(t, row.threshold, p.CircuitBreaker.FailureThreshold)
			assert.Equal(t, row.timeout, p.CircuitBreaker.Timeout)
			assert.Equal(t, 500*time.Millisecond, p.Retry.InitialBackoff)
			assert.InDelta(t, 1.5, p.Retry.BackoffFactor, 0)
			require.NoError(t, p.Validate())

			e := c.Effective(row.provider)
			assert.Equal(t, row.retriesFrom, setting(t, e, "retry.max_retries").Origin)
			assert.Equal(t, row.thresholdsFrom, setting(t, e, "circuit_breaker.failure_threshold").Origin)
			assert.Equal(t, !row.enabled, setting(t, e, "circuit_breaker.timeout").Unused)
			assert.Equal(t, config.FromDefault, setting(t, e, "timeout").Origin)
		})
	}
}

func setting(t *testing.T, all config.Settings, key string) config.Setting {
	t.Helper()
	for _, s := range all {
		if s.Key == key {
			return s
		}
	}
	require.Fail(t, "no such setting", key)
	return config.Setting{}
}

func TestProviderSwitchesTheBreakerBackOn(t *testing.T) {
	c := parse(t, `
resilience: {circuit_breaker: {enabled: false, failure_threshold: 7, timeout: 9s}}
providers:
  openai: {resilience: {circuit_breaker: {enabled: true}}}
  anthropic:
`, nil)
	on, off := c.Policy("openai").CircuitBreaker, c.Policy("anthropic").CircuitBreaker
	assert.False(t, on.Disabled)
	assert.Equal(t, 7, on.FailureThreshold)
	assert.Equal(t, 9*time.Second, on.Timeout)
	assert.True(t, off.Disabled)
}

func TestEnvironmentIsBetweenFileAndProvider(t *testing.T) {
	c := parse(t, worked, map[string]string{"RETRY_MAX_RETRIES": "9", "CIRCUIT_BREAKER_ENABLED": "false", "CIRCUIT_BREAKER_TIMEOUT": " "})
	assert.Equal(t, 9, c.Policy("openai").Retry.MaxRetries)
	assert.Equal(t, 5, c.Policy("anthropic").Retry.MaxRetries)
	assert.True(t, c.Policy("openai").CircuitBreaker.Disabled)
	assert.Equal(t, 15*time.Second, c.Policy("openai").CircuitBreaker.Timeout, "blank counts as not given")
	assert.Equal(t, "RETRY_MAX_RETRIES", setting(t, c.Effective("openai"), "retry.max_retries").Source)
}

func TestLists(t *testing.T) {
	c := parse(t, `
resilience:
  retry: {retry_on_statuses: []}
  circuit_breaker: {failure_on_statuses: [500, 5XX]}
failover: {retry_on_statuses: [], retry_on_errors: []}
providers:
  openai: {resilience: {retry: {retry_on_statuses: [429, "503"]}, circuit_breaker: {failure_on_statuses: []}}}
  anthropic: {resilience: {circuit_breaker: {failure_on_statuses: null}}}
`, nil)
	assert.Equal(t, []string{"429", "503"}, c.Policy("openai").Retry.RetryOnStatuses)
	assert.Equal(t, []string{}, c.Policy("openai").CircuitBreaker.FailureOnStatuses, "none, not the default")
	assert.Equal(t, []string{}, c.Policy("anthropic").Retry.RetryOnStatuses)
	assert.Equal(t, []string{"500", "5xx"}, c.Policy("anthropic").CircuitBreaker.FailureOnStatuses)
	assert.Equal(t, failover.DefaultPolicy(), c.Failover(), "empty is the default")

	c = parse(t, "", map[string]string{"RETRY_ON_STATUSES": "", "FAILOVER_RETRY_ON_STATUSES": " 503 , 5xx,"})
	assert.Nil(t, c.Policy("x").Retry.RetryOnStatuses)
	assert.Equal(t, []string{"503", "5xx"}, c.Failover().RetryOnStatuses)
}

// discovery.Config takes 0 for its default and negative for off.
func TestIntervals(t *testing.T) {
	c := parse(t, "cache: {model: {refresh_interval: 0, recheck_interval: 90s}}", map[string]string{"PROVIDER_RECHECK_INTERVAL": "30"})
	assert.Negative(t, c.RefreshInterval())
	assert.Equal(t, 30*time.Second, c.RecheckInterval())
}

// A blank key is as good as none: the provider must not be called without it.
func TestBlankKeyMakesUnavailable(t *testing.T) {
	for _, blank := range []string{"", " \n"} {
		c := parse(t, "providers: {openai: {api_key: '${KEY}'}, groq: {api_key: '${KEY:-k}'}}", map[string]string{"KEY": blank})
		assert.False(t, c.Providers()[0].Available())
		assert.Equal(t, "Bearer k", c.Providers()[1].Header().Get("Authorization"))
		assert.Len(t, c.Warnings(), 1)
	}
}

func TestPolicyIsACopy(t *testing.T) {
	c := parse(t, "resilience: {retry: {retry_on_statuses: [429]}}", nil)
	c.Policy("x").Retry.RetryOnStatuses[0] = "500"
	assert.Equal(t, []string{"429"}, c.Policy("x").Retry.RetryOnStatuses)
	c.Failover().RetryOnStatuses[0] = "400"
	assert.Equal(t, failover.DefaultPolicy(), c.Failover())
}

// The three blocks of a resilience guide, as operators write them.
func TestGuideGlobalWithOverrides(t *testing.T) {
	c := parse(t, worked, map[string]string{"OPENAI_API_KEY": "k1", "OLLAMA_BASE_URL": "http://gpu:11434/v1"})
	p := c.Providers()
	require.Len(t, p, 4)
	assert.Equal(t, []string{"openai", "anthropic", "ollama", "vllm"}, []string{p[0].Name, p[1].Name, p[2].Name, p[3].Name})
	assert.Equal(t, "https://api.openai.com/v1", p[0].BaseURL)
	assert.Equal(t, "http://gpu:11434/v1", p[2].BaseURL)
	assert.Equal(t, "http://localhost:8000/v1", p[3].BaseURL)
	assert.True(t, p[0].Available())
	assert.False(t, p[1].Available())
	assert.Contains(t, p[1].Unavailable(), "ANTHROPIC_API_KEY")
	require.Len(t, c.Warnings(), 1)
	assert.Contains(t, c.Warnings()[0], "line 20: providers.anthropic.api_key")
}

// A block is enough for a provider whose name or address says what it is.
func TestProvidersThatSayLittle(t *testing.T) {
	c := parse(t, "providers: {openai: , anthropic: {}, ollama: ~, vllm: {resilience: {circuit_breaker: {enabled: false}}}, primary: {base_url: 'http://h:1/v1', api_key: k}}", nil)
	var got []string
	for _, p := range c.Providers() {
		got = append(got, p.Name+" "+p.Type+" "+p.BaseURL)
	}
	assert.Equal(t, []string{
		"openai openai https://api.openai.com/v1", "anthropic anthropic https://api.anthropic.com",
		"ollama ollama http://localhost:11434/v1", "vllm vllm http://localhost:8000/v1", "primary openai http://h:1/v1",
	}, got)
	assert.Equal(t, "Bearer k", c.Providers()[4].Header().Get("Authorization"))
	assert.True(t, c.Policy("vllm").CircuitBreaker.Disabled)
	assert.Empty(t, c.Warnings())
}

func TestGuideCloudflareWithAVirtualModel(t *testing.T) {
	c := parse(t, `
providers:
  cloudflare:
    type: openai
    base_url: https://gateway.example.com/v1
    api_key: ${CF_KEY}
    models: [model1, model2]
    resilience:
      retry:
        retry_on_statuses: [429, 502, 503, 504, 522, 524]
        max_retries: 1
      circuit_breaker:
        scope: model
        failure_on_statuses: [5xx]
  openai:
    api_key: ${OPENAI_API_KEY}
virtual_models:
  - source: assistant
    strategy: failover
    targets:
      - model: cloudflare/model1
      - model: cloudflare/model2
      - model: openai/gpt-4o
`, map[string]string{"CF_KEY": "cf", "OPENAI_API_KEY": "oa"})
	p := c.Policy("cloudflare")
	assert.Equal(t, []string{"429", "502", "503", "504", "522", "524"}, p.Retry.RetryOnStatuses)
	assert.Equal(t, 1, p.Retry.MaxRetries)
	assert.Equal(t, "model", p.CircuitBreaker.Scope)
	assert.Equal(t, []string{"5xx"}, p.CircuitBreaker.FailureOnStatuses)
	assert.Equal(t, "provider", c.Policy("openai").CircuitBreaker.Scope)
}

func TestGuideSlowProviderWithAVirtualModel(t *testing.T) {
	c := parse(t, `
providers:
  slow:
    type: vllm
    base_url: http://slow:8000/v1
    resilience:
      timeout: 20s
      circuit_breaker:
        slow_call_threshold: 8s
        failure_threshold: 2
        timeout: 1m
      stream: {first_event_timeout: 10s, hold_until: first_content}
  groq:
    api_key: k
virtual_models:
  - source: chat
    targets:
      - {model: slow/llama, timeout: 10s}
      - {model: groq/llama-3.3-70b, lenient: true}
    failover: {max_attempts: 1}
`, nil)
	p := c.Policy("slow")
	assert.Equal(t, 8*time.Second, p.CircuitBreaker.SlowCallThreshold)
	assert.Equal(t, 20*time.Second, p.Timeout)
	assert.Equal(t, time.Minute, p.CircuitBreaker.Timeout)
	assert.Equal(t, 10*time.Second, p.Stream.FirstEventTimeout)
	assert.Zero(t, c.Policy("groq").CircuitBreaker.SlowCallThreshold)
}

func TestExampleFile(t *testing.T) {
	text, err := os.ReadFile("config.example.yaml")
	require.NoError(t, err)
	c := parse(t, string(text), map[string]string{"OPENAI_API_KEY": "k"})
	defaults := parse(t, "", nil)
	// The keys of the global blocks are the defaults, but for the phrases.
	shown := defaults.Effective("")
	for i, s := range c.Effective("") {
		assert.Equal(t, shown[i].Key, s.Key)
		if s.Key == "failover.retry_on_errors" || s.Key == "models_mode" {
			continue
		}
		assert.Equal(t, shown[i].Value, s.Value, s.Key)
		assert.Equal(t, config.FromFile, s.Origin, s.Key)
	}
	assert.Len(t, c.Providers(), 4)
	assert.Len(t, c.Warnings(), 2)
	assert.Equal(t, 5, c.Policy("anthropic").Retry.MaxRetries)
}

// Every variable that is read is in the example, beside its key.
func TestExampleNamesEveryVariable(t *testing.T) {
	text, err := os.ReadFile("config.example.yaml")
	require.NoError(t, err)
	asked := map[string]bool{}
	_, err = config.Parse(text, func(name string) (string, bool) {
		asked[name] = true
		return "", false
	})
	require.NoError(t, err)
	assert.Greater(t, len(asked), 22)
	for _, generated := range []string{"OPENAI_MODELS", "ANTHROPIC_MODELS", "OLLAMA_MODELS"} {
		assert.True(t, asked[generated], generated)
		delete(asked, generated)
	}
	for name := range asked {
		assert.Contains(t, string(text), name)
	}
}

// What Effective prints can be written into a file, which then says the same.
func TestEffectiveRoundTrip(t *testing.T) {
	text, err := os.ReadFile("config.example.yaml")
	require.NoError(t, err)
	c := parse(t, string(text), nil)
	again := parse(t, asYAML(c.Effective("cloudflare")), nil)
	want := c.Policy("cloudflare")
	assert.Equal(t, want, again.Policy("anyone"))
	assert.Equal(t, c.Failover(), again.Failover())
	assert.Equal(t, c.RecheckInterval(), again.RecheckInterval())

	for _, name := range resilience.Profiles() {
		c := parse(t, "resilience: {profile: "+name+"}", nil)
		again := parse(t, asYAML(c.Effective("")), nil)
		values := func(c *config.Config) (all []string) {
			for _, s := range c.Effective("") {
				all = append(all, s.Key+" "+s.Value)
			}
			return all
		}
		assert.Equal(t, values(c), values(again), name)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	require.NoError(t, os.WriteFile(good, []byte("providers: {openai: {api_key: '${SUREFOOT_TEST_KEY}'}}"), 0o600))
	require.NoError(t, os.WriteFile(bad, []byte("resilience:\n  retri: {}\n"), 0o600))
	t.Setenv("SUREFOOT_TEST_KEY", "from-the-process")
	t.Setenv("RETRY_MAX_RETRIES", "7")

	c, err := config.Load(good)
	require.NoError(t, err)
	assert.Equal(t, "Bearer from-the-process", c.Providers()[0].Header().Get("Authorization"))
	assert.Equal(t, 7, c.Policy("openai").Retry.MaxRetries)

	_, err = config.Load(bad)
	require.ErrorContains(t, err, bad+": line 2: resilience.retri: found an unknown key")
	require.ErrorContains(t, err, `did you mean "retry"?`)
	_, err = config.Load(filepath.Join(dir, "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
