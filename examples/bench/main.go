// Bench measures surefoot beside the libraries that Go services use today:
// breakers, retrying clients, official SDKs, event-stream readers. One command
// runs everything and prints a table a section, with our targets:
//
//	go run .            # about four minutes
//	go run . -w         # writes bench.md, too
//	go run . -only stream -rounds 15
//
// Times drift from run to run, ratios do not: the rows of a section are run
// one after the other, again and again, and a ratio is the median of those
// within one round. A target is a ratio, or a count.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

func main() {
	testing.Init() // so that the time of a benchmark can be set
	var o options
	flag.BoolVar(&o.write, "w", false, "write bench.md in this directory, too")
	flag.IntVar(&o.rounds, "rounds", 7, "how often every row is run; medians are printed")
	flag.DurationVar(&o.time, "time", 200*time.Millisecond, "how long a row runs in a round")
	flag.BoolVar(&o.cpu, "cpu", false, "count the time of the processor instead of the wall's (Unix): steadier where other programs run")
	only := flag.String("only", "", "regular expression of the titles of the sections to run")
	flag.Parse()
	var err error
	if o.only, err = regexp.Compile("(?i)" + *only); err == nil {
		err = run(os.Stdout, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	write  bool
	cpu    bool
	rounds int
	time   time.Duration
	only   *regexp.Regexp
}

// sections are in the order of the report.
func sections() []*section {
	return []*section{
		breakerSection(), mapSection(), rejectionSection(), retainedSection(),
		callSection(), retrySection(), loopbackSection(),
		streamSection(), idleSection(), failoverSection(),
	}
}

func run(out io.Writer, o options) error {
	if err := flag.Set("test.benchtime", o.time.String()); err != nil {
		return err
	}
	var report strings.Builder
	for i, line := range header(o) {
		if i == 0 {
			fmt.Fprintln(out, line)
		}
		fmt.Fprintln(&report, line)
	}
	missed := 0
	for _, s := range sections() {
		if !o.only.MatchString(s.title) {
			continue
		}
		if err := s.measure(o.rounds, o.cpu); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
		text, n := s.markdown()
		missed += n
		fmt.Fprint(out, text)
		report.WriteString(text)
	}
	verdict := "\nAll targets are met.\n"
	if missed > 0 {
		verdict = fmt.Sprintf("\nTargets missed: %d.\n", missed)
	}
	fmt.Fprint(out, verdict)
	report.WriteString(verdict)
	if !o.write {
		return nil
	}
	return os.WriteFile("bench.md", []byte(report.String()), 0o644)
}

func header(o options) []string {
	command := "go run . -w"
	if o.only.String() != "(?i)" {
		command += " -only '" + strings.TrimPrefix(o.only.String(), "(?i)") + "'"
	}
	if o.cpu {
		command += " -cpu"
	}
	command += fmt.Sprintf(" -rounds %d -time %v", o.rounds, o.time)
	clock := "Times are the wall's."
	if o.cpu {
		clock = "Times are the processor's, of all cores together (but for rows that say \"all cores\")."
	}
	return []string{
		"# Surefoot and its peers, side by side",
		"",
		"Made in `examples/bench` by `" + command + "`,",
		fmt.Sprintf("with %s on %s/%s, GOMAXPROCS %d.", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0)),
		"Medians; a ratio is the median of the ratios within one round. Times drift with the machine, ratios are what counts.",
		clock,
		"",
		"Peers: " + strings.Join(peers(), ", ") + ".",
	}
}
