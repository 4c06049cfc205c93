// Failover plays four stories of a chain of models, needs no key and no
// network, and prints the attempts of every call: which target was tried or
// passed over, how often it was asked, why the chain moved on, who answered.
// A call that goes another way than the policies say makes it exit 1.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience"
)

func main() {
	wrong, err := run(context.Background(), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "failover:", err)
		os.Exit(1)
	}
	if wrong > 0 {
		fmt.Fprintf(os.Stderr, "failover: %d expectations were not met\n", wrong)
		os.Exit(1)
	}
}

// policy is the default one with waits that suit a demonstration.
func policy() resilience.Policy {
	p := resilience.DefaultPolicy()
	p.Retry.MaxRetries = 2
	p.Retry.InitialBackoff = 20 * time.Millisecond
	p.Retry.MaxBackoff = 100 * time.Millisecond
	p.CircuitBreaker.FailureThreshold = 2
	p.CircuitBreaker.Timeout = 500 * time.Millisecond
	return p
}

// run plays every story with providers and breakers of its own, and returns
// how many expectations were not met.
func run(ctx context.Context, out io.Writer) (wrong int, err error) {
	for i, s := range []struct {
		title string
		play  func(*lab) error
	}{
		{"The primary is down", outage},
		{"The primary is slow: slow_call_threshold, scope: model", slow},
		{"Cloudflare 524, scope: model", func(l *lab) error { return gatewayTimeout(l, breaker.ScopeModel) }},
		{"Cloudflare 524, scope: provider", func(l *lab) error { return gatewayTimeout(l, breaker.ScopeProvider) }},
		{"The primary recovers", recovery},
	} {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%d. %s\n", i+1, s.title)
		l := newLab(ctx, out)
		err := s.play(l)
		l.close()
		if err != nil {
			return wrong, fmt.Errorf("%s: %w", s.title, err)
		}
		wrong += l.wrong
	}
	if wrong == 0 {
		fmt.Fprintln(out, "\nEvery call went the way that its policies say.")
	}
	return wrong, nil
}
