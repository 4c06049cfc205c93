package breaker

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// A Call is what stands above a [Transport] and knows one of its calls.
type Call interface {
	// Key names the call's breaker, see [Transport.Key].
	Key() string
	// Permit is where the call's permit is kept, not nil: the call can tell a
	// probe by it, and settles it where it is pending.
	Permit() *Permit
	// Pending is asked of an answer that is a success by its status. It reports
	// whether the verdict comes later, with the answer's end.
	Pending(*http.Response) bool
}

// A Transport is an [http.RoundTripper] that asks a breaker before every call
// and tells it how the call ended. A rejection is an [*OpenError]. The zero
// Transport has no breaker and sends everything through what a nil Base is.
//
// Used alone it judges by status, context and error: a failure is a listed
// status, a local timeout or any transport error; 2xx and 3xx are successes;
// any other status and a call that its caller cancelled are neutral. A streamed
// answer (server-sent events, NDJSON, an AWS event stream) is judged when its
// body ends: broken off is a failure, closed early neutral.
//
// The fields must not be changed after the first use. It is safe for concurrent
// use.
type Transport struct {
	// Base sends the calls. Nil is a clone of [http.DefaultTransport] that waits
	// up to 600 s for response headers.
	Base http.RoundTripper
	// Policy is checked at first use; with an invalid one every RoundTrip
	// fails and nothing is sent.
	Policy Policy
	// Provider is named by errors and log lines.
	Provider string
	// Key names the breaker of a request: "" the provider's own, else a model.
	// It matters with [ScopeModel] only. Nil: always "".
	Key func(*http.Request) string
	// Judge gives the verdict on what Base returned, which settles the call at
	// once: [Pending] counts as [Neutral]. A panic of Base is a failure in any
	// case. [Transport.JudgeStatus] is what a status alone says. Judge is not
	// asked where the policy has no breaker. Nil judges as the type's
	// documentation says.
	Judge func(*http.Request, *http.Response, error) Verdict
	// Call finds what stands above and knows the call of a request; Key and Judge
	// are not asked then. Nil, or a nil result: nothing does.
	Call func(*http.Request) Call
	// OnStateChange, Logger and Peers are those of [Config].
	OnStateChange func(key string, from, to State)
	Logger        *slog.Logger
	Peers         Peers

	below    layer.Base
	once     sync.Once
	breakers *Map // nil: see err
	failures layer.StatusSet
	err      error // the policy's fault
}

// init resolves the configuration once.
func (t *Transport) init() *Map {
	t.once.Do(func() {
		t.failures, _ = t.Policy.failures()
		t.breakers, t.err = NewMap(Config{
			Policy:        t.Policy,
			Provider:      t.Provider,
			OnStateChange: t.OnStateChange,
			Logger:        t.Logger,
			Peers:         t.Peers,
		})
	})
	return t.breakers
}

func (t *Transport) base() http.RoundTripper { return t.below.Of(t.Base) }

// RoundTrip sends the request unless its breaker rejects it. The request's body
// is closed in any case.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	m := t.init()
	// What the permit is settled as if this function is left by a panic or by
	// runtime.Goexit, which both pass on: not being sent is no failure.
	exit, sent, p := Neutral, false, (*Permit)(nil)
	defer func() {
		if p != nil {
			p.Settle(exit)
		}
		if !sent && req.Body != nil {
			_ = req.Body.Close()
		}
	}()
	if m == nil {
		return nil, t.err
	}
	var call Call
	if t.Call != nil {
		call = t.Call(req)
	}
	key := ""
	p, key = t.place(call, req)
	if err := m.Admit(key, p); err != nil {
		return nil, err
	}
	dead := ending.Of(req, nil).By != ending.Upstream
	exit, sent = Failure, true
	resp, err := layer.Send(t.base(), req)
	if p.breaker == nil {
		return resp, err // there is no breaker
	}
	p.Answered()
	exit = t.verdict(call, p, req, resp, err, dead)
	return resp, err
}

// verdict is the verdict on what the base returned; dead says that the context
// was done before. The body of a stream is watched where nobody above does.
func (t *Transport) verdict(call Call, p *Permit, req *http.Request, resp *http.Response, err error, dead bool) Verdict {
	if call == nil && t.Judge != nil {
		if v := t.Judge(req, resp, err); v != Pending {
			return v
		}
		return Neutral
	}
	v := t.judge(req, resp, err, dead, p.Probe())
	switch {
	case v != Success:
	case call != nil:
		if call.Pending(resp) {
			return Pending
		}
	case isStream(resp):
		resp.Body = &body{ReadCloser: resp.Body, permit: p, req: req}
		return Pending
	}
	return v
}

// place is where the permit of a call is kept, and which breaker's it is.
func (t *Transport) place(call Call, req *http.Request) (p *Permit, key string) {
	switch {
	case call != nil:
		return call.Permit(), call.Key()
	case t.Key != nil:
		key = t.Key(req)
	}
	return new(Permit), key
}

// judge is the verdict by status, context and error.
func (t *Transport) judge(req *http.Request, resp *http.Response, err error, dead, probe bool) Verdict {
	if err == nil {
		return t.JudgeStatus(resp.StatusCode, probe)
	}
	if dead || errors.Is(err, ErrOpen) {
		return Neutral // never sent
	}
	if by := ending.Of(req, err).By; by == ending.Caller || by == ending.Request {
		return Neutral
	}
	return Failure // a transport failure or a local timeout
}

// JudgeStatus is the verdict on an answer's status by the policy's list alone.
// On a probe a status that is not listed shows that the upstream lives, and is
// a success.
func (t *Transport) JudgeStatus(status int, probe bool) Verdict {
	t.init()
	switch {
	case t.failures.Has(status):
		return Failure
	case probe, status >= 200 && status < 400:
		return Success
	}
	return Neutral
}

// Breakers returns all breakers, the provider's own first; nil if the policy is
// invalid or has none.
func (t *Transport) Breakers() []Snapshot {
	if m := t.init(); m != nil {
		return m.Snapshots()
	}
	return nil
}

// Peek returns the error with which a call of the key would be rejected now,
// nil if it would not. It takes no place and changes nothing.
func (t *Transport) Peek(key string) *OpenError { return errorOf(t.Rejects(key)) }

// Rejects is [Transport.Peek] without an allocation (but for a key that is too
// long).
func (t *Transport) Rejects(key string) (OpenError, bool) {
	if m := t.init(); m != nil {
		return m.Rejects(key)
	}
	return OpenError{}, false
}

// ForceOpen is [Map.ForceOpen].
func (t *Transport) ForceOpen(key string, d time.Duration) {
	if m := t.init(); m != nil {
		m.ForceOpen(key, d)
	}
}

// Reset is [Map.Reset].
func (t *Transport) Reset(key string) {
	if m := t.init(); m != nil {
		m.Reset(key)
	}
}

// CloseIdleConnections passes on to Base.
func (t *Transport) CloseIdleConnections() {
	layer.CloseIdle(t.base())
}
