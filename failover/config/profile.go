package config

import (
	"slices"
	"strings"
	"time"

	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience"
)

// profileField names what lies below all other fields (contract 12).
var profileField = field{key: "profile", env: "RESILIENCE_PROFILE", kind: words(resilience.Profiles()...),
	at: func(s *settings) any { return &s.profile }}

// profileOf is the profile that the strongest of these scopes names.
func profileOf(scopes ...scope) string {
	if g, ok := strongest(profileField.key, scopes...); ok {
		return g.value.(string)
	}
	return resilience.ProfileDefault
}

// profileFor is the profile that a field of a provider is based on: chains have
// targets of many providers and follow the one that is everyone's.
func (c *Config) profileFor(f field, own scope) string {
	if strings.HasPrefix(f.key, "failover.") {
		return profileOf(c.file, c.env)
	}
	return profileOf(c.file, c.env, own)
}

// base is what lies below the global blocks, the environment and a provider's
// or a virtual model's own block.
func (c *Config) base(own scope) settings {
	return defaults(profileOf(c.file, c.env, own), profileOf(c.file, c.env))
}

// defaults are the settings of a profile for a stack and of one for chains.
func defaults(stacks, chains string) settings {
	p, err := resilience.Profile(stacks)
	if err != nil { // no other name gets past the field
		p = resilience.DefaultPolicy()
	}
	f := failover.DefaultPolicy()
	if chains != resilience.ProfileDefault {
		f.RetryOnErrors = []string{builtIn, failover.TooLong}
	}
	return settings{
		profile:    resilience.ProfileDefault,
		policy:     p,
		failover:   f,
		refresh:    time.Hour,
		recheck:    time.Minute,
		modelsMode: discovery.ModeFallback, affinityKey: offWord,
	}
}

// settings resolves what holds with a provider's or a virtual model's own scope
// on top; nil for none.
func (c *Config) settings(own scope) settings {
	s := c.base(own)
	for _, f := range allFields {
		usual := read(f.at(&s))
		for _, given := range []scope{c.file, c.env, own} {
			if g, ok := given[f.key]; ok {
				assign(f.at(&s), based(g.value, usual))
			}
		}
	}
	return s
}

// based puts a profile's list in the place of the word "default" in a list that
// somebody wrote. Where the profile has no list of its own there is nothing to
// do: the layers know what the word stands for.
func based(v, usual any) any {
	list, ok := v.([]string)
	own, _ := usual.([]string)
	if !ok || !slices.ContainsFunc(own, layer.IsDefault) || !slices.ContainsFunc(list, layer.IsDefault) {
		return v
	}
	all := make([]string, 0, len(list)+len(own))
	for _, entry := range list {
		if layer.IsDefault(entry) {
			all = append(all, own...)
			continue
		}
		all = append(all, entry)
	}
	return unique(all) // a list that [Config.Effective] shows, written into a file, stays as it is
}
