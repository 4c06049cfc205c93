package failover

import (
	"errors"
	"fmt"
	"math"
	"net/url"
)

// validate reports every fault of a policy and its targets, by the name that
// it has in a configuration file.
func validate(p Policy, targets []Target) (*rules, error) {
	r, errs := compile(p)
	weighted := p.Strategy == StrategyRoundRobin
	switch p.Strategy {
	case "", StrategyRoundRobin, StrategyCost:
	case StrategyFailover:
		if p.Disabled {
			errs = append(errs, errors.New("failover: switched off with strategy failover, which then only serves its first target; want round_robin or cost"))
		}
	default:
		errs = append(errs, fmt.Errorf("strategy: unknown %q, want failover, round_robin or cost", p.Strategy))
		weighted = true // one fault is enough
	}
	if p.MaxAttempts < 0 {
		errs = append(errs, fmt.Errorf("failover.max_attempts: %d is negative, want 0 (no cap) or more", p.MaxAttempts))
	}
	if p.Patience < 0 && p.Patience != PatienceOff {
		errs = append(errs, fmt.Errorf("failover.patience: %v is negative, want 0 (never wait where another target could answer) or more, or off", p.Patience))
	}
	if p.WaitFor < 0 {
		errs = append(errs, fmt.Errorf("failover.wait_for: %v is negative, want 0 (off) or more", p.WaitFor))
	}
	switch p.Bound {
	case "", BoundAccount, BoundIgnore:
	default:
		errs = append(errs, fmt.Errorf("failover.bound: unknown %q, want account or ignore", p.Bound))
	}
	if p.Affinity.TTL < 0 {
		errs = append(errs, fmt.Errorf("failover.affinity.ttl: %v is negative, want 0 (an hour) or more", p.Affinity.TTL))
	}
	if p.Affinity.Max < 0 {
		errs = append(errs, fmt.Errorf("failover.affinity.max: %d is negative, want 0 (%d) or more", p.Affinity.Max, DefaultAffinityMax))
	}
	if p.MaxBody < 0 {
		errs = append(errs, fmt.Errorf("failover.max_body: %d is negative, want 0 (64 MiB) or more", p.MaxBody))
	}
	if len(targets) == 0 {
		errs = append(errs, errors.New("targets: none, want one or more"))
	}
	names := make(map[string]bool, len(targets))
	for i := range targets {
		t := &targets[i]
		name := targetName(t)
		switch {
		case name == "":
			errs = append(errs, fmt.Errorf("targets[%d]: has no name", i))
		case names[name]:
			errs = append(errs, fmt.Errorf("targets[%d]: the name %q is taken", i, name))
		}
		names[name] = true
		errs = append(errs, checkTarget(fmt.Sprintf("targets[%d] (%s)", i, name), t, p.Strategy, weighted)...)
	}
	return r, errors.Join(errs...)
}

func checkTarget(where string, t *Target, strategy string, weighted bool) (errs []error) {
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s%w", where, fmt.Errorf(format, args...)))
	}
	switch {
	case t.Weight < 0:
		fault(".weight: %d is negative", t.Weight)
	case t.Weight > math.MaxInt32:
		fault(".weight: %d is too large", t.Weight)
	case t.Weight != 0 && !weighted && strategy != StrategyCost:
		fault(".weight: has no meaning with strategy failover, want round_robin")
	}
	if t.Cost < 0 || math.IsNaN(t.Cost) || math.IsInf(t.Cost, 0) {
		fault(".cost: %v, want 0 or more", t.Cost)
	}
	if t.Timeout < 0 {
		fault(".timeout: %v is negative, want 0 (off) or more", t.Timeout)
	}
	if c, ok := t.Transport.(*Chain); ok && len(c.targets) == 0 {
		fault(": %w", errZeroChain.Err)
	}
	if t.AffinityHeader != "" && !validHeaderName(t.AffinityHeader) {
		fault(".affinity_header: %q is no name of a header", t.AffinityHeader)
	}
	if t.BaseURL != "" {
		if _, err := parseBase(t.BaseURL); err != nil {
			fault(".base_url: %w", err)
		}
	}
	return errs
}

// targetName is the name under which a target is recorded.
func targetName(t *Target) string {
	switch {
	case t.Name != "":
		return t.Name
	case t.Provider != "" && t.Model != "":
		return t.Provider + "/" + t.Model
	}
	return t.Provider + t.Model
}

// parseBase reads a base URL. Its text stays out of errors: it may hold a
// credential.
func parseBase(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("is no URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.Opaque != "":
		return nil, errors.New("want an absolute http or https URL with a host")
	case u.Fragment != "":
		return nil, errors.New("has a fragment")
	}
	return u, nil
}
