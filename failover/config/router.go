package config

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// Router builds one stack a provider and the virtual models over them. stack
// is called once for every provider, in the order of the file; nil builds
// [resilience.Builder] stacks with [Config.Policy].
//
// A request whose model is a virtual one goes to its chain. Any other goes to
// the provider that it names ("provider/model"), else to the first whose
// configured models list it, else to the only provider there is; a model that
// nobody has is a 404. Virtual models that are not enabled are not there, and
// as targets they are passed over, like unavailable providers.
func (c *Config) Router(stack func(Provider) (http.RoundTripper, error)) (*failover.Router, error) {
	if stack == nil {
		stack = func(p Provider) (http.RoundTripper, error) {
			return resilience.Builder{}.Build(p.Name, c.Policy(p.Name))
		}
	}
	d := &direct{chains: map[string]*failover.Chain{}}
	for _, p := range c.Providers() {
		rt, err := stack(p)
		if err == nil && rt == nil {
			err = errors.New("there is none")
		}
		if err != nil {
			return nil, fmt.Errorf("config: the stack of the provider %s: %w", p.Name, err)
		}
		d.reach = append(d.reach, reach{p, rt})
	}
	chains := map[string]*failover.Chain{}
	for _, v := range c.virtual {
		if !v.enabled || v.passed {
			continue
		}
		chain, err := failover.NewChain(c.chainPolicy(v), d.targets(v)...)
		if err != nil {
			return nil, fmt.Errorf("config: the virtual model %s: %w", v.source, err)
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
	p := c.settings(v.failover).failover
	p.Strategy = v.strategy
	if p.Disabled && p.Strategy == failover.StrategyFailover {
		p.Strategy = "" // off for everyone, which no virtual model contradicts
	}
	return p
}

// reach is a provider and its stack.
type reach struct {
	Provider
	stack http.RoundTripper
}

// target is a model of the provider; "" keeps the request's.
func (r reach) target(model string) failover.Target {
	name := r.Name
	if model != "" {
		name += "/" + model
	}
	return failover.Target{
		Name: name, Provider: r.Name, Model: model, BaseURL: r.BaseURL,
		Header: r.Header(), Transport: r.stack, Available: r.Available,
	}
}

// direct serves the requests that name no virtual model. The Router puts
// their model into the context.
type direct struct {
	reach []reach

	mu     sync.Mutex
	chains map[string]*failover.Chain // of one target, by its name; at most maxDirect; guarded by mu
}

// maxDirect bounds the chains that are kept: the names are the callers'.
const maxDirect = 1024

func (d *direct) provider(name string) (reach, bool) {
	i := slices.IndexFunc(d.reach, func(r reach) bool { return r.Name == name })
	if i < 0 {
		return reach{}, false
	}
	return d.reach[i], true
}

// targets are those of a virtual model.
func (d *direct) targets(v *virtual) []failover.Target {
	var all []failover.Target
	for _, t := range v.targets {
		out := failover.Target{Name: t.name, Model: t.name} // a name that the Router resolves
		if r, ok := d.provider(t.provider); ok {
			out = r.target(t.model)
		}
		out.Weight, _ = t.weight.value.(int)
		out.Cost, out.Timeout, out.Lenient, out.Disabled = t.cost, t.timeout, t.lenient, t.disabled
		if t.nested != nil && !t.nested.enabled {
			out.Disabled = true
		}
		all = append(all, out)
	}
	return all
}

// find says which provider serves a model, and how that calls it.
func (d *direct) find(model string) (failover.Target, bool) {
	if name, rest, ok := strings.Cut(model, "/"); ok && rest != "" {
		if r, ok := d.provider(name); ok {
			return r.target(rest), true
		}
	}
	for _, r := range d.reach {
		if model != "" && slices.Contains(r.Models, model) {
			return r.target(model), true
		}
	}
	if len(d.reach) == 1 {
		return d.reach[0].target(""), true
	}
	return failover.Target{}, false
}

// RoundTrip implements [http.RoundTripper].
func (d *direct) RoundTrip(req *http.Request) (*http.Response, error) {
	t, ok := d.find(resilience.ModelOf(req.Context()))
	if !ok {
		none, err := failover.NewRouter(nil, nil) // which answers as the format does
		if err != nil {
			return nil, closing(req, err)
		}
		return none.RoundTrip(req)
	}
	chain, err := d.chain(t)
	if err != nil {
		return nil, closing(req, err)
	}
	return chain.RoundTrip(req)
}

// chain is the chain of one target. It rewrites the request, and fails over
// to nothing.
func (d *direct) chain(t failover.Target) (*failover.Chain, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.chains[t.Name]; c != nil {
		return c, nil
	}
	c, err := failover.NewChain(failover.Policy{}, t)
	if err == nil && len(d.chains) < maxDirect {
		d.chains[t.Name] = c
	}
	return c, err
}

// closing closes the body of a request that is not sent.
func closing(req *http.Request, err error) error {
	if req.Body != nil {
		err = errors.Join(err, req.Body.Close())
	}
	return err
}

// CloseIdleConnections closes those of every stack.
func (d *direct) CloseIdleConnections() {
	for _, r := range d.reach {
		if c, ok := r.stack.(interface{ CloseIdleConnections() }); ok {
			c.CloseIdleConnections()
		}
	}
}
