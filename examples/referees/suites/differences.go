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
// every run. plain are those over a RoundTripper that only forwards.
type difference struct {
	suite, test, name string // test is the package's directory and the name
	bare, over, plain []string
}

func (d *difference) String() string {
	return fmt.Sprintf("%s %s: bare %s, over the stack %s", d.suite, d.test, strings.Join(d.bare, " "), strings.Join(d.over, " "))
}

// general reports whether a RoundTripper that only forwards makes a difference,
// too: the test wants an *http.Transport, or what only that can do.
func (d *difference) general() bool {
	return len(d.plain) > 0 && !slices.ContainsFunc(d.plain, func(r string) bool { return slices.Contains(d.bare, r) })
}

// unsteady reports whether some run over the stack ended as some bare one did.
func (d *difference) unsteady() bool {
	return slices.ContainsFunc(d.over, func(r string) bool { return slices.Contains(d.bare, r) })
}

// differences are the listed ones: "suite test" and the reason. A test's name
// stands for its subtests, too.
type differences map[string]string

// hang begins the reason of a test that hangs over the stack: it is not run.
const hang = "hangs, "

// hanging returns a pattern for -test.skip of a suite's tests that hang.
func (k differences) hanging(suite string) string {
	var names []string
	for name, reason := range k {
		if test, ok := strings.CutPrefix(name, suite+" "); ok && strings.HasPrefix(reason, hang) {
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

func (k differences) explains(d *difference) bool {
	for name := d.test; ; {
		if _, ok := k[d.suite+" "+name]; ok {
			return true
		}
		cut := strings.LastIndex(name, "/")
		if cut < 0 {
			return false
		}
		name = name[:cut]
	}
}
