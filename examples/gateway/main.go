// Gateway puts surefoot into a reverse proxy: SDKs in any language speak to it,
// a file says which providers answer.
//
// It is an example and no product: it has no accounts, no quotas and no TLS, and
// it lets everybody in who reaches its address. The part to copy is gateway.go,
// and the two settings of config.yaml that a proxy needs.
//
//	go run . -config config.yaml
//	curl 127.0.0.1:8080/v1/chat/completions -d '{"model":"smart","messages":[…]}'
//
// Callers use 127.0.0.1:8080 (-addr). Operators use 127.0.0.1:9090 (-admin): the
// status page at /, metrics at /metrics, readiness at /readyz. SIGINT or SIGTERM
// ends it: no new calls, and those that run have -grace to end.
package main

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// settings are what the file of the providers does not hold.
type settings struct {
	config      string
	addr, admin string
	limits      limits
	grace       time.Duration // for the calls that run when the gateway is to end
}

func main() {
	var s settings
	flag.StringVar(&s.config, "config", "config.yaml", "the providers, virtual models and policies")
	flag.StringVar(&s.addr, "addr", "127.0.0.1:8080", "where callers connect")
	flag.StringVar(&s.admin, "admin", "127.0.0.1:9090", "where operators see the status page and metrics")
	flag.Int64Var(&s.limits.body, "max-body", 16<<20, "the largest request body, in bytes")
	flag.DurationVar(&s.limits.upload, "upload", 30*time.Second, "the time that a request body may take to arrive")
	flag.DurationVar(&s.limits.call, "call", 10*time.Minute, "the time that a call may take, its stream included")
	flag.DurationVar(&s.grace, "grace", time.Minute, "the time that calls have to end when the gateway ends")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s, slog.Default()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, s settings, logger *slog.Logger) error {
	g, err := open(ctx, s, logger)
	if err != nil {
		return err
	}
	logger.Info("the gateway is up", "callers", g.callers.Addr().String(), "operators", g.operators.Addr().String())
	return g.serve(ctx, s.grace)
}
