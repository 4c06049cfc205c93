package failover_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// goneChain is two targets with a policy.
func goneChain(t *testing.T, p failover.Policy, r reply) (*failover.Chain, *upstream) {
	t.Helper()
	backup := healthy()
	return chain(t, p,
		failover.Target{Name: "a", Provider: "a", Model: "a-1", BaseURL: "https://a.example/v1", Transport: stack(t, "a", newUpstream(r), once())},
		failover.Target{Name: "b", Provider: "b", Model: "b-1", BaseURL: "https://b.example/v1", Transport: stack(t, "b", backup, once())},
	), backup
}

func TestAModelThatIsGoneFailsOver(t *testing.T) {
	for name, c := range map[string]struct {
		policy failover.Policy
		reply  reply
		moves  bool
	}{
		"NVIDIA":             {failover.DefaultPolicy(), reply{status: 410, body: `{"detail":"The model 'a' has reached its end of life on 2026-01-01 and is no longer available."}`}, true},
		"DeepSeek":           {failover.DefaultPolicy(), reply{status: 400, body: `{"error":{"message":"Model Not Exist","type":"invalid_request_error"}}`}, true},
		"Anthropic":          {failover.DefaultPolicy(), reply{status: 404, body: `{"type":"error","error":{"type":"not_found_error","message":"model: a"}}`}, true},
		"Gemini":             {failover.DefaultPolicy(), reply{status: 404, body: `{"error":{"code":404,"message":"models/a is not found for API version v1beta","status":"NOT_FOUND"}}`}, true},
		"Ollama":             {failover.DefaultPolicy(), reply{status: 404, body: `{"error":"model \"a\" not found, try pulling it first"}`}, true},
		"OpenAI, 403":        {failover.DefaultPolicy(), reply{status: 403, body: `{"error":{"message":"Project does not have access to model a","code":"model_not_found"}}`}, true},
		"Groq":               {failover.DefaultPolicy(), reply{status: 400, body: `{"error":{"message":"The model a has been decommissioned and is no longer supported.","code":"model_decommissioned"}}`}, true},
		"phrases replaced":   {failover.Policy{RetryOnErrors: []string{"teapot"}}, reply{status: 410, body: `{"detail":"The model has reached its end of life"}`}, true},
		"a word added":       {failover.Policy{Words: wire.Words{ModelGone: []string{"410 sunset"}}}, reply{status: 410, body: `{"error":{"message":"sunset last week"}}`}, true},
		"its status differs": {failover.Policy{Words: wire.Words{ModelGone: []string{"410 sunset"}}}, reply{status: 400, body: `{"error":{"message":"sunset last week"}}`}, false},
		"a plain 410":        {failover.DefaultPolicy(), reply{status: 410, body: `{"detail":"gone"}`}, false},
		"about a lifetime":   {failover.DefaultPolicy(), reply{status: 400, body: `{"error":{"message":"model: the end of a token's lifetime"}}`}, false},
		"about a parameter":  {failover.DefaultPolicy(), reply{status: 400, body: `{"error":{"message":"parameter foo is not known, it does not exist"}}`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ch, backup := goneChain(t, c.policy, c.reply)
			a := ask(t, ch, "a")
			assert.Equal(t, c.moves, backup.count() == 1)
			assert.Equal(t, c.moves, a.StatusCode == 200)
		})
	}
}

func TestAPhraseForAModelThatIsGoneNeedsAWord(t *testing.T) {
	_, err := failover.NewChain(failover.Policy{Words: wire.Words{ModelGone: []string{"404"}}},
		failover.Target{Name: "a", BaseURL: "https://a.example/v1"})
	require.ErrorContains(t, err, "failover.words.model_gone")
}

// A ticket is an answer: a chain does not submit the work once more elsewhere.
func TestATicketDoesNotFailOver(t *testing.T) {
	for _, r := range []reply{{status: 202, body: `{"id":"x"}`}, {status: 200, body: `{"id":"x","status":"queued"}`}} {
		ch, backup := goneChain(t, failover.DefaultPolicy(), r)
		a := ask(t, ch, "a")
		assert.Equal(t, r.status, a.StatusCode)
		assert.Equal(t, r.body, a.body)
		assert.Zero(t, backup.count())
		call, ok := resilience.CallOf(a.Response)
		require.True(t, ok)
		assert.True(t, call.Accepted)
	}
}
