// Soak keeps many callers busy with three providers on loopback that fail in
// every way that can be scripted, at random, and checks what must hold
// whatever happens:
//
//   - an answer is whole, as the upstream sent it, or it carries an error;
//   - nothing reaches a provider whose breaker rejects;
//   - the upstreams read as many requests as the attempts say were sent;
//   - no request reaches a key that its upstream has told the stack to leave alone,
//     in whatever form, and nothing is passed over for a hold that has ended;
//   - an upstream never has more calls at once than its stack has places;
//   - no call waits for one target for longer than the patience while another is free;
//   - every hold ends, and every place is given back and can be had again;
//   - no memory, goroutine or connection is left at the end.
//
// It needs no key and no network. The same seed gives every call the same
// script; which faults meet an open breaker is up to the scheduler.
//
//	go run -race ./examples/soak -for 20s
//
// A violation is reported with what is needed to find it, and makes it exit 1.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

// options are the flags.
type options struct {
	length  time.Duration
	callers int
	seed    uint64
}

func main() {
	var o options
	flag.DurationVar(&o.length, "for", 20*time.Second, "how long to run")
	flag.IntVar(&o.callers, "callers", 200, "how many callers at a time")
	flag.Uint64Var(&o.seed, "seed", 0, "of all scripts; 0: by the clock")
	flag.Parse()
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		stop()
		os.Exit(1)
	}
}

// run soaks and reports to out. An error says that something did not hold.
func run(ctx context.Context, out io.Writer, o options) error {
	fmt.Fprintf(out, "seed %d, %d callers, %v\n", o.seed, o.callers, o.length)
	s := &soak{options: o, tally: newTally(), book: newBook()}
	before := measure()
	if err := s.start(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, o.length)
	defer cancel()
	begin := time.Now()
	s.work(limited)
	s.took = time.Since(begin)
	s.stop()
	s.settle(before)
	s.report(out)
	if n := s.tally.violations(); n > 0 {
		return fmt.Errorf("%d violations", n)
	}
	return nil
}
