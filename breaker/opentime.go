package breaker

import (
	"math"
	"math/rand/v2"
	"time"
)

// defaultMaxTimeout is what a [Policy.MaxTimeout] of 0 stands for.
const defaultMaxTimeout = 5 * time.Minute

// openTimes says how long a breaker stays open. It is a valid [Policy] with its
// defaults filled in.
type openTimes struct {
	first, longest time.Duration
	factor, jitter float64
}

func (p *Policy) openTimes() openTimes {
	o := openTimes{first: p.Timeout, longest: p.MaxTimeout, factor: p.TimeoutFactor, jitter: p.Jitter}
	if o.longest == 0 {
		o.longest = defaultMaxTimeout
	}
	// The maximum bounds what the factor makes of the open time, never the
	// open time itself.
	o.longest = max(o.longest, o.first)
	return o
}

// after draws the open time after so many failed probes since the breaker was
// last closed.
func (o *openTimes) after(failed int32) time.Duration {
	d := o.first
	if o.factor > 1 && failed > 0 {
		d = o.longest
		// float64(MaxInt64) is 1<<63, which no Duration holds.
		if f := float64(o.first) * math.Pow(o.factor, float64(failed)); f < float64(o.longest) {
			d = time.Duration(f)
		}
	}
	if o.jitter > 0 {
		// Never less: an upstream that is down gains nothing by being asked sooner.
		if share := o.jitter * float64(d); share >= 1 && share < math.MaxInt64 {
			d = after(d, time.Duration(rand.Int64N(int64(share)+1)))
		}
	}
	return d
}

// most is the longest open time.
func (o *openTimes) most() time.Duration {
	d := o.first
	if o.factor > 1 {
		d = o.longest
	}
	if share := o.jitter * float64(d); share < math.MaxInt64 {
		return after(d, time.Duration(share))
	}
	return math.MaxInt64
}
