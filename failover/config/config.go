// Package config reads the configuration of surefoot's layers: one YAML file
// and the process environment. Most callers should use [Load].
//
// # Layers
//
// A value comes from the strongest of four layers that names it: the built-in
// defaults, the file's global blocks (resilience, failover, cache), the
// environment, and the provider's own resilience block. A provider inherits
// every key that it does not name, a single list or switch at a time.
// [Config.Effective] shows where each value came from.
//
// The key profile (RESILIENCE_PROFILE) chooses the built-in defaults: see
// [resilience.Profile]. A provider's own profile takes the place of everyone's
// below its stack, so that the global blocks and the environment still win over
// it. Chains follow the profile of everyone: with live and whole they go on
// where a request is too long for a model (failover.TooLong).
//
// # From a file to a client
//
// [Assemble] puts together what a file describes: a stack for each provider, a
// router with the virtual models, and the registry of models with its status
// page. [Config.Policy], [Config.Providers] and [Config.Router] are for those
// who do it themselves.
//
// # Values
//
// A YAML null and an environment variable that is set but empty count as not
// given. A duration has a unit (15s, 500ms) or is a bare 0. Values, but not
// keys, may hold ${NAME} and ${NAME:-default}; what is put in is text and is
// not parsed as YAML. An unset ${NAME} in api_key makes the provider
// unavailable and is a warning, elsewhere it is an error. For the retry and
// circuit_breaker blocks an empty list means "no status"; everywhere else it
// counts as not given. In a list of statuses or phrases the word default stands
// for the built-in list, or for the profile's, so that it can be added to.
//
// config.example.yaml, beside this package, shows every key.
//
// # Limits
//
// A file has at most 4 MiB, and so has every environment variable that is
// read, VIRTUAL_MODELS too. With all aliases followed and all variables put in
// it holds at most 200,000 values and 4 MiB of text; a list of statuses or
// phrases has at most 1,000 entries, and at most 16 lines begin with a %. The time that reading takes grows with the
// size and not with its square.
//
// # Errors
//
// All faults of a configuration are reported at once, as [Errors]: each with
// its line, the full path of the field, what was found and what was expected.
// What was found is quoted where it is a short number, or a short word of
// lower case where a mode was due; anything else, which could be a secret in
// the wrong place, is described.
package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// Config is a configuration that was read and checked. It does not change and
// is safe for concurrent use. Printing it shows no credentials.
type Config struct {
	file, env scope // what the global blocks and the environment give
	providers []*provider
	byName    map[string]*provider
	virtual   []*virtual
	warnings  []string

	gone, credentials []string // the words of all providers together, for chains
}

// Parse reads a configuration from the text of a YAML file and from an
// environment; a nil lookup is an empty one. An error is of type [Errors] and
// holds every fault, the first hundred if there are more.
func Parse(data []byte, lookup func(string) (string, bool)) (*Config, error) {
	l := newLoader(lookup)
	c := &Config{file: scope{}, env: scope{}, byName: map[string]*provider{}}
	var declared []*virtual
	top, bad := parseYAML(data)
	if bad != nil {
		l.faults = append(l.faults, bad)
	}
	if top != nil {
		declared = l.top(node{}.child(top, ""), c)
	}
	l.environment(resilienceFields, "resilience.", c.env)
	l.environment(failoverFields, "", c.env)
	l.environment(cacheFields, "", c.env)
	l.environment([]field{modeField}, "", c.env)
	c.virtual = overlay(declared, l.virtualVariable())
	var known *graph
	// What a broken document is about is not worth guessing at.
	if bad == nil {
		known = l.graph(c)
		l.policies(c)
	}
	if len(l.faults) > 0 {
		return nil, l.faults.sorted()
	}
	for _, p := range c.providers {
		c.byName[p.Name] = p
		p.ModelsMode = c.settings(p.own).modelsMode
	}
	c.shareWords()
	l.sharedBreakers(c, known)
	c.warnings = l.warnings
	return c, nil
}

// Load reads the file at path and the process environment.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	c, err := Parse(data, os.LookupEnv)
	if faults, ok := errors.AsType[Errors](err); ok {
		for _, f := range faults {
			f.File = path
		}
	}
	return c, err
}

// top reads the document.
func (l *loader) top(n node, c *Config) (declared []*virtual) {
	known := []string{"resilience", "failover", "providers", "virtual_models", "cache"}
	l.mapping(n, known, func(p pair) {
		switch p.key {
		case "resilience":
			l.block(p.value, resilienceFields, "", c.file)
		case "failover":
			l.block(p.value, failoverFields, "failover.", c.file)
		case "cache":
			l.block(p.value, cacheFields, "cache.", c.file)
		case "providers":
			c.providers = l.providers(p.value)
		case "virtual_models":
			declared = l.virtualModels(p.value)
		}
	})
	return declared
}

// own is what a provider's blocks give; nil for one that is not configured.
func (c *Config) own(name string) scope {
	if p := c.byName[name]; p != nil {
		return p.own
	}
	return nil
}

// Policy returns the policy of a provider. A provider that is not configured
// has the global one. The caller may change what it gets.
func (c *Config) Policy(provider string) resilience.Policy {
	return c.settings(c.own(provider)).copied().policy
}

// Failover returns the global failover policy. Its words are those of all
// providers together: a chain may have targets of each.
func (c *Config) Failover() failover.Policy {
	return c.failoverPolicy(nil)
}

// failoverPolicy is the global failover policy with a virtual model's own on
// top; nil for none.
func (c *Config) failoverPolicy(own scope) failover.Policy {
	s := c.settings(own).copied()
	p := s.failover
	p.Affinity.Key, _ = failover.ParseAffinityKey(s.affinityKey) // it was checked when it was read
	p.Words.ModelGone, p.Words.Credentials = slices.Clone(c.gone), slices.Clone(c.credentials)
	return p
}

// shareWords collects the words that chains have to know: the header in which a
// caller sends one provider's credential goes to no other provider, and a
// model may be gone in any of their words.
func (c *Config) shareWords() {
	s := c.settings(nil)
	c.gone, c.credentials = s.policy.Words.ModelGone, s.policy.Words.Credentials
	for _, p := range c.providers {
		if g, ok := p.own[modelGone]; ok {
			c.gone = append(c.gone[:len(c.gone):len(c.gone)], g.value.([]string)...)
		}
		if g, ok := p.own[credentialNames]; ok {
			c.credentials = append(c.credentials[:len(c.credentials):len(c.credentials)], g.value.([]string)...)
		}
	}
	c.gone, c.credentials = unique(c.gone), unique(c.credentials)
}

// Providers returns the configured providers in the order of the file,
// unavailable ones too.
func (c *Config) Providers() []Provider {
	all := make([]Provider, len(c.providers))
	for i, p := range c.providers {
		all[i] = p.Provider
		all[i].Models = slices.Clone(p.Models)
	}
	return all
}

// VirtualModels returns the names that requests may use as their model, of the
// virtual models that are enabled, in the order of the file and then of the
// environment. The slice is the caller's own.
func (c *Config) VirtualModels() []string {
	var names []string
	for _, v := range c.virtual {
		if v.enabled && !v.passed {
			names = append(names, v.source)
		}
	}
	return names
}

// RefreshInterval is how often every model list is fetched anew, as
// discovery.Config takes it: [discovery.Off] where the configuration says 0.
func (c *Config) RefreshInterval() time.Duration { return interval(c.settings(nil).refresh) }

// RecheckInterval is how often the lists of failed providers are fetched
// anew, as discovery.Config takes it: [discovery.Off] where the configuration
// says 0.
func (c *Config) RecheckInterval() time.Duration { return interval(c.settings(nil).recheck) }

func interval(d time.Duration) time.Duration {
	if d == 0 {
		return discovery.Off
	}
	return d
}

// Warnings lists what is allowed and seldom meant, one line each: an api_key
// whose variable is unset, a virtual model that no request reaches, two models
// of one virtual model behind one circuit breaker. It holds the first hundred.
func (c *Config) Warnings() []string { return slices.Clone(c.warnings) }

// String counts what is configured.
func (c Config) String() string {
	return fmt.Sprintf("config: %d providers, %d virtual models", len(c.providers), len(c.virtual))
}

// Format prints the configuration as [Config.String] does, whatever the verb.
func (c Config) Format(f fmt.State, verb rune) { wire.Print(f, verb, c.String()) }
