// Suites runs the test suites of real clients twice, bare and with
// http.DefaultTransport wrapped by a stack, and compares every test's result.
// A difference that differences.txt does not explain makes it exit 1, and so
// does a line there that no longer matches one.
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
	var o options
	flag.BoolVar(&o.short, "short", false, "leave out the suites that take minutes to compile, as .ci/run does")
	flag.StringVar(&o.only, "run", "", "run only the suites whose name matches this `regexp`")
	flag.BoolVar(&o.verbose, "v", false, "print what fails bare, and what the unexplained tests printed")
	flag.BoolVar(&o.download, "download", false, "fetch the modules of the suites, and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed, err := run(ctx, os.Stdout, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

type options struct {
	only                     string // a pattern of suites
	short, verbose, download bool
}

// run reports whether a suite and the list disagree.
func run(ctx context.Context, w io.Writer, o options) (failed bool, err error) {
	match, err := regexp.Compile(o.only)
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
		if !match.MatchString(s.name) || o.short && s.long {
			continue
		}
		r := &referee{suite: s, known: known, stub: stub.URL}
		if o.download {
			if err := r.download(ctx, dir); err != nil {
				return true, fmt.Errorf("%s: %w", s.name, err)
			}
			continue
		}
		start := time.Now()
		t, err := r.judge(ctx, dir)
		if err != nil {
			return true, fmt.Errorf("%s: %w", s.name, err)
		}
		t.print(w, fmt.Sprintf("%s (%.0fs)", s.name, time.Since(start).Seconds()))
		t.printDetails(w, o.verbose)
		sum.add(t)
	}
	if !o.download {
		sum.print(w, "all")
	}
	return sum.failed(), nil
}
