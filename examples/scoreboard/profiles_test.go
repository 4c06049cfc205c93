package main

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// profiled is a profile at the run's speed; in a full run it is the profile.
func profiled(t *testing.T, name string, at times) (resilience.Policy, failover.Policy) {
	t.Helper()
	p, err := resilience.Profile(name)
	require.NoError(t, err)
	scale := func(d *time.Duration, of, to time.Duration) {
		*d = time.Duration(float64(*d) * float64(to) / float64(of))
	}
	scale(&p.Retry.InitialBackoff, full.backoff, at.backoff)
	scale(&p.Retry.MaxBackoff, full.maxBackoff, at.maxBackoff)
	scale(&p.CircuitBreaker.Timeout, full.open, at.open)
	scale(&p.Stream.FirstEventTimeout, full.firstEvent, at.firstEvent)
	scale(&p.Stream.IdleTimeout, full.shortIdle, at.shortIdle)
	if name == resilience.ProfileDefault {
		p.Stream.IdleTimeout = at.idle
	}
	f := failover.DefaultPolicy()
	scale(&f.Patience, full.retryAfter, at.retryAfter)
	if name != resilience.ProfileDefault {
		f.RetryOnErrors = append(f.RetryOnErrors, failover.TooLong)
	}
	return p, f
}

// The verdicts of a chain of a primary and a backup under each profile, fault by
// fault: p for pass, s for safe. What README.md says of the profiles is this.
//
// Both profiles beside the default answer fault 12 from the backup, which is
// what they are for, while the criteria here call the refusal itself a pass.
func TestProfilesOnTheBoard(t *testing.T) {
	for name, want := range map[string]string{
		resilience.ProfileDefault: "ppppppp sss ppp s pp",
		resilience.ProfileLive:    "ppppppp sss psp s pp",
		resilience.ProfileWhole:   "ppppppp ppp psp p pp",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make([]string, len(faults))
			var wg sync.WaitGroup
			for i, f := range faults {
				wg.Go(func() {
					c := contender{name: name, open: func(s *site) (ask, func(), error) {
						p, f := profiled(t, name, s.times)
						return openChain(s, p, f)
					}}
					x, err := playOne(&c, f, short)
					if !assert.NoError(t, err, f.name) {
						return
					}
					got[i] = string(x.verdict[:1])
					t.Logf("%-40s %-5s %s %s (%d+%d, %.1f s)", f.name, x.verdict, x.got, x.why, x.asked[0], x.asked[1], x.took.Seconds())
				})
			}
			wg.Wait()
			assert.Equal(t, strings.ReplaceAll(want, " ", ""), strings.Join(got, ""))
		})
	}
}
