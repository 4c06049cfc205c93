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
