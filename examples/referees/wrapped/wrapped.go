// Package wrapped puts stacks under the HTTP clients of test suites that know
// nothing of them. The command in ../suites adds it to copies of those suites.
package wrapped

import (
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/resilience"
)

// EnvVar names a file in the environment of a suite that runs over the stack,
// which grows by a byte for each call. The same test binary without it runs
// bare.
const EnvVar = "SUREFOOT_WRAPPED"

const (
	// OnceVar takes the retries away where it is set.
	OnceVar = "SUREFOOT_WRAPPED_ONCE"
	// PlainVar takes the stack away where it is set: what is left is a
	// RoundTripper that only forwards.
	PlainVar = "SUREFOOT_WRAPPED_PLAIN"
)

// Transport is a base transport with one stack for each host, since a stack is
// one provider's: every test server has a breaker of its own. It is safe for
// concurrent use.
type Transport struct {
	base http.RoundTripper

	mu     sync.Mutex
	stacks map[string]*resilience.Transport
}

// Wrap returns base under the stack where the environment asks for that, and
// base itself elsewhere. A base that is nil, or wrapped already, comes back
// unchanged.
func Wrap(base http.RoundTripper) http.RoundTripper {
	if _, already := base.(*Transport); already || base == nil || os.Getenv(EnvVar) == "" {
		return base
	}
	return &Transport{base: base, stacks: map[string]*resilience.Transport{}}
}

// Bare returns what was given to Wrap, for tests that change a transport's
// settings after they built their client.
func Bare(rt http.RoundTripper) http.RoundTripper {
	if t, ok := rt.(*Transport); ok {
		return t.base
	}
	return rt
}

// RoundTrip makes the call through the stack of the request's host.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	count()
	if os.Getenv(PlainVar) != "" {
		return t.base.RoundTrip(req)
	}
	return t.stack(req).RoundTrip(req)
}

// count adds a byte to the file of EnvVar: whoever runs a suite sees from its
// size that the stack was really there.
func count() {
	f, err := os.OpenFile(os.Getenv(EnvVar), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return // the count falls short, which is seen
	}
	f.WriteString(".") //nolint:errcheck // the same
	f.Close()          //nolint:errcheck // the same
}

// CloseIdleConnections closes those of the base.
func (t *Transport) CloseIdleConnections() {
	(&http.Client{Transport: t.base}).CloseIdleConnections()
}

func (t *Transport) stack(req *http.Request) *resilience.Transport {
	host := ""
	if req.URL != nil {
		host = req.URL.Host
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.stacks[host]; ok {
		return s
	}
	s, err := resilience.Builder{Base: t.base}.Build("referee", Policy())
	if err != nil {
		panic(err) // the policy below is checked by a test
	}
	t.stacks[host] = s
	return s
}

// Policy is the default one with waits that a test suite does not notice.
func Policy() resilience.Policy {
	p := resilience.DefaultPolicy()
	p.Retry.InitialBackoff = time.Millisecond
	p.Retry.MaxBackoff = 10 * time.Millisecond
	if os.Getenv(OnceVar) != "" {
		p.Retry.MaxRetries = 0
	}
	return p
}
