package failover_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
)

var goesOn = failover.Policy{RetryOnErrors: []string{"default", failover.TooLong}}

// What vendors and servers answer a request with that is longer than the
// model's context.
func TestTooLongForAModelGoesOn(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
		moves  bool
	}{
		"OpenAI":                     {400, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, true},
		"OpenAI, responses":          {400, `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error"}}`, true},
		"Groq":                       {413, `{"error":{"message":"Please reduce the length of the messages or completion.","code":"context_length_exceeded"}}`, true},
		"Anthropic":                  {400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, true},
		"Anthropic, output":          {400, `{"type":"error","error":{"type":"invalid_request_error","message":"input length and ` + "`max_tokens`" + ` exceed context limit: 190000 + 20000 > 200000"}}`, true},
		"Gemini":                     {400, `{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`, true},
		"Bedrock":                    {400, `{"message":"Input is too long for requested model."}`, true},
		"xAI":                        {400, `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}`, true},
		"Mistral":                    {400, `{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","code":3051}`, true},
		"llama.cpp":                  {400, `{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error"}}`, true},
		"behind a 200":               {200, `{"error":{"code":"context_length_exceeded","message":"x"}}`, true},
		"a validation error":         {400, `{"error":{"message":"temperature: too large, maximum is 2","type":"invalid_request_error"}}`, false},
		"a long stop word":           {400, `{"error":{"message":"stop: string too long","code":"string_above_max_length"}}`, false},
		"its words in another fault": {403, `{"error":{"message":"your context is not allowed here"}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newUpstream(reply{status: tc.status, body: tc.body}), healthy()
			sa := stack(t, "a", a, knobs())
			ch := chain(t, goesOn,
				failover.Target{Name: "a", Provider: "a", Model: "small", Transport: sa},
				failover.Target{Name: "b", Provider: "b", Model: "large", Transport: stack(t, "b", b, knobs())})
			got := ask(t, ch, "m")
			assert.Equal(t, 1, a.count())
			assert.Zero(t, sa.Breakers()[0].Failures, "no failure of the breaker")
			if !tc.moves {
				assert.Equal(t, tc.status, got.StatusCode)
				assert.Zero(t, b.count())
				return
			}
			assert.Equal(t, http.StatusOK, got.StatusCode)
			assert.Equal(t, 1, b.count())
		})
	}
}

// A request that is too long for a model is too long for it elsewhere.
func TestTooLongIsAskedOnceAModel(t *testing.T) {
	const tooLong = `{"error":{"code":"context_length_exceeded","message":"m"}}`
	for name, tc := range map[string]struct {
		first  int // the status of the first target
		models [3]string
		asked  [3]int
		status int
		trail  string
	}{
		"the same model is passed over":         {400, [3]string{"m", "m", "large"}, [3]int{1, 0, 1}, 200, "a:400 b:-too_long c:ok"},
		"also where targets keep the request's": {400, [3]string{"", "m", "large"}, [3]int{1, 0, 1}, 200, "a:400 b:-too_long c:ok"},
		"none is left":                          {400, [3]string{"m", "m", "m"}, [3]int{1, 0, 0}, 400, "a:400 b:-too_long c:-too_long"},
		"within a sweep":                        {500, [3]string{"other", "m", "m"}, [3]int{1, 1, 0}, 400, "a:500 b:400 c:-too_long"},
	} {
		t.Run(name, func(t *testing.T) {
			ups := [3]*upstream{newUpstream(reply{status: tc.first, body: tooLong}), healthy(), healthy()}
			if tc.first == 500 {
				ups[0], ups[1] = failing(500), newUpstream(reply{status: 400, body: tooLong})
			}
			var targets []failover.Target
			for i, u := range ups {
				name := string(rune('a' + i))
				targets = append(targets, failover.Target{Name: name, Provider: name, Model: tc.models[i], Transport: stack(t, name, u, knobs())})
			}
			got := ask(t, chain(t, goesOn, targets...), "m")
			assert.Equal(t, tc.status, got.StatusCode)
			for i, u := range ups {
				assert.Equal(t, tc.asked[i], u.count(), "target %d", i)
			}
			assert.Equal(t, tc.trail, trail(failover.AttemptsOf(got.Response)))
		})
	}
}

// The word alone leaves out the default phrases; without it nothing changes.
func TestTooLongIsAWordOfTheList(t *testing.T) {
	gone, long := `{"error":{"code":"model_not_found"}}`, `{"error":{"code":"context_length_exceeded"}}`
	for _, tc := range []struct {
		list  []string
		body  string
		moves bool
	}{
		{nil, long, false},
		{[]string{"default"}, long, false},
		{[]string{" Too_Long "}, long, true},
		{[]string{"too_long"}, gone, false},
		{[]string{"too_long", "default"}, gone, true},
	} {
		a, b := newUpstream(reply{status: 400, body: tc.body}), healthy()
		ask(t, chain(t, failover.Policy{RetryOnErrors: tc.list},
			failover.Target{Name: "a", Provider: "a", Model: "m", Transport: stack(t, "a", a, knobs())},
			failover.Target{Name: "b", Provider: "b", Model: "n", Transport: stack(t, "b", b, knobs())}), "m")
		assert.Equal(t, tc.moves, b.count() == 1, "%q %s", tc.list, tc.body)
	}
}

// A chain below and a function are told by the same rule.
func TestTooLongBelowAndInAFunction(t *testing.T) {
	long := newUpstream(reply{status: 400, body: `{"error":{"code":"context_length_exceeded"}}`})
	same, large := healthy(), healthy()
	inner := chain(t, goesOn, failover.Target{Name: "a", Provider: "a", Model: "m", Transport: stack(t, "a", long, knobs())})
	outer := chain(t, goesOn,
		failover.Target{Name: "inner", Transport: inner},
		failover.Target{Name: "b", Provider: "b", Model: "m", Transport: stack(t, "b", same, knobs())},
		failover.Target{Name: "c", Provider: "c", Model: "large", Transport: stack(t, "c", large, knobs())})
	assert.Equal(t, http.StatusOK, ask(t, outer, "m").StatusCode)
	assert.Equal(t, []int{1, 0, 1}, []int{long.count(), same.count(), large.count()})

	var asked []string
	_, err := failover.Call(t.Context(), outer, func(_ context.Context, to failover.Target) (int, error) {
		asked = append(asked, to.Name)
		return 0, &sdkError{StatusCode: 400, Code: "context_length_exceeded"}
	})
	require.Error(t, err)
	assert.Equal(t, []string{"a", "c"}, asked)
}

// sdkError has the fields that an SDK's error has.
type sdkError struct {
	StatusCode int
	Code       string
}

func (e *sdkError) Error() string { return e.Code }
