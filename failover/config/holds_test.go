package config_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/failover/config"
	"github.com/surefoot-go/surefoot/resilience"
)

// The registry shows what the stacks hold, and the virtual models meet it.
func TestAssemblyShowsHeldKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &cloud{calls: map[string]int{"a.test": 429}, retry: "600"}
		a := assemble(t, assembled, base, config.Options{})
		assert.Equal(t, 200, ask(t, a.Router(), "smart"))
		assert.Equal(t, []discovery.HoldStatus{{Key: "large", Kind: "rate", Until: time.Now().Add(10 * time.Minute).UTC()}}, status(t, a, "a").Holds)
		assert.Nil(t, status(t, a, "b").Holds)
		base.take()
		assert.Equal(t, 200, ask(t, a.Router(), "smart"))
		assert.Equal(t, []string{"POST b.test large"}, base.take())
		assert.Equal(t, 429, ask(t, a.Router(), "a/large"))
		s := status(t, a, "a")
		assert.Equal(t, 2, s.Failures, "the rejection counts")
		assert.Equal(t, "429", s.LastFailure.Reason, "and hides nothing")
	})
}

// What a file says of limits is what a built stack does.
func TestLimitsOfAFileAreEffective(t *testing.T) {
	const provider = "  a: {type: openai, base_url: \"https://a.test/v1\", api_key: ka, resilience: {retry: {max_retries: 0}, limits: "
	build := func(t *testing.T, base http.RoundTripper, limits string) *resilience.Transport {
		t.Helper()
		c := parse(t, "providers:\n"+provider+limits+"}}\n", nil)
		tr, err := resilience.Builder{Base: base}.Build("a", c.Policy("a"))
		require.NoError(t, err)
		return tr
	}
	for _, row := range []struct {
		limits string
		status int
		held   time.Duration
	}{
		{"{}", 429, time.Hour},
		{"{hold: false}", 429, 0},
		{"{max_hold: 90s}", 429, 90 * time.Second},
		{"{}", 200, 0},
		{"{preempt: true}", 200, 20 * time.Second},
		{"{hold: false, preempt: true}", 200, 20 * time.Second},
	} {
		t.Run(row.limits, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &cloud{calls: map[string]int{"caller.example.com": row.status}, retry: "7200"}
				tr := build(t, spent{base}, row.limits)
				assert.Equal(t, row.status, ask(t, tr, "m"))
				var held time.Duration
				for _, h := range tr.Holds() {
					held = h.RetryAfter
				}
				assert.Equal(t, row.held, held)
			})
		})
	}
	t.Run("max_concurrent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			gate := make(chan struct{})
			tr := build(t, gated{&cloud{}, gate}, "{max_concurrent: 2}")
			for range 2 {
				go ask(t, tr, "m")
			}
			synctest.Wait()
			assert.Equal(t, 2, tr.InUse())
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://caller.example.com/v1/chat/completions", http.NoBody)
			require.NoError(t, err)
			resp, err := tr.RoundTrip(req)
			if assert.NoError(t, err) {
				assert.Equal(t, 429, resp.StatusCode, "no place within the deadline")
				assert.NoError(t, resp.Body.Close())
			}
			close(gate)
			synctest.Wait()
			assert.Zero(t, tr.InUse())
		})
	})
}

// spent says in every answer that nothing remains for twenty seconds.
type spent struct{ *cloud }

func (s spent) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.cloud.RoundTrip(req)
	if err == nil {
		resp.Header.Set("X-Ratelimit-Remaining-Requests", "0")
		resp.Header.Set("X-Ratelimit-Reset-Requests", "20s")
	}
	return resp, err
}

// gated answers once the gate is open.
type gated struct {
	*cloud
	gate chan struct{}
}

func (g gated) RoundTrip(req *http.Request) (*http.Response, error) {
	<-g.gate
	return g.cloud.RoundTrip(req)
}
