// Scoreboard puts the sixteen faults of failoverbench (methodology 0.1), and one
// of our own, before thirteen ways to call a provider. It follows that benchmark's
// rules: all calls are streamed, everybody has two retries and 30 s a request,
// and one sitting goes through all faults. It needs no key and no network.
//
//	go run .              the table, in seconds: real waits on a fake clock
//	go run . -full        over sockets and by the clock on the wall, in 25 minutes
//	go run . -sockets     the same for those that cannot have a fake clock, kept in
//	                      sockets.json, where the other commands take it from
//	go run . -write       writes scoreboard.md and scoreboard.svg
//	go run . -check       fails if the verdicts are not the ones in these files,
//	                      or worse than what surefoot promises
//
// The fake clock is that of testing/synctest, so the command runs go test.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	var o options
	flag.BoolVar(&o.full, "full", false, "over sockets and in real time instead of in memory on a fake clock")
	flag.BoolVar(&o.sockets, "sockets", false, "play those that cannot have a fake clock, and keep their rows in "+socketsFile)
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
	full, sockets, write, check bool
	dir                         string
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
	if o.sockets {
		return playSockets(o)
	}
	table := playOnAFakeClock
	if o.full {
		table = func() (board, error) { return play(true) }
	}
	b, err := table()
	if err != nil {
		return err
	}
	fmt.Print(verdictTable(b))
	fmt.Print(reasons(b))
	var errs []error
	if o.check {
		errs = append(errs, check(b, o))
	}
	if o.write {
		errs = append(errs, write(b, o))
	}
	return errors.Join(errs...)
}

// playOnAFakeClock has TestTheBoard play and takes its result: only a test may
// have a fake clock.
func playOnAFakeClock() (board, error) {
	dir, err := os.MkdirTemp("", "scoreboard")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "board.json")
	test := exec.CommandContext(context.Background(), "go", "test", "-count=1", "-run=^TestTheBoard$", ".", "-args", "-out="+file)
	test.Stderr = os.Stderr
	if text, err := test.Output(); err != nil {
		return nil, fmt.Errorf("go test: %w\n%s", err, text)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var b board
	return b, json.Unmarshal(data, &b)
}
