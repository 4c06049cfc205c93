package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// differencesFile lists what differs over a stack, and why.
//
//go:embed differences.txt
var differencesFile string

// difference is a test that ends otherwise over the stack, with its results in
// every run. plain are those over a RoundTripper that only forwards, the
// control.
type difference struct {
	suite, test, name string // test is the package's directory and the name
	bare, over, plain []string
}

func (d *difference) String() string {
	text := fmt.Sprintf("%s %s: bare %s, over the stack %s", d.suite, d.test, strings.Join(d.bare, " "), strings.Join(d.over, " "))
	if len(d.plain) > 0 {
		text += ", over one that only forwards " + strings.Join(d.plain, " ")
	}
	return text
}

// general reports whether the control ended otherwise than bare, too: the test
// wants an *http.Transport, or what only that can do. It need not end as over the
// stack: where a subtest panics, chance decides which of the others are missing.
func (d *difference) general() bool {
	return !within(d.plain, d.bare)
}

// unsteady reports whether it did not come back: no later run over the stack
// ended as no bare one did.
func (d *difference) unsteady() bool {
	return len(d.over) > 1 && within(d.over[1:], d.bare)
}

func within(some, all []string) bool {
	return !slices.ContainsFunc(some, func(r string) bool { return !slices.Contains(all, r) })
}

// differences are the listed ones: "suite test" and the reason. A test's name
// stands for its subtests, too.
type differences map[string]string

const (
	// hang begins the reason of a test that hangs over the stack: it is not run.
	hang = "hangs, "
	// anyRoundTripper begins the reason of a test that ends so over every
	// RoundTripper that is not an *http.Transport: the control has to show it.
	anyRoundTripper = "any RoundTripper, "
)

// never returns a pattern for -test.skip of the tests of a suite that are not
// run: those that hang over the stack, and what the suite skips.
func (k differences) never(s suite) string {
	var names []string
	for _, test := range s.skip {
		names = append(names, "^"+test+"$")
	}
	for name, reason := range k {
		if test, ok := strings.CutPrefix(name, s.name+" "); ok && strings.HasPrefix(reason, hang) {
			names = append(names, "^"+test+"$")
		}
	}
	return strings.Join(names, "|")
}

// readDifferences reads lines of "suite test: reason". Empty lines and those
// that begin with # are comments.
func readDifferences(text string) (differences, error) {
	known := differences{}
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, ok := strings.Cut(line, ": ")
		if !ok || strings.TrimSpace(reason) == "" || len(strings.Fields(name)) != 2 {
			return nil, fmt.Errorf("differences.txt, line %d: want \"suite test: reason\"", n+1)
		}
		known[name] = reason
	}
	return known, nil
}

// line returns the list's line for a difference, "" for none.
func (k differences) line(d *difference) string {
	for name := d.test; ; {
		if line := d.suite + " " + name; k[line] != "" {
			return line
		}
		cut := strings.LastIndex(name, "/")
		if cut < 0 {
			return ""
		}
		name = name[:cut]
	}
}

// outdated returns the lines of a suite that should have matched a difference
// and did not. What hangs is not run, and what any RoundTripper can do may be a
// matter of luck.
func (k differences) outdated(suite string, matched []string) []string {
	var lines []string
	for line, reason := range k {
		if strings.HasPrefix(line, suite+" ") && !strings.HasPrefix(reason, hang) && !strings.HasPrefix(reason, anyRoundTripper) && !slices.Contains(matched, line) {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}
