package config_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/failover/config"
	"github.com/surefoot-go/surefoot/resilience"
)

// cloud is a base transport in memory with every provider behind it. It
// answers for each host with its status, 200 unless set.
type cloud struct {
	mu     sync.Mutex
	lists  map[string]int // status of the list of models, by host
	calls  map[string]int // status of calls, by host
	asked  []string       // "GET a.test", "POST b.test m"
	header http.Header    // of the last request
	retry  string         // Retry-After of all that is not 200
	idle   int            // how often idle connections were closed
}

func (c *cloud) RoundTrip(req *http.Request) (*http.Response, error) {
	said := req.Method + " " + req.URL.Host
	body := `{"data":[{"id":"listed-` + req.URL.Hostname() + `"}]}`
	if req.Body != nil {
		sent, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		if err := req.Body.Close(); err != nil {
			return nil, err
		}
		_, model, _ := strings.Cut(string(sent), `"model":"`)
		model, _, _ = strings.Cut(model, `"`)
		said += " " + model
		body = `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"total_tokens":1}}`
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, said)
	c.header = req.Header
	status := c.calls[req.URL.Host]
	if req.Method == http.MethodGet {
		status = c.lists[req.URL.Host]
	}
	if status == 0 {
		status = 200
	}
	if status != 200 {
		body = `{"error":{"message":"down"}}`
	}
	h := http.Header{"Content-Type": {"application/json"}}
	if c.retry != "" && status != 200 {
		h.Set("Retry-After", c.retry)
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h,
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}, nil
}

func (c *cloud) CloseIdleConnections() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle++
}

// take returns what was asked since it was called last.
func (c *cloud) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.asked
	c.asked = nil
	return asked
}

// assembled is a service of two providers, a and b, and one without its key.
const assembled = `
resilience:
  retry: {max_retries: 0}
  circuit_breaker: {failure_threshold: 2}
providers:
  a: {type: openai, base_url: "https://a.test/v1", api_key: ka}
  b: {type: openai, base_url: "https://b.test/v1", api_key: kb, models: [mine]}
  c: {type: openai, base_url: "https://c.test/v1", api_key: "${NONE}"}
virtual_models:
  - source: smart
    targets: [{model: c/large}, {model: a/large}, {model: b/large}]
`

func assemble(t *testing.T, text string, base *cloud, o config.Options) *config.Assembly {
	t.Helper()
	o.Builder.Base = base
	a, err := config.Assemble(parse(t, text, nil), o)
	require.NoError(t, err)
	return a
}

// run keeps Run going until the test ends.
func run(t *testing.T, a *config.Assembly) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- a.Run(t.Context()) }()
	t.Cleanup(func() {
		a.Close()
		assert.NoError(t, <-done)
	})
	synctest.Wait()
}

func TestAssemblySharesOneSetOfStacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &cloud{calls: map[string]int{"a.test": 503}}
		a := assemble(t, assembled, base, config.Options{})
		run(t, a)
		assert.ElementsMatch(t, []string{"GET a.test", "GET b.test"}, base.take(), "nobody asks for a list without the key")
		for range 2 {
			assert.Equal(t, 200, ask(t, a.Router(), "smart"))
		}
		assert.Equal(t, []string{"POST a.test large", "POST b.test large", "POST a.test large", "POST b.test large"}, base.take())

		assert.Equal(t, breaker.Open, a.Stack("a").Breakers()[0].State)
		assert.Equal(t, discovery.StatusCircuitOpen, status(t, a, "a").Status, "the page shows the breaker that the calls opened")
		assert.Equal(t, discovery.StatusHealthy, status(t, a, "b").Status)
		assert.Equal(t, 200, ask(t, a.Router(), "smart"))
		assert.Equal(t, []string{"POST b.test large"}, base.take(), "the virtual model meets it")
		assert.Equal(t, 503, ask(t, a.Router(), "a/listed-a.test"))
		assert.Empty(t, base.take(), "and so does a direct call")

		chain, err := failover.NewChain(failover.Policy{}, a.Targets()...)
		require.NoError(t, err)
		assert.Equal(t, 200, ask(t, chain, "any"))
		assert.Equal(t, []string{"POST b.test any"}, base.take(), "and a chain of all providers")
		a.Stack("a").Reset("")
		assert.Equal(t, discovery.StatusHealthy, status(t, a, "a").Status)
		assert.Nil(t, a.Stack("nobody"))
	})
}

// status is what the registry says of a provider.
func status(t *testing.T, a *config.Assembly, provider string) discovery.ProviderStatus {
	t.Helper()
	for _, s := range a.Registry().Status() {
		if s.Name == provider {
			return s
		}
	}
	require.Fail(t, "no such provider", provider)
	return discovery.ProviderStatus{}
}

func TestAssembledVirtualModelsPassOverOfflineProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &cloud{lists: map[string]int{"a.test": 500}}
		var attempts []failover.Attempt
		a := assemble(t, assembled, base, config.Options{OnAttempt: func(_ context.Context, at failover.Attempt) { attempts = append(attempts, at) }})
		assert.Equal(t, 200, ask(t, a.Router(), "smart"))
		assert.Equal(t, []string{"POST a.test large"}, base.take(), "nothing is known before Run")

		run(t, a)
		base.take()
		attempts = nil
		assert.False(t, a.Registry().Available("a"))
		assert.Equal(t, 200, ask(t, a.Router(), "smart"))
		assert.Equal(t, []string{"POST b.test large"}, base.take())
		require.Len(t, attempts, 3)
		assert.Equal(t, []bool{true, true, false}, []bool{attempts[0].Skipped, attempts[1].Skipped, attempts[2].Skipped})
		assert.Equal(t, 200, ask(t, a.Router(), "a/large"))
		synctest.Wait()
		assert.ElementsMatch(t, []string{"POST a.test large", "GET a.test"}, base.take(), "a direct call still goes out, and has the list asked for")

		base.mu.Lock()
		base.lists = nil
		base.mu.Unlock()
		time.Sleep(61 * time.Second) // a recheck
		synctest.Wait()
		base.take()
		assert.Equal(t, 200, ask(t, a.Router(), "smart"))
		assert.Equal(t, []string{"POST a.test large"}, base.take())
	})
}

func TestAssembledRouterKnowsTheModelsThatAreListedNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &cloud{}
		a := assemble(t, assembled, base, config.Options{})
		assert.Equal(t, 404, ask(t, a.Router(), "listed-b.test"))
		run(t, a)
		base.take()
		for model, want := range map[string]string{
			"listed-b.test": "POST b.test listed-b.test", "listed-a.test": "POST a.test listed-a.test",
			"mine": "POST b.test mine", "a/listed-a.test": "POST a.test listed-a.test",
		} {
			assert.Equal(t, 200, ask(t, a.Router(), model))
			assert.Equal(t, []string{want}, base.take())
		}
		assert.Equal(t, 404, ask(t, a.Router(), "nobodys"))
		assert.Empty(t, base.take(), "a bare name fetches nothing")
		for range 100 {
			assert.Equal(t, 200, ask(t, a.Router(), "a/new"))
		}
		synctest.Wait()
		asked := base.take()
		assert.Len(t, slices.DeleteFunc(asked, func(s string) bool { return s != "GET a.test" }), 1,
			"a provider's model that the list lacks is looked for, once")
	})
}

// For clients that take no transport the default one is replaced by the router
// (resilience.Builder.Base). The lists go on coming from the providers.
func TestAssemblyBelowTheDefaultTransport(t *testing.T) {
	given := http.DefaultTransport
	defer func() { http.DefaultTransport = given }()
	c := &cloud{}
	http.DefaultTransport = c
	const two = `providers: {a: {type: openai, base_url: "https://a.test/v1"}, b: {type: openai, base_url: "https://b.test/v1"}}`
	a, err := config.Assemble(parse(t, two, nil), config.Options{})
	require.NoError(t, err)
	http.DefaultTransport = a.Router()
	require.NoError(t, a.Registry().Refresh(t.Context()))
	assert.ElementsMatch(t, []string{"GET a.test", "GET b.test"}, c.take())
	assert.Equal(t, discovery.StatusHealthy, status(t, a, "a").Status)

	_, err = config.Assemble(parse(t, two, nil), config.Options{})
	require.ErrorContains(t, err, "set Builder.Base", "a second one would stand on the first")
}

func TestAssemblyReportsAProviderWithoutItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := assemble(t, assembled, &cloud{}, config.Options{})
		run(t, a)
		s := status(t, a, "c")
		assert.Equal(t, discovery.StatusUnhealthy, s.Status)
		assert.Equal(t, "no list of models ever: no key is configured", s.Reason)
		for _, m := range a.Registry().Models() {
			assert.NotEqual(t, "c", m.Provider)
		}
	})
}

// counters is a meter provider that adds up what counters are given, by name.
type counters struct {
	noop.MeterProvider
	mu  sync.Mutex
	sum map[string]int64
}

type meter struct {
	noop.Meter
	of *counters
}

func (c *counters) Meter(string, ...metric.MeterOption) metric.Meter { return meter{of: c} }

func (m meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return &counter{name: name, of: m.of}, nil
}

type counter struct {
	noop.Int64Counter
	name string
	of   *counters
}

func (c *counter) Add(_ context.Context, n int64, _ ...metric.AddOption) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.sum[c.name] += n
}

func TestAssemblyGivesEveryLayerLoggerMeterAndHooks(t *testing.T) {
	var log bytes.Buffer
	counted := &counters{sum: map[string]int64{}}
	var calls []resilience.Call
	var attempts []failover.Attempt
	var states []breaker.State
	a := assemble(t, assembled, &cloud{calls: map[string]int{"a.test": 503}}, config.Options{
		Builder: resilience.Builder{
			Logger:        slog.New(slog.NewTextHandler(&log, nil)),
			MeterProvider: counted,
			OnCall:        func(_ context.Context, c resilience.Call) { calls = append(calls, c) },
			OnStateChange: func(_, _ string, _, to breaker.State) { states = append(states, to) },
		},
		OnAttempt: func(_ context.Context, at failover.Attempt) { attempts = append(attempts, at) },
	})
	defer a.Close()
	for range 2 {
		assert.Equal(t, 200, ask(t, a.Router(), "smart"))
	}
	assert.Len(t, calls, 4)
	assert.Len(t, attempts, 6, "those that were passed over too")
	assert.Equal(t, []breaker.State{breaker.Open}, states)
	assert.Equal(t, int64(2), counted.sum["surefoot.failover.calls"])
	assert.Equal(t, int64(6), counted.sum["surefoot.failover.attempts"])
	assert.Contains(t, log.String(), "failover")
	assert.Contains(t, log.String(), "circuit breaker")
	assert.Equal(t, 2, status(t, a, "a").Calls, "the registry hears the calls that the hook hears")
}

func TestAssemblyRunAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &cloud{}
		a := assemble(t, assembled, base, config.Options{})
		done := make(chan error, 1)
		go func() { done <- a.Run(t.Context()) }()
		synctest.Wait()
		require.Error(t, a.Run(t.Context()), "twice at the same time")
		a.Close()
		require.NoError(t, <-done)
		assert.Equal(t, 3, base.idle, "once a stack")
		a.Close()
		require.NoError(t, a.Run(t.Context()), "nothing runs after Close")
		assert.Equal(t, 200, ask(t, a.Router(), "smart"), "a call still works")

		b := assemble(t, assembled, base, config.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- b.Run(ctx) }()
		synctest.Wait()
		cancel()
		require.NoError(t, <-done)
		b.Close()
	})
}

// A transport that takes its time to notice an end is waited for.
func TestCloseWaitsForRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := config.Assemble(parse(t, assembled, nil), config.Options{Builder: resilience.Builder{Base: slowToEnd{}}})
		require.NoError(t, err)
		go func() { _ = a.Run(t.Context()) }()
		synctest.Wait()
		began := time.Now()
		a.Close()
		assert.Equal(t, 500*time.Millisecond, time.Since(began))
	})
}

type slowToEnd struct{}

func (slowToEnd) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	time.Sleep(500 * time.Millisecond)
	return nil, req.Context().Err()
}

// The names of models are the callers'.
func TestWhatIsKeptOfNamesIsBounded(t *testing.T) {
	a := assemble(t, assembled, &cloud{}, config.Options{})
	for i := range 1100 {
		require.Equal(t, 200, ask(t, a.Router(), fmt.Sprint("a/made-up-", i)))
	}
	assert.Equal(t, 1024, config.Kept(a))
}

// What the options hold is copied when the assembly is built, and what a caller
// was given of a provider is his own.
func TestAssemblyIsBuiltOnce(t *testing.T) {
	o := config.Options{Builder: resilience.Builder{Base: &cloud{}}}
	cfg := parse(t, assembled, nil)
	a, err := config.Assemble(cfg, o)
	require.NoError(t, err)
	defer a.Close()
	o.Builder.Base = nil
	cfg.Providers()[1].Models[0] = "changed"
	a.Targets()[0].Header.Set("Authorization", "changed")
	assert.Equal(t, "Bearer ka", a.Targets()[0].Header.Get("Authorization"))
	assert.Equal(t, 200, ask(t, a.Router(), "mine"))
}

func TestAssembleRefuses(t *testing.T) {
	_, err := config.Assemble(nil, config.Options{})
	require.Error(t, err)
	_, err = config.Assemble(parse(t, assembled, nil), config.Options{Registry: discovery.Config{Timeout: -1}})
	require.ErrorContains(t, err, "timeout")
}

// The wiring by hand, which the manual shows, stays as short as it is.
func TestTheProgramThatAUserWrites(t *testing.T) {
	cfg := parse(t, assembled, nil)
	reg, err := discovery.NewRegistry(discovery.Config{})
	require.NoError(t, err)
	base := &cloud{}
	var targets []failover.Target
	for _, p := range cfg.Providers() {
		s, err := resilience.Builder{Base: base, OnCall: reg.Observe}.Build(p.Name, cfg.Policy(p.Name))
		require.NoError(t, err)
		targets = append(targets, failover.Target{Name: p.Name, Provider: p.Name, BaseURL: p.BaseURL, Header: p.Header(), Transport: s})
	}
	chain, err := failover.NewChain(cfg.Failover(), targets...)
	require.NoError(t, err)
	assert.Equal(t, 200, ask(t, chain, "m"))
	assert.Equal(t, []string{"POST a.test m"}, base.take())
}
