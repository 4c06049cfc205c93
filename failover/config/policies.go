package config

import (
	"fmt"
	"slices"
)

// policies checks what only shows when all layers are put together, globally
// and for each provider.
func (l *loader) policies(c *Config) {
	reported := map[place]bool{}
	l.policy(c, "", nil, reported)
	for _, p := range c.providers {
		l.policy(c, p.Name, p.own, reported)
	}
}

// policy checks one resolved policy. Each fault is a zero that somebody wrote,
// reported once, at its own place.
func (l *loader) policy(c *Config, provider string, own scope, reported map[place]bool) {
	p := c.settings(own).policy
	zero := func(key, want string) {
		g, ok := strongest(key, c.file, c.env, own)
		if !ok || reported[g.at] {
			return
		}
		reported[g.at] = true
		hint := ""
		if _, its := own[key]; !its && provider != "" {
			hint = "the block of the provider " + shownName(provider, false) + " needs it"
		}
		l.fault(g.at, fmt.Sprint(render(g.value)), want, hint)
	}
	if r := p.Retry; r.MaxRetries > 0 {
		if r.InitialBackoff == 0 {
			zero("retry.initial_backoff", "a backoff above 0 where there are retries (retry.max_retries)")
		}
		if r.MaxBackoff == 0 {
			zero("retry.max_backoff", "a backoff above 0 where there are retries (retry.max_retries)")
		}
	}
	if b := p.CircuitBreaker; !b.Disabled && b.FailureThreshold > 0 {
		if b.SuccessThreshold < 1 {
			zero("circuit_breaker.success_threshold", "at least 1 where the breaker is on")
		}
		if b.Timeout == 0 {
			zero("circuit_breaker.timeout", "an open time above 0 where the breaker is on")
		}
	}
}

// strongest is the value of the last scope that has the key.
func strongest(key string, scopes ...scope) (g given, ok bool) {
	for _, s := range slices.Backward(scopes) {
		if g, ok := s[key]; ok {
			return g, true
		}
	}
	return given{}, false
}
