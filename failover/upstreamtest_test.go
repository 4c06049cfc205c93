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
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// The test provider's own errors fail over where a real provider's do: its
// message holds no word of a phrase, such as the "upstream" of "upstream error".
// A 404 is left out: as with OpenAI, its code is model_not_found in some formats.
func TestScriptedStatusesMatchNoPhrase(t *testing.T) {
	paths := []string{"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models/m:generateContent", "/api/chat", "/v2/chat", "/model/m/converse"}
	steps := map[string]upstreamtest.Step{
		"400": upstreamtest.Status(400), "401": upstreamtest.Status(401), "403": upstreamtest.Status(403),
		"422":        upstreamtest.Status(422),
		"hidden 401": upstreamtest.Hidden(upstreamtest.HiddenWord, 401), "hidden 400": upstreamtest.Hidden(upstreamtest.HiddenCode, 400),
	}
	for name, step := range steps {
		for _, path := range paths {
			t.Run(name+" "+path, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					up := upstreamtest.NewInMemory("")
					defer up.Close()
					up.Default(step)
					rt := up.RoundTripper()
					c := chain(t, failover.DefaultPolicy(),
						failover.Target{Name: "a", Provider: "a", Transport: stack(t, "a", rt, once())},
						failover.Target{Name: "b", Provider: "b", Transport: stack(t, "b", rt, once())})
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, up.URL+path, strings.NewReader(`{"model":"m","stream":false}`))
					require.NoError(t, err)
					resp, err := c.Do(req)
					require.NoError(t, err)
					_, err = io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					assert.Len(t, failover.AttemptsOf(resp), 1)
				})
			})
		}
	}
}
