package retry_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/retry"
)

// Patience is asked before each wait, by the shortest that it can be, and
// shortens the jitter of a wish. Refused, the answer in hand goes back whole.
func TestPatienceIsAskedBeforeEachWait(t *testing.T) {
	const s = time.Second
	for name, tc := range map[string]struct {
		reply   reply
		longest []time.Duration // of each wait; a shorter one than is needed refuses
		waits   []time.Duration // that it is asked for; 0: a backoff
		took    time.Duration   // at most
	}{
		"a wish that fits":          {status(429, "Retry-After", "2"), []time.Duration{5 * s, 5 * s, 5 * s}, []time.Duration{2 * s, 2 * s, 2 * s}, 66 * s / 10},
		"the jitter does not":       {status(429, "Retry-After", "2"), []time.Duration{2 * s, 2 * s, 2 * s}, []time.Duration{2 * s, 2 * s, 2 * s}, 6 * s},
		"a wish that does not":      {status(429, "Retry-After", "2"), []time.Duration{2*s - 1}, []time.Duration{2 * s}, 0},
		"a second one that doesn't": {status(429, "Retry-After", "2"), []time.Duration{2 * s, s}, []time.Duration{2 * s, 2 * s}, 2 * s},
		"a tiny wish":               {status(429, "Retry-After", "0.0000001"), []time.Duration{0}, []time.Duration{10 * time.Millisecond}, 0},
		"a backoff that does not":   {status(503), []time.Duration{100 * time.Millisecond}, []time.Duration{0}, 0},
		"no answer":                 {fails(errReset), []time.Duration{5 * s, s}, []time.Duration{0, 0}, 11 * s / 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := &script{t: t, replies: []reply{tc.reply}}
				n := 0
				rt := &retry.Transport{Base: u, Policy: retry.DefaultPolicy()}
				above{mayWait: func(resp *http.Response, wait time.Duration) (time.Duration, bool) {
					require.Less(t, n, len(tc.waits))
					if tc.waits[n] > 0 {
						assert.Equal(t, tc.waits[n], wait)
					}
					assert.Equal(t, name == "no answer", resp == nil)
					longest := tc.longest[n]
					n++
					return longest, wait <= longest
				}}.put(rt)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://u.example/", nil)
				require.NoError(t, err)
				start := time.Now()
				resp, err := rt.RoundTrip(req)
				assert.LessOrEqual(t, time.Since(start), tc.took)
				assert.Len(t, tc.waits, n)
				if err != nil {
					assert.ErrorIs(t, err, errReset)
					return
				}
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, http.StatusText(resp.StatusCode), string(body))
				assert.Zero(t, u.open.Load())
			})
		})
	}
}
