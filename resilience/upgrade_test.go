package resilience_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
)

// The connection of a 101 can be closed in one direction, as without a stack
// (contract 2): a WebSocket or a proxy ends its half and reads the rest.
func TestAnUpgradedConnectionIsClosedByHalves(t *testing.T) {
	t.Parallel()
	timed := resilience.DefaultPolicy()
	timed.Retry.AttemptTimeout = time.Hour
	for name, policy := range map[string]resilience.Policy{"default": resilience.DefaultPolicy(), "attempt timeout": timed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(echoOnceClosed))
			defer srv.Close()
			stack, err := resilience.Builder{Base: srv.Client().Transport}.Build("upstream", policy)
			require.NoError(t, err)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
			require.NoError(t, err)
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "echo")
			resp, err := stack.RoundTrip(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
			conn, ok := resp.Body.(interface {
				io.Writer
				CloseWrite() error
			})
			require.True(t, ok, "%T", resp.Body)
			_, err = io.WriteString(conn, "the last word")
			require.NoError(t, err)
			require.NoError(t, conn.CloseWrite())
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, "the last word", string(got))
		})
	}
}

// echoOnceClosed switches protocols, reads until the client has closed its half,
// and sends what it read back.
func echoOnceClosed(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "echo")
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close() //nolint:errcheck // nobody is left to care
	if data, err := io.ReadAll(rw); err == nil {
		conn.Write(data) //nolint:errcheck // the client sees it
	}
}
