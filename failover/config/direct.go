package config

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// direct serves the requests that name no virtual model. The Router puts
// their model into the context.
type direct struct {
	policy failover.Policy // of the chains of one target
	reach  []reach
	byName map[string]reach
	owners map[string]reach // by model: the first provider that is configured with it
	// live finds the provider that lists a model now, and the model's name
	// there; nil where nobody asks the providers for their lists.
	live func(ctx context.Context, model string) (provider, name string, ok bool)
	// seek is told of each provider's model that is asked for by name; nil as
	// above. It waits for nothing.
	seek func(name string)

	mu     sync.Mutex
	chains map[string]*failover.Chain // of one target, by its name; at most maxDirect; guarded by mu
}

// maxDirect bounds the chains that are kept: the names are the callers'.
const maxDirect = 1024

func newDirect(all []reach) *direct {
	d := &direct{
		reach: all, byName: make(map[string]reach, len(all)), owners: map[string]reach{},
		chains: map[string]*failover.Chain{},
	}
	for _, r := range all {
		d.byName[r.name] = r
		for _, m := range r.provider.Models {
			if _, taken := d.owners[m]; !taken {
				d.owners[m] = r
			}
		}
	}
	return d
}

// find says which provider serves a model, and how that calls it.
func (d *direct) find(ctx context.Context, model string) (failover.Target, bool) {
	if name, rest, ok := strings.Cut(model, "/"); ok && rest != "" {
		if r, ok := d.byName[name]; ok {
			if d.seek != nil {
				d.seek(model)
			}
			return r.target(rest), true
		}
	}
	if r, ok := d.owners[model]; ok && model != "" {
		return r.target(model), true
	}
	if d.live != nil && model != "" {
		if name, model, ok := d.live(ctx, model); ok {
			return d.byName[name].target(model), true
		}
	}
	if len(d.reach) == 1 {
		return d.reach[0].target(""), true
	}
	return failover.Target{}, false
}

// MaxBody is how long a body may be that gets a provider's name for its model:
// the Router reads as much to find the model.
func (d *direct) MaxBody() int64 { return d.policy.MaxBody }

// RoundTrip implements [http.RoundTripper].
func (d *direct) RoundTrip(req *http.Request) (*http.Response, error) {
	t, ok := d.find(req.Context(), resilience.ModelOf(req.Context()))
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
	c, err := failover.NewChain(d.policy, t)
	if err == nil && len(d.chains) < maxDirect {
		d.chains[strings.Clone(t.Name)] = c
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
