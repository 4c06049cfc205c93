package failover_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
	"github.com/surefoot-go/surefoot/streamguard"
)

// The rest of a stream is asked for at the target that began it, with that
// target's credentials, and nowhere else; a stream that was held back, and whose
// rest is not to be had, fails over whole (contract 13).
func TestAStreamIsResumedAtItsTarget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hold   string
		expire bool
		ends   string // who said the last word; "" is an honest error
	}{
		"resumed":                    {"", false, "a"},
		"held and resumed":           {streamguard.HoldComplete, false, "a"},
		"expired":                    {"", true, ""},
		"held and expired: the next": {streamguard.HoldComplete, true, "b"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := resilience.DefaultPolicy()
			p.Stream.Resume, p.Stream.HoldUntil = streamguard.ResumeOn, c.hold
			ups, targets := map[string]*upstreamtest.Upstream{}, []failover.Target{}
			for _, provider := range []string{"a", "b"} {
				up := upstreamtest.NewInMemory(provider + ".test")
				defer up.Close()
				stack, err := resilience.Builder{Base: up.RoundTripper()}.Build(provider, p)
				require.NoError(t, err)
				ups[provider] = up
				targets = append(targets, failover.Target{
					Name: provider, Provider: provider, Model: "m-" + provider, BaseURL: up.URL + "/v1",
					Header: http.Header{"Authorization": {"Bearer " + provider}}, Transport: stack,
				})
			}
			ups["a"].Default(upstreamtest.OK("a", "a").CutAfterText(1).Reset().Keep())
			if c.expire {
				ups["a"].Rests(upstreamtest.Status(http.StatusNotFound))
			}
			ups["b"].Default(upstreamtest.OK("b", "b"))
			chain, err := failover.NewChain(failover.DefaultPolicy(), targets...)
			require.NoError(t, err)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://sdk.test/v1/responses",
				strings.NewReader(`{"model":"m","stream":true,"background":true}`))
			require.NoError(t, err)
			resp, err := chain.Do(req)
			require.NoError(t, err, name)
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, c.ends == "", err != nil, "%s: %v", name, err)
			if c.ends != "" {
				assert.Contains(t, string(b), `"text":"`+c.ends+c.ends+`"`, name)
				assert.Equal(t, 2, strings.Count(string(b), "output_text.delta\","), name)
			}
			assert.Equal(t, map[bool]int{true: 1}[c.ends == "b"], ups["b"].Count(), name)
			require.Equal(t, 2, ups["a"].Count(), name)
			get := ups["a"].Last()
			assert.Equal(t, http.MethodGet, get.Method, name)
			assert.Equal(t, "Bearer a", get.Header.Get("Authorization"), name)
			assert.Equal(t, "/v1/responses/resp_1", get.Path, name)
		})
	}
}
