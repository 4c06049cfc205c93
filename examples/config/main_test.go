package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPrintsTheWorkedExample(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(&out, nil, func(name string) (string, bool) { return "secret-key", name == "OPENAI_API_KEY" }))
	text := out.String()
	for _, want := range []string{
		"warning: line 15: providers.anthropic.api_key: no value in the environment variable ANTHROPIC_API_KEY",
		"ollama (ollama) http://localhost:11434/v1",
		"failure_threshold    3 (unused)",
	} {
		assert.Contains(t, text, want)
	}
	assert.Regexp(t, `retry.max_retries +5 +provider +line 18`, text)
	assert.Regexp(t, `circuit_breaker.max_timeout +5m +default`, text)
	assert.Regexp(t, `failover.max_body +64MiB +default`, text)
	assert.Regexp(t, `words.model_gone +\[\] +default`, text)
	assert.NotContains(t, text, "secret-key")
	require.Error(t, run(&out, []string{"no such file"}, nil))
}

// What the environment says of patience, limits and open times is told as its own.
func TestPrintsWhatTheEnvironmentGives(t *testing.T) {
	var out strings.Builder
	vars := map[string]string{
		"CIRCUIT_BREAKER_TIMEOUT_FACTOR": "2", "CIRCUIT_BREAKER_MAX_TIMEOUT": "1m", "CIRCUIT_BREAKER_JITTER": "0.1",
		"LIMITS_HOLD": "false", "LIMITS_MAX_HOLD": "5m", "LIMITS_PREEMPT": "true", "LIMITS_MAX_CONCURRENT": "8",
		"FAILOVER_PATIENCE": "off", "FAILOVER_WAIT_FOR": "20s", "FAILOVER_BOUND": "ignore",
	}
	require.NoError(t, run(&out, nil, func(name string) (string, bool) { v, ok := vars[name]; return v, ok }))
	text, _, _ := strings.Cut(out.String(), "\nanthropic (")
	for name, value := range vars {
		assert.Regexp(t, `(?m) `+value+` +environment +`+name+`$`, text)
	}
}

// A profile's values are told from defaults, and from what is written over it.
func TestPrintsWhatAProfileGives(t *testing.T) {
	var out strings.Builder
	vars := map[string]string{"RESILIENCE_PROFILE": "live", "RETRY_JITTER_FACTOR": "0.3"}
	require.NoError(t, run(&out, nil, func(name string) (string, bool) { v, ok := vars[name]; return v, ok }))
	text, _, _ := strings.Cut(out.String(), "\nanthropic (")
	for _, line := range []string{
		`profile +live +environment +RESILIENCE_PROFILE`,
		`retry.streams +held_back +profile +live`,
		`retry.retry_on_statuses +\[default, 408, 500, 520, 521, 523, 529\] +profile +live`,
		`retry.max_retries +2 +file +line \d+`,
		`retry.jitter_factor +0.3 +environment +RETRY_JITTER_FACTOR`,
		`stream.event_timeout +0 +default`,
		`limits.hold +true +default`,
		`limits.max_hold +1h +default`,
		`limits.preempt +false +default`,
		`limits.max_concurrent +0 +default`,
		`failover.retry_on_errors +\[default, too_long\] +profile +live`,
		`failover.patience +3.5s +default`,
		`failover.wait_for +0 +default`,
		`failover.bound +account +default`,
	} {
		assert.Regexp(t, "(?m)^"+line+"$", text)
	}
}
