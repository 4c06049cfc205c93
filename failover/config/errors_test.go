package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover/config"
)

// faults parses what must not load.
func faults(t *testing.T, text string, vars map[string]string) config.Errors {
	t.Helper()
	c, err := config.Parse([]byte(text), env(vars))
	require.Error(t, err)
	assert.Nil(t, c)
	var all config.Errors
	require.ErrorAs(t, err, &all)
	for _, f := range all {
		assert.True(t, f.Line > 0 || f.Variable != "", "a fault without a place: %v", f)
		assert.NotEmpty(t, f.Found)
	}
	return all
}

const twoProviders = "providers:\n  openai: {}\n  cloudflare: {type: openai, models: [m1]}\n" // three lines

func TestFaults(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"status out of range", "resilience:\n  retry:\n    retry_on_statuses: [429, 600]\n",
			`line 3: resilience.retry.retry_on_statuses[1]: found "600", want a status code 100 to 599 or a class 1xx to 5xx`},
		{"status below 100", "resilience: {retry: {retry_on_statuses: [99]}}", `line 1: resilience.retry.retry_on_statuses[0]: found "99", want a status`},
		{"class of nothing", "failover:\n  retry_on_statuses: [6xx]", `line 2: failover.retry_on_statuses[0]: found "6xx"`},
		{"status with spaces", "failover:\n  retry_on_statuses: ['5 xx']", `line 2: failover.retry_on_statuses[0]: found "5 xx"`},
		{"statuses that are no list", "resilience: {retry: {retry_on_statuses: 429}}", `found a single value, want a list of status codes and classes such as [429, 5xx]`},
		{"null status", "resilience: {retry: {retry_on_statuses: [429, ~]}}", `retry_on_statuses[1]: found nothing, want a status`},
		{"unknown scope", "resilience:\n  circuit_breaker:\n    scope: modell\n", `line 3: resilience.circuit_breaker.scope: found "modell", want provider or model; did you mean "model"?`},
		{"unknown mode", "resilience:\n  stream:\n    hold_until: first_token\n", `line 3: resilience.stream.hold_until: found "first_token", want first_event, first_content or complete`},
		{"unknown render mode", "resilience: {errors_as_responses: al}", `errors_as_responses: found "al", want rejections, all or none; did you mean "all"?`},
		{"unknown models mode", "providers: {openai: {models_mode: only}}", `line 1: providers.openai.models_mode: found "only", want fallback or allowlist`},
		{"unknown top key", "resilence: {}\n", `line 1: resilence: found an unknown key, want one of resilience, failover, providers, virtual_models or cache; did you mean "resilience"?`},
		{"unknown deep key", "providers:\n  vllm:\n    base_url: http://x\n    resilience:\n      circuit_breaker:\n        time_out: 3s\n",
			`line 6: providers.vllm.resilience.circuit_breaker.time_out: found an unknown key, want one of enabled, scope`},
		{"key one level too high", "resilience:\n  max_retries: 3\n", `line 2: resilience.max_retries: found an unknown key, want one of profile, retry, circuit_breaker, stream, limits, words, timeout or errors_as_responses; did you mean "retry.max_retries"?`},
		{"negative duration", "providers:\n  vllm:\n    base_url: http://x\n    resilience: {circuit_breaker: {timeout: -5s}}\n",
			`line 4: providers.vllm.resilience.circuit_breaker.timeout: found "-5s", want a duration such as 15s or 500ms, or 0; a duration is not negative`},
		{"duration without unit", "resilience: {circuit_breaker: {timeout: 15}}", `found "15", want a duration such as 15s or 500ms, or 0; a number needs a unit`},
		{"duration in days", "resilience: {timeout: 1d}", `line 1: resilience.timeout: found "1d", want a duration`},
		{"quoted blank", `resilience: {timeout: ""}`, `line 1: resilience.timeout: found an empty value, want a duration`},
		{"negative count", "resilience: {retry: {max_retries: -1}}", `resilience.retry.max_retries: found "-1", want a whole number, 0 or more; a count is not negative`},
		{"fraction for a count", "resilience: {retry: {max_retries: 1.5}}", `found "1.5", want a whole number`},
		{"backoff factor", "resilience: {retry: {backoff_factor: 0.5}}", `resilience.retry.backoff_factor: found "0.5", want a number of at least 1`},
		{"backoff factor of zero", "resilience: {retry: {backoff_factor: 0}}", `backoff_factor: found "0"`},
		{"infinite factor", "resilience: {retry: {backoff_factor: .inf}}", `backoff_factor: found a value that is not shown, want a number of at least 1`},
		{"spelt infinity", "resilience: {retry: {backoff_factor: Infinity}}", `backoff_factor: found a value that is not shown`},
		{"NaN", "resilience: {retry: {jitter_factor: NaN}}", `jitter_factor: found a value that is not shown, want a number from 0 to 1`},
		{"jitter factor", "resilience: {retry: {jitter_factor: 1.01}}", `jitter_factor: found "1.01"`},
		{"timeout factor", "resilience: {circuit_breaker: {timeout_factor: 0.5}}", `resilience.circuit_breaker.timeout_factor: found "0.5", want a number of at least 1`},
		{"timeout factor of zero", "resilience: {circuit_breaker: {timeout_factor: 0}}", `timeout_factor: found "0"`},
		{"negative longest open time", "resilience: {circuit_breaker: {max_timeout: -1s}}", `resilience.circuit_breaker.max_timeout: found "-1s", want a duration`},
		{"jitter of open times", "resilience: {circuit_breaker: {jitter: 1.5}}", `resilience.circuit_breaker.jitter: found "1.5", want a number from 0 to 1`},
		{"word of separators", "resilience: {words: {quota: [plan, '_-']}}", `resilience.words.quota[1]: found a value that is not shown, want a word of 1 to 64 bytes`},
		{"word without end", "resilience: {words: {client: [" + strings.Repeat("x", 65) + "]}}", `resilience.words.client[0]: found a value that is not shown, want a word of 1 to 64 bytes`},
		{"word that is no list", "resilience: {words: {client: blocked}}", `resilience.words.client: found a single value, want a list of words`},
		{"phrase of a number for a model that is gone", "providers: {openai: {resilience: {words: {model_gone: [410]}}}}", `providers.openai.resilience.words.model_gone[0]: found "410", want a phrase with a word that is not a number`},
		{"unknown words", "resilience: {words: {quotas: []}}", `resilience.words.quotas: found an unknown key, want one of rate_limited, quota, overloaded, client, model_gone or credentials; did you mean "quota"?`},
		{"words of failover", "failover: {words: {}}", `failover.words: found an unknown key`},
		{"negative body", "failover: {max_body: -1}", `failover.max_body: found "-1", want a number of bytes such as 8388608 or 8MiB; a size is not negative`},
		{"too many statuses", "resilience: {retry: {retry_on_statuses: [" + strings.Repeat("429,", 1001) + "]}}", `resilience.retry.retry_on_statuses: found 1001 entries, want at most 1000`},
		{"success threshold", "resilience:\n  circuit_breaker:\n    success_threshold: 0\n", `line 3: resilience.circuit_breaker.success_threshold: found 0, want at least 1 where the breaker is on`},
		{"open time", "resilience:\n  circuit_breaker:\n    timeout: 0\n", `line 3: resilience.circuit_breaker.timeout: found 0, want an open time above 0 where the breaker is on`},
		{"retries without a backoff", "resilience:\n  retry:\n    initial_backoff: 0\n", `line 3: resilience.retry.initial_backoff: found 0, want a backoff above 0`},
		{"retries without room", "resilience:\n  retry:\n    max_backoff: 0s\n", `line 3: resilience.retry.max_backoff: found 0, want a backoff above 0`},
		{"phrase of numbers", "failover: {retry_on_errors: ['404 4xx']}", `line 1: failover.retry_on_errors[0]: found a value that is not shown, want a phrase with a word that is not a number`},
		{"blank phrase", "failover: {retry_on_errors: ['  ']}", `failover.retry_on_errors[0]: found an empty value, want a phrase`},
		{"phrase with no status", "failover: {retry_on_errors: ['999 gone']}", `a number in it is a status 100 to 599 or a class 1xx to 5xx`},
		{"interval", "cache: {model: {refresh_interval: -1}}", `line 1: cache.model.refresh_interval: found "-1", want a number of seconds, 0 or more; an interval is not negative`},
		{"interval that never ends", "cache: {model: {recheck_interval: 1ms}}", `cache.model.recheck_interval: found "1ms", want a number of seconds, 0 or more; an interval is a second at least`},
		{"endless interval", "cache: {model: {recheck_interval: 99999999999}}", `cache.model.recheck_interval: found "99999999999"`},
		{"switch", "failover: {enabled: yes}", `failover.enabled: found "yes", want true or false`},
		{"size", "resilience: {stream: {hold_limit: 8MB}}", `resilience.stream.hold_limit: found "8MB", want a number of bytes such as 8388608 or 8MiB`},
		{"mapping for a value", "resilience: {timeout: {a: b}}", `resilience.timeout: found a mapping, want a duration`},
		{"value for a mapping", "resilience:\n  retry: 3\n", `line 2: resilience.retry: found a single value, want a mapping with retry_on_statuses`},
		{"list on top", "- a\n", `line 1: found a list, want a mapping with resilience`},
		{"text on top", "hello\n", `line 1: found a single value, want a mapping`},

		{"provider without type", "providers:\n  openai-eu:\n    api_key: k\n", `line 2: providers.openai-eu.type: found no type, and a name that is none, want one of openai, anthropic`},
		{"misspelt type", "providers:\n  eu:\n    type: opnai\n", `line 3: providers.eu.type: found "opnai", want one of openai`},
		{"misspelt type, hint", "providers:\n  eu:\n    type: opnai\n", `did you mean "openai"?`},
		{"type of another kind", "providers:\n  eu:\n    type: [openai]\n", `line 3: providers.eu.type: found a list, want a text`},
		{"type that came to nothing", "providers:\n  eu:\n    type: ${T:-}\n", `line 2: providers.eu.type: found no type`},
		{"no address", "providers:\n  azure:\n    api_key: k\n", `line 2: providers.azure.base_url: found nothing, want an absolute http or https URL`},
		{"relative address", "providers: {openai: {base_url: localhost:8080}}", `providers.openai.base_url: found a value that is not shown, want an absolute http or https URL`},
		{"address that goes on in the next line", "providers:\n  openai:\n    base_url: http://x/v1\n      - sk-secret\n", `line 3: providers.openai.base_url: found a value that is not shown, want an absolute`},
		{"fragment", "providers: {openai: {base_url: 'http://x/v1#a'}}", `providers.openai.base_url: found a value that is not shown, want an absolute`},
		{"provider with a long name", "providers: {" + strings.Repeat("a", 300) + ": {type: openai}}", `line 1: providers: found a provider name that is empty, very long, or holds`},
		{"provider with a slash", "providers: {a/b: {type: openai}}", `line 1: providers: found a provider name that is empty, very long, or holds a slash`},
		{"unset variable", "providers:\n  openai:\n    base_url: https://${HOST}/v1\n", `line 3: providers.openai.base_url: found no value in the environment variable HOST, want an absolute http or https URL without a fragment; set it, or write ${HOST:-default}`},
		{"open reference", "resilience: {timeout: '${X'}", `resilience.timeout: found a ${ that is not closed`},
		{"bad reference", "resilience: {timeout: '${X-5s}'}", `resilience.timeout: found a ${…} that is neither ${NAME} nor ${NAME:-default}`},
		{"nested reference", "resilience: {timeout: '${X:-${Y}}'}", `resilience.timeout: found a default of ${X:-…} that holds another reference`},

		{"no target", twoProviders + "virtual_models:\n  - source: smart\n", `line 5: virtual_models[0].targets: found nothing, want at least one target`},
		{"empty targets", twoProviders + "virtual_models:\n  - source: smart\n    targets: []\n", `line 5: virtual_models[0].targets: found nothing`},
		{"no source", twoProviders + "virtual_models:\n  - target: openai/x\n", `line 5: virtual_models[0].source: found nothing, want the name that requests will use`},
		{"itself", twoProviders + "virtual_models:\n  - source: smart\n    target: smart\n", `line 6: virtual_models[0].target: found itself as target`},
		{"itself among others", twoProviders + "virtual_models:\n  - source: m1\n    targets: [{model: m1}, {model: openai/x}]\n", `line 6: virtual_models[0].targets[0].model: found itself as target`},
		{"a provider's model as itself", twoProviders + "virtual_models:\n  - source: openai/a\n    target: openai/a\n", `line 6: virtual_models[0].target: found itself as target`},
		{"cycle", twoProviders + "virtual_models:\n  - {source: a, target: b}\n  - {source: b, targets: [{model: openai/x}, {model: c}]}\n  - {source: c, target: a}\n",
			`line 7: virtual_models[2].target: found a cycle of virtual models: a → b → c → a`},
		{"cycle of real models", twoProviders + "virtual_models:\n" +
			"  - {source: openai/a, targets: [{model: openai/a}, {model: cloudflare/m1}]}\n" +
			"  - {source: m1, targets: [{model: cloudflare/m1}, {model: openai/b}]}\n" +
			"  - {source: openai/b, targets: [{model: openai/b}, {model: openai/a}]}\n",
			`line 7: virtual_models[2].targets[1].model: found a cycle of virtual models: openai/a → m1 → openai/b → openai/a`},
		{"unknown provider", twoProviders + "virtual_models:\n  - source: smart\n    target: cloudflair/m1\n",
			`line 6: virtual_models[0].target: found a provider that is not configured, want one of the configured providers: openai, cloudflare; did you mean "cloudflare"?`},
		{"no providers at all", "virtual_models: [{source: a, target: openai/x}]", `found a provider that is not configured, want a configured provider (there are none)`},
		{"bare model of nobody", twoProviders + "virtual_models:\n  - {source: a, target: gpt}\n", `line 5: virtual_models[0].target: found a model that no provider lists`},
		{"no model", twoProviders + "virtual_models:\n  - {source: a, target: openai/}\n", `found the provider openai without a model`},
		{"weight with failover", twoProviders + "virtual_models:\n  - source: a\n    targets:\n      - {model: openai/x, weight: 2}\n", `line 7: virtual_models[0].targets[0].weight: found a weight with strategy failover`},
		{"failover off with failover", twoProviders + "virtual_models:\n  - source: a\n    target: openai/x\n    failover: false\n", `line 7: virtual_models[0].failover: found failover switched off with strategy failover`},
		{"failover block off", twoProviders + "virtual_models:\n  - source: a\n    target: openai/x\n    strategy: failover\n    failover: {enabled: false}\n", `line 8: virtual_models[0].failover: found failover switched off`},
		{"unknown strategy", twoProviders + "virtual_models:\n  - {source: a, target: openai/x, strategy: roundrobin}\n", `virtual_models[0].strategy: found "roundrobin", want failover, round_robin or cost; did you mean "round_robin"?`},
		{"both targets", twoProviders + "virtual_models:\n  - {source: a, target: openai/x, targets: [{model: openai/y}]}\n", `virtual_models[0].targets: found targets beside target`},
		{"same target twice", twoProviders + "virtual_models:\n  - {source: a, targets: [{model: openai/y}, {model: openai/y}]}\n", `virtual_models[0].targets[1].model: found a target that is listed already`},
		{"same target by two names", twoProviders + "virtual_models:\n  - {source: a, targets: [{model: m1}, {model: cloudflare/m1}]}\n", `virtual_models[0].targets[1].model: found a target that is listed already`},
		{"same source twice", twoProviders + "virtual_models:\n  - {source: a, target: openai/x}\n  - {source: a, target: openai/y}\n", `line 6: virtual_models[1].source: found the source of line 5 again`},
		{"negative cost", twoProviders + "virtual_models:\n  - {source: a, targets: [{model: openai/x, cost: -1}]}\n", `virtual_models[0].targets[0].cost: found "-1", want a number, 0 or more`},
		{"negative weight", twoProviders + "virtual_models:\n  - {source: a, strategy: cost, targets: [{model: openai/x, weight: -1}]}\n", `virtual_models[0].targets[0].weight: found "-1"`},
		{"target as text", twoProviders + "virtual_models:\n  - {source: a, targets: [openai/x]}\n", `virtual_models[0].targets[0]: found a single value, want a mapping with model`},
		{"targets without model", twoProviders + "virtual_models:\n  - {source: a, targets: [{lenient: true}]}\n", `virtual_models[0].targets[0].model: found nothing`},
		{"virtual failover key", twoProviders + "virtual_models:\n  - {source: a, target: openai/x, failover: {max_attempt: 1}}\n", `virtual_models[0].failover.max_attempt: found an unknown key, want one of enabled, retry_on_statuses, retry_on_errors, max_attempts, patience, wait_for, bound, affinity or max_body; did you mean "max_attempts"?`},
		{"affinity without a header's name", "failover: {affinity: {key: 'header:'}}", `line 1: failover.affinity.key: found a value that is not shown, want prompt_cache_key`},
		{"affinity key misspelt", "failover: {affinity: {key: userid}}", `did you mean "user_id"`},
		{"affinity header", twoProviders + "virtual_models:\n  - {source: a, targets: [{model: openai/x, affinity_header: 'x y'}]}\n", `virtual_models[0].targets[0].affinity_header: found`},
		{"virtual models as mapping", "virtual_models: {a: b}", `line 1: virtual_models: found a mapping, want a list of virtual models`},
	} {
		t.Run(row.name, func(t *testing.T) {
			assert.Contains(t, faults(t, row.text, nil).Error(), row.want)
		})
	}
}

// A zero that only one provider makes a fault is told at its own place.
func TestFaultOfInheritance(t *testing.T) {
	all := faults(t, `
resilience:
  circuit_breaker: {enabled: false, success_threshold: 0}
  retry: {max_retries: 0, initial_backoff: 0}
providers:
  openai:
    resilience: {circuit_breaker: {enabled: true}}
  anthropic:
    resilience: {circuit_breaker: {enabled: true}, retry: {max_retries: 1}}
`, nil)
	require.Len(t, all, 2, "each once")
	assert.Equal(t, "line 3: resilience.circuit_breaker.success_threshold: found 0, want at least 1 where the breaker is on; the block of the provider openai needs it", all[0].Error())
	assert.Contains(t, all[1].Error(), "line 4: resilience.retry.initial_backoff: found 0")
}

func TestZeroesOfAnIdleBreakerAreFine(t *testing.T) {
	for _, text := range []string{
		"{circuit_breaker: {enabled: false, success_threshold: 0, timeout: 0}}",
		"{circuit_breaker: {failure_threshold: 0, success_threshold: 0, timeout: 0}}",
		"{retry: {max_retries: 0, initial_backoff: 0, max_backoff: 0}}",
	} {
		p := parse(t, "resilience: "+text, nil).Policy("x")
		require.NoError(t, p.Validate())
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	all := faults(t, `
resilience:
  retry: {max_retries: -1}
  circuit_breaker: {scope: x}
failover: {enabld: true}
providers:
  openai: {api_kee: a}
virtual_models: [{source: a, target: b/c}]
`, map[string]string{"HTTP_TIMEOUT": "60", "VIRTUAL_MODELS": "[{]"})
	require.Len(t, all, 7)
	for i, line := range []int{3, 4, 5, 7, 8} {
		assert.Equal(t, line, all[i].Line, all[i].Error())
	}
	assert.Equal(t, "HTTP_TIMEOUT", all[5].Variable)
	assert.Len(t, strings.Split(all.Error(), "\n"), 7)
	assert.Len(t, all.Unwrap(), 7)
	var one *config.Error
	require.ErrorAs(t, all, &one)
}

func TestFaultsOfTheEnvironment(t *testing.T) {
	for name, bad := range map[string][2]string{
		"RETRY_ON_STATUSES":                   {"429;503", `resilience.retry.retry_on_statuses: found a value that is not shown, want a status code`},
		"RETRY_MAX_RETRIES":                   {"many", `resilience.retry.max_retries: found a value that is not shown, want a whole number`},
		"RETRY_INITIAL_BACKOFF":               {"5", `resilience.retry.initial_backoff: found "5", want a duration`},
		"RETRY_MAX_BACKOFF":                   {"0", `resilience.retry.max_backoff: found 0, want a backoff above 0`},
		"RETRY_BACKOFF_FACTOR":                {"0.9", `resilience.retry.backoff_factor: found "0.9"`},
		"CIRCUIT_BREAKER_ENABLED":             {"on", `resilience.circuit_breaker.enabled: found "on", want true or false`},
		"CIRCUIT_BREAKER_SCOPE":               {"global", `resilience.circuit_breaker.scope: found "global", want provider or model`},
		"CIRCUIT_BREAKER_SUCCESS_THRESHOLD":   {"0", `resilience.circuit_breaker.success_threshold: found 0`},
		"HTTP_TIMEOUT":                        {"600", `resilience.timeout: found "600"`},
		"FAILOVER_RETRY_ON_ERRORS":            {"gone,404", `failover.retry_on_errors: found "404"`},
		"FAILOVER_RETRY_ON_STATUSES":          {",", `failover.retry_on_statuses: found nothing but commas`},
		"PROVIDER_RECHECK_INTERVAL":           {"-1", `cache.model.recheck_interval: found "-1"`},
		"CONFIGURED_PROVIDER_MODELS_MODE":     {"strict", `models_mode: found "strict", want fallback or allowlist`},
		"CIRCUIT_BREAKER_FAILURE_ON_STATUSES": {"5xx,1000", `resilience.circuit_breaker.failure_on_statuses: found "1000"`},
	} {
		t.Run(name, func(t *testing.T) {
			all := faults(t, "", map[string]string{name: bad[0]})
			assert.Equal(t, name, all[0].Variable)
			assert.Contains(t, all.Error(), "environment variable "+name+": "+bad[1])
		})
	}
}

func TestFaultsOfVirtualModelsVariable(t *testing.T) {
	for _, row := range []struct{ name, json, want string }{
		{"broken", "[{\"source\":\"a\",\n}]", "environment variable VIRTUAL_MODELS: line 2, column 1: found broken JSON"},
		{"not a list", `{"source":"a"}`, "line 1, column 1: virtual_models: found a mapping, want a list"},
		{"too much", "[" + strings.Repeat(" ", 4<<20) + "]", "environment variable VIRTUAL_MODELS: found 4194306 bytes, want at most 4 MiB"},
		{"two values", `[] []`, "found broken JSON"},
		{"unknown key", "[{\"source\": \"a\",\n  \"targt\": \"openai/x\"}]", `line 2, column 3: virtual_models[0].targt: found an unknown key`},
		{"key twice", `[{"source":"a","source":"b","target":"openai/x"}]`, `line 1, column 16: virtual_models[0].source: found a key that is already on line 1`},
		{"wrong type", `[{"source":"a","targets":[{"model":"openai/x","weight":"x"}],"strategy":"cost"}]`, `line 1, column 56: virtual_models[0].targets[0].weight: found a value that is not shown, want a whole number`},
		{"unknown provider", `[{"source":"a","target":"opnai/x"}]`, `line 1, column 25: virtual_models[0].target: found a provider that is not configured`},
		{"no expansion", `[{"source":"a","target":"${X}/x"}]`, `found a provider that is not configured`},
	} {
		t.Run(row.name, func(t *testing.T) {
			all := faults(t, twoProviders, map[string]string{"VIRTUAL_MODELS": row.json, "X": "openai"})
			assert.Contains(t, all.Error(), row.want)
			assert.Equal(t, "VIRTUAL_MODELS", all[0].Variable)
		})
	}
}

func TestFaultsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "key%d: 1\n", i)
	}
	assert.Len(t, faults(t, b.String(), nil), 100)
}
