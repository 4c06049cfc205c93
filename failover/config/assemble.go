package config

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// Options is what a file cannot hold. The zero Options works.
type Options struct {
	// Builder makes the stack of each provider: its base transport, logger,
	// meter provider and hooks. ProviderType is set for each provider. The
	// Logger and the MeterProvider also serve the virtual models' failover,
	// the Logger the registry, and the Base the requests for lists of models.
	// OnCall is called after the registry has seen the call.
	Builder resilience.Builder
	// OnAttempt is called after every attempt of a virtual model and for every
	// target that it passed over, with the call's context. It must not block;
	// a panic in it is recovered and logged.
	OnAttempt func(context.Context, failover.Attempt)
	// Registry has the settings of the registry that the file does not hold:
	// the time limit of a fetch, the cache file, the buttons of the page. Its
	// intervals are the file's, and its Logger, where it has none, Builder's.
	Registry discovery.Config
}

// Assembly is what a configuration describes, put together over one set of
// stacks: what the registry and its page show is what calls meet. Make it with
// [Assemble]. It is safe for concurrent use.
type Assembly struct {
	router   *failover.Router
	registry *discovery.Registry
	stacks   map[string]*resilience.Transport
	direct   *direct

	mu      sync.Mutex // guards closed, and that no Run begins after it
	closed  bool
	running sync.WaitGroup
	life    context.Context // done once closed
	end     context.CancelFunc
}

// Assemble builds one stack a provider, the router over them and the registry
// beside it. The registry sees every call, and the virtual models pass over
// providers that it knows to be offline. Beyond what [Config.Router] says, a
// bare model that no provider is configured with goes to the first provider
// whose current list has it, and a call that names a provider's model which its
// list lacks makes the registry ask for the list anew. A provider without its key is Unhealthy in the
// registry and is not asked for a list.
//
// Nothing runs and nothing is sent before [Assembly.Run] is called.
func Assemble(c *Config, o Options) (*Assembly, error) {
	if c == nil {
		return nil, errors.New("config: no configuration to assemble")
	}
	rc := o.Registry
	rc.RefreshInterval, rc.RecheckInterval = c.RefreshInterval(), c.RecheckInterval()
	if rc.Logger == nil {
		rc.Logger = o.Builder.Logger
	}
	reg, err := discovery.NewRegistry(rc)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	a := &Assembly{registry: reg, stacks: make(map[string]*resilience.Transport, len(c.providers))}
	var all []reach
	for _, p := range c.providers {
		stack, err := a.add(c, p, o)
		if err != nil {
			return nil, fmt.Errorf("config: the provider %s: %w", p.Name, err)
		}
		a.stacks[p.Name] = stack
		all = append(all, reach{name: p.Name, provider: p, stack: stack, available: func() bool {
			return p.Available() && reg.Available(p.Name)
		}})
	}
	a.direct = newDirect(all)
	a.direct.live, a.direct.seek = a.listed, reg.LookFor
	if a.router, err = c.route(a.direct, hooks{o.Builder, o.OnAttempt, a.moved}); err != nil {
		return nil, err
	}
	a.life, a.end = context.WithCancel(context.Background())
	return a, nil
}

// add builds the stack of one provider and makes the registry know it.
func (a *Assembly) add(c *Config, p *provider, o Options) (*resilience.Transport, error) {
	b := o.Builder
	b.ProviderType = p.Type
	b.OnCall = func(ctx context.Context, call resilience.Call) {
		a.registry.Observe(ctx, call)
		if o.Builder.OnCall != nil {
			o.Builder.OnCall(ctx, call)
		}
	}
	stack, err := b.Build(p.Name, c.Policy(p.Name))
	if err != nil {
		return nil, err
	}
	most := c.Policy(p.Name).Limits.MaxConcurrent
	entry := discovery.Provider{
		Name: p.Name, Breakers: stack.Breakers, Holds: stack.Holds, Controls: stack,
		Places: func() (int, int) { return stack.InUse(), most },
	}
	if p.Available() {
		var client *http.Client
		if b.Base != nil {
			client = &http.Client{Transport: b.Base}
		}
		if entry.Lister, err = discovery.NewLister(discovery.ListerConfig{Type: p.Type, Client: client, BaseURL: p.BaseURL, Header: p.Header()}); err != nil {
			return nil, err
		}
		entry.Models, entry.Mode, entry.Catalog = p.Models, p.ModelsMode, discovery.Catalog(p.Type, p.BaseURL)
	} else {
		entry.Lister = keyless{}
	}
	return stack, a.registry.Add(entry)
}

// moved has the registry know of a call that its first target did not answer.
func (a *Assembly) moved(_ context.Context, attempts []failover.Attempt) {
	var f discovery.Failover
	for _, at := range attempts {
		switch at.Reason {
		case failover.ReasonDisabled, failover.ReasonNotAllowed, failover.ReasonOtherModel, failover.ReasonBound, failover.ReasonTried:
			continue // by the configuration, or by the request
		case "":
			f.To = at.Target
		default:
			if f.From == "" {
				f.From, f.Reason = at.Target, at.Reason
			}
		}
	}
	if f.From != "" {
		a.registry.ObserveFailover(f)
	}
}

// keyless is the lister of a provider without its key: it asks nobody.
// [Config.Warnings] names the variable that holds none.
type keyless struct{}

// ListModels implements [discovery.Lister].
func (keyless) ListModels(context.Context) ([]discovery.Model, error) {
	return nil, &discovery.ListError{Reason: discovery.ReasonNoKey}
}

// listed finds a bare model in the lists that the registry holds now. A bare
// name fetches nothing.
func (a *Assembly) listed(ctx context.Context, model string) (provider, name string, ok bool) {
	m, err := a.registry.Resolve(ctx, model)
	return m.Provider, m.ID, err == nil
}

// Router returns the router over all virtual models and providers. Its Client
// is what an SDK takes.
func (a *Assembly) Router() *failover.Router { return a.router }

// Registry returns the registry of all providers. Its Handler is the status
// page.
func (a *Assembly) Registry() *discovery.Registry { return a.registry }

// Stack returns the stack of a provider, nil for one that is not configured.
func (a *Assembly) Stack(provider string) *resilience.Transport { return a.stacks[provider] }

// Targets returns one target a provider, in the order of the file, for a chain
// of all of them: each keeps the model of the request. The slice is the
// caller's own.
func (a *Assembly) Targets() []failover.Target {
	all := make([]failover.Target, len(a.direct.reach))
	for i, r := range a.direct.reach {
		all[i] = r.target("")
	}
	return all
}

// Run fetches the lists of models, at once and then in the intervals of the
// file, until ctx is done or the assembly is closed. It returns nil then, with
// no goroutine left; a second Run at the same time is an error. Without it the
// registry lists what is configured, and no provider counts as offline.
func (a *Assembly) Run(ctx context.Context) error {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return nil
	}
	a.running.Add(1)
	a.mu.Unlock()
	defer a.running.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.life, cancel)()
	if err := a.registry.Run(ctx); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return nil
}

// Close ends Run, waits for it, and closes the idle connections of all stacks.
// It cuts off no call: those that run go on, and a later one still works.
// Closing twice is allowed.
func (a *Assembly) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.end()
	a.running.Wait()
	a.direct.CloseIdleConnections()
}
