package resilience_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

func TestATicketIsASuccessThatIsCounted(t *testing.T) {
	base := play(reply{status: 200, body: `{"request_id":"d0f5"}`})
	var m meter
	rec := new(calls)
	tr, err := resilience.Builder{Base: base, OnCall: rec.on, MeterProvider: provider{m: &m}}.Build("eu", quick())
	require.NoError(t, err)
	status, body, err := do(t, tr, chat(t, t.Context(), `{"model":"m1","deferred":true,"messages":[]}`))
	require.NoError(t, err)
	assert.Equal(t, 200, status)
	assert.Equal(t, `{"request_id":"d0f5"}`, body)
	assert.Equal(t, 1, base.count(), "it is submitted once")
	call := rec.last(t)
	assert.Equal(t, resilience.OutcomeSuccess, call.Outcome)
	assert.True(t, call.Accepted)
	assert.Empty(t, call.Empty)
	told := strings.Join(m.take(), "\n")
	assert.Contains(t, told, "surefoot.client.accepted{gen_ai.request.model=m1 surefoot.provider.name=eu}")
	assert.NotContains(t, told, "surefoot.client.empty_responses")
}

// An attempt that was accepted and one that was not are told apart.
func TestOnlyTheLastAttemptIsATicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := play(reply{status: 202, body: `{"error":{"code":503}}`}, reply{status: 202, body: `{"id":"x"}`}, reply{status: 200, body: okJSON})
		tr, rec := build(t, base, quick())
		status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		assert.Equal(t, 202, status)
		assert.Equal(t, 2, base.count())
		assert.True(t, rec.last(t).Accepted)

		status, _, err = do(t, tr, chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		assert.Equal(t, 200, status)
		assert.False(t, rec.last(t).Accepted)
	})
}

func TestAnUnknownShapeIsDeliveredWithOneWarning(t *testing.T) {
	const body = `{"generated_text":"hi"}`
	base := play(reply{status: 200, body: body})
	tr, rec := build(t, base, quick())
	status, got, err := do(t, tr, chat(t, t.Context(), plainBody))
	require.NoError(t, err)
	assert.Equal(t, 200, status)
	assert.Equal(t, body, got)
	assert.Equal(t, 1, base.count())
	assert.Equal(t, "unknown_shape", rec.last(t).Empty)
	assert.Equal(t, resilience.OutcomeSuccess, rec.last(t).Outcome)
}

// A quota is no matter of waiting, whatever a vendor calls it.
func TestAQuotaIsNotRetried(t *testing.T) {
	added := func(p *resilience.Policy) { p.Words.Quota = []string{"empty_wallet"} }
	for name, c := range map[string]struct {
		status int
		body   string
		change func(*resilience.Policy)
		reqs   int
	}{
		"a plan used up":              {429, `{"error":{"type":"usage_limit_reached","message":"m","resets_in_seconds":529498}}`, nil, 1},
		"the same behind a 200":       {200, `{"error":{"type":"usage_limit_reached","message":"m"}}`, nil, 1},
		"no credit":                   {429, `{"error":{"code":"insufficient_credits"}}`, nil, 1},
		"a rate":                      {429, `{"error":{"code":"Throttling.RateQuota"}}`, nil, 3},
		"a word of one's own":         {429, `{"error":{"type":"EmptyWallet"}}`, added, 1},
		"the same behind a 200, too":  {200, `{"error":{"type":"empty-wallet"}}`, added, 1},
		"a word that nobody has told": {429, `{"error":{"type":"EmptyWallet"}}`, nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := quick()
				if c.change != nil {
					c.change(&p)
				}
				base := play(reply{status: c.status, body: c.body})
				tr, _ := build(t, base, p)
				status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
				require.NoError(t, err)
				assert.Equal(t, http.StatusTooManyRequests, status)
				assert.Equal(t, c.reqs, base.count())
			})
		})
	}
}

// A client's own fault closes the door on nobody else, told in a body or in a
// stream.
func TestAClientsFaultIsNeutral(t *testing.T) {
	stream := func(code string) string {
		return "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"status\":\"in_progress\"}}\n\n" +
			"event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"" + code + "\",\"message\":\"m\"}}}\n\n"
	}
	for name, body := range map[string]string{
		"invalid prompt, stream": stream("invalid_prompt"),
		"policy, stream":         stream("cyber_policy"),
		"a word of one's own":    stream("naughty_words"),
		"policy, body":           `{"object":"response","status":"failed","error":{"code":"cyber_policy","message":"m"},"output":[]}`,
		"too large, body":        `{"error":{"type":"request_too_large","message":"m"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := quick()
				p.Words = wire.Words{Client: []string{"naughty"}}
				base := play(reply{status: 200, body: body})
				tr, _ := build(t, base, p)
				for range 4 {
					ask := plainBody
					if strings.HasPrefix(body, "event:") {
						ask = streamBody
					}
					req := chat(t, t.Context(), ask)
					req.URL.Path = "/v1/responses"
					_, _, _ = do(t, tr, req)
				}
				assert.Equal(t, 4, base.count(), "each is sent once, none is refused")
				assert.Equal(t, breaker.Closed, tr.Breakers()[0].State)
				assert.Zero(t, tr.Breakers()[0].Failures)
			})
		})
	}
}

func TestWordsAreValidatedWhenBuilt(t *testing.T) {
	p := quick()
	p.Words.Overloaded = []string{" "}
	_, err := resilience.Builder{}.Build("eu", p)
	require.ErrorContains(t, err, "words.overloaded[0]: is empty, want a word")
}

// A built stack does not follow its caller's slices.
func TestBuiltWordsAreACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := quick()
		p.Words.Quota = []string{"empty_wallet"}
		base := play(reply{status: 429, body: `{"error":{"type":"empty_wallet"}}`})
		tr, _ := build(t, base, p)
		p.Words.Quota[0] = "something else"
		_, _, err := do(t, tr, chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		assert.Equal(t, 1, base.count())
	})
}

// A rejection on Bedrock has the header that its clients look for.
func TestARejectionHasTheFormatsHeader(t *testing.T) {
	base := play(reply{status: 503})
	tr, _ := build(t, base, quick())
	tr.ForceOpen("", 1e9)
	req := chat(t, t.Context(), `{}`)
	req.URL.Path = "/model/m/converse"
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Equal(t, 503, resp.StatusCode)
	assert.Equal(t, "ServiceUnavailableException", resp.Header.Get("X-Amzn-Errortype"))
}
