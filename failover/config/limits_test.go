package config_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover/config"
)

// Half a million references are one look-up: what a reference costs does not
// depend on how the environment is kept.
func TestAVariableIsLookedUpOnce(t *testing.T) {
	asked := map[string]int{}
	text := "providers: {openai: {models: ['" + strings.Repeat("${A}", 500_000) + "', '${B:-x}', '${B:-x}']}}"
	c, err := config.Parse([]byte(text), func(name string) (string, bool) {
		asked[name]++
		return "v", name == "A"
	})
	require.NoError(t, err)
	assert.Equal(t, strings.Repeat("v", 500_000), c.Providers()[0].Models[0])
	for name, n := range asked {
		assert.Equal(t, 1, n, name)
	}
}

func TestManyMissingVariablesAreNotAllNamed(t *testing.T) {
	var refs strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&refs, "${V%d}", i)
	}
	text := faults(t, "providers: {openai: {models: ['"+refs.String()+"']}}", nil).Error()
	assert.Contains(t, text, "environment variable V0, V1, V2")
	assert.Less(t, len(text), 500)
}

// allocated is how much memory a function asks for.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestADocumentIsBounded(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	vars := map[string]string{"LONG": long, "HTTP_TIMEOUT": "1s"}
	mega := strings.Repeat("y", 1<<20)
	const tooMuch = "found more than 4 MiB of text, with all aliases followed and all variables put in, want a smaller configuration"
	for _, row := range []struct {
		name, text string
		vars       map[string]string
		want       string
	}{
		{"a file", "#" + strings.Repeat(" ", 4<<20), nil, "line 1: found a file of 4194305 bytes, want at most 4 MiB"},
		{"directives", strings.Repeat("%TAG !a! b\n", 300_000) + "---\nresilience: {}\n", nil, "line 17: found more than 16 lines that begin with %, want one YAML document"},
		{"directives of a second document", "resilience: {}\n...\n" + strings.Repeat("%TAG !a! b\u0085", 300_000), nil, "found more than 16 lines that begin with %"},
		{"one value after expansion", "providers: {openai: {models: ['" + strings.Repeat("${LONG}", 50_000) + "']}}", vars,
			"line 1: providers.openai.models[0]: " + tooMuch},
		{"defaults after expansion", "providers: {openai: {models: ['" + strings.Repeat("${NONE:-"+mega+"}", 3) + "', &a '${NONE:-" + mega[:1<<19] + "}', *a, *a]}}", nil,
			"line 1: providers.openai.models[2]: " + tooMuch},
		{"a key after expansion", "providers:\n  openai: {api_key: '" + strings.Repeat("${LONG}", 70) + "'}", vars,
			"line 2: providers.openai.api_key: " + tooMuch},
		{"many values after expansion", "providers:\n  openai:\n    models:\n" + strings.Repeat("    - ${LONG}\n", 100), vars,
			"line 67: providers.openai.models[63]: " + tooMuch},
		{"aliases of a long value", "failover:\n  retry_on_errors: [&a " + mega + strings.Repeat(", *a", 100) + "]", nil,
			"line 2: failover.retry_on_errors[3]: " + tooMuch},
		{"aliases of a long key", "providers:\n  a: &a\n    ? " + mega + "\n    : x\n" + aliases(100), nil,
			tooMuch},
		{"an environment variable", "", map[string]string{"RETRY_ON_STATUSES": strings.Repeat("429,", 2<<20)},
			"environment variable RETRY_ON_STATUSES: found 8388608 bytes, want at most 4 MiB"},
		{"the virtual models of the environment", "", map[string]string{"VIRTUAL_MODELS": "[" + strings.Repeat(" ", 4<<20) + "]"},
			"environment variable VIRTUAL_MODELS: found 4194306 bytes, want at most 4 MiB"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var all config.Errors
			used := allocated(func() { all = faults(t, row.text, row.vars) })
			assert.Contains(t, all.Error(), row.want)
			assert.Less(t, len(all.Error()), 10_000)
			assert.Less(t, used, uint64(256<<20), "bytes")
		})
	}
}

// aliases are n providers that are what a is.
func aliases(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  p%d: *a\n", i)
	}
	return b.String()
}

// repeated writes a line for each number up to n.
func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(format, "#", fmt.Sprint(i)))
	}
	return b.String()
}

// shapes are documents that grow in one place. With anything that is looked
// for in a list and not by its name they take minutes at some size.
var shapes = map[string]func(n int) string{
	"virtual models": func(n int) string {
		return "providers: {openai: }\nvirtual_models:\n" + repeated(n, "- {source: v#, target: openai/m#}\n")
	},
	"virtual models of each other": func(n int) string {
		return "providers: {openai: }\nvirtual_models:\n" + repeated(n, "- {source: v#, target: w#}\n- {source: w#, target: x}\n")
	},
	"targets": func(n int) string {
		return "providers: {openai: }\nvirtual_models:\n- source: v\n  targets:\n" + repeated(n, "  - {model: openai/m#}\n")
	},
	"models": func(n int) string {
		return "providers:\n  openai:\n    models:\n" + repeated(3*n, "    - m#\n") + "  groq:\nvirtual_models:\n- source: v\n  targets:\n" + repeated(n, "  - {model: m#}\n")
	},
	"providers": func(n int) string {
		return "providers:\n" + repeated(n, "  p#: {type: openai}\n") + "virtual_models:\n- source: v\n  targets:\n" + repeated(n, "  - {model: p#/m}\n")
	},
	"lists and providers": func(n int) string {
		return "failover:\n  retry_on_errors:\n" + repeated(min(n, 1000), "    - gone #away\n") + "providers:\n" + repeated(n, "  p#: {type: openai}\n")
	},
	"backups of each other": func(n int) string {
		return "providers:\n" + repeated(n/2, "  p#: {type: openai}\n") + "virtual_models:\n" +
			"- source: m\n  targets:\n" + repeated(n/2, "  - {model: p#/m}\n  - {model: p#/w}\n") +
			"- source: w\n  targets:\n" + repeated(n/2, "  - {model: p#/w}\n  - {model: p#/m}\n")
	},
}

func TestLargeConfigurationsLoad(t *testing.T) {
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			c := parse(t, shape(3000), nil)
			for _, p := range c.Providers() {
				require.Equal(t, 3, c.Policy(p.Name).Retry.MaxRetries)
			}
		})
	}
}

// Twice the document asks for twice the memory.
func TestMemoryGrowsWithTheDocument(t *testing.T) {
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			one, two := shape(500), shape(1000)
			parse(t, one, nil) // what is made once
			small := allocated(func() { parse(t, one, nil) })
			large := allocated(func() { parse(t, two, nil) })
			assert.Less(t, large, 3*small)
		})
	}
}

// A large file full of faults is given up early and says little.
func TestFaultsOfALargeConfiguration(t *testing.T) {
	for name, text := range map[string]string{
		"unknown providers": "providers:\n" + repeated(3000, "  p#: {type: openai}\n") + "virtual_models:\n" + repeated(3000, "- {source: v#, target: q#/m}\n"),
		"unknown models":    "providers: {openai: , groq: }\nvirtual_models:\n" + repeated(2000, "- {source: v#, target: q#}\n"),
		"sources twice":     "providers: {openai: }\nvirtual_models:\n" + repeated(2000, "- {source: v, target: openai/m}\n"),
		"cycles":            "providers: {openai: }\nvirtual_models:\n" + repeated(3000, "- {source: v#, target: w#}\n- {source: w#, target: v#}\n"),
		"unknown keys":      "providers:\n" + repeated(2000, "  p#: {typo: openai}\n"),
	} {
		t.Run(name, func(t *testing.T) {
			all := faults(t, text, nil)
			assert.Len(t, all, 100)
			assert.Less(t, len(all.Error()), 100_000)
		})
	}
	large := strings.Repeat("a: b\n", 53_000) + "c:\n  d: e\n f: g\n"
	all := faults(t, large, nil)
	assert.Contains(t, all.Error(), "somewhere in the block that begins there", "the line is not searched for")
}

func TestWarningsAreBounded(t *testing.T) {
	c := parse(t, "providers:\n"+repeated(5000, "  p#: {type: openai, api_key: '${NONE}'}\n"), nil)
	assert.Len(t, c.Warnings(), 100)
}
