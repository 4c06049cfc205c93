// Status shows the status page over three providers that are in trouble now
// and then, with real calls through resilience stacks. It needs no network
// beyond loopback:
//
//	go run ./examples/status          # the page, until interrupted
//	go run ./examples/status -once    # the statuses as text
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8090", "where to serve the page")
	once := flag.Bool("once", false, "print the statuses after a few seconds of calls and exit")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *addr, *once); err != nil {
		log.Fatal(err)
	}
}

// scene is one provider of the show and the models that callers ask it for.
type scene struct {
	name     string
	upstream *upstreamtest.Upstream
	calls    []string
}

// scenes are a provider with one bad model, one that breaks down and recovers,
// and one whose model list comes and goes.
func scenes() []scene {
	steady := upstreamtest.New()
	steady.Models("large", "small", "preview")
	steady.Default(upstreamtest.OK("hello"))
	steady.Model("preview", upstreamtest.Cycle(upstreamtest.Status(500), upstreamtest.Status(500), upstreamtest.OK("hello")))

	flapping := upstreamtest.New()
	flapping.Models("fast", "fast-mini")
	flapping.Default(upstreamtest.Flap(8*time.Second, upstreamtest.OK("hello"), upstreamtest.Status(503)))

	fading := upstreamtest.New()
	fading.Default(upstreamtest.OK("hello"))
	fading.List(upstreamtest.Flap(10*time.Second, upstreamtest.ModelList("vision", "voice"), upstreamtest.Status(500)))

	return []scene{
		{"steady-eu", steady, []string{"large", "small", "large", "preview"}},
		{"flapping-us", flapping, []string{"fast", "fast-mini"}},
		{"fading-lab", fading, []string{"vision"}},
	}
}

func run(ctx context.Context, out io.Writer, addr string, once bool) error {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()

	reg, err := discovery.NewRegistry(discovery.Config{
		RefreshInterval: 5 * time.Second, // as short as a show needs
		RecheckInterval: 2 * time.Second,
		EnableActions:   true,
	})
	if err != nil {
		return err
	}
	for _, s := range scenes() {
		defer s.upstream.Close()
		client, err := add(reg, s)
		if err != nil {
			return err
		}
		work.Go(func() { traffic(ctx, client, s) })
	}
	work.Go(func() { _ = reg.Run(ctx) })

	if once {
		select {
		case <-time.After(2500 * time.Millisecond):
		case <-ctx.Done():
		}
		return report(out, reg.Status())
	}
	return serve(ctx, out, addr, reg)
}

// add builds the provider's stack and makes the registry know both.
func add(reg *discovery.Registry, s scene) (*http.Client, error) {
	policy := resilience.DefaultPolicy()
	policy.Retry.MaxRetries = 1
	policy.Retry.InitialBackoff = 20 * time.Millisecond
	policy.CircuitBreaker.Timeout = 5 * time.Second
	stack, err := resilience.Builder{OnCall: reg.Observe}.Build(s.name, policy)
	if err != nil {
		return nil, err
	}
	lister, err := discovery.NewLister(discovery.ListerConfig{Type: "openai", BaseURL: s.upstream.URL + "/v1"})
	if err != nil {
		return nil, err
	}
	return stack.Client(), reg.Add(discovery.Provider{
		Name: s.name, Lister: lister, Breakers: stack.Breakers, Holds: stack.Holds, Controls: stack,
	})
}

// traffic calls the provider's models in turn until ctx is done.
func traffic(ctx context.Context, client *http.Client, s scene) {
	defer client.CloseIdleConnections()
	tick := time.NewTicker(120 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}]}`, s.calls[i%len(s.calls)])
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.upstream.URL+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		if resp, err := client.Do(req); err == nil { // failures are what the page is about
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// serve shows the page until ctx is done.
func serve(ctx context.Context, out io.Writer, addr string, reg *discovery.Registry) error {
	mux := http.NewServeMux()
	mux.Handle("/", reg.Handler())
	mux.Handle("GET /readyz", reg.ReadyHandler())
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "status page: http://%s/\n", l.Addr())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// Run has ended the live pages, so that Shutdown has nothing to wait for.
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = srv.Shutdown(limit)
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// report prints the statuses as text.
func report(out io.Writer, all []discovery.ProviderStatus) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "PROVIDER\tSTATUS\tBREAKER\tMODELS\tCALLS\tFAILURES\tWHY")
	for _, s := range all {
		state := "-"
		if s.Breaker != nil {
			state = s.Breaker.State
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", s.Name, s.Status, state, s.Models, s.Calls, s.Failures, s.Reason)
	}
	return w.Flush()
}
