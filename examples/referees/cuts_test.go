package referees_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
)

// A stream that the server cuts after so many chunks is an error, for every
// caller that looks at the status, the error of the call, or that of Read. Only
// a cut behind the last event leaves a whole answer.
func TestACutIsAnErrorUnlessItFallsBehindTheEnd(t *testing.T) {
	url := aimock(t)
	var honest, behind, uncut int
	for _, f := range formats() {
		for _, a := range f.answers() {
			t.Run(fmt.Sprintf("%s/%s", f.name, a), func(t *testing.T) {
				whole := said(wholeStream(t, f, a, url))
				for cut := 1; cut <= deepestCut; cut++ {
					base := &tape{}
					status, body, err := f.post(t, t.Context(), stackOver(t, "aimock", base), url, prompt(a, cut), true)
					switch {
					case !strings.Contains(base.read.String(), f.terminal):
						require.True(t, err != nil || status >= 500, "after %d chunks: status %d, no error, %q", cut, status, body)
						honest++
						continue
					case base.broken:
						behind++
					default: // the answer has no more chunks than that
						uncut++
						require.NoError(t, err)
					}
					require.Equal(t, whole, said(body), "after %d chunks", cut)
				}
			})
		}
	}
	t.Logf("%d cuts: %d honest errors, %d behind the terminal event; %d answers too short to be cut", honest+behind, honest, behind, uncut)
}

// wholeStream returns the bytes of an answer that is not cut: through the stack
// they are those of the server.
func wholeStream(t *testing.T, f format, a answer, url string) string {
	status, bare, err := f.post(t, t.Context(), http.DefaultTransport, url, prompt(a, 0), true)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, bare)
	require.Contains(t, bare, f.terminal)
	status, body, err := f.post(t, t.Context(), stack(t, "aimock"), url, prompt(a, 0), true)
	require.NoError(t, err, body)
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, said(bare), said(body))
	return body
}

// tape records what the server sent below the stack.
type tape struct {
	body   io.ReadCloser
	read   strings.Builder
	broken bool // it did not end properly
}

func (c *tape) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil {
		c.body, resp.Body = resp.Body, c
	}
	return resp, err
}

func (c *tape) Read(p []byte) (int, error) {
	n, err := c.body.Read(p)
	c.read.Write(p[:n])
	c.broken = c.broken || err != nil && err != io.EOF
	return n, err
}

func (c *tape) Close() error { return c.body.Close() }

// stack is the default one, without a wait that a test would notice.
func stack(t *testing.T, provider string) *resilience.Transport {
	t.Helper()
	return stackOver(t, provider, nil)
}

func stackOver(t *testing.T, provider string, base http.RoundTripper) *resilience.Transport {
	t.Helper()
	policy := resilience.DefaultPolicy()
	policy.Retry.InitialBackoff, policy.Retry.MaxBackoff = shortest, shortest
	s, err := resilience.Builder{Base: base}.Build(provider, policy)
	require.NoError(t, err)
	t.Cleanup(s.CloseIdleConnections)
	return s
}
