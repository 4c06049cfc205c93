package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/sdks"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// Policy is the default one with waits that suit a demonstration. Its breaker
// is off, so that each fault stands for itself.
func Policy() resilience.Policy {
	p := resilience.DefaultPolicy()
	p.Retry.InitialBackoff = time.Millisecond
	p.Retry.MaxBackoff = 10 * time.Millisecond
	p.Stream.IdleTimeout = 300 * time.Millisecond
	p.CircuitBreaker.FailureThreshold = 0
	return p
}

// patience is how long the bare client's caller waits; the stack's never
// waits as long.
const (
	patience      = time.Second
	stackPatience = 20 * time.Second
)

// Outcome is what a caller of an SDK has in hand.
type Outcome struct {
	Text   string
	Err    error
	Status int  // of the SDK's error; 0: none
	Hung   bool // only the caller's own time limit ended it
}

// Believed reports whether the caller takes the text for the answer.
func (o Outcome) Believed() bool { return o.Err == nil && !o.Hung }

// String is the cell of the table.
func (o Outcome) String() string {
	switch {
	case o.Hung:
		return "hangs"
	case o.Err != nil && o.Status != 0:
		return fmt.Sprintf("error %d", o.Status)
	case o.Err != nil:
		return "error"
	case o.Text == Whole:
		return "whole"
	case o.Text == "":
		return "empty, no error"
	}
	return "short, no error"
}

// Run has an SDK ask a provider that does f: over a bare client and, on a
// provider of its own, over the stack.
func Run(ctx context.Context, s sdks.SDK, f Fault) (bare, stack Outcome, err error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	bare = once(ctx, s, f, &http.Client{Transport: transport}, patience)

	t, err := resilience.Builder{}.Build("demo", Policy())
	if err != nil {
		return bare, stack, err
	}
	defer t.CloseIdleConnections()
	return bare, once(ctx, s, f, t.Client(), stackPatience), nil
}

func once(ctx context.Context, s sdks.SDK, f Fault, client *http.Client, patience time.Duration) (o Outcome) {
	up := upstreamtest.New()
	defer up.Close()
	up.Default(f.Step(s))
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// genai panics on a body of null.
	defer func() {
		if p := recover(); p != nil {
			o = Outcome{Err: fmt.Errorf("the SDK panicked: %v", p)}
		}
	}()
	o.Text, o.Err = s.Ask(ctx, client, up.URL, f.Stream)
	o.Status = s.Status(o.Err)
	o.Hung = errors.Is(ctx.Err(), context.DeadlineExceeded)
	return o
}
