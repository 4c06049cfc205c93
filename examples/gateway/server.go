package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/surefoot-go/surefoot/failover/config"
	"github.com/surefoot-go/surefoot/resilience"
)

// service is a gateway that listens, for callers and for operators.
type service struct {
	app                *config.Assembly
	metrics            *metrics
	calls              http.Handler
	callers, operators net.Listener
}

// open reads the file and listens. Nothing is answered before serve is called.
func open(ctx context.Context, s settings, logger *slog.Logger) (*service, error) {
	cfg, err := config.Load(s.config)
	if err != nil {
		return nil, err
	}
	for _, w := range cfg.Warnings() {
		logger.Warn(w)
	}
	m, err := newMetrics()
	if err != nil {
		return nil, err
	}
	app, err := config.Assemble(cfg, config.Options{
		Builder: resilience.Builder{Logger: logger, MeterProvider: m},
	})
	if err != nil {
		return nil, err
	}
	g := &service{app: app, metrics: m, calls: gateway(cfg, app, s.limits, logger)}
	var lc net.ListenConfig
	if g.callers, err = lc.Listen(ctx, "tcp", s.addr); err != nil {
		return nil, err
	}
	if g.operators, err = lc.Listen(ctx, "tcp", s.admin); err != nil {
		return nil, errors.Join(err, g.callers.Close())
	}
	return g, nil
}

// serve answers until ctx is done, and then waits for the calls that run, for
// no longer than grace.
func (g *service) serve(ctx context.Context, grace time.Duration) error {
	defer g.app.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends Run, for which Close waits
	ran := make(chan error, 1)
	go func() { ran <- g.app.Run(ctx) }()

	pages := start(g.operators, admin(ctx, g.app, g.metrics))
	defer pages.close()
	calls := start(g.callers, g.calls)
	defer calls.close()
	if err := calls.wait(ctx, grace); err != nil {
		return err
	}
	return <-ran
}

// admin serves operators. ctx is done when the gateway is to end.
func admin(ctx context.Context, app *config.Assembly, m *metrics) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", app.Registry().Handler())
	mux.Handle("GET /metrics", m)
	ready := app.Registry().ReadyHandler()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if ctx.Err() != nil {
			http.Error(w, "ending", http.StatusServiceUnavailable)
			return
		}
		ready.ServeHTTP(w, r)
	})
	return mux
}

// server is an http.Server that runs.
type server struct {
	*http.Server
	served chan error
}

// start runs a server. It has no WriteTimeout, which would cut long streams, and
// no ReadTimeout, which would cut them as well: [bounded] sets the deadlines of
// each call.
func start(l net.Listener, h http.Handler) *server {
	s := &server{
		Server: &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute},
		served: make(chan error, 1),
	}
	go func() { s.served <- s.Serve(l) }()
	return s
}

// wait returns when the server has failed, or ctx is done and the calls that ran
// have ended. Those that are left after grace are for close.
func (s *server) wait(ctx context.Context, grace time.Duration) error {
	select {
	case err := <-s.served:
		return err
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := s.Shutdown(limit); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// close cuts off whatever still runs: the caller sees a body that breaks off,
// the provider a connection that ends.
func (s *server) close() { _ = s.Close() }
