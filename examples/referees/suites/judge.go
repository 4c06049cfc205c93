package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/examples/referees/wrapped"
)

// referee runs one suite bare and wrapped.
type referee struct {
	suite suite
	known differences
	stub  string
}

func (r *referee) judge(ctx context.Context, dir string) (tally, error) {
	dir = filepath.Join(dir, strings.ReplaceAll(r.suite.name, "/", "_"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return tally{}, err
	}
	prepare := workspace
	if r.suite.standard() {
		prepare = shadow
	}
	programs, err := prepare(ctx, r.suite, dir)
	if err != nil {
		return tally{}, err
	}
	if err := compile(ctx, dir, programs); err != nil {
		return tally{}, err
	}
	var t tally
	for i, p := range programs {
		t.add(r.compare(ctx, binaryOf(dir, i), dir, p))
		if ctx.Err() != nil {
			return t, ctx.Err()
		}
	}
	return t, nil
}

func binaryOf(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("%d.test", i)) }

// compile builds the test binaries, two at a time: most of
// the work is linking. Without -trimpath the next run would compile it all again.
func compile(ctx context.Context, dir string, programs []program) error {
	var wait sync.WaitGroup
	places := make(chan struct{}, 2)
	errs := make([]error, len(programs))
	for i, p := range programs {
		wait.Go(func() {
			places <- struct{}{}
			_, errs[i] = goCommand(ctx, p.from, p.env, "test", "-c", "-trimpath", "-vet=off", "-o", binaryOf(dir, i), p.path)
			<-places
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// compare runs one package's tests both ways. What differs is run twice more,
// both ways and over a RoundTripper that only forwards: a test that then ends
// the same way in both is unsteady, and no difference.
func (r *referee) compare(ctx context.Context, binary, dir string, p program) tally {
	calls := binary + ".calls"
	never := r.known.hanging(r.suite.name)
	test := func(pattern, calls string, more ...string) (results, string) {
		return runBinary(ctx, binary, p, r.suite, pattern, never, append(environment(dir, r.stub, calls), more...))
	}
	both := func(pattern string) (bare, over results, printed string) {
		var wait sync.WaitGroup
		wait.Go(func() { bare, _ = test(pattern, "") })
		over, printed = test(pattern, calls)
		wait.Wait()
		return bare, over, printed
	}
	bare, over, printed := both("")
	t := tally{tests: len(bare), calls: fileSize(calls)}
	for _, result := range bare {
		t.counts[index(result)]++
	}
	differ := r.found(p, bare, over)
	for range 2 {
		if len(differ) == 0 {
			break
		}
		bare, over, again := both(topLevel(differ))
		plain, _ := test(topLevel(differ), os.DevNull, wrapped.PlainVar+"=1")
		printed += again
		for _, d := range differ {
			d.bare, d.over, d.plain = append(d.bare, get(bare, d.name)), append(d.over, get(over, d.name)), append(d.plain, get(plain, d.name))
		}
	}
	for _, d := range differ {
		t.place(d, r.known, excerpt(printed, d.name))
	}
	return t
}

// found returns the differences of a first run.
func (r *referee) found(p program, bare, over results) []*difference {
	var found []*difference
	for _, name := range leaves(diff(bare, over)) {
		found = append(found, &difference{suite: r.suite.name, name: name, test: strings.TrimPrefix(p.name+"."+name, ".."),
			bare: []string{get(bare, name)}, over: []string{get(over, name)}})
	}
	return found
}

// fileSize is 0 for a file that does not exist.
func fileSize(name string) int {
	info, err := os.Stat(name)
	if err != nil {
		return 0
	}
	return int(info.Size())
}

func get(r results, name string) string {
	if result, ok := r[name]; ok {
		return result
	}
	return missing
}

// diff returns the tests that did not end alike, sorted.
func diff(bare, over results) []string {
	var names []string
	for name := range bare {
		if bare[name] != get(over, name) {
			names = append(names, name)
		}
	}
	for name := range over {
		if _, ok := bare[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// leaves drops the tests that differ only because a subtest does.
func leaves(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

// topLevel returns a pattern for -test.run.
func topLevel(differ []*difference) string {
	var tops []string
	for _, d := range differ {
		top, _, _ := strings.Cut(d.name, "/")
		tops = append(tops, regexp.QuoteMeta(top))
	}
	slices.Sort(tops)
	return "^(" + strings.Join(slices.Compact(tops), "|") + ")$"
}

// excerpt returns what a test printed before its verdict.
func excerpt(printed, name string) string {
	lines := strings.Split(printed, "\n")
	for i, l := range lines {
		if m := endLine.FindStringSubmatch(l); m != nil && m[2] == name && m[1] == "FAIL" {
			from, to := max(0, i-4), min(len(lines), i+12)
			return strings.Join(lines[from:to], "\n")
		}
	}
	return ""
}

// tally is what came of a suite.
type tally struct {
	tests       int
	calls       int    // that went through a stack
	counts      [4]int // bare: passed, failed, skipped, crashed
	explained   []*difference
	general     []*difference
	unsteady    []*difference
	unexplained []*difference
	output      []string // of the unexplained
}

func index(result string) int {
	return max(0, slices.Index([]string{"PASS", "FAIL", "SKIP", crashed}, result))
}

func (t *tally) place(d *difference, known differences, output string) {
	switch {
	case known.explains(d):
		t.explained = append(t.explained, d)
	case d.general():
		t.general = append(t.general, d)
	case d.unsteady():
		t.unsteady = append(t.unsteady, d)
	default:
		t.unexplained = append(t.unexplained, d)
		t.output = append(t.output, output)
	}
}

func (t *tally) add(o tally) {
	t.tests += o.tests
	t.calls += o.calls
	for i, n := range o.counts {
		t.counts[i] += n
	}
	t.explained = append(t.explained, o.explained...)
	t.general = append(t.general, o.general...)
	t.unsteady = append(t.unsteady, o.unsteady...)
	t.unexplained = append(t.unexplained, o.unexplained...)
	t.output = append(t.output, o.output...)
}

func (t *tally) print(w io.Writer, name string, took time.Duration, verbose bool) {
	fmt.Fprintf(w, "%-18s %5d tests, %d calls over the stack; bare %d passed, %d failed, %d skipped, %d crashed; %d differ: %d explained, %d over any RoundTripper, %d unsteady, %d unexplained",
		name, t.tests, t.calls, t.counts[0], t.counts[1], t.counts[2], t.counts[3],
		len(t.explained)+len(t.general)+len(t.unsteady)+len(t.unexplained), len(t.explained), len(t.general), len(t.unsteady), len(t.unexplained))
	if took == 0 { // the sum repeats no details
		fmt.Fprintln(w)
		return
	}
	fmt.Fprintf(w, " (%.0fs)\n", took.Seconds())
	for _, d := range t.general {
		fmt.Fprintf(w, "  over any    %s\n", d)
	}
	for _, d := range t.unsteady {
		fmt.Fprintf(w, "  unsteady    %s\n", d)
	}
	for i, d := range t.unexplained {
		fmt.Fprintf(w, "  UNEXPLAINED %s\n", d)
		if verbose {
			fmt.Fprintln(w, t.output[i])
		}
	}
}
