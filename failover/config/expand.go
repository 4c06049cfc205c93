package config

import (
	"fmt"
	"slices"
	"strings"
)

// An expansion is a text with its variables put in.
type expansion struct {
	text    string
	used    bool     // at least one variable was named: the text is not to be shown
	missing []string // variables that are unset, or empty, and have no default: the first maxMissing
	fault   string   // what is wrong with a reference
	tooLong bool     // it would be longer than there is room for
}

// maxMissing bounds how many variables one message names.
const maxMissing = 8

// expand puts ${NAME} and ${NAME:-default} in. What is put in is text: it is
// neither expanded again nor parsed as YAML, so that no variable can add a
// key. The text may not grow over room bytes: half a million references to one
// long variable fit into a small file.
func expand(text string, lookup func(string) (string, bool), room int) expansion {
	e := expansion{}
	if !strings.Contains(text, "${") {
		e.text, e.tooLong = text, len(text) > room
		return e
	}
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "${")
		out.WriteString(before)
		if !found {
			e.text, e.tooLong = out.String(), out.Len() > room
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
			e.fault = fmt.Sprintf("a default of ${%s:-…} that holds another reference", shownVariable(name))
			return e
		}
		value, ok := lookup(name)
		switch {
		case ok:
		case hasDefault:
			value = fallback
		case len(e.missing) < maxMissing && !slices.Contains(e.missing, name):
			e.missing = append(e.missing, name)
		}
		if out.Len()+len(value) > room {
			e.tooLong = true
			return e
		}
		out.WriteString(value)
		text = rest
	}
}

// isName reports whether s can be the name of an environment variable.
func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// environ reads each environment variable once, however often the
// configuration names it.
type environ struct {
	lookup func(string) (string, bool)
	known  map[string]string // what was looked up; "" where nothing is given
}

// get returns the value of a variable. One that is set but empty, or blank,
// counts as not given.
func (e *environ) get(name string) (string, bool) {
	value, asked := e.known[name]
	if !asked {
		if text, ok := e.lookup(name); ok && strings.TrimSpace(text) != "" {
			value = text
		}
		e.known[name] = value
	}
	return value, value != ""
}
