package failover_test

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

	"github.com/surefoot-go/surefoot/failover"
)

// Two models of one provider share its places. The answer in hand, which the
// chain keeps for want of a better one, must not keep the next target waiting
// for the place of the call before it.
func TestAnAnswerInHandHoldsNoPlaceOfTheNextTarget(t *testing.T) {
	t.Parallel()
	for name, stalls := range map[string]bool{"stalls": true, "large": false} {
		synctest.Test(t, func(t *testing.T) {
			rest, w := io.Pipe()
			defer func() { _ = w.Close() }()
			bad := reply{status: 503, body: `{"error":{"message":"x`, rest: rest}
			if !stalls {
				bad.rest = strings.NewReader(strings.Repeat("x", 1<<20))
			}
			p := once()
			p.Limits.MaxConcurrent = 1
			p.Stream.IdleTimeout = time.Hour
			s := stack(t, "a", newUpstream(bad, reply{status: 200, body: okJSON}), p)
			c := chain(t, failover.DefaultPolicy(),
				failover.Target{Name: "a/1", Provider: "a", Model: "m1", BaseURL: "https://a.example/v1", Transport: s},
				failover.Target{Name: "a/2", Provider: "a", Model: "m2", BaseURL: "https://a.example/v1", Transport: s},
			)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got, err := do(t, c, post(t, chatURL, chatBody("m1")).WithContext(ctx))
			require.NoError(t, err, name)
			assert.Equal(t, http.StatusOK, got.StatusCode, name)
			assert.Equal(t, "a/1:503 a/2:ok", trail(failover.AttemptsOf(got.Response)), name)
			assert.Zero(t, s.InUse(), name)
		})
	}
}
