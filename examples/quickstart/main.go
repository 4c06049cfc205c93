// Quickstart sends the same faults through a bare http.Client and through the
// stack, and prints what each of them takes for an answer; then two faults of a
// stream through two profiles. It needs no key and no network: the provider is
// on loopback. A row in which the stack delivers anything but a whole answer or
// the right error makes it exit 1.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"text/tabwriter"
	"time"

	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

func main() {
	wrong, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
	if wrong > 0 {
		fmt.Fprintf(os.Stderr, "quickstart: %d rows went wrong\n", wrong)
		os.Exit(1)
	}
}

// policy is the default one with waits that suit a demonstration.
func policy() resilience.Policy {
	p := resilience.DefaultPolicy()
	p.Retry.InitialBackoff = 50 * time.Millisecond
	p.Retry.MaxBackoff = 2 * time.Second
	p.Retry.AttemptTimeout = time.Second
	p.Stream.IdleTimeout = 500 * time.Millisecond
	p.CircuitBreaker.FailureThreshold = 0 // each row stands for itself; examples/failover shows the breaker
	return p
}

func run() (wrong int, err error) {
	up := upstreamtest.New()
	defer up.Close()

	stack, err := resilience.Builder{}.Build("demo", policy())
	if err != nil {
		return 0, err
	}
	defer stack.CloseIdleConnections()
	bare := &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone(), Timeout: 2 * time.Second}
	defer bare.CloseIdleConnections()

	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "FAULT\tBARE CLIENT BELIEVES\tSTACK DELIVERS\tATTEMPTS\tTIME\t")
	for _, f := range faults {
		up.Model(f.name, f.steps...)
		believed := ask(context.Background(), bare, up.URL, f.name, f.stream)
		up.Model(f.name, f.steps...)
		before := up.CountModel(f.name)
		got := ask(context.Background(), stack.Client(), up.URL, f.name, f.stream)
		attempts := up.CountModel(f.name) - before

		verdict := "ok"
		if !f.right(got) {
			verdict = "WRONG"
			wrong++
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%d\t%s\t%s\n", f.name, believed, got, attempts, got.took.Round(time.Millisecond), verdict)
	}
	if err := out.Flush(); err != nil {
		return wrong, err
	}
	more, err := compare(os.Stdout, up)
	return wrong + more, err
}
