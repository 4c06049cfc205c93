package discovery_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// Every paged API, with more models than fit on a page of the fake.
func TestListersAgainstTheFake(t *testing.T) {
	var want []string
	for _, c := range "abcdefghijklmnopqrstuvwxyz" {
		for _, d := range "0123456789" {
			want = append(want, string(c)+string(d))
		}
	}
	for _, tc := range []struct{ kind, query string }{
		{"openai", ""}, {"ollama", ""},
		{"anthropic", "?limit=20"}, {"gemini", "?pageSize=50"}, {"cohere", "?page_size=20"},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			up := upstreamtest.NewInMemory("")
			defer up.Close()
			up.Models(want...)
			l, err := discovery.NewLister(discovery.ListerConfig{Type: tc.kind, Client: up.Client(), BaseURL: up.URL + tc.query})
			require.NoError(t, err)
			ms, err := l.ListModels(t.Context())
			require.NoError(t, err)
			assert.Equal(t, want, ids(ms))
			assert.Equal(t, tc.query != "", up.Count() > 1)
		})
	}
}

// A stack, its breaker and the registry together: calls fail, the breaker
// opens, probes, closes, and the status follows.
func TestStatusFollowsAStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := upstreamtest.NewInMemory("")
		defer up.Close()
		up.Models("m")
		up.Default(upstreamtest.Status(500).Times(3), upstreamtest.OK("hi"))
		r := registry(t, discovery.Config{})
		policy := resilience.DefaultPolicy()
		policy.CircuitBreaker.FailureThreshold = 3
		stack, err := resilience.Builder{Base: up.RoundTripper(), OnCall: r.Observe}.Build("p", policy)
		require.NoError(t, err)
		// The lister goes through the stack: its requests stay out of the window.
		l, err := discovery.NewLister(discovery.ListerConfig{Type: "openai", Client: stack.Client(), BaseURL: up.URL + "/v1"})
		require.NoError(t, err)
		require.NoError(t, r.Add(discovery.Provider{Name: "p", Lister: l, Breakers: stack.Breakers, Controls: stack}))
		require.NoError(t, r.Refresh(t.Context()))
		post := func() int {
			req, err := http.NewRequestWithContext(resilience.WithModel(context.Background(), "m"), http.MethodPost,
				up.URL+"/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[]}`))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			resp, err := stack.Client().Do(req)
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, resp.Body)
			require.NoError(t, resp.Body.Close())
			return resp.StatusCode
		}
		status := func() string { return statusOf(t, r, "p").Status }

		assert.Equal(t, "Healthy", status())
		for range 3 {
			assert.Equal(t, 500, post())
		}
		assert.Equal(t, "Circuit Open", status())
		s := statusOf(t, r, "p")
		assert.Equal(t, 3, s.Calls)
		assert.Equal(t, 3, s.Failures)
		assert.Equal(t, 503, post())
		s = statusOf(t, r, "p")
		assert.Equal(t, 4, s.Failures, "a rejection counts")
		assert.WithinDuration(t, time.Now().Add(30*time.Second), s.Breaker.NextProbe, time.Second)
		time.Sleep(30 * time.Second)
		assert.Equal(t, 200, post())
		assert.Equal(t, "Recovering", status())
		assert.Equal(t, 200, post())
		assert.Equal(t, "Degraded", status(), "the window remembers")
		time.Sleep(10 * time.Minute)
		assert.Equal(t, "Healthy", status())
	})
}
