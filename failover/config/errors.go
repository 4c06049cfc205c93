package config

import (
	"fmt"
	"slices"
	"strings"
)

// Error is one fault of a configuration. It never holds a secret: what was
// found is quoted only where it cannot be one, a short number or a short word
// in place of a mode that did not come from a variable.
type Error struct {
	File     string // set by [Load]
	Line     int    // in the file, or in the JSON of Variable; from 1, 0 where Variable says it all
	Column   int    // set for JSON in Variable
	Variable string // environment variable that holds the value; "" for the file
	Path     string // full path of the field: "providers.vllm.resilience.circuit_breaker.timeout"
	Found    string // what is there
	Want     string // what was expected
	Hint     string // a suggestion; "" for none
}

// Error says where, what was found, what was expected and what may have been
// meant, in one line.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" && e.Variable == "" {
		b.WriteString(e.File + ": ")
	}
	if e.Variable != "" {
		b.WriteString("environment variable " + e.Variable + ": ")
	}
	switch {
	case e.Line > 0 && e.Column > 0:
		fmt.Fprintf(&b, "line %d, column %d: ", e.Line, e.Column)
	case e.Line > 0:
		fmt.Fprintf(&b, "line %d: ", e.Line)
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString("found " + e.Found)
	if e.Want != "" {
		b.WriteString(", want " + e.Want)
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Errors holds every fault of a configuration: those of the file by line, then
// those of the environment.
type Errors []*Error

// Error lists the faults, one a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, f := range e {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, f := range e {
		errs[i] = f
	}
	return errs
}

// maxFaults bounds how much is said about a file that is no configuration at
// all.
const maxFaults = 100

func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b *Error) int {
		if c := strings.Compare(a.Variable, b.Variable); c != 0 {
			return c
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return e
}

// meant suggests what a misspelt word was meant to be, "" for nothing near.
func meant(word string, known []string) string {
	best, near := "", len(word)/3+1
	for _, k := range known {
		if abs(len(k)-len(word)) > near {
			continue
		}
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d <= near && (best == "" || d < near) {
			best, near = k, d
		}
	}
	if best == "" || near >= len(best) {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", best)
}

func abs(n int) int {
	return max(n, -n)
}

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours that turn a into b. Words longer than 64 bytes are never near.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return len(a) + len(b)
	}
	var before, last, row [65]int
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// list joins what may be written, for a message.
func list(words []string) string {
	switch len(words) {
	case 0:
		return "nothing"
	case 1:
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
