package retry

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/surefoot-go/surefoot/internal/layer"
)

// settings is a valid [Policy] with its defaults filled in.
type settings struct {
	statuses       layer.StatusSet
	maxRetries     int
	initial, max   time.Duration
	factor, jitter float64
	heldBack       bool
	attemptTimeout time.Duration
}

func (p Policy) settings() settings {
	statuses, _ := p.statuses("")
	s := settings{
		statuses:       statuses,
		maxRetries:     p.MaxRetries,
		initial:        p.InitialBackoff,
		max:            p.MaxBackoff,
		factor:         p.BackoffFactor,
		jitter:         p.JitterFactor,
		heldBack:       p.Streams == StreamsHeldBack,
		attemptTimeout: p.AttemptTimeout,
	}
	if s.factor == 0 {
		s.factor = 2
	}
	return s
}

// backoff draws the wait before retry n, counted from 1. It is positive and at
// most the policy's cap, whatever n is.
func (s *settings) backoff(n int) time.Duration {
	b := s.max
	if f := float64(s.initial) * math.Pow(s.factor, float64(n-1)); f < float64(s.max) {
		b = time.Duration(f)
	}
	j := share(b, s.jitter)
	hi := s.max
	if j < s.max-b {
		hi = b + j
	}
	return spread(max(b-j, 1), hi)
}

// obey draws the wait for an upstream that asked for wish, which is no longer
// than the policy's cap: never less than it, so that jitter only adds, and
// always less than room, which is longer than wish.
func (s *settings) obey(wish, room time.Duration) time.Duration {
	hi := room - 1
	if j := share(wish, s.jitter); j < hi-wish {
		hi = wish + j
	}
	return spread(wish, hi)
}

// share is the part of d that f, from 0 to 1, stands for.
func share(d time.Duration, f float64) time.Duration {
	// float64(MaxInt64) is 1<<63, which no Duration holds.
	if v := float64(d) * f; v < float64(d) {
		return time.Duration(v)
	}
	return d
}

// spread draws evenly from lo to hi, both included and not negative.
func spread(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(rand.Uint64N(uint64(hi-lo)+1))
}
