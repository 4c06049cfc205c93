package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
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
	Whole  bool // the text is all of the answer
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
	case o.Whole:
		return "whole"
	case o.Text == "":
		return "empty, no error"
	}
	return "short, no error"
}

// Result is what came of one fault.
type Result struct {
	Fault       Fault
	Bare, Stack Outcome
}

// RunAll is [Run] for all faults of a list, in its order. Most of them wait for
// something, so that a few are run side by side.
func RunAll(ctx context.Context, s adapter.SDK, list []Fault) ([]Result, error) {
	const abreast = 3
	out, errs := make([]Result, len(list)), make([]error, len(list))
	next := make(chan int, len(list))
	for i := range list {
		next <- i
	}
	close(next)
	var wait sync.WaitGroup
	for range abreast {
		wait.Go(func() {
			for i := range next {
				bare, stack, err := Run(ctx, s, list[i])
				out[i], errs[i] = Result{list[i], bare, stack}, err
			}
		})
	}
	wait.Wait()
	return out, errors.Join(errs...)
}

// Run has an SDK ask a provider that does f: over a bare client and, on a
// provider of its own, over the stack.
func Run(ctx context.Context, s adapter.SDK, f Fault) (bare, stack Outcome, err error) {
	transport := adapter.NewTransport()
	defer transport.CloseIdleConnections()
	bare = once(ctx, s, f, &http.Client{Transport: transport}, patience)

	t, err := resilience.Builder{Base: adapter.NewTransport()}.Build("demo", Policy())
	if err != nil {
		return bare, stack, err
	}
	defer t.CloseIdleConnections()
	return bare, once(ctx, s, f, t.Client(), stackPatience), nil
}

// Check is an error where the stack let a broken answer pass for a whole one,
// broke a whole one, left the caller waiting, or where the SDK was told another
// status than it is due.
func Check(s adapter.SDK, f Fault, stack Outcome) error {
	switch {
	case stack.Hung:
		return errors.New("the caller was left waiting")
	case f.Good && stack.Err != nil:
		return stack.Err
	case f.Good && !stack.Whole:
		return fmt.Errorf("%q is not the whole answer", stack.Text)
	case f.Good:
		return nil
	case stack.Err == nil:
		return fmt.Errorf("%q was taken for an answer", stack.Text)
	}
	if want := f.Want(s); want != 0 && s.Status != nil && stack.Status != want {
		return fmt.Errorf("status %d, want %d: %w", stack.Status, want, stack.Err)
	}
	return nil
}

func once(ctx context.Context, s adapter.SDK, f Fault, client *http.Client, patience time.Duration) (o Outcome) {
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
	o.Whole = o.Text == f.Whole()
	o.Status = s.StatusOf(o.Err)
	o.Hung = errors.Is(ctx.Err(), context.DeadlineExceeded)
	return o
}
