package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover/config"
)

// secrets are keys as vendors make them, and passwords as people do.
var secrets = []string{
	"sk-proj-AbCdEf0123456789", "gsk_AbCdEf0123456789abcdef", "xai-0123456789abcdefABCDEF",
	"AIzaSyA-1234567890abcdefghijk", "AKIAIOSFODNN7EXAMPLE", "hf_abcdefghijklmnopqrstuvwxyzabc",
	"0123456789abcdef0123456789abcdef", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
	"Tr0ub4dor&3", "correct horse battery staple", "4815162342481516234248151623424815162342",
	"pa55word!", "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
}

// places are where a value may stand, %s being the value.
var places = []string{
	"resilience: {timeout: %s}",
	"resilience: {errors_as_responses: %s}",
	"resilience: {retry: {max_retries: %s}}",
	"resilience: {retry: {backoff_factor: %s}}",
	"resilience: {retry: {retry_on_statuses: [%s]}}",
	"resilience: {retry: {retry_on_statuses: %s}}",
	"resilience: {retry: {streams: %s}}",
	"resilience: {retry: %s}",
	"resilience: {circuit_breaker: {enabled: %s}}",
	"resilience: {circuit_breaker: {scope: %s}}",
	"resilience: {stream: {hold_limit: %s}}",
	"resilience: %s",
	"failover: {retry_on_statuses: [429, %s]}",
	"failover: {retry_on_errors: [404, %s]}",
	"failover: {enabled: %s}",
	"failover: {max_attempts: %s}",
	"cache: {model: {refresh_interval: %s}}",
	"providers: {openai: {base_url: %s}}",
	"providers: {openai: {base_url: 'ftp://u:p@h', models_mode: %s}}",
	"providers: {eu: {type: %s}}",
	"providers: {eu: {type: %s, base_url: 'http://h'}}",
	"providers: {openai: {api_key: [%s]}}",
	"providers: {openai: {apikey: %s}}",
	"providers: {openai: {models: %s}}",
	"providers: {openai: {models: {a: %s}}}",
	"providers: {openai: %s}",
	"providers: %s",
	"providers: {%s: }",
	"providers: {%s: {type: openai}}\nvirtual_models: [{source: a, target: b/c}, {source: d, target: %s/}]",
	"providers: {openai: {%s: x}}",
	"providers: {openai: {api_key: a, api_key: %s}}",
	"providers: {openai: {api_key: a}, openai: {api_key: %s}}",
	"api_key: %s",
	"%s",
	"%s: x",
	"[%s]",
	"? [%s]\n: x",
	"resilience: {%s: x}",
	"virtual_models: %s",
	"virtual_models: [%s]",
	"virtual_models: [{%s: x}]",
	"virtual_models: [{source: %s}]",
	"virtual_models: [{source: a, strategy: %s, target: openai/x}]\nproviders: {openai: , groq: }",
	"virtual_models: [{source: a, target: %s}]\nproviders: {openai: , groq: }",
	"virtual_models: [{source: a, target: %s/x}]\nproviders: {openai: , groq: }",
	"virtual_models: [{source: %s, target: %s}]\nproviders: {openai: , groq: }",
	"virtual_models: [{source: a, targets: [%s]}]\nproviders: {openai: , groq: }",
	"virtual_models: [{source: a, targets: [{model: openai/%s}, {model: openai/%s}]}]\nproviders: {openai: , groq: }",
	"virtual_models: [{source: a, targets: [{model: openai/x, weight: %s}]}]\nproviders: {openai: , groq: }",
	"virtual_models: [{source: a, targets: [{model: openai/x, cost: %s, timeout: %s, lenient: %s}]}]\nproviders: {openai: , groq: }",
	"virtual_models: [{source: a, target: openai/x, enabled: %s, failover: %s}]\nproviders: {openai: , groq: }",
	"virtual_models: [{source: %s, target: b}, {source: b, target: %s}]\nproviders: {openai: , groq: }",
	"virtual_models: [{source: %s, target: openai/x}, {source: %s, target: openai/x}]\nproviders: {openai: , groq: }",
	"<<: %s",
	"resilience:\n\t%s",
}

// Whatever stands wherever it does not belong, no message holds it, or any
// half of it.
func TestAMisplacedSecretIsNeverQuoted(t *testing.T) {
	for _, place := range places {
		for _, secret := range secrets {
			value := "'" + secret + "'"
			text := strings.ReplaceAll(place, "%s", value)
			text = strings.ReplaceAll(text, "openai/"+value, "'openai/"+secret+"'")
			text = strings.ReplaceAll(text, value+"/x", "'"+secret+"/x'")
			requireQuiet(t, text, nil, secret)
			// The same out of a variable, and, which is no less a slip, as one.
			requireQuiet(t, strings.ReplaceAll(text, secret, "${SECRET}"), map[string]string{"SECRET": secret}, secret)
			requireQuiet(t, strings.ReplaceAll(text, secret, "${"+secret+"}"), nil, secret)
			requireQuiet(t, strings.ReplaceAll(text, secret, "${"+secret+":-${X}}"), nil, secret)
		}
	}
}

// The text need not be a fault: what loads warns of nothing secret either.
func requireQuiet(t *testing.T, text string, vars map[string]string, secret string) {
	t.Helper()
	c, err := config.Parse([]byte(text), env(vars))
	said := fmt.Sprintf("%v %+v %#v", err, err, err)
	if c != nil {
		said = fmt.Sprint(c.Warnings())
	}
	for _, piece := range []string{secret, secret[:len(secret)/2+1], secret[len(secret)/2:]} {
		require.NotContains(t, said, piece, text)
	}
}

func TestAMisplacedSecretInAVariableIsNeverQuoted(t *testing.T) {
	for _, k := range keys {
		for _, secret := range secrets {
			if k.variable != "" {
				requireQuiet(t, "", map[string]string{k.variable: secret}, secret)
			}
		}
	}
	for _, list := range []string{"%s", `"%s"`, `["%s"]`, `[{"%s":1}]`, `[{"source":"%s"}]`, `[{"source":"a","target":"%s"}]`, `[{"source":"a","targets":[{"model":"openai/x","weight":"%s"}]}]`, `[{"source":%s}]`} {
		for _, secret := range secrets {
			requireQuiet(t, twoProviders, map[string]string{"VIRTUAL_MODELS": strings.ReplaceAll(list, "%s", secret)}, secret)
		}
	}
}

// What helps and cannot be a secret is quoted.
func TestWhatIsQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"resilience: {timeout: 15}":                                              `found "15"`,
		"resilience: {timeout: -5s}":                                             `found "-5s"`,
		"resilience: {timeout: 1d}":                                              `found "1d"`,
		"resilience: {timeout: 15sec}":                                           `found "15sec"`,
		"resilience: {timeout: 15seconds}":                                       `found a value that is not shown`,
		"resilience: {timeout: 123456789012}":                                    `found a value that is not shown`,
		"resilience: {circuit_breaker: {scope: modell}}":                         `found "modell"`,
		"resilience: {circuit_breaker: {scope: Model}}":                          `found a value that is not shown`,
		"resilience: {circuit_breaker: {scope: m0del}}":                          `found a value that is not shown`,
		"resilience: {circuit_breaker: {timeout: modell}}":                       `found a value that is not shown`,
		"resilience: {circuit_breaker: {timout: 3s}}":                            `resilience.circuit_breaker.timout: found an unknown key`,
		"resilience: {circuit_breaker: {Timeout1: 3s}}":                          `resilience.circuit_breaker.(a key that is not shown): found an unknown key`,
		"providers: {openai: {api_key: '${OPENAI_KEY}', base_url: '${my_url}'}}": `found no value in the environment variable (a name that is not shown)`,
	} {
		assert.Contains(t, faults(t, text, nil).Error(), want)
	}
	c := parse(t, "providers: {openai: {api_key: '${OPENAI_API_KEY}'}, eu: {type: openai, api_key: '${sk_live_x}'}}", nil)
	require.Len(t, c.Warnings(), 2)
	assert.Contains(t, c.Warnings()[0], "OPENAI_API_KEY")
	assert.NotContains(t, c.Warnings()[1], "sk_live_x")
	assert.NotContains(t, c.Providers()[1].Unavailable(), "sk_live_x")
}
