package failover

import (
	"net/http"
	"net/url"
	"time"
)

// Target is one way to get an answer: a provider, a model and how to reach
// them. A Chain copies its targets; Header and Query are not written to.
type Target struct {
	Name      string                    // "cloudflare/model1", unique in a chain
	Provider  string                    // configured name; targets of one provider share one stack
	Model     string                    // "" keeps the request's
	BaseURL   string                    // what an SDK would take, the format's endpoint is added; "" keeps the request's URL
	Header    http.Header               // this target's credentials and other headers
	Query     url.Values                // set on the URL
	Rewrite   func(*http.Request) error // the last word on a request of its own; nil: none
	Transport http.RoundTripper         // usually a *resilience.Transport; another *Chain works; nil: the default stack
	Weight    int                       // for round_robin; 0 counts as 1
	Cost      float64                   // for cost: the cheapest is first
	Timeout   time.Duration             // of this target's call, until its answer is handed out; 0: none
	Disabled  bool                      // never tried
	// AffinityHeader is the header by which the provider keeps calls together, such
	// as x-session-affinity, x-session-id or x-grok-conv-id: a hash of the key that
	// the chain's Affinity finds is sent in it, unless the caller has set it. ""
	// sends none.
	AffinityHeader string
	Lenient        bool                     // a clean end of a stream after content is an end
	Allow          func(*http.Request) bool // nil: everyone
	Available      func() bool              // nil: always; for a discovery.Registry: func() bool { return reg.Available(provider) }
}
