package breaker

import (
	"errors"
	"fmt"
	"math"
)

// on reports whether there is a breaker at all.
func (p *Policy) on() bool { return !p.Disabled && p.FailureThreshold != 0 }

// Validate returns every fault of the policy, joined, each with the field's
// name as it is in the configuration; nil if there is none. Thresholds of a
// breaker that is off may be zero, but not negative.
func (p Policy) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("circuit_breaker."+field+": "+format, args...))
	}
	switch p.Scope {
	case "", ScopeProvider, ScopeModel:
	default:
		bad("scope", "unknown scope %q, expected %q or %q", p.Scope, ScopeProvider, ScopeModel)
	}
	_, faults := p.failures()
	errs = append(errs, faults...)
	if p.FailureThreshold < 0 {
		bad("failure_threshold", "is %d, expected 0 (off) or more", p.FailureThreshold)
	}
	switch {
	case p.SuccessThreshold < 0, p.SuccessThreshold < 1 && p.on():
		bad("success_threshold", "is %d, expected at least 1", p.SuccessThreshold)
	}
	switch {
	case p.Timeout < 0, p.Timeout == 0 && p.on():
		bad("timeout", "is %v, expected a positive open time", p.Timeout)
	}
	// Written so that NaN is refused, too.
	if f := p.TimeoutFactor; f != 0 && !(f >= 1 && f <= math.MaxFloat64) {
		bad("timeout_factor", "is %v, expected at least 1", f)
	}
	if p.MaxTimeout < 0 {
		bad("max_timeout", "is %v, expected 0 (%v) or more", p.MaxTimeout, defaultMaxTimeout)
	}
	if !(p.Jitter >= 0 && p.Jitter <= 1) {
		bad("jitter", "is %v, expected 0 to 1", p.Jitter)
	}
	if p.SlowCallThreshold < 0 {
		bad("slow_call_threshold", "is %v, expected 0 (off) or more", p.SlowCallThreshold)
	}
	return errors.Join(errs...)
}
