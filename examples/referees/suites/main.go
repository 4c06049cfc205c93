// Suites runs the test suites of real clients twice, bare and with
// http.DefaultTransport wrapped by a stack, and compares every test's result.
// A difference that differences.txt does not explain makes it exit 1.
//
// The modules come from the module cache, the standard library from GOROOT;
// each suite is copied to a temporary directory, where one file is added that
// wraps the transport if the environment asks for it. Both runs are of the same
// test binary. The suites that want a mock server of their vendor's API get one
// on loopback (see stub.go).
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"time"
)

func main() {
	short := flag.Bool("short", false, "leave out the suites that take minutes to compile, as .ci/run does")
	only := flag.String("run", "", "run only the suites whose name matches this `regexp`")
	verbose := flag.Bool("v", false, "print what the tests printed that differ")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed, err := run(ctx, os.Stdout, *only, *short, *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

// run reports whether a difference is unexplained.
func run(ctx context.Context, w io.Writer, only string, short, verbose bool) (failed bool, err error) {
	match, err := regexp.Compile(only)
	if err != nil {
		return false, err
	}
	known, err := readDifferences(differencesFile)
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "suites")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // what is left lies in the temporary directory
	stub := newStub()
	defer stub.Close()

	var sum tally
	for _, s := range all() {
		if !match.MatchString(s.name) || short && s.long {
			continue
		}
		start := time.Now()
		r := &referee{suite: s, known: known, stub: stub.URL}
		t, err := r.judge(ctx, dir)
		if err != nil {
			return true, fmt.Errorf("%s: %w", s.name, err)
		}
		t.print(w, s.name, time.Since(start), verbose)
		sum.add(t)
	}
	sum.print(w, "all", 0, false)
	return len(sum.unexplained) > 0, nil
}
