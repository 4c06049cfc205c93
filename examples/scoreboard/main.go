// Scoreboard puts sixteen faults of a provider before seven ways to call it
// and says what the caller gets and how the provider was treated. It needs no
// key and no network: the providers are on loopback.
//
//	go run .              the table, in about ten seconds
//	go run . -full        with the waits of real life, in about thirteen minutes
//	go run . -write       writes scoreboard.md and scoreboard.svg
//	go run . -check       fails if the verdicts are not the ones in these files,
//	                      or worse than what surefoot promises
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	var o options
	flag.BoolVar(&o.full, "full", false, "real waits instead of short ones")
	flag.BoolVar(&o.write, "write", false, "write scoreboard.md and scoreboard.svg")
	flag.BoolVar(&o.check, "check", false, "fail if the verdicts differ from those two files or break a promise")
	flag.StringVar(&o.dir, "dir", ".", "directory of the two files")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "scoreboard:", err)
		os.Exit(1)
	}
}

type options struct {
	full, write, check bool
	dir                string
}

// command is how a run is repeated.
func (o options) command() string {
	if o.full {
		return "go run . -full -write"
	}
	return "go run . -write"
}

func run(o options) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	t := short
	if o.full {
		t = full
	}
	b, err := play(t)
	if err != nil {
		return err
	}
	fmt.Print(verdictTable(b))
	var errs []error
	if o.check {
		errs = append(errs, check(b, o.dir))
	}
	if o.write {
		errs = append(errs, write(b, o))
	}
	return errors.Join(errs...)
}
