package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOnce(t *testing.T) {
	var out bytes.Buffer
	begin := time.Now()
	require.NoError(t, run(t.Context(), &out, "", true))
	assert.Less(t, time.Since(begin), 10*time.Second)
	for _, name := range []string{"steady-eu", "flapping-us", "fading-lab"} {
		assert.Contains(t, out.String(), name)
	}
	assert.Contains(t, out.String(), "Degraded", "the bad model shows")
	assert.NotContains(t, out.String(), "Unhealthy")
}

func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- run(ctx, w, "127.0.0.1:0", false) }()
	line := make([]byte, 200)
	n, err := r.Read(line)
	require.NoError(t, err)
	url := strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "status page: "))
	for path, want := range map[string]string{"": "<h1>Provider status</h1>", "?format=json": `"providers"`, "readyz": `"status"`} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 200, resp.StatusCode)
		assert.Contains(t, string(body), want)
	}
	cancel()
	require.NoError(t, <-done)
}
