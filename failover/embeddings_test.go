package failover_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
)

const embedURL = "https://a.example/v1/embeddings"

// Vectors of two models must not mix: whatever the strategy, embeddings go to
// the targets that have the first one's model (contract 7.3).
func TestEmbeddingsNeverMixModels(t *testing.T) {
	away := func() bool { return false }
	type row struct {
		policy  failover.Policy
		targets []failover.Target
		nested  bool // behind a chain as the only target
		want    string
	}
	one := func(name, model string) failover.Target { return failover.Target{Name: name, Model: model} }
	with := func(t failover.Target, f func(*failover.Target)) failover.Target { f(&t); return t }
	robin := failover.Policy{Strategy: failover.StrategyRoundRobin}
	for name, tc := range map[string]row{
		"round robin over three models":    {policy: robin, targets: []failover.Target{one("a", "x"), one("b", "y"), one("c", "z")}, want: "a a a a"},
		"round robin over one model":       {policy: robin, targets: []failover.Target{one("a", "x"), one("b", "y"), one("c", "x")}, want: "a c a c"},
		"the request's own model":          {policy: robin, targets: []failover.Target{one("a", ""), one("b", "m"), one("c", "y")}, want: "a b a b"},
		"spread only":                      {policy: failover.Policy{Strategy: failover.StrategyRoundRobin, Disabled: true}, targets: []failover.Target{one("a", "x"), one("b", "y")}, want: "a a a a"},
		"behind another chain":             {policy: robin, nested: true, targets: []failover.Target{one("a", "x"), one("b", "y"), one("c", "x")}, want: "a c a c"},
		"the cheapest":                     {policy: failover.Policy{Strategy: failover.StrategyCost}, targets: []failover.Target{with(one("a", "x"), func(t *failover.Target) { t.Cost = 3 }), one("b", "y"), with(one("c", "x"), func(t *failover.Target) { t.Cost = 2 })}, want: "c c c c"},
		"the first one is switched off":    {policy: robin, targets: []failover.Target{with(one("a", "x"), func(t *failover.Target) { t.Disabled = true }), one("b", "y"), one("c", "x")}, want: "b b b b"},
		"the first one is not for all":     {policy: robin, targets: []failover.Target{with(one("a", "x"), func(t *failover.Target) { t.Allow = func(*http.Request) bool { return false } }), one("b", "y")}, want: "b b b b"},
		"the first one is unavailable":     {targets: []failover.Target{with(one("a", "x"), func(t *failover.Target) { t.Available = away }), one("b", "y"), one("c", "x")}, want: "c c c c"},
		"all of its model are unavailable": {targets: []failover.Target{with(one("a", "x"), func(t *failover.Target) { t.Available = away }), one("b", "y")}, want: "a a a a"},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range tc.targets {
				tc.targets[i].Transport = healthy()
			}
			c := chain(t, tc.policy, tc.targets...)
			if tc.nested {
				c = chain(t, failover.Policy{}, failover.Target{Name: "in", Transport: c})
			}
			var got string
			for range 4 {
				resp, err := do(t, c, post(t, embedURL, chatBody("m")))
				require.NoError(t, err)
				for _, a := range failover.AttemptsOf(resp.Response) {
					if !a.Skipped {
						got += " " + a.Target
					}
				}
			}
			assert.Equal(t, " "+tc.want, got)
		})
	}
}

func TestEmbeddingsThroughARouter(t *testing.T) {
	robin := failover.Policy{Strategy: failover.StrategyRoundRobin}
	target := func(name, provider, model string) failover.Target {
		return failover.Target{Name: name, Provider: provider, Model: model, Transport: healthy()}
	}
	r, err := failover.NewRouter(map[string]*failover.Chain{
		"small": chain(t, robin, target("p/s", "p", "s"), target("q/l", "q", "l")),
		"best":  chain(t, robin, target("q/l", "q", "l"), failover.Target{Model: "small"}, target("p/s", "p", "s")),
		"s":     chain(t, robin, target("q/l", "q", "l"), target("p/s", "p", "s")),
	}, nil)
	require.NoError(t, err)
	for model, want := range map[string]string{
		"small": "p/s:ok p/s:ok",
		"best":  "q/l:ok q/l:ok",
		"p/s":   "p/s:ok p/s:ok", // the model that the request names
	} {
		var got string
		for range 2 {
			resp, err := do(t, r, post(t, embedURL, chatBody(model)))
			require.NoError(t, err)
			got += " " + trail(failover.AttemptsOf(resp.Response))
		}
		assert.Equal(t, " "+want, got, model)
	}
}

// A target of another model is passed over, and the record says why.
func TestEmbeddingsRecordOtherModels(t *testing.T) {
	c := chain(t, failover.Policy{},
		failover.Target{Name: "a", Model: "x", Transport: healthy(), Available: func() bool { return false }},
		failover.Target{Name: "b", Model: "y", Transport: healthy()},
		failover.Target{Name: "c", Model: "x", Transport: healthy()})
	resp, err := do(t, c, post(t, embedURL, chatBody("m")))
	require.NoError(t, err)
	assert.Equal(t, "a:-unavailable b:-other_model c:ok", trail(failover.AttemptsOf(resp.Response)))
}
