package layer_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/internal/layer"
)

// Over real connections, HTTP/1.1 and HTTP/2: the server sends the first half of
// the body, and the second when the test says so.
func TestPeekOverASocket(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		for _, declared := range []bool{false, true} {
			t.Run(fmt.Sprint("h2 ", h2, " declared ", declared), func(t *testing.T) {
				t.Parallel()
				goOn := make(chan struct{})
				srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if declared {
						w.Header().Set("Content-Length", fmt.Sprint(len(text)))
					}
					w.WriteHeader(http.StatusServiceUnavailable)
					_, _ = io.WriteString(w, text[:9])
					_ = http.NewResponseController(w).Flush()
					select {
					case <-goOn:
						_, _ = io.WriteString(w, text[9:])
					case <-r.Context().Done():
					}
				}))
				srv.EnableHTTP2 = h2
				srv.StartTLS()
				t.Cleanup(srv.Close)
				look := func() *http.Response {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, http.NoBody)
					require.NoError(t, err)
					resp, err := layer.Send(srv.Client().Transport, req)
					require.NoError(t, err)
					p := layer.Peek(resp, layer.PeekBytes, 20*time.Millisecond)
					assert.False(t, p.Whole())
					return resp
				}

				// Closed while a Read waits for the other half.
				resp := look()
				var wg sync.WaitGroup
				wg.Go(func() {
					_, err := io.ReadAll(resp.Body)
					assert.Error(t, err)
				})
				require.NoError(t, resp.Body.Close())
				wg.Wait()

				// Kept without the other half.
				resp = look()
				layer.Keep(resp, 20*time.Millisecond)
				got, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.Equal(t, text[:len(got)], string(got))
				assert.EqualValues(t, len(got), resp.ContentLength)
				layer.Drain(resp, 0)

				// Dropped.
				layer.Drain(look(), 20*time.Millisecond)

				// Read to its end.
				resp = look()
				close(goOn)
				got, err = io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.Equal(t, text, string(got))
				require.NoError(t, resp.Body.Close())
			})
		}
	}
}

// A dropped and a kept answer leave their connection to the next request.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	from := map[string]bool{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		from[r.RemoteAddr] = true
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(srv.Close)
	for i := range 30 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, http.NoBody)
		require.NoError(t, err)
		resp, err := layer.Send(srv.Client().Transport, req)
		require.NoError(t, err)
		if i%2 == 0 {
			layer.Peek(resp, layer.PeekBytes, time.Minute)
		}
		if i%3 == 0 {
			layer.Keep(resp, time.Minute)
		}
		layer.Drain(resp, time.Minute)
	}
	mu.Lock()
	defer mu.Unlock()
	assert.Len(t, from, 1)
}
