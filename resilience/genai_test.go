package resilience_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
)

// named returns the names of what was recorded, with how often.
func named(records []string) map[string]int {
	out := map[string]int{}
	for _, r := range records {
		name, _, _ := strings.Cut(r, "{")
		out[name]++
	}
	return out
}

func TestConventions(t *testing.T) {
	for name, c := range map[string]struct {
		chosen, environment string
		old, latest         bool
	}{
		"both until the next minor version":      {"", "", true, true},
		"a stream's events of other conventions": {"", "http,database/dup", true, true},
		"the new ones by the environment":        {"", "http, gen_ai_latest_experimental", false, true},
		"both by the environment":                {"", "gen_ai_latest_experimental/dup", true, true},
		"the program has the last word":          {resilience.ConventionsOld, "gen_ai_latest_experimental", true, false},
		"the program's both":                     {resilience.ConventionsBoth, "gen_ai_latest_experimental", true, true},
		"the program's new ones, no environment": {resilience.ConventionsNew, "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_SEMCONV_STABILITY_OPT_IN", c.environment)
			synctest.Test(t, func(t *testing.T) {
				tr, m := metered(t, resilience.Builder{Base: delayed{play(reply{status: 200, body: evA + evStop + evDone})}, Conventions: c.chosen}, quick())
				_, _, _ = do(t, tr, chat(t, t.Context(), streamBody))
				got := named(m.take())
				for _, what := range []string{"duration", "time_to_first_chunk"} {
					assert.Equal(t, c.old, got["gen_ai.client.operation."+what] == 1, what)
					assert.Equal(t, c.latest, got["gen_ai.client.inference."+what] == 1, what)
				}
			})
		})
	}
	t.Run("an unknown word", func(t *testing.T) {
		_, err := resilience.Builder{MeterProvider: provider{m: &meter{}}, Conventions: "newest"}.Build("eu", quick())
		require.ErrorContains(t, err, `unknown conventions "newest"`)
	})
}

// What the upstream says of tokens is counted, of a failed call too, and nothing
// where it says nothing. Embeddings have a duration of their own.
func TestMetricsByTheNewConventions(t *testing.T) {
	const (
		head   = "gen_ai.operation.name=chat gen_ai.provider.name=openai gen_ai.request.model=m1 "
		eu     = "surefoot.provider.name=eu}"
		used   = "gen_ai.client.inference.usage."
		size   = "gen_ai.client.inference.operation."
		took   = "gen_ai.client.inference.duration{"
		first  = "gen_ai.client.inference.time_to_first_chunk{" + head + "gen_ai.request.stream=true " + eu
		chunk  = "gen_ai.client.inference.time_per_output_chunk{" + head + "gen_ai.request.stream=true " + eu
		tokens = "{" + head + "gen_ai.token.modality=unknown " + eu
		usage  = `"usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1},"completion_tokens_details":{"reasoning_tokens":1}}`
	)
	counted := []string{
		used + "cache_read.input_tokens" + tokens,
		used + "input_tokens" + tokens, used + "input_tokens" + tokens, used + "input_tokens" + tokens,
		used + "output_tokens" + tokens, used + "output_tokens" + tokens,
		used + "reasoning.output_tokens" + tokens,
	}
	for _, c := range []struct {
		name, path, body string
		answer           reply
		want             []string
	}{
		{"an answer", "/chat/completions", plainBody, reply{status: 200, body: strings.Replace(okJSON, `"usage":{"total_tokens":3}`, usage, 1)}, append([]string{
			took + head + "gen_ai.request.stream=false " + eu,
			size + "input_tokens{" + head + eu, size + "output_tokens{" + head + eu,
		}, counted...)},
		{"an answer that says nothing", "/chat/completions", plainBody, reply{status: 200, body: okJSON}, []string{took + head + "gen_ai.request.stream=false " + eu}},
		{"a stream", "/chat/completions", streamBody, reply{status: 200, body: evA + evA + evStop + evDone}, []string{
			took + head + "gen_ai.request.stream=true " + eu, first, chunk, chunk,
		}},
		{"a stream that breaks off", "/chat/completions", streamBody, reply{status: 200, body: evA + `data: {"choices":[],` + usage + "}\n\n"}, append([]string{
			took + "error.type=stream_incomplete " + head + "gen_ai.request.stream=true " + eu, first,
			size + "input_tokens{error.type=stream_incomplete " + head + eu, size + "output_tokens{error.type=stream_incomplete " + head + eu,
			"surefoot.client.incomplete_streams{error.type=stream_incomplete gen_ai.request.model=m1 " + eu,
		}, counted...)},
		{"a failure inside a 200", "/chat/completions", plainBody, reply{status: 200, body: `{"error":{"code":400,"message":"x"},` + usage + `}`}, append([]string{
			took + "error.type=400 " + head + "gen_ai.request.stream=false " + eu,
			size + "input_tokens{error.type=400 " + head + eu, size + "output_tokens{error.type=400 " + head + eu,
		}, counted...)},
		{"embeddings", "/embeddings", plainBody, reply{status: 200, body: `{"data":[{"embedding":[1]}],"usage":{"prompt_tokens":3}}`}, []string{
			"gen_ai.client.embeddings.duration{" + strings.Replace(head, "=chat", "=embeddings", 1) + "gen_ai.request.stream=false " + eu,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr, m := metered(t, resilience.Builder{Base: delayed{play(c.answer)}, Conventions: resilience.ConventionsNew}, quick())
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://upstream.invalid/v1"+c.path, strings.NewReader(c.body))
				require.NoError(t, err)
				_, _, _ = do(t, tr, req)
				assert.ElementsMatch(t, c.want, m.take())
			})
		})
	}
}
