package main

import (
	"fmt"
	"io"
	"slices"
)

// tally is what came of a suite.
type tally struct {
	tests       int
	calls       int    // that went through a stack
	counts      [4]int // bare: passed, failed, skipped, crashed
	bareFailed  []string
	explained   []*difference // by the list
	general     []*difference // by the list, and the control shows it
	unsteady    []*difference // did not come back
	unexplained []*difference
	output      []string // of the unexplained
	matched     []string // lines of the list
	outdated    []string // lines that matched nothing
}

// failed reports whether the list and the suite disagree.
func (t *tally) failed() bool { return len(t.unexplained)+len(t.outdated) > 0 }

func index(result string) int {
	return max(0, slices.Index([]string{"PASS", "FAIL", "SKIP", crashed}, result))
}

// place sorts a difference that the list alone does not explain.
func (t *tally) place(d *difference, known differences, output string) {
	switch listed := known.line(d) != ""; {
	case listed && d.general():
		t.general = append(t.general, d)
	case !listed && d.unsteady():
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
	t.bareFailed = append(t.bareFailed, o.bareFailed...)
	t.explained = append(t.explained, o.explained...)
	t.general = append(t.general, o.general...)
	t.unsteady = append(t.unsteady, o.unsteady...)
	t.unexplained = append(t.unexplained, o.unexplained...)
	t.output = append(t.output, o.output...)
	t.matched = append(t.matched, o.matched...)
	t.outdated = append(t.outdated, o.outdated...)
}

func (t *tally) print(w io.Writer, name string) {
	fmt.Fprintf(w, "%-18s %5d tests, %d calls over the stack; bare %d passed, %d failed, %d skipped, %d crashed; %d differ: %d listed, %d listed as any RoundTripper's, %d did not come back, %d unexplained\n",
		name, t.tests, t.calls, t.counts[0], t.counts[1], t.counts[2], t.counts[3],
		len(t.explained)+len(t.general)+len(t.unsteady)+len(t.unexplained), len(t.explained), len(t.general), len(t.unsteady), len(t.unexplained))
}

func (t *tally) printDetails(w io.Writer, verbose bool) {
	if verbose {
		for _, name := range t.bareFailed {
			fmt.Fprintf(w, "  bare fails  %s\n", name)
		}
		for _, d := range t.general {
			fmt.Fprintf(w, "  any         %s\n", d)
		}
	}
	for _, d := range t.unsteady {
		fmt.Fprintf(w, "  once        %s\n", d)
	}
	for i, d := range t.unexplained {
		fmt.Fprintf(w, "  UNEXPLAINED %s\n", d)
		if verbose {
			fmt.Fprintln(w, t.output[i])
		}
	}
	for _, line := range t.outdated {
		fmt.Fprintf(w, "  OUTDATED    %s\n", line)
	}
}
