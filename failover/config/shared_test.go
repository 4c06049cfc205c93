package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWarnsOfTargetsThatShareABreaker(t *testing.T) {
	const tail = "circuit_breaker.scope: model gives each its own"
	for _, row := range []struct {
		name, resilience, virtual string
		pairs                     []string // "virtual model: first, second"
	}{
		{"two models of one provider", "", "[{source: v, targets: [{model: a/m}, {model: a/n}]}]", []string{"v: a/m, a/n"}},
		{"not the first two", "", "[{source: v, targets: [{model: a/m}, {model: b/m}, {model: a/n}]}]", []string{"v: a/m, a/n"}},
		{"three models", "", "[{source: v, targets: [{model: a/m}, {model: a/n}, {model: a/o}]}]", []string{"v: a/m, a/n", "v: a/m, a/o"}},
		{"two providers", "", "[{source: v, targets: [{model: a/m}, {model: a/n}, {model: b/m}, {model: b/n}]}]", []string{"v: a/m, a/n", "v: b/m, b/n"}},
		{"configured models by their bare names", "", "[{source: v, targets: [{model: m1}, {model: m2}]}]", []string{"v: b/m1, b/m2"}},
		{"through another virtual model", "", "[{source: w, target: a/n}, {source: v, targets: [{model: a/m}, {model: w}]}]", []string{"v: a/m, a/n"}},
		{"through a model that is backed up", "", "[{source: a/n, targets: [{model: a/n}, {model: b/n}]}, {source: v, targets: [{model: b/m}, {model: a/n}]}]", []string{"v: b/m, b/n"}},
		{"where calls are only spread", "", "[{source: v, strategy: round_robin, failover: false, targets: [{model: a/m}, {model: a/n}]}]", []string{"v: a/m, a/n"}},
		{"different providers", "", "[{source: v, targets: [{model: a/m}, {model: b/m}]}]", nil},
		{"one breaker a model", "{circuit_breaker: {scope: model}}", "[{source: v, targets: [{model: a/m}, {model: a/n}]}]", nil},
		{"no breaker", "{circuit_breaker: {enabled: false}}", "[{source: v, targets: [{model: a/m}, {model: a/n}]}]", nil},
		{"no threshold", "{circuit_breaker: {failure_threshold: 0}}", "[{source: v, targets: [{model: a/m}, {model: a/n}]}]", nil},
		{"a breaker of its own alone where the provider says so", "{circuit_breaker: {scope: model}}", "[{source: v, targets: [{model: c/m}, {model: c/n}, {model: a/m}, {model: a/n}]}]", []string{"v: c/m, c/n"}},
		{"one of them disabled", "", "[{source: v, targets: [{model: a/m}, {model: a/n, disabled: true}]}]", nil},
		{"the virtual model disabled", "", "[{source: v, enabled: false, targets: [{model: a/m}, {model: a/n}]}]", nil},
		{"a disabled one below", "", "[{source: w, target: a/n, enabled: false}, {source: v, targets: [{model: a/m}, {model: w}]}]", nil},
		{"virtual models that each have one", "", "[{source: v, target: a/m}, {source: w, target: a/n}]", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := parse(t, "resilience: "+row.resilience+"\nproviders:\n  a: {type: openai}\n  b: {type: openai, models: [m1, m2]}\n"+
				"  c: {type: openai, resilience: {circuit_breaker: {scope: provider}}}\nvirtual_models: "+row.virtual+"\n", nil)
			var pairs []string
			for _, w := range c.Warnings() {
				assert.Regexp(t, `^line 6: virtual_models\[\d\]: the targets \S+ and \S+ of the virtual model \S+ share the circuit breaker of their provider, `, w)
				assert.True(t, strings.HasSuffix(w, tail), w)
				f := strings.Fields(w)
				pairs = append(pairs, f[12]+": "+f[5]+", "+f[7])
			}
			assert.Equal(t, row.pairs, pairs)
		})
	}
	c := parse(t, "providers: {a: {type: openai}}\nvirtual_models: [{source: '${V}', targets: [{model: a/m}, {model: 'a/${V}'}]}]", map[string]string{"V": canary})
	require.Len(t, c.Warnings(), 1)
	assert.NotContains(t, c.Warnings()[0], canary)
}
