package retry

import (
	"errors"
	"fmt"
	"math"

	"github.com/surefoot-go/surefoot/internal/layer"
)

// Validate reports everything that is wrong with p, each fault under the key
// that configuration knows it by, or nil.
func (p Policy) Validate() error {
	_, faults := p.statuses("retry.retry_on_statuses")
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("retry."+format, args...))
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
var defaultStatuses = []string{"429", "502", "503", "504", "522", "524"}

// statuses compiles the list; field names it in errors.
func (p Policy) statuses(field string) (layer.StatusSet, []error) {
	list := p.RetryOnStatuses
	if list == nil {
		list = defaultStatuses
	}
	return layer.ParseStatuses(field, list, defaultStatuses)
}
