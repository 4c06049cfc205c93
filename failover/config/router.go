package config

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// Router builds one stack a provider and the virtual models over them. stack
// is called once for every provider, in the order of the file; nil builds
// [resilience.Builder] stacks with [Config.Policy]. [Assemble] does the same
// with loggers, metrics and a registry of models.
//
// A request whose model is a virtual one goes to its chain. Any other goes to
// the provider that it names ("provider/model"), else to the first whose
// configured models list it, else to the only provider there is; a model that
// nobody has is a 404. Virtual models that are not enabled are not there, and
// as targets they are passed over, like unavailable providers.
func (c *Config) Router(stack func(Provider) (http.RoundTripper, error)) (*failover.Router, error) {
	if stack == nil {
		stack = func(p Provider) (http.RoundTripper, error) {
			return resilience.Builder{ProviderType: p.Type}.Build(p.Name, c.Policy(p.Name))
		}
	}
	var all []reach
	for _, p := range c.Providers() {
		rt, err := stack(p)
		if err == nil && rt == nil {
			err = errors.New("there is none")
		}
		if err != nil {
			return nil, fmt.Errorf("config: the stack of the provider %s: %w", p.Name, err)
		}
		all = append(all, reach{name: p.Name, provider: c.byName[p.Name], stack: rt, available: p.Available})
	}
	return c.route(newDirect(all), hooks{})
}

// hooks are what the chains of virtual models report to.
type hooks struct {
	builder   resilience.Builder // its Logger and MeterProvider
	onAttempt func(context.Context, failover.Attempt)
	onMove    func(context.Context, []failover.Attempt)
}

// route builds the virtual models over the providers.
func (c *Config) route(d *direct, h hooks) (*failover.Router, error) {
	all := c.Failover()
	d.policy.Words.Credentials, d.policy.MaxBody = all.Words.Credentials, all.MaxBody
	chains := map[string]*failover.Chain{}
	for _, v := range c.virtual {
		if !v.enabled || v.passed {
			continue
		}
		p := c.chainPolicy(v)
		p.Logger, p.MeterProvider, p.OnAttempt = h.builder.Logger, h.builder.MeterProvider, h.onAttempt
		p.OnFailover = h.onMove
		chain, err := failover.NewChain(p, d.targets(v)...)
		if err != nil {
			return nil, fmt.Errorf("config: the virtual model %s: %w", shownName(v.source, v.hidden), err)
		}
		chains[v.source] = chain
	}
	r, err := failover.NewRouter(chains, d)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return r, nil
}

// chainPolicy is a virtual model's own over the global failover block.
func (c *Config) chainPolicy(v *virtual) failover.Policy {
	p := c.failoverPolicy(v.failover)
	p.Strategy = v.strategy
	if p.Disabled && p.Strategy == failover.StrategyFailover {
		p.Strategy = "" // off for everyone, which no virtual model contradicts
	}
	return p
}

// reach is a provider and how to get there.
type reach struct {
	name      string
	provider  *provider // as the configuration has it, whatever became of the copy that a caller was given
	stack     http.RoundTripper
	available func() bool
}

// target is a model of the provider; "" keeps the request's.
func (r reach) target(model string) failover.Target {
	name := r.name
	if model != "" {
		name += "/" + model
	}
	return failover.Target{
		Name: name, Provider: r.name, Model: model, BaseURL: r.provider.BaseURL,
		Header: r.provider.Header(), Transport: r.stack, Available: r.available,
	}
}

// targets are those of a virtual model.
func (d *direct) targets(v *virtual) []failover.Target {
	var all []failover.Target
	for _, t := range v.targets {
		out := failover.Target{Name: t.name, Model: t.name} // a name that the Router resolves
		if r, ok := d.byName[t.provider]; ok {
			out = r.target(t.model)
		}
		out.Weight, _ = t.weight.value.(int)
		out.Cost, out.Timeout, out.Lenient, out.Disabled = t.cost, t.timeout, t.lenient, t.disabled
		out.AffinityHeader = t.affinityHeader
		if t.nested != nil && !t.nested.enabled {
			out.Disabled = true
		}
		all = append(all, out)
	}
	return all
}
