package config_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover/config"
)

func TestBrokenYAML(t *testing.T) {
	for _, row := range []struct {
		name, text string
		line       int
		want       string
	}{
		{"key twice", "resilience: {}\nfailover: {}\nresilience: {}\n", 3, "resilience: found a key that is already on line 1"},
		{"deep key twice", "resilience:\n  retry:\n    max_retries: 1\n    max_retries: 2\n", 4, "resilience.retry.max_retries: found a key that is already on line 3"},
		{"provider twice", "providers:\n  openai:\n  openai:\n", 3, "providers.openai: found a key that is already on line 2"},
		{"tab", "resilience:\n\tretry:\n", 2, "indent with spaces, not with tabs"},
		{"two documents", "resilience: {}\n---\nfailover: {}\n", 2, "found a second document"},
		{"unclosed", "resilience: {retry: [\n", 2, "found broken YAML"},
		{"bad indentation", "resilience:\n    retry: {}\n  timeout: 3s\n", 3, "found broken YAML"},
		{"bad indentation further down", "failover: {}\nresilience:\n  retry:\n    max_retries: 1\n    streams: never\n   replay: x\n  timeout: 3s\n", 6, "found broken YAML"},
		{"key in a list", "- a\nb: c\n", 2, "found broken YAML"},
		{"open flow", "resilience: {}\nx: [1, 2\ny: 3\n", 2, "found broken YAML"},
		{"open quote", "resilience:\n  retry: \"abc\nfailover: {}\n", 2, "found broken YAML"},
		{"two values", "resilience: {}\ntimeout: a: b\n", 2, "found broken YAML"},
		{"unknown anchor", "resilience: {}\nfailover: *nowhere\n", 2, "found broken YAML (unknown anchor"},
		{"control character", "resilience: {}\n# \x01\n", 2, "found a control character (U+0001)"},
		{"not UTF-8", "resilience: {}\n\n# \xff\xfe\n", 3, "found a byte that is not UTF-8"},
		{"UTF-16", "\xff\xfer\x00e\x00", 1, "found a byte that is not UTF-8"},
		{"list as key", "? [a]\n: b\n", 1, "found a list as a key"},
		{"alias cycle", "resilience: &a\n  retry: *a\n", 2, "resilience.retry.retry: found an unknown key"},
		{"merge of a value", "resilience:\n  <<: 3\n", 2, "found a single value, want an alias of a mapping"},
		{"endless merge", "resilience: &a\n  <<: *a\n", 1, "merge keys inside merge keys"},
	} {
		t.Run(row.name, func(t *testing.T) {
			all := faults(t, row.text, nil)
			assert.Contains(t, all.Error(), row.want)
			assert.Equal(t, row.line, all[0].Line)
		})
	}
}

func TestByteOrderMarkAndLineEnds(t *testing.T) {
	c := parse(t, "\xef\xbb\xbfresilience:\r\n  retry:\r\n    max_retries: 4\r\n...\r\n", nil)
	assert.Equal(t, 4, c.Policy("x").Retry.MaxRetries)
}

func TestAnchorsAndMergeKeys(t *testing.T) {
	c := parse(t, `
resilience:
  retry: &patient {max_retries: 6, initial_backoff: 2s}
  circuit_breaker: &b
    failure_threshold: 9
providers:
  openai: &p
    type: openai
    resilience:
      retry:
        <<: *patient
        max_retries: 1
  eu:
    <<: [*p]
    base_url: https://eu.example.com/v1
  us:
    <<: *p
    resilience: {circuit_breaker: *b}
`, nil)
	assert.Equal(t, 1, c.Policy("openai").Retry.MaxRetries)
	assert.Equal(t, "2s", c.Policy("eu").Retry.InitialBackoff.String())
	assert.Equal(t, 1, c.Policy("eu").Retry.MaxRetries)
	assert.Equal(t, 6, c.Policy("us").Retry.MaxRetries, "its own block takes the merged one's place")
	assert.Equal(t, "https://eu.example.com/v1", c.Providers()[1].BaseURL)
	assert.Equal(t, config.FromProvider, setting(t, c.Effective("us"), "circuit_breaker.failure_threshold").Origin)
}

// A fault in what was merged has the line where it stands and the path of who
// merged it.
func TestFaultInAMergedBlock(t *testing.T) {
	all := faults(t, "providers:\n  openai: &p\n    resilience: {timeout: x}\n  eu:\n    <<: *p\n    type: openai\n", nil)
	assert.Contains(t, all.Error(), "line 3: providers.openai.resilience.timeout")
	assert.Contains(t, all.Error(), "line 3: providers.eu.resilience.timeout")
}

func TestAliasBombs(t *testing.T) {
	var lists, merges strings.Builder
	lists.WriteString("resilience:\n  retry:\n    retry_on_statuses: [")
	lists.WriteString("&a0 [429,429,429,429,429,429,429,429,429,429]")
	merges.WriteString("providers:\n  p0: &a0 {type: openai}\n")
	for i := 1; i < 12; i++ {
		prev := "*a" + string(rune('0'+i-1))
		if i > 10 {
			break
		}
		name := string(rune('0' + i))
		if i == 10 {
			name = "x"
		}
		lists.WriteString(", &a" + name + " [" + strings.TrimSuffix(strings.Repeat(prev+",", 10), ",") + "]")
		merges.WriteString("  p" + name + ": &a" + name + " {<<: [" + strings.TrimSuffix(strings.Repeat(prev+",", 10), ",") + "]}\n")
	}
	lists.WriteString("]\n")
	assert.Len(t, faults(t, lists.String(), nil), 11, "one a list in the list")
	all := faults(t, merges.String(), nil)
	assert.Contains(t, all.Error(), "more than 200000 values")
}

func TestGarbage(t *testing.T) {
	random := make([]byte, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	for name, data := range map[string][]byte{
		"random":   random,
		"letters":  bytes.Repeat([]byte("x"), 1<<20),
		"brackets": bytes.Repeat([]byte("["), 1<<20),
		"braces":   bytes.Repeat([]byte("{"), 1<<20),
		"dashes":   bytes.Repeat([]byte("- "), 1<<19),
		"colons":   bytes.Repeat([]byte("a: "), 1<<18),
		"lines":    bytes.Repeat([]byte("a: b\n"), 1<<16),
		"quote":    append([]byte{'"'}, bytes.Repeat([]byte("x"), 1<<20)...),
		"zeroes":   make([]byte, 1<<20),
		"too much": bytes.Repeat([]byte("#\n"), 3<<20),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := config.Parse(data, nil)
			require.Error(t, err)
			assert.Nil(t, c)
			assert.Less(t, len(err.Error()), 100_000)
			assert.Contains(t, err.Error(), "line ")
		})
	}
}

func TestExpansion(t *testing.T) {
	vars := map[string]string{"N": "4", "EMPTY": "", "LIST": "[1, 2]", "TRICK": "a\nresilience: {timeout: 1s}", "AGAIN": "${N}", "CODE": "503"}
	c := parse(t, `
resilience:
  retry: {max_retries: "${N}", retry_on_statuses: [429, "${CODE}", "${EMPTY:-}"], initial_backoff: "${NONE:-250}ms"}
  circuit_breaker: {failure_threshold: "${EMPTY:-8}", timeout: "${EMPTY:-}"}
providers:
  openai:
    base_url: "https://${HOST:-a.example.com}:${N}43/v1"
    api_key: "${TRICK}"
    models: ["${LIST}", "${AGAIN}", $N]
`, map[string]string{"N": "4", "EMPTY": "", "LIST": vars["LIST"], "AGAIN": vars["AGAIN"], "TRICK": "k  ", "CODE": "503"})
	p := c.Policy("x")
	assert.Equal(t, 4, p.Retry.MaxRetries)
	assert.Equal(t, []string{"429", "503"}, p.Retry.RetryOnStatuses)
	assert.Equal(t, "250ms", p.Retry.InitialBackoff.String())
	assert.Equal(t, 8, p.CircuitBreaker.FailureThreshold)
	assert.Equal(t, "30s", p.CircuitBreaker.Timeout.String(), "a value that came to nothing is not given")
	o := c.Providers()[0]
	assert.Equal(t, "https://a.example.com:443/v1", o.BaseURL)
	assert.Equal(t, []string{"[1, 2]", "${N}", "$N"}, o.Models, "text, not YAML, and not expanded again")
	assert.Equal(t, "Bearer k", o.Header().Get("Authorization"))

	all := faults(t, "providers: {openai: {api_key: '${TRICK}'}}", vars)
	assert.Contains(t, all.Error(), "providers.openai.api_key: found a control character")
	all = faults(t, "${N}: 3", vars)
	assert.Contains(t, all.Error(), "found an unknown key", "keys are not expanded")
}
