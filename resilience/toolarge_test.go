package resilience_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
)

// A body that a server's own limit cut off on its way through is the caller's
// fault: 413, as an error and as a response, and neither sent again nor a
// failure of the upstream (contract 4).
func TestABodyThatIsTooLargeIs413(t *testing.T) {
	body := func() io.ReadCloser {
		return http.MaxBytesReader(httptest.NewRecorder(), io.NopCloser(strings.NewReader(`{"model":"m","x":"`+strings.Repeat("x", 2000)+`"}`)), 1000)
	}
	assert.Equal(t, 413, resilience.StatusOf(&http.MaxBytesError{Limit: 1}))
	for _, render := range []string{resilience.RenderNone, resilience.RenderAll} {
		for _, length := range []int64{-1, 2020} {
			base := roundTrip(func(req *http.Request) (*http.Response, error) {
				_, err := io.ReadAll(req.Body)
				_ = req.Body.Close()
				return nil, err
			})
			p := resilience.DefaultPolicy()
			p.ErrorsAsResponses = render
			p.CircuitBreaker.FailureThreshold = 1
			tr, err := resilience.Builder{Base: base}.Build("p", p)
			require.NoError(t, err)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://up.test/v1/chat/completions", body())
			require.NoError(t, err)
			req.ContentLength = length
			resp, err := tr.RoundTrip(req)
			if render == resilience.RenderAll {
				require.NoError(t, err)
				text, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, 413, resp.StatusCode)
				assert.Contains(t, string(text), "request_too_large")
				assert.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
			} else {
				assert.Nil(t, resp)
				assert.Equal(t, 413, resilience.StatusOf(err))
			}
			assert.Zero(t, tr.Breakers()[0].Failures)
		}
	}
}
