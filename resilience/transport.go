package resilience

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// Transport is the stack of one provider: an [http.RoundTripper] under which
// every answer is whole or an honest error. It is safe for concurrent use;
// its breakers live as long as it does. A [Builder] makes it: the zero Transport
// sends nothing.
type Transport struct {
	provider    string
	policy      Policy
	words       *wire.Vocabulary
	passthrough bool
	onCall      func(context.Context, Call)
	log         logger
	metrics     *metrics
	breaker     breaker.Transport // the top of the layers
	limits      limits
	peers       breaker.Peers // nil: no replicas share
	headers     bool          // the wait for headers is bounded here
	now         func() time.Time
}

// RoundTrip makes one call: see the manual of the module root. The request is
// not modified and its body is always closed. The caller closes the
// response's body.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.now == nil {
		closeBody(req)
		return nil, errUnbuilt
	}
	c := t.newCall(req)
	returned := false
	defer func() {
		if !returned { // a panic below passes on unchanged
			c.panicked()
		}
	}()
	resp, err := c.roundTrip(req)
	returned = true
	return resp, err
}

func (c *call) roundTrip(req *http.Request) (*http.Response, error) {
	t := c.t
	passedOn := false
	defer func() {
		if !passedOn { // the Read of its body may have panicked
			closeBody(req)
		}
	}()
	if err := req.Context().Err(); err != nil {
		return c.fail(err)
	}
	if open := c.shut(req); open != nil {
		return c.fail(open)
	}
	c.exchange = new(exchange)
	c.bound() // reading the request's body is a part of the call
	r, err := c.prepare(req)
	if err != nil {
		return c.fail(err)
	}
	if open := c.held(); open != nil {
		return c.fail(open)
	}
	if err := c.takePlace(); err != nil {
		return c.fail(err)
	}
	c.sent = r
	passedOn = true
	return c.finish(t.breaker.RoundTrip(r))
}

// Client returns a new http.Client over the stack. It has no timeout of its
// own.
func (t *Transport) Client() *http.Client { return &http.Client{Transport: t} }

// CloseIdleConnections closes the idle connections of the base transport.
func (t *Transport) CloseIdleConnections() { t.breaker.CloseIdleConnections() }

// Provider returns the configured name that the stack was built for.
func (t *Transport) Provider() string { return t.provider }

// Breakers returns the state of every breaker of the provider, its own (key
// "") first. It is empty where the breaker is disabled.
func (t *Transport) Breakers() []breaker.Snapshot { return t.breaker.Breakers() }

// ForceOpen opens a breaker for d, 0 being the policy's own open time. Key ""
// is the provider's own, else a model's name.
func (t *Transport) ForceOpen(key string, d time.Duration) { t.breaker.ForceOpen(key, d) }

// Reset closes a breaker and forgets its failures.
func (t *Transport) Reset(key string) { t.breaker.Reset(key) }

// Peek tells whether a call of that model would be rejected now, or had better
// be made elsewhere: by its breaker, or by a hold, also one whose time is a
// guess. Nil if not. It takes no place and changes nothing. The holds are those
// of the stack's own account.
func (t *Transport) Peek(model string) *breaker.OpenError { return t.PeekAccount("", model) }

// PeekAccount is Peek for calls of another account, by its word of [AccountKey].
func (t *Transport) PeekAccount(account, model string) *breaker.OpenError {
	if open, rejects := t.Rejects(account, model, true); rejects {
		return new(open)
	}
	return nil
}

// Rejects is PeekAccount as a value, for a look that costs no allocation. infers
// says that the call runs a model: one that does not, such as a list of models or
// the look at an answer that is kept, is kept away by the breaker alone.
func (t *Transport) Rejects(account, model string, infers bool) (breaker.OpenError, bool) {
	if open, rejects := t.opened(model); rejects || !infers {
		return open, rejects
	}
	return t.heldBy(account, model, true)
}

// opened is the rejection that the breaker of the model would give now.
func (t *Transport) opened(model string) (breaker.OpenError, bool) {
	if t.policy.CircuitBreaker.Scope != breaker.ScopeModel {
		model = ""
	}
	return t.breaker.Rejects(model)
}

var errUnbuilt = errors.New("resilience: the zero Transport sends nothing, use Builder.Build")

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // the request was not sent: its error says nothing
	}
}
