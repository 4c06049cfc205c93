package discovery_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/discovery"
)

// listFunc is a lister made of a function.
type listFunc func(ctx context.Context) ([]discovery.Model, error)

func (f listFunc) ListModels(ctx context.Context) ([]discovery.Model, error) { return f(ctx) }

// fake is a lister whose answer can be changed; it counts fetches.
type fake struct {
	mu    sync.Mutex
	ids   []string
	err   error
	count atomic.Int64
}

func newFake(ids ...string) *fake { return &fake{ids: ids} }

func (f *fake) set(err error, ids ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.ids = err, ids
}

func (f *fake) ListModels(context.Context) ([]discovery.Model, error) {
	f.count.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	return models(f.ids...), f.err
}

var errDown = errors.New("down")

func models(ids ...string) []discovery.Model {
	var ms []discovery.Model
	for _, id := range ids {
		ms = append(ms, discovery.Model{ID: id})
	}
	return ms
}

func names(ms []discovery.Model) []string {
	out := []string{}
	for _, m := range ms {
		out = append(out, m.Name())
	}
	return out
}

// roundTripper is a transport in memory.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func answer(req *http.Request, status int, contentType, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}},
		Body:   io.NopCloser(strings.NewReader(body)), Request: req,
	}
}

func registry(t *testing.T, c discovery.Config, ps ...discovery.Provider) *discovery.Registry {
	t.Helper()
	r, err := discovery.NewRegistry(c)
	require.NoError(t, err)
	for _, p := range ps {
		require.NoError(t, r.Add(p))
	}
	return r
}

func statusOf(t *testing.T, r *discovery.Registry, name string) discovery.ProviderStatus {
	t.Helper()
	for _, s := range r.Status() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no provider %s", name)
	return discovery.ProviderStatus{}
}

// run keeps r.Run going until the returned function is called.
func run(t *testing.T, r *discovery.Registry) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}
