package failover_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	up "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// Formats that name the model in their path get the target's there, and their
// bodies as they were.
func TestModelInThePath(t *testing.T) {
	for name, c := range map[string]struct{ base, path, want string }{
		"Gemini":              {"/v1beta", "/v1beta/models/a:streamGenerateContent?alt=sse", "/v1beta/models/b:streamGenerateContent"},
		"Gemini, no version":  {"", "/v1beta/models/a:generateContent", "/v1beta/models/b:generateContent"},
		"Vertex":              {"/v1/projects/q/locations/k", "/v1/projects/p/locations/l/publishers/google/models/a:generateContent", "/v1/projects/q/locations/k/publishers/google/models/b:generateContent"},
		"Anthropic on Vertex": {"/v1/projects/q/locations/k", "/v1/projects/p/locations/l/publishers/anthropic/models/a:rawPredict", "/v1/projects/q/locations/k/publishers/anthropic/models/b:rawPredict"},
		"Bedrock":             {"", "/model/a/converse", "/model/b/converse"},
		"Bedrock, a profile":  {"", "/model/arn%3Aaws%3Abedrock%3Ax%2Fprofile/converse", "/model/b/converse"},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := up.NewInMemory("one"), up.NewInMemory("two")
			defer first.Close()
			defer second.Close()
			first.Default(up.Status(503))
			second.Default(up.OK("hi"))
			net := up.Switch(first, second)
			chain, err := failover.NewChain(failover.Policy{},
				failover.Target{Name: "one", Provider: "one", BaseURL: first.URL + c.base, Transport: net},
				failover.Target{Name: "two", Provider: "two", Model: "b", BaseURL: second.URL + c.base, Transport: net})
			require.NoError(t, err)
			const body = `{"contents":[{"parts":[{"text":"model"}]}]}`
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, first.URL+c.path, strings.NewReader(body))
			require.NoError(t, err)
			resp, err := chain.RoundTrip(req)
			require.NoError(t, err)
			_, err = io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, 200, resp.StatusCode)
			assert.Equal(t, 1, first.Count())
			assert.Equal(t, c.want, second.Last().Path)
			assert.Equal(t, body, string(second.Last().Body))
			assert.Equal(t, "b", second.Last().Model)
		})
	}
}
