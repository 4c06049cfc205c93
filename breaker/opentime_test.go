package breaker_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
)

// openingPolicy opens at the first failure and closes at the first good probe.
func openingPolicy(factor float64, longest time.Duration, jitter float64) breaker.Policy {
	return breaker.Policy{
		FailureThreshold: 1, SuccessThreshold: 1, Timeout: 10 * time.Second,
		TimeoutFactor: factor, MaxTimeout: longest, Jitter: jitter,
	}
}

// call makes one call with a verdict and returns how long the breaker is open
// afterwards, by all who say so.
func call(t *testing.T, b *breaker.Breaker, v breaker.Verdict) time.Duration {
	t.Helper()
	var p breaker.Permit
	require.NoError(t, b.Admit(&p))
	p.Settle(v)
	wait := b.Snapshot().RetryAfter
	if wait > 0 {
		assert.Equal(t, wait, b.Peek().RetryAfter)
		var open *breaker.OpenError
		require.ErrorAs(t, b.Admit(&p), &open)
		assert.Equal(t, wait, open.RetryAfter)
		time.Sleep(wait - 1)
		require.NotNil(t, b.Peek(), "not a moment earlier")
		time.Sleep(time.Nanosecond)
		require.Nil(t, b.Peek(), "not a moment later")
	}
	return wait
}

func TestOpenTimeGrowsWithFailedProbes(t *testing.T) {
	const s = time.Second
	for name, row := range map[string]struct {
		policy breaker.Policy
		want   []time.Duration // of the first opening and after each failed probe
	}{
		"off by default":            {openingPolicy(0, 0, 0), []time.Duration{10 * s, 10 * s, 10 * s}},
		"a factor of 1":             {openingPolicy(1, 15*s, 0), []time.Duration{10 * s, 10 * s}},
		"doubles up to the maximum": {openingPolicy(2, 35*s, 0), []time.Duration{10 * s, 20 * s, 35 * s, 35 * s}},
		"five minutes by default":   {openingPolicy(20, 0, 0), []time.Duration{10 * s, 200 * s, 300 * s, 300 * s}},
		"fractions":                 {openingPolicy(1.5, 0, 0), []time.Duration{10 * s, 15 * s, 22500 * time.Millisecond}},
		"the first is never cut":    {openingPolicy(2, 5*s, 0), []time.Duration{10 * s, 10 * s}},
		"no overflow":               {openingPolicy(math.MaxFloat64, math.MaxInt64/4, 0), []time.Duration{10 * s, math.MaxInt64 / 4, math.MaxInt64 / 4}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := breaker.New(breaker.Config{Policy: row.policy})
				require.NoError(t, err)
				for i, want := range row.want {
					if want > 1000*time.Hour { // too long for the bubble's clock to go on
						var p breaker.Permit
						require.NoError(t, b.Admit(&p))
						p.Settle(breaker.Failure)
						require.Equal(t, want, b.Snapshot().RetryAfter)
						return
					}
					require.Equal(t, want, call(t, b, breaker.Failure), "opening %d", i)
				}
				require.Zero(t, call(t, b, breaker.Success))
				require.Equal(t, row.want[0], call(t, b, breaker.Failure), "back to the first after a close")
			})
		})
	}
}

func TestOpenTimeJitterOnlyAdds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := breaker.New(breaker.Config{Policy: openingPolicy(1, 0, 0.5)})
		require.NoError(t, err)
		least, most := time.Duration(math.MaxInt64), time.Duration(0)
		for range 300 {
			d := call(t, b, breaker.Failure)
			least, most = min(least, d), max(most, d)
		}
		assert.GreaterOrEqual(t, least, 10*time.Second)
		assert.LessOrEqual(t, most, 15*time.Second)
		assert.Greater(t, most-least, 4*time.Second, "drawn from the whole share")
	})
}

// The maximum bounds the growth; the jitter comes on top of it.
func TestOpenTimeJitterAtTheMaximum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := breaker.New(breaker.Config{Policy: openingPolicy(2, 10*time.Second, 1)})
		require.NoError(t, err)
		for range 100 {
			d := call(t, b, breaker.Failure)
			require.GreaterOrEqual(t, d, 10*time.Second)
			require.LessOrEqual(t, d, 20*time.Second)
		}
	})
}

func TestForcedOpenTimeIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := breaker.New(breaker.Config{Policy: openingPolicy(2, 0, 1)})
		require.NoError(t, err)
		call(t, b, breaker.Failure)
		call(t, b, breaker.Failure)
		b.ForceOpen(3 * time.Second)
		assert.Equal(t, 3*time.Second, b.Peek().RetryAfter)
		b.ForceOpen(0)
		assert.Equal(t, 10*time.Second, b.Peek().RetryAfter, "the policy's timeout, without factor and jitter")
	})
}

// An operator's reset is a close, too: the open time begins anew.
func TestResetForgetsFailedProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := breaker.New(breaker.Config{Policy: openingPolicy(2, 0, 0)})
		require.NoError(t, err)
		call(t, b, breaker.Failure)
		require.Equal(t, 20*time.Second, call(t, b, breaker.Failure))
		b.Reset()
		assert.Equal(t, 10*time.Second, call(t, b, breaker.Failure))
	})
}

// However long the open time has grown, a probe keeps its place for the first.
func TestProbeLeaseDoesNotGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := breaker.New(breaker.Config{Policy: openingPolicy(4, 0, 0.5)})
		require.NoError(t, err)
		call(t, b, breaker.Failure)
		call(t, b, breaker.Failure)
		var lost breaker.Permit
		require.NoError(t, b.Admit(&lost))
		require.True(t, lost.Probe())
		assert.Equal(t, 10*time.Second, b.Peek().RetryAfter)
		time.Sleep(10 * time.Second)
		assert.Nil(t, b.Peek())
	})
}
