package failover

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience"
)

// Chain asks its targets one after the other until one answers well. It is an
// [http.RoundTripper], safe for concurrent use. [NewChain] makes it: the zero
// Chain sends nothing.
type Chain struct {
	policy  Policy
	rules   *rules
	targets []*target
	balance *balancer // nil but for round_robin
	pins    *pins     // nil without an affinity
	models  bool      // some target replaces the model
	asks    bool      // some target, or one of a chain below, has an Allow
	tele    *telemetry
}

// target is a Target, resolved once.
type target struct {
	Target
	base     *url.URL // without its query, which is in Query; nil: the request's URL
	rt       http.RoundTripper
	keeper   keeper // nil: its breaker cannot be asked
	nested   *Chain // the transport is a chain
	virtual  *link  // a Router found that it names a virtual model
	ownAuth  bool   // has headers, a credential in a query, or a user in its base URL
	identity identity
	index    int // in its chain
	account  account
	word     string   // for the account at a stack that serves several; "": the stack's own
	secrets  []string // names of credentials, beside those that say so
	pure     bool     // nothing but a model: says no way to reach it
	tele     targetTelemetry
}

// A keeper is a stack that says beforehand which calls it would reject; see
// [resilience.Transport.Rejects].
type keeper interface {
	Rejects(account, model string, infers bool) (breaker.OpenError, bool)
}

// identity tells whether two entries are one concrete target, so that it is
// tried once a call however many chains list it.
type identity struct {
	provider, model, base, auth string
	name                        string // where nothing else tells it apart
	transport                   any    // a pointer, or nil
}

// NewChain builds a chain and reports every fault of the policy and the
// targets. Targets without a Transport get the default stack, one a provider.
func NewChain(p Policy, targets ...Target) (*Chain, error) {
	r, err := validate(p, targets)
	if err != nil {
		return nil, fmt.Errorf("failover: %w", err)
	}
	c := &Chain{policy: p, rules: r}
	if c.tele, err = newTelemetry(p); err != nil {
		return nil, fmt.Errorf("failover: %w", err)
	}
	stacks := make(map[string]http.RoundTripper)
	for i := range targets {
		t, err := c.resolve(targets[i], stacks)
		if err != nil {
			return nil, fmt.Errorf("failover: target %s: %w", targetName(&targets[i]), err)
		}
		t.index = i
		c.targets = append(c.targets, t)
		c.models = c.models || t.Model != ""
		c.asks = c.asks || t.Allow != nil || t.nested != nil
	}
	tellApart(c.targets)
	if p.Affinity.Key != nil {
		c.pins = newPins(p.Affinity)
	}
	if p.Strategy == StrategyRoundRobin {
		c.balance = newBalancer(c.targets)
	}
	return c, nil
}

func (c *Chain) resolve(in Target, stacks map[string]http.RoundTripper) (*target, error) {
	in.Name = targetName(&in)
	in.Header = canonical(in.Header)
	in.Query = cloneQuery(in.Query)
	t := &target{
		Target: in,
		rt:     in.Transport,
		pure: in.Provider == "" && in.Transport == nil && in.BaseURL == "" &&
			in.Rewrite == nil && len(in.Header) == 0 && len(in.Query) == 0,
		secrets:  slices.Clone(c.policy.Words.Credentials),
		identity: identify(&in),
		tele:     c.tele.target(&in),
	}
	if in.BaseURL != "" {
		var err error
		if t.base, err = parseBase(in.BaseURL); err != nil {
			return nil, err
		}
		t.Query = joinQuery(t.base.Query(), in.Query)
		t.base.RawQuery = ""
	}
	t.ownAuth = len(in.Header) > 0 || hasCredential(t.Query, t.secrets) || t.base != nil && t.base.User != nil
	if t.rt == nil {
		var err error
		if t.rt, err = c.defaultStack(&in, stacks); err != nil {
			return nil, err
		}
	}
	t.account = accountOf(t)
	t.nested, _ = t.rt.(*Chain)
	t.keeper, _ = t.rt.(keeper)
	return t, nil
}

// defaultStack returns the stack that the chain's targets of one provider
// share.
func (c *Chain) defaultStack(t *Target, stacks map[string]http.RoundTripper) (http.RoundTripper, error) {
	provider := t.Provider
	if provider == "" {
		provider = t.Name
	}
	if rt := stacks[provider]; rt != nil {
		return rt, nil
	}
	rt, err := resilience.Builder{
		MeterProvider: c.policy.MeterProvider, Logger: c.policy.Logger,
	}.Build(provider, resilience.DefaultPolicy())
	if err != nil {
		return nil, err
	}
	stacks[provider] = rt
	return rt, nil
}

func identify(t *Target) identity {
	id := identity{provider: t.Provider, model: t.Model, base: strings.TrimSuffix(t.BaseURL, "/")}
	var auth strings.Builder
	if err := t.Header.Write(&auth); err != nil { // sorted by key
		id.name = t.Name
	}
	auth.WriteString(t.Query.Encode())
	id.auth = auth.String()
	rt := reflect.ValueOf(t.Transport)
	switch {
	case t.Provider == "" || t.Model == "" || t.Rewrite != nil:
		id.name = t.Name
	case !rt.IsValid():
	case rt.Kind() == reflect.Pointer:
		id.transport = rt.Pointer()
	default: // a func or a struct value: cannot be told apart safely
		id.name = t.Name
	}
	return id
}

// Do sends req like an http.Client's Transport: redirects are not followed
// and no cookie is kept. The request is not modified, its body is always
// closed; the caller closes the response's. An error is an [*Error].
func (c *Chain) Do(req *http.Request) (*http.Response, error) { return c.RoundTrip(req) }

// RoundTrip is [Chain.Do], by the name that an http.Client wants.
func (c *Chain) RoundTrip(req *http.Request) (*http.Response, error) {
	if len(c.targets) == 0 {
		closeBody(req)
		return nil, errZeroChain
	}
	if req.URL == nil {
		closeBody(req)
		return nil, &Error{Err: errors.New("request without a URL")}
	}
	if l := legOf(req.Response); l != nil {
		return redirected(req, l)
	}
	if req.Response != nil {
		return redirected(req, c.guess(req))
	}
	pl, err := readPayload(req, c.policy.maxBody(), c.models)
	if err != nil {
		return nil, unread(req, err)
	}
	return c.serve(req, pl, nil)
}

// Client returns a new http.Client over the chain. It has no timeout of its
// own.
func (c *Chain) Client() *http.Client { return &http.Client{Transport: c} }

// CloseIdleConnections closes the idle connections of every target.
func (c *Chain) CloseIdleConnections() {
	for _, t := range c.targets {
		if ci, ok := t.rt.(interface{ CloseIdleConnections() }); ok {
			ci.CloseIdleConnections()
		}
	}
}

var errZeroChain = &Error{Err: errors.New("the zero Chain has no targets, use NewChain")}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // the request was not sent: its error says nothing
	}
}
