package config

import (
	"fmt"
	"strings"
)

// An expansion is a text with its variables put in.
type expansion struct {
	text    string
	used    bool     // at least one variable was named: the text is not to be shown
	missing []string // variables that are unset, or empty, and have no default
	fault   string   // what is wrong with a reference
}

// expand puts ${NAME} and ${NAME:-default} in. What is put in is text: it is
// neither expanded again nor parsed as YAML.
func expand(text string, lookup func(string) (string, bool)) expansion {
	var out strings.Builder
	e := expansion{}
	for {
		before, after, found := strings.Cut(text, "${")
		out.WriteString(before)
		if !found {
			e.text = out.String()
			return e
		}
		e.used = true
		ref, rest, closed := strings.Cut(after, "}")
		name, fallback, hasDefault := strings.Cut(ref, ":-")
		switch {
		case !closed:
			e.fault = "a ${ that is not closed"
			return e
		case !isName(name):
			e.fault = "a ${…} that is neither ${NAME} nor ${NAME:-default}"
			return e
		case strings.Contains(fallback, "${"):
			e.fault = fmt.Sprintf("a default of ${%s:-…} that holds another reference", name)
			return e
		}
		// A variable that is set but empty, or blank, counts as not given.
		if v, ok := lookup(name); ok && strings.TrimSpace(v) != "" {
			out.WriteString(v)
		} else if hasDefault {
			out.WriteString(fallback)
		} else {
			e.missing = append(e.missing, name)
		}
		text = rest
	}
}

// isName says whether s can be the name of an environment variable.
func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
