package browser_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// list is a lister whose answer the test changes.
type list struct {
	mu  sync.Mutex
	ids []string
	err error
}

func lists(ids ...string) *list { return &list{ids: ids} }

func (l *list) set(err error, ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err, l.ids = err, ids
}

func (l *list) ListModels(context.Context) ([]discovery.Model, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ms := make([]discovery.Model, len(l.ids))
	for i, id := range l.ids {
		ms[i].ID = id
	}
	return ms, l.err
}

var errDown = errors.New("down")

func registry(t *testing.T, c discovery.Config, ps ...discovery.Provider) *discovery.Registry {
	t.Helper()
	r, err := discovery.NewRegistry(c)
	require.NoError(t, err)
	for _, p := range ps {
		require.NoError(t, r.Add(p))
	}
	return r
}

// site serves a handler on loopback, at the address given or a free one. It
// can be stopped, with every connection cut, and another started in its place.
type site struct {
	url, addr string
	stop      func()
}

func serve(t *testing.T, h http.Handler, addr string) site {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	s := site{url: "http://" + l.Addr().String() + "/", addr: l.Addr().String()}
	s.stop = sync.OnceFunc(func() {
		_ = srv.Close()
		<-done
	})
	t.Cleanup(s.stop)
	return s
}

// stack is a provider with real calls: a fake upstream, the layers over it, and
// a client through them.
type stack struct {
	t         *testing.T
	name      string
	up        *upstreamtest.Upstream
	transport *resilience.Transport
	client    *http.Client
}

func newStack(t *testing.T, r *discovery.Registry, name string, open time.Duration, scope string) *stack {
	t.Helper()
	up := upstreamtest.New()
	t.Cleanup(up.Close)
	p := resilience.DefaultPolicy()
	p.Retry.MaxRetries = 0
	p.CircuitBreaker.Timeout = open
	if scope != "" {
		p.CircuitBreaker.Scope = scope
	}
	tr, err := resilience.Builder{OnCall: r.Observe}.Build(name, p)
	require.NoError(t, err)
	lister, err := discovery.NewLister(discovery.ListerConfig{Type: "openai", BaseURL: up.URL + "/v1"})
	require.NoError(t, err)
	require.NoError(t, r.Add(discovery.Provider{Name: name, Lister: lister, Breakers: tr.Breakers, Controls: tr}))
	s := &stack{t: t, name: name, up: up, transport: tr, client: tr.Client()}
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

// call asks for a model n times, whatever comes back.
func (s *stack) call(n int, model string) {
	s.t.Helper()
	for range n {
		body := `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]}`
		req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.up.URL+"/v1/chat/completions", strings.NewReader(body))
		require.NoError(s.t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := s.client.Do(req)
		if err != nil {
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}
