package failover

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// Router dispatches requests to chains by the model that they name: virtual
// models. It is an [http.RoundTripper], safe for concurrent use.
//
// A target whose Model is itself the name of a chain, and which names no
// Provider, stands for that chain: its Weight, Cost, Timeout, Lenient, Disabled,
// Allow and Available count, and how the chain's own targets are reached. A name that is also the model of one of its
// own chain's targets overlays a real model, which then has backups wherever
// it is named. Where two such models back each other up, each one's backup
// reaches the model itself only. However the chains hang together, each
// concrete target is tried at most once a call.
//
// A request for "provider/model", where a target has that provider, passes the
// chains by, except a chain that overlays exactly this model and lists it: the
// chain "provider/model" is walked as it is, the chain "model" from that target
// on.
type Router struct {
	chains    map[string]*Chain
	providers map[string]bool
	next      http.RoundTripper
	maxBody   int64 // the largest of the chains' own and of next's
}

// NewRouter returns a router over chains by name; the chains themselves stay
// usable on their own. It reports a cycle by its names. next gets every other
// request as it is, its model in the context ([resilience.ModelOf]); nil
// answers those with a 404 in the request's format. A next that re-writes bodies
// itself, and is neither a Chain nor a Router, has a method MaxBody() int64 that
// returns how long they may be, as [Policy.MaxBody] does.
func NewRouter(chains map[string]*Chain, next http.RoundTripper) (*Router, error) {
	for name, c := range chains {
		switch {
		case name == "":
			return nil, errors.New("failover: a virtual model has no name")
		case c == nil:
			return nil, fmt.Errorf("failover: virtual model %s has no chain", name)
		case len(c.targets) == 0:
			return nil, fmt.Errorf("failover: virtual model %s: %w", name, errZeroChain.Err)
		}
	}
	linked, err := resolveNames(chains)
	if err != nil {
		return nil, fmt.Errorf("failover: %w", err)
	}
	r := &Router{chains: linked, providers: make(map[string]bool), next: next, maxBody: bodyLimit(next)}
	for _, c := range chains {
		r.maxBody = max(r.maxBody, c.policy.maxBody())
		for _, t := range c.targets {
			if t.Provider != "" {
				r.providers[t.Provider] = true
			}
		}
	}
	if r.maxBody == 0 {
		r.maxBody = defaultMaxBody
	}
	return r, nil
}

// bodyLimit is how long a body may be that next re-writes, 0 where it does not
// say so.
func bodyLimit(next http.RoundTripper) int64 {
	switch n := next.(type) {
	case *Chain:
		return n.policy.maxBody()
	case *Router:
		return n.maxBody
	case interface{ MaxBody() int64 }:
		return n.MaxBody()
	}
	return 0
}

// RoundTrip sends req to the chain of the model that it names, else to next.
// The request is not modified, its body is always closed.
func (r *Router) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL == nil {
		closeBody(req)
		return nil, &Error{Err: errors.New("request without a URL")}
	}
	if l := legOf(req.Response); l != nil {
		return redirected(req, l)
	}
	if req.Response != nil { // a redirect that next gave
		return r.other(req, nil)
	}
	pl, err := readPayload(req, r.maxBody, true)
	if err != nil {
		return nil, unread(req, err)
	}
	if c, preferred := r.lookup(pl.model); c != nil {
		pl.limit = c.policy.maxBody()
		return c.serve(req, pl, preferred)
	}
	if pl.model == "" && !pl.Fits(r.maxBody) {
		pl.Discard(req)
		return nil, unread(req, &ending.RequestError{Err: &BodyError{
			Status: http.StatusRequestEntityTooLarge, Err: errTooLarge,
		}})
	}
	return r.other(req, pl)
}

// lookup returns the chain that serves a model, and the target of it that the
// name asks for, if it does.
func (r *Router) lookup(name string) (*Chain, *target) {
	if provider, model, ok := strings.Cut(name, "/"); ok && r.providers[provider] {
		if c := r.chains[name]; c != nil && c.lists(provider, model) != nil {
			return c, nil
		}
		if c := r.chains[model]; c != nil {
			if t := c.lists(provider, model); t != nil {
				return c, t
			}
		}
		return nil, nil
	}
	return r.chains[name], nil
}

// other hands a request that no chain serves to next. pl is nil for one that was
// not looked at.
func (r *Router) other(req *http.Request, pl *payload) (*http.Response, error) {
	out, f := req, wire.Unknown
	if pl != nil {
		ctx := req.Context()
		if pl.model != "" {
			ctx = resilience.WithModel(ctx, pl.model)
		}
		ctx, rd := pl.Carry(ctx)
		out, f = req.WithContext(ctx), pl.Format
		if rd.Fill(out); pl.Whole() {
			pl.Discard(req)
		}
	}
	if r.next != nil {
		return r.next.RoundTrip(out)
	}
	closeBody(out)
	body := f.ErrorBody(http.StatusNotFound, "invalid_request_error", "model_not_found",
		"the model does not exist or is not configured")
	return &http.Response{
		Status:     "404 Not Found",
		StatusCode: http.StatusNotFound,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type":   {"application/json"},
			"Content-Length": {strconv.Itoa(len(body))},
		},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       req,
	}, nil
}

// Client returns a new http.Client over the router. It has no timeout of its
// own.
func (r *Router) Client() *http.Client { return &http.Client{Transport: r} }

// CloseIdleConnections closes the idle connections of every chain and of next.
func (r *Router) CloseIdleConnections() {
	for _, c := range r.chains {
		c.CloseIdleConnections()
	}
	if ci, ok := r.next.(interface{ CloseIdleConnections() }); ok {
		ci.CloseIdleConnections()
	}
}
