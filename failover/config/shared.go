package config

import "github.com/surefoot-go/surefoot/breaker"

// Bounds of what is looked at for one virtual model's warnings.
const (
	maxWalked = 64 // virtual models that lead to each other
	maxShared = 64 // targets
)

// sharedBreakers warns of targets of one virtual model that open one breaker
// together: with circuit_breaker.scope provider the failures of one model of a
// provider also close the way to its other models, so that a backup of the
// same provider is none.
func (l *loader) sharedBreakers(c *Config, g *graph) {
	oneBreaker := map[string]bool{} // by provider; found out once
	for _, v := range c.virtual {
		if !v.enabled || v.passed {
			continue
		}
		first := map[string]*target{}
		for _, t := range g.concrete(v) {
			one, known := oneBreaker[t.provider]
			if !known {
				s := c.settings(c.own(t.provider))
				one = s.breakerOn() && s.policy.CircuitBreaker.Scope != breaker.ScopeModel
				oneBreaker[t.provider] = one
			}
			switch other := first[t.provider]; {
			case !one:
			case other == nil:
				first[t.provider] = t
			case other.model != t.model:
				l.warn(v.at, "%s: the targets %s and %s of the virtual model %s share the circuit breaker of their provider, so that a fault of one takes the other along; circuit_breaker.scope: model gives each its own",
					v.at.path, other.shown(), t.shown(), shownName(v.source, v.hidden))
			}
		}
	}
}

// shown is a model of a provider for a message.
func (t *target) shown() string { return shownName(t.provider+"/"+t.model, t.hidden) }

// concrete lists the models of providers that calls of v may reach, in the
// order in which they are tried, the first maxShared.
func (g *graph) concrete(v *virtual) []*target {
	var all []*target
	walked := map[*virtual]bool{}
	var walk func(v *virtual)
	walk = func(v *virtual) {
		walked[v] = true
		for _, t := range v.targets {
			w := g.follows(v, t)
			switch {
			case t.disabled || len(all) >= maxShared:
			case w == nil && t.provider != "":
				all = append(all, t)
			case w != nil && w.enabled && !walked[w] && len(walked) < maxWalked:
				walk(w)
			}
		}
	}
	walk(v)
	return all
}
