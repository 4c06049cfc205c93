package referees_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
)

// shortest is a wait between attempts; what the server asks for is longer, so
// that the chain moves on at once.
const shortest = time.Millisecond

// Whatever aimock does to a request on a chain's primary, a healthy backup
// answers: every call is whole, streamed or not.
func TestChaosOnThePrimaryIsCoveredByTheBackup(t *testing.T) {
	url := aimock(t)
	const draws = 3 // of the uncertain chaos
	var calls, whole int
	for _, chaos := range []string{"drop", "malformed", "disconnect", "ratelimit"} {
		for _, rate := range []string{"1", "0.5"} {
			t.Run(fmt.Sprintf("%s at a rate of %s", chaos, rate), func(t *testing.T) {
				rounds := 1
				if rate != "1" {
					rounds = draws
				}
				for range rounds {
					for _, f := range formats() {
						for _, a := range f.answers() {
							for _, stream := range []bool{true, false} {
								calls++
								if isWhole(t, f, a, stream, chain(t, url, chaos, rate), url, url) {
									whole++
								}
							}
						}
					}
				}
			})
		}
	}
	t.Logf("%d of %d calls whole", whole, calls)
	assert.Equal(t, calls, whole)
}

// isWhole makes a call to url and compares what came with what the healthy
// server says.
func isWhole(t *testing.T, f format, a answer, stream bool, rt http.RoundTripper, url, healthy string) bool {
	_, want, err := f.post(t, t.Context(), http.DefaultTransport, healthy, prompt(a, 0), stream)
	require.NoError(t, err)
	status, body, err := f.post(t, t.Context(), rt, url, prompt(a, 0), stream)
	return assert.NoError(t, err, "%s, %s, stream %t", f.name, a, stream) &&
		assert.Equal(t, http.StatusOK, status, "%s, %s, stream %t: %s", f.name, a, stream, body) &&
		assert.Equal(t, said(want), said(body), "%s, %s, stream %t", f.name, a, stream)
}

// chain is a primary in chaos and a healthy backup, one server for both: it
// reads the chaos from a header of the request.
func chain(t *testing.T, url, chaos, rate string) *failover.Chain {
	t.Helper()
	c, err := failover.NewChain(failover.DefaultPolicy(),
		failover.Target{Name: "primary", Provider: "primary", Transport: stack(t, "primary"),
			Header: http.Header{"X-Aimock-Chaos-" + http.CanonicalHeaderKey(chaos): {rate}}},
		failover.Target{Name: "backup", Provider: "backup", Transport: stack(t, "backup")})
	require.NoError(t, err)
	return c
}
