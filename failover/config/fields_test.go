package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover/config"
)

// One row a key: what holds by default, what the file, the environment and a
// provider's block make of it.
var keys = []struct{ key, variable, usual, file, environment, provider string }{
	{"profile", "RESILIENCE_PROFILE", "default", "live", "whole", "default"},
	{"retry.retry_on_statuses", "RETRY_ON_STATUSES", "[429, 502, 503, 504, 522, 524]", "[500]", "[501, 5xx]", "[]"},
	{"retry.max_retries", "RETRY_MAX_RETRIES", "3", "1", "2", "0"},
	{"retry.initial_backoff", "RETRY_INITIAL_BACKOFF", "1s", "2s", "300ms", "4s"},
	{"retry.max_backoff", "RETRY_MAX_BACKOFF", "30s", "31s", "32s", "33s"},
	{"retry.backoff_factor", "RETRY_BACKOFF_FACTOR", "2", "1", "1.5", "3"},
	{"retry.jitter_factor", "RETRY_JITTER_FACTOR", "0.1", "0", "1", "0.5"},
	{"retry.streams", "", "never", "held_back", "", "never"},
	{"retry.replay", "", "inference", "safe_only", "", "inference"},
	{"retry.attempt_timeout", "", "0", "7s", "", "8s"},
	{"circuit_breaker.enabled", "CIRCUIT_BREAKER_ENABLED", "true", "false", "true", "false"},
	{"circuit_breaker.scope", "CIRCUIT_BREAKER_SCOPE", "provider", "model", "provider", "model"},
	{"circuit_breaker.failure_on_statuses", "CIRCUIT_BREAKER_FAILURE_ON_STATUSES", "[429, 5xx]", "[500]", "[501]", "[]"},
	{"circuit_breaker.failure_threshold", "CIRCUIT_BREAKER_FAILURE_THRESHOLD", "5", "6", "7", "0"},
	{"circuit_breaker.success_threshold", "CIRCUIT_BREAKER_SUCCESS_THRESHOLD", "2", "3", "4", "1"},
	{"circuit_breaker.timeout", "CIRCUIT_BREAKER_TIMEOUT", "30s", "1m", "1h", "1m1s"},
	{"circuit_breaker.timeout_factor", "CIRCUIT_BREAKER_TIMEOUT_FACTOR", "1", "1.5", "3", "2"},
	{"circuit_breaker.max_timeout", "CIRCUIT_BREAKER_MAX_TIMEOUT", "5m", "1m", "3m", "2m"},
	{"circuit_breaker.jitter", "CIRCUIT_BREAKER_JITTER", "0", "0.1", "0.2", "1"},
	{"circuit_breaker.slow_call_threshold", "CIRCUIT_BREAKER_SLOW_CALL_THRESHOLD", "0", "1s", "2s", "3s"},
	{"stream.idle_timeout", "HTTP_STREAM_IDLE_TIMEOUT", "5m", "0", "10s", "20s"},
	{"stream.event_timeout", "", "0", "1s", "", "2s"},
	{"stream.first_event_timeout", "", "0", "1s", "", "2s"},
	{"stream.min_rate", "HTTP_STREAM_MIN_RATE", "0", "8", "16", "32"},
	{"stream.rate_window", "HTTP_STREAM_RATE_WINDOW", "20s", "10s", "30s", "1m"},
	{"stream.hold_until", "", "first_event", "first_content", "", "complete"},
	{"stream.hold_limit", "", "8MiB", "1KiB", "", "4097"},
	{"stream.incomplete_read", "", "error", "eof", "", "error"},
	{"stream.strip_comments", "", "false", "true", "", "false"},
	{"stream.resume", "HTTP_STREAM_RESUME", "off", "on", "off", "on"},
	{"limits.hold", "LIMITS_HOLD", "true", "false", "true", "true"},
	{"limits.max_hold", "LIMITS_MAX_HOLD", "1h", "5m", "10m", "0"},
	{"limits.preempt", "LIMITS_PREEMPT", "false", "true", "false", "false"},
	{"limits.max_concurrent", "LIMITS_MAX_CONCURRENT", "0", "8", "9", "16"},
	{"words.rate_limited", "", "[]", "[slow_lane]", "", "[]"},
	{"words.quota", "", "[]", "[plan_used_up]", "", "[a, b]"},
	{"words.overloaded", "", "[]", "[busy]", "", "[40201]"},
	{"words.client", "", "[]", "[blocked]", "", "[forbidden_topic]"},
	{"words.model_gone", "", "[]", `["sent away"]`, "", `["404 moved on"]`},
	{"words.credentials", "", "[]", "[X-Corp-Pass]", "", "[corp]"},
	{"timeout", "HTTP_TIMEOUT", "0", "1s", "2s", "3s"},
	{"errors_as_responses", "", "rejections", "all", "", "none"},
	{"failover.enabled", "FAILOVER_ENABLED", "true", "false", "true", ""},
	{"failover.retry_on_statuses", "FAILOVER_RETRY_ON_STATUSES", "[429, 5xx]", "[500]", "[501]", ""},
	{"failover.retry_on_errors", "FAILOVER_RETRY_ON_ERRORS", "", `["gone away"]`, `["404 not here", moved]`, ""},
	{"failover.max_attempts", "FAILOVER_MAX_ATTEMPTS", "0", "1", "2", ""},
	{"failover.patience", "FAILOVER_PATIENCE", "3.5s", "off", "0", ""},
	{"failover.wait_for", "FAILOVER_WAIT_FOR", "0", "20s", "30s", ""},
	{"failover.bound", "FAILOVER_BOUND", "account", "ignore", "account", ""},
	{"failover.affinity.key", "FAILOVER_AFFINITY_KEY", "off", "prompt", "header:X-Session", ""},
	{"failover.affinity.ttl", "FAILOVER_AFFINITY_TTL", "1h", "5m", "10m", ""},
	{"failover.affinity.max", "", "10000", "5", "", ""},
	{"failover.max_body", "", "64MiB", "1MiB", "", ""},
	{"cache.model.refresh_interval", "CACHE_REFRESH_INTERVAL", "3600", "10", "20", ""},
	{"cache.model.recheck_interval", "PROVIDER_RECHECK_INTERVAL", "60", "0", "30", ""},
	{"models_mode", "CONFIGURED_PROVIDER_MODELS_MODE", "fallback", "", "allowlist", "fallback"},
}

// block writes one key as nested YAML at an indentation.
func block(key, value string, indent int) string {
	var b strings.Builder
	parts := strings.Split(key, ".")
	for i, p := range parts {
		b.WriteString(strings.Repeat(" ", indent+2*i) + p + ":")
		if i == len(parts)-1 {
			b.WriteString(" " + value)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// global is where a key stands in a file, for everyone.
func global(key, value string) string {
	if strings.HasPrefix(key, "failover.") || strings.HasPrefix(key, "cache.") {
		return block(key, value, 0)
	}
	return block("resilience."+key, value, 0)
}

// asYAML writes settings as a file.
func asYAML(all config.Settings) string {
	tree := map[string][]string{}
	for _, s := range all {
		if s.Key == "models_mode" {
			continue
		}
		path := strings.Split(s.Key, ".")
		if head := path[0]; head != "failover" && head != "cache" {
			path = append([]string{"resilience"}, path...)
		}
		at := strings.Join(path[:len(path)-1], ".")
		tree[at] = append(tree[at], fmt.Sprintf("%s: %s", path[len(path)-1], s.Value))
	}
	flow := func(at string, more ...string) string {
		return "{" + strings.Join(append(tree[at], more...), ", ") + "}"
	}
	return "resilience: " + flow("resilience", "retry: "+flow("resilience.retry"), "circuit_breaker: "+flow("resilience.circuit_breaker"), "stream: "+flow("resilience.stream"), "limits: "+flow("resilience.limits"), "words: "+flow("resilience.words")) +
		"\nfailover: " + flow("failover") + "\ncache: {model: " + flow("cache.model") + "}\n"
}

func TestEveryKeyInEveryLayer(t *testing.T) {
	all := parse(t, "", nil).Effective("")
	require.Len(t, all, len(keys), "a key without a row")
	for i, k := range keys {
		t.Run(k.key, func(t *testing.T) {
			assert.Equal(t, k.key, all[i].Key)
			if k.usual != "" {
				assert.Equal(t, k.usual, all[i].Value)
			}
			assert.Equal(t, config.FromDefault, all[i].Origin)

			check := func(text string, vars map[string]string, provider, value string, origin config.Origin) {
				t.Helper()
				s := setting(t, parse(t, text, vars).Effective(provider), k.key)
				assert.Equal(t, value, s.Value)
				assert.Equal(t, origin, s.Origin)
				assert.Equal(t, origin == config.FromDefault, s.Source == "")
			}
			text, vars := "", map[string]string{}
			if k.file != "" {
				text = global(k.key, k.file)
				check(text, nil, "openai", k.file, config.FromFile)
			}
			if k.variable != "" {
				vars[k.variable] = strings.NewReplacer("[", "", "]", "", `"`, "").Replace(k.environment)
				check(text, vars, "openai", k.environment, config.FromEnvironment)
				check(text, map[string]string{k.variable: ""}, "openai", or(k.file, k.usual), or(config.FromFile, config.FromDefault, k.file != ""))
			}
			if k.provider != "" {
				own := block("resilience."+k.key, k.provider, 4)
				if k.key == "models_mode" {
					own = block(k.key, k.provider, 4)
				}
				text += "providers:\n  anthropic:\n  openai:\n" + own
				check(text, vars, "openai", k.provider, config.FromProvider)
				s := setting(t, parse(t, text, vars).Effective("anthropic"), k.key)
				assert.NotEqual(t, config.FromProvider, s.Origin, "one provider's block is no other's")
			}
		})
	}
}

// or picks the first of two texts that holds, or by a condition.
func or[T ~string](a, b T, first ...bool) T {
	if len(first) > 0 && !first[0] || len(first) == 0 && a == "" {
		return b
	}
	return a
}

func TestEffectiveIsATable(t *testing.T) {
	c := parse(t, worked, map[string]string{"RETRY_JITTER_FACTOR": "0.2"})
	table := c.Effective("vllm").String()
	for _, line := range []string{
		"circuit_breaker.enabled              false",
		"circuit_breaker.failure_threshold    3 (unused)",
	} {
		assert.Contains(t, table, line)
	}
	lines := strings.Split(strings.TrimSpace(table), "\n")
	assert.Len(t, lines, 1+len(keys))
	for _, l := range lines {
		assert.LessOrEqual(t, len(l), 140)
		assert.Equal(t, strings.TrimRight(l, " "), l)
	}
	assert.Regexp(t, `(?m)^retry\.jitter_factor +0\.2 +environment +RETRY_JITTER_FACTOR$`, table)
	assert.Regexp(t, `(?m)^retry\.max_retries +2 +file +line 4$`, table)
	assert.Regexp(t, `(?m)^retry\.streams +never +default$`, table)
}
