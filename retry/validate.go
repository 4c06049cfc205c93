package retry

import (
	"errors"
	"fmt"
	"math"
)

// Validate reports everything that is wrong with p, each fault under the key
// that configuration knows it by, or nil.
func (p Policy) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("retry."+format, args...))
	}
	for i, s := range p.RetryOnStatuses {
		if _, _, ok := parseStatus(s); !ok {
			fault("retry_on_statuses[%d]: %q is neither a status from 100 to 599 nor a class from 1xx to 5xx", i, s)
		}
	}
	if p.MaxRetries < 0 {
		fault("max_retries: %d is negative", p.MaxRetries)
	}
	if p.InitialBackoff < 0 {
		fault("initial_backoff: %v is negative", p.InitialBackoff)
	}
	if p.MaxBackoff < 0 {
		fault("max_backoff: %v is negative", p.MaxBackoff)
	}
	if p.MaxRetries > 0 && p.InitialBackoff == 0 {
		fault("initial_backoff: retries need a positive backoff")
	}
	if p.MaxRetries > 0 && p.MaxBackoff == 0 {
		fault("max_backoff: retries need a positive backoff")
	}
	// Written so that a NaN fails as well.
	if f := p.BackoffFactor; f != 0 && (!(f >= 1) || math.IsInf(f, 0)) {
		fault("backoff_factor: %v is not a number from 1", f)
	}
	if j := p.JitterFactor; !(j >= 0 && j <= 1) {
		fault("jitter_factor: %v is not a number from 0 to 1", j)
	}
	switch p.Streams {
	case "", StreamsNever, StreamsHeldBack:
	default:
		fault("streams: %q is neither %q nor %q", p.Streams, StreamsNever, StreamsHeldBack)
	}
	switch p.Replay {
	case "", ReplayInference, ReplaySafeOnly:
	default:
		fault("replay: %q is neither %q nor %q", p.Replay, ReplayInference, ReplaySafeOnly)
	}
	if p.AttemptTimeout < 0 {
		fault("attempt_timeout: %v is negative", p.AttemptTimeout)
	}
	return errors.Join(faults...)
}

// defaultStatuses are what a nil list stands for. 500 is not among them: it is
// as often a fault of the request as one of the moment.
var defaultStatuses = [...]int{429, 502, 503, 504, 522, 524}

// statusSet is a bit for each status from 0 to 639.
type statusSet [10]uint64

func (s *statusSet) add(from, to int) {
	for code := from; code <= to; code++ {
		s[code/64] |= 1 << (code % 64)
	}
}

func (s *statusSet) has(code int) bool {
	return code >= 0 && code < len(s)*64 && s[code/64]&(1<<(code%64)) != 0
}

// newStatusSet compiles a valid list; nil is the default list.
func newStatusSet(list []string) (s statusSet) {
	if list == nil {
		for _, code := range defaultStatuses {
			s.add(code, code)
		}
	}
	for _, word := range list {
		if from, to, ok := parseStatus(word); ok {
			s.add(from, to)
		}
	}
	return s
}

// parseStatus reads "429" as 429 to 429 and "5xx" as 500 to 599.
func parseStatus(word string) (from, to int, ok bool) {
	if len(word) != 3 || word[0] < '1' || word[0] > '5' {
		return 0, 0, false
	}
	from = int(word[0]-'0') * 100
	if word[1:] == "xx" {
		return from, from + 99, true
	}
	tens, ones := word[1], word[2]
	if tens < '0' || tens > '9' || ones < '0' || ones > '9' {
		return 0, 0, false
	}
	from += int(tens-'0')*10 + int(ones-'0')
	return from, from, true
}
