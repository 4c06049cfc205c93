package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover/config"
)

const canary = "CANARY-5f3a9"

func TestHeaderOfEveryType(t *testing.T) {
	for typ, want := range map[string]map[string]string{
		"openai":     {"Authorization": "Bearer k"},
		"anthropic":  {"X-Api-Key": "k", "Anthropic-Version": "2023-06-01"},
		"gemini":     {"X-Goog-Api-Key": "k"},
		"azure":      {"Api-Key": "k"},
		"ollama":     {"Authorization": "Bearer k"},
		"openrouter": {"Authorization": "Bearer k"},
		"groq":       {"Authorization": "Bearer k"},
		"mistral":    {"Authorization": "Bearer k"},
		"deepseek":   {"Authorization": "Bearer k"},
		"xai":        {"Authorization": "Bearer k"},
		"cohere":     {"Authorization": "Bearer k"},
		"vllm":       {"Authorization": "Bearer k"},
	} {
		t.Run(typ, func(t *testing.T) {
			text := "providers: {p: {type: " + typ + ", base_url: 'https://host.example.com/v1', api_key: %s}}"
			p := parse(t, fmt.Sprintf(text, "k"), nil).Providers()[0]
			assert.Equal(t, typ, p.Type)
			h := p.Header()
			assert.Len(t, h, len(want))
			for k, v := range want {
				assert.Equal(t, v, h.Get(k))
			}
			h.Set("Authorization", "changed")
			assert.NotEqual(t, "changed", p.Header().Get("Authorization"), "the map is the caller's own")

			for _, none := range []string{"", "null", `""`, `"${NONE:-}"`, `"${NONE}"`, `"  "`} {
				for name := range parse(t, fmt.Sprintf(text, none), nil).Providers()[0].Header() {
					assert.Equal(t, "Anthropic-Version", name)
				}
			}
		})
	}
	p := parse(t, "providers: {gemini: {base_url: 'https://generativelanguage.googleapis.com/v1beta/openai', api_key: k}}", nil).Providers()[0]
	assert.Equal(t, "Bearer k", p.Header().Get("Authorization"), "the OpenAI-compatible surface")
	assert.Len(t, p.Header(), 1)
}

func TestNothingSecretIsShown(t *testing.T) {
	c := parse(t, `
providers:
  openai: {api_key: "${CANARY}"}
  anthropic: {api_key: `+canary+`}
  vllm: {base_url: "https://user:${CANARY}@host.example.com/v1?key=${CANARY}", api_key: "${CANARY}"}
`, map[string]string{"CANARY": canary})
	p := c.Providers()
	require.Equal(t, "Bearer "+canary, p[0].Header().Get("Authorization"))

	var out bytes.Buffer
	type inner struct {
		p  config.Provider
		c  *config.Config
		pp []config.Provider
	}
	hidden := inner{p[2], c, p}
	for _, v := range []any{p, p[0], &p[1], p[2], c, *c, hidden, &hidden, map[string]any{"p": p[2]}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	for _, v := range []any{p, p[2], &p[0], c, map[string]any{"p": p[2]}} {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		out.Write(b)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("x", "p", p[2], "all", p, "c", c, "inner", hidden)
	}
	phrase := parse(t, `failover: {retry_on_errors: ["${CANARY} gone"]}`, map[string]string{"CANARY": canary})
	for _, e := range []config.Settings{c.Effective("openai"), c.Effective("vllm"), phrase.Effective("")} {
		fmt.Fprintf(&out, "%v %+v", e, []config.Setting(e))
	}
	fmt.Fprint(&out, c.Warnings())
	// The address of a provider is a plain field; only what prints a struct
	// without asking it shows what the operator wrote into it.
	text := bytes.ReplaceAll(out.Bytes(), []byte(p[2].BaseURL), nil)
	assert.False(t, bytes.Contains(text, []byte(canary)), "the key is in the output")
	assert.Contains(t, out.String(), "https://host.example.com/v1")
}

func TestNothingSecretInErrors(t *testing.T) {
	vars := map[string]string{"CANARY": canary}
	for name, text := range map[string]string{
		"key is a list":          "providers: {openai: {api_key: [" + canary + "]}}",
		"key is a mapping":       "providers: {openai: {api_key: {a: " + canary + "}}}",
		"open reference":         "providers: {openai: {api_key: '" + canary + "${X'}}",
		"bad reference":          "providers: {openai: {api_key: '${X-" + canary + "}'}}",
		"default in a reference": "providers: {openai: {base_url: '${X:-" + canary + "${Y}}'}}",
		"control character":      "providers: {openai: {api_key: \"" + canary + "\\n\"}}\nx: 1",
		"inner line break":       "providers: {openai: {api_key: \"a\\n" + canary + "\"}}",
		"misspelt key":           "providers: {openai: {api_keey: " + canary + "}}",
		"no space":               "providers:\n  openai:\n    api_key:" + canary + "\n",
		"no space, then a key":   "providers:\n  openai:\n    api_key:" + canary + ": x\n",
		"address with a user":    "providers: {openai: {base_url: 'ftp://u:" + canary + "@h'}}",
		"address with a query":   "providers: {openai: {base_url: 'h?key=" + canary + "'}}",
		"expanded address":       "providers: {openai: {base_url: '${CANARY}'}}",
		"expanded number":        "resilience: {retry: {max_retries: '${CANARY}'}}",
		"expanded status":        "resilience: {retry: {retry_on_statuses: ['${CANARY}']}}",
		"expanded mode":          "resilience: {circuit_breaker: {scope: '${CANARY}'}}",
		"expanded type":          "providers: {eu: {type: '${CANARY}'}}",
		"expanded source":        "virtual_models: [{source: '${CANARY} x', target: a/b}]",
		"expanded target":        "virtual_models: [{source: a, target: '${CANARY}/x'}]",
		"expanded target twice":  "providers: {openai: }\nvirtual_models: [{source: a, targets: [{model: 'openai/${CANARY}'}, {model: 'openai/${CANARY}'}]}]",
		"expanded sources twice": "providers: {openai: }\nvirtual_models: [{source: '${CANARY}', target: openai/x}, {source: '${CANARY}', target: openai/x}]",
		"expanded cycle":         "virtual_models: [{source: '${CANARY}', target: b}, {source: b, target: '${CANARY}'}]",
		"alias":                  "providers: {openai: {api_key: *" + canary + " }}",
		"tag":                    "providers: {openai: {api_key: !" + canary + " [}}",
		"quote":                  "providers:\n  openai:\n    api_key: \"" + canary + "\n",
		"percent":                "providers:\n  openai:\n    api_key: %" + canary + "\n",
		"directive":              "%" + canary + " x\n---\na: b\n",
		"key of a key":           "providers:\n  openai:\n    api_key: sk-" + canary + ": x\n",
		"bad name of a provider": "providers: {'sk " + canary + "': {}}",
		"key as a type":          "providers: {eu: {type: sk-" + canary + "}}",
		"key as an address":      "providers: {openai: {base_url: sk-" + canary + "}}",
		"key as a key":           "providers: {openai: {sk-" + canary + ": }}",
	} {
		t.Run(name, func(t *testing.T) {
			all := faults(t, text, vars)
			assert.NotContains(t, all.Error(), canary)
			assert.NotContains(t, fmt.Sprintf("%+v %#v", all, all[0]), canary)
		})
	}
}
