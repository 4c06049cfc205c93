package breaker_test

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
)

// smallPolicy opens after 3 failures for 200 ms and closes after 1 good probe.
func smallPolicy() breaker.Policy {
	return breaker.Policy{FailureThreshold: 3, SuccessThreshold: 1, Timeout: 200 * time.Millisecond}
}

func newBreaker(t *testing.T, p breaker.Policy) *breaker.Breaker {
	t.Helper()
	b, err := breaker.New(breaker.Config{Policy: p, Provider: "acme"})
	require.NoError(t, err)
	return b
}

func admit(t *testing.T, b *breaker.Breaker) *breaker.Permit {
	t.Helper()
	p := new(breaker.Permit)
	require.NoError(t, b.Admit(p))
	require.False(t, p.Settled())
	return p
}

func settle(t *testing.T, b *breaker.Breaker, vs ...breaker.Verdict) {
	t.Helper()
	for _, v := range vs {
		admit(t, b).Settle(v)
	}
}

// rejected requires a rejection and returns it.
func rejected(t *testing.T, b *breaker.Breaker) *breaker.OpenError {
	t.Helper()
	var p breaker.Permit
	err := b.Admit(&p)
	require.ErrorIs(t, err, breaker.ErrOpen)
	require.True(t, p.Settled())
	require.False(t, p.Probe())
	p.Settle(breaker.Failure) // an inert permit counts nothing
	return errorOf(err)
}

const (
	n = breaker.Neutral
	s = breaker.Success
	f = breaker.Failure
)

func TestClosedCountsConsecutiveFailures(t *testing.T) {
	for name, row := range map[string]struct {
		verdicts []breaker.Verdict
		failures int
		want     breaker.State
	}{
		"two of three":           {[]breaker.Verdict{f, f}, 2, breaker.Closed},
		"three":                  {[]breaker.Verdict{f, f, f}, 0, breaker.Open},
		"a success resets":       {[]breaker.Verdict{f, f, s, f, f}, 2, breaker.Closed},
		"and three more open":    {[]breaker.Verdict{f, f, s, f, f, f}, 0, breaker.Open},
		"neutral adds nothing":   {[]breaker.Verdict{n, n, n, n, f}, 1, breaker.Closed},
		"neutral resets nothing": {[]breaker.Verdict{f, f, n, f}, 0, breaker.Open},
		"successes only":         {[]breaker.Verdict{s, s, s}, 0, breaker.Closed},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBreaker(t, smallPolicy())
			settle(t, b, row.verdicts...)
			assert.Equal(t, row.want, b.State())
			assert.Equal(t, row.failures, b.Snapshot().Failures)
		})
	}
}

func TestOpenRejectsUntilTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, smallPolicy())
		settle(t, b, f, f, f)
		for _, passed := range []time.Duration{0, 1, 200*time.Millisecond - 2} {
			time.Sleep(passed)
			require.NotNil(t, b.Peek())
			_ = rejected(t, b)
		}
		err := rejected(t, b)
		assert.Equal(t, &breaker.OpenError{Provider: "acme", State: breaker.Open, RetryAfter: 1}, err)
		time.Sleep(1 * time.Nanosecond)
		// Read lazily: open, with nothing to wait for, until a probe asks.
		assert.Equal(t, breaker.Open, b.State())
		assert.Zero(t, b.Snapshot().RetryAfter)
		require.Nil(t, b.Peek())
		assert.Equal(t, breaker.Open, b.State(), "peeking changes nothing")
		p := admit(t, b)
		assert.True(t, p.Probe())
		assert.Equal(t, breaker.HalfOpen, b.State())
	})
}

// halfOpen returns a breaker with its first probe out.
func halfOpen(t *testing.T, p breaker.Policy) (*breaker.Breaker, *breaker.Permit) {
	t.Helper()
	b := newBreaker(t, p)
	for range p.FailureThreshold {
		settle(t, b, f)
	}
	time.Sleep(p.Timeout)
	return b, admit(t, b)
}

func TestHalfOpen(t *testing.T) {
	policy := smallPolicy()
	policy.SuccessThreshold = 2
	for name, test := range map[string]func(*testing.T, *breaker.Breaker, *breaker.Permit){
		"one probe at a time": func(t *testing.T, b *breaker.Breaker, p *breaker.Permit) {
			time.Sleep(50 * time.Millisecond)
			assert.Equal(t, &breaker.OpenError{Provider: "acme", State: breaker.HalfOpen, RetryAfter: 150 * time.Millisecond}, rejected(t, b))
			assert.Equal(t, rejected(t, b), b.Peek())
			assert.True(t, b.Snapshot().Probing)
			p.Settle(s)
			assert.False(t, b.Snapshot().Probing)
			assert.Equal(t, 1, b.Snapshot().Successes)
			require.Nil(t, b.Peek())
			assert.True(t, admit(t, b).Probe())
		},
		"good probes in a row close": func(t *testing.T, b *breaker.Breaker, p *breaker.Permit) {
			p.Settle(s)
			settle(t, b, s)
			assert.Equal(t, breaker.Closed, b.State())
			settle(t, b, f, f)
			assert.Equal(t, breaker.Closed, b.State(), "the count starts anew")
		},
		"neutral between does not break the row": func(t *testing.T, b *breaker.Breaker, p *breaker.Permit) {
			p.Settle(s)
			settle(t, b, n, s)
			assert.Equal(t, breaker.Closed, b.State())
		},
		"a bad probe opens for a full timeout": func(t *testing.T, b *breaker.Breaker, p *breaker.Permit) {
			p.Settle(s)
			time.Sleep(70 * time.Millisecond)
			settle(t, b, f)
			assert.Equal(t, breaker.Open, b.State())
			assert.Equal(t, 200*time.Millisecond, rejected(t, b).RetryAfter)
			time.Sleep(200 * time.Millisecond)
			settle(t, b, s)
			assert.Equal(t, breaker.HalfOpen, b.State(), "good probes of the period before do not count")
		},
		"neutral gives the place back": func(t *testing.T, b *breaker.Breaker, p *breaker.Permit) {
			p.Settle(n)
			assert.Equal(t, breaker.HalfOpen, b.State())
			assert.True(t, admit(t, b).Probe())
		},
		"a lost probe is replaced": func(t *testing.T, b *breaker.Breaker, _ *breaker.Permit) {
			time.Sleep(200*time.Millisecond - 1)
			_ = rejected(t, b)
			time.Sleep(1 * time.Nanosecond)
			require.Nil(t, b.Peek())
			assert.True(t, admit(t, b).Probe())
			_ = rejected(t, b)
		},
		"a late verdict of the period counts, and frees no other's place": func(t *testing.T, b *breaker.Breaker, lost *breaker.Permit) {
			time.Sleep(200 * time.Millisecond)
			second := admit(t, b)
			lost.Settle(s)
			assert.Equal(t, 1, b.Snapshot().Successes)
			_ = rejected(t, b)
			second.Settle(s)
			assert.Equal(t, breaker.Closed, b.State())
		},
		"a late failure of the period opens, and the second probe is void": func(t *testing.T, b *breaker.Breaker, lost *breaker.Permit) {
			time.Sleep(200 * time.Millisecond)
			second := admit(t, b)
			lost.Settle(f)
			assert.Equal(t, breaker.Open, b.State())
			time.Sleep(100 * time.Millisecond)
			second.Settle(f)
			assert.Equal(t, 100*time.Millisecond, rejected(t, b).RetryAfter)
		},
		"a late neutral keeps the second probe in its place": func(t *testing.T, b *breaker.Breaker, lost *breaker.Permit) {
			time.Sleep(200 * time.Millisecond)
			admit(t, b)
			lost.Settle(n)
			_ = rejected(t, b)
		},
		"a probe of an earlier half-open period": func(t *testing.T, b *breaker.Breaker, lost *breaker.Permit) {
			time.Sleep(200 * time.Millisecond)
			settle(t, b, f)
			time.Sleep(200 * time.Millisecond)
			second := admit(t, b)
			lost.Settle(f)
			assert.Equal(t, breaker.HalfOpen, b.State())
			_ = rejected(t, b)
			second.Settle(s)
			assert.Equal(t, 1, b.Snapshot().Successes)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, p := halfOpen(t, policy)
				test(t, b, p)
			})
		})
	}
}

func TestLateVerdictsOfClosedPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, smallPolicy())
		good, bad, bad2, bad3 := admit(t, b), admit(t, b), admit(t, b), admit(t, b)
		settle(t, b, f, f, f)
		time.Sleep(100 * time.Millisecond)
		good.Settle(s)
		bad.Settle(f)
		assert.Equal(t, 100*time.Millisecond, rejected(t, b).RetryAfter, "neither closes nor prolongs")
		time.Sleep(100 * time.Millisecond)
		probe := admit(t, b)
		bad2.Settle(f)
		_ = rejected(t, b)
		assert.Equal(t, breaker.HalfOpen, b.State())
		probe.Settle(s)
		assert.Equal(t, breaker.Closed, b.State())
		bad3.Settle(f)
		assert.Zero(t, b.Snapshot().Failures, "a later closed period is another one")
	})
}

func TestOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, smallPolicy())
		inFlight := admit(t, b)
		b.ForceOpen(time.Second)
		assert.Equal(t, time.Second, rejected(t, b).RetryAfter)
		inFlight.Settle(s)
		assert.Equal(t, breaker.Open, b.State())
		b.ForceOpen(0)
		assert.Equal(t, 200*time.Millisecond, rejected(t, b).RetryAfter, "0 is the policy's time, from now")
		time.Sleep(1 * time.Nanosecond)
		b.ForceOpen(math.MaxInt64)
		assert.Greater(t, rejected(t, b).RetryAfter, time.Hour)
		b.ForceOpen(time.Millisecond)
		time.Sleep(time.Millisecond)
		probe := admit(t, b)
		b.ForceOpen(-1)
		probe.Settle(s)
		assert.Equal(t, breaker.Open, b.State(), "the probe's period is over")
		settled := b.Snapshot().Since
		b.Reset()
		assert.Equal(t, breaker.Closed, b.State())
		assert.False(t, b.Snapshot().Since.Before(settled))
		late := admit(t, b)
		settle(t, b, f, f)
		b.Reset()
		assert.Zero(t, b.Snapshot().Failures)
		late.Settle(f)
		settle(t, b, f, f)
		assert.Equal(t, breaker.Closed, b.State())
		settle(t, b, f)
		assert.Equal(t, breaker.Open, b.State())
	})
}

func TestSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := newBreaker(t, smallPolicy())
		time.Sleep(time.Hour)
		assert.True(t, b.Snapshot().Since.Equal(start))
		settle(t, b, f, f, f)
		time.Sleep(time.Hour)
		assert.True(t, b.Snapshot().Since.Equal(start.Add(time.Hour)))
		b.ForceOpen(time.Hour)
		assert.True(t, b.Snapshot().Since.Equal(start.Add(time.Hour)), "it has been open all the while")
	})
}

func TestBreakerOff(t *testing.T) {
	for name, p := range map[string]breaker.Policy{
		"zero":         {},
		"disabled":     {Disabled: true, FailureThreshold: 1, SuccessThreshold: 1, Timeout: time.Second},
		"no threshold": {SuccessThreshold: 1, Timeout: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBreaker(t, p)
			b.ForceOpen(time.Hour)
			b.Reset()
			for range 10 {
				var p breaker.Permit
				require.Nil(t, b.Peek())
				require.NoError(t, b.Admit(&p))
				p.FirstEvent()
				p.Answered()
				p.Settle(f)
				require.True(t, p.Settled())
			}
			require.Equal(t, breaker.Closed, b.State())
			m := newMap(t, p)
			var permit breaker.Permit
			require.NoError(t, m.Admit("m", &permit))
			m.ForceOpen("m", time.Hour)
			require.Nil(t, m.Peek("m"))
			require.Empty(t, m.Snapshots())
		})
	}
}

func TestSettleIsOnce(t *testing.T) {
	b := newBreaker(t, smallPolicy())
	p := admit(t, b)
	p.Settle(breaker.Pending)
	p.Settle(breaker.Verdict(-1))
	p.Settle(breaker.Verdict(17))
	require.False(t, p.Settled(), "neither is a verdict")
	for range 5 {
		p.Settle(f)
		require.True(t, p.Settled())
		p.FirstEvent()
	}
	assert.Equal(t, 1, b.Snapshot().Failures)

	p = admit(t, b)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			p.Answered()
			p.FirstEvent()
			p.Settle(f)
			_ = p.Settled()
		})
	}
	wg.Wait()
	assert.Equal(t, 2, b.Snapshot().Failures)

	var inert breaker.Permit
	inert.Settle(f)
	inert.FirstEvent()
	inert.Answered()
	assert.False(t, inert.Probe())
}

// A permit that is admitted again gives up what it held.
func TestPermitUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := halfOpen(t, smallPolicy())
		require.NoError(t, b.Admit(p), "its own place comes back first")
		require.True(t, p.Probe())
		require.False(t, p.Settled())
		p.Settle(s)
		require.NoError(t, b.Admit(p))
		require.False(t, p.Probe())
		require.False(t, p.Settled())
		b.ForceOpen(0)
		require.Error(t, b.Admit(p))
		p.Settle(f)
		require.Equal(t, breaker.Open, b.State())
	})
}

func TestSlowCalls(t *testing.T) {
	const threshold = 100 * time.Millisecond
	policy := smallPolicy()
	policy.SlowCallThreshold = threshold
	policy.FailureThreshold = 1
	for name, row := range map[string]struct {
		call func(p *breaker.Permit)
		want breaker.State
	}{
		"at the threshold is not slower": {func(p *breaker.Permit) {
			time.Sleep(threshold)
			p.Settle(s)
		}, breaker.Closed},
		"slower": {func(p *breaker.Permit) {
			time.Sleep(threshold + 1)
			p.Settle(s)
		}, breaker.Open},
		"slow, but neutral": {func(p *breaker.Permit) {
			time.Sleep(time.Hour)
			p.Settle(n)
		}, breaker.Closed},
		"answered in time, read slowly": {func(p *breaker.Permit) {
			p.Answered()
			time.Sleep(time.Hour)
			p.Answered()
			p.Settle(s)
		}, breaker.Closed},
		"answered late": {func(p *breaker.Permit) {
			time.Sleep(threshold + 1)
			p.Answered()
			p.Settle(s)
		}, breaker.Open},
		"first event in time, long stream": {func(p *breaker.Permit) {
			time.Sleep(threshold)
			p.FirstEvent()
			assert.False(t, p.Settled())
			time.Sleep(time.Hour)
			p.FirstEvent()
			p.Settle(s)
		}, breaker.Closed},
		"slow first event counts at once": {func(p *breaker.Permit) {
			time.Sleep(threshold + 1)
			p.FirstEvent()
			assert.True(t, p.Settled())
			p.Settle(s)
		}, breaker.Open},
		"answered in time, slow first event": {func(p *breaker.Permit) {
			p.Answered()
			time.Sleep(threshold + 1)
			p.FirstEvent()
		}, breaker.Open},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBreaker(t, policy)
				row.call(admit(t, b))
				assert.Equal(t, row.want, b.State())
			})
		})
	}
	t.Run("a slow probe is a bad one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, p := halfOpen(t, policy)
			time.Sleep(threshold + 1)
			p.FirstEvent()
			assert.Equal(t, breaker.Open, b.State())
		})
	})
	t.Run("an open time that ends while nothing is slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, p := halfOpen(t, policy)
			p.FirstEvent()
			assert.Equal(t, breaker.Closed, b.State())
		})
	})
}

func TestFirstEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := halfOpen(t, smallPolicy())
		p.FirstEvent()
		assert.True(t, p.Settled(), "a probe is settled at once, good")
		assert.Equal(t, breaker.Closed, b.State())
		p.Settle(f)
		assert.Zero(t, b.Snapshot().Failures)

		p = admit(t, b)
		p.FirstEvent()
		assert.False(t, p.Settled(), "another call is judged by its end")
		p.Settle(f)
		assert.Equal(t, 1, b.Snapshot().Failures)
	})
}

func TestAdmitDoesNotAllocate(t *testing.T) {
	b := newBreaker(t, smallPolicy())
	m := newMap(t, modelPolicy())
	var p breaker.Permit
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_ = b.Admit(&p)
		p.Settle(s)
	}))
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_ = m.Admit("vendor/model", &p)
		p.Settle(f)
		_ = m.Admit("vendor/model", &p)
		p.Settle(s)
		_ = m.Peek("vendor/model")
		_ = m.Peek("unknown")
		_ = m.Peek("")
	}))
}
