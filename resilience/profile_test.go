package resilience_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/retry"
	"github.com/surefoot-go/surefoot/streamguard"
)

// A profile differs from the default by what contract 12 lists and by nothing
// else.
func TestProfilesDifferByTheirTable(t *testing.T) {
	t.Parallel()
	live := resilience.DefaultPolicy()
	live.Retry.RetryOnStatuses = []string{"default", "408", "500", "520", "521", "523", "529"}
	live.Retry.MaxRetries, live.Retry.InitialBackoff = 2, 500*time.Millisecond
	live.Retry.Streams = retry.StreamsHeldBack
	live.Stream.HoldUntil = streamguard.HoldFirstContent
	live.Stream.FirstEventTimeout, live.Stream.IdleTimeout = 10*time.Second, 20*time.Second
	live.CircuitBreaker.Scope = breaker.ScopeModel
	live.CircuitBreaker.Timeout, live.CircuitBreaker.Jitter = 10*time.Second, 0.1
	whole := live
	whole.Stream.HoldUntil = streamguard.HoldComplete

	for name, want := range map[string]resilience.Policy{
		"": resilience.DefaultPolicy(), "default": resilience.DefaultPolicy(), "live": live, "whole": whole,
	} {
		got, err := resilience.Profile(name)
		require.NoError(t, err)
		assert.Equal(t, want, got, "the profile %q", name)
		require.NoError(t, got.Validate())
	}
}

func TestProfileNames(t *testing.T) {
	t.Parallel()
	for _, name := range resilience.Profiles() {
		p, err := resilience.Profile(name)
		require.NoError(t, err)
		if len(p.Retry.RetryOnStatuses) > 0 {
			p.Retry.RetryOnStatuses[0] = "changed"
			again, err := resilience.Profile(name)
			require.NoError(t, err)
			assert.Equal(t, "default", again.Retry.RetryOnStatuses[0], "a policy is its caller's own")
		}
	}
	for _, name := range []string{"Live", "fast", " "} {
		_, err := resilience.Profile(name)
		assert.ErrorContains(t, err, "want default, live or whole", name)
	}
}
