package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of one configuration with all aliases followed and all variables put
// in: a small text can name billions of nodes. The YAML parser's own guard
// against that covers only what it decodes itself, and here it decodes nodes.
const (
	maxVisits = 200_000
	maxText   = maxBytes // of all keys and values
	maxMerges = 16       // << in a << in a <<
)

// A node is a place in a document: what is there, and its full path.
type node struct {
	*yaml.Node
	path     string
	variable string // whose JSON it is; "" for the file
}

// A pair is one entry of a mapping. Its value has the path of the entry.
type pair struct {
	key     string
	keyNode *yaml.Node
	value   node
}

// keyPlace is where the key is, with the path of the entry.
func (p pair) keyPlace() place {
	return node{Node: p.keyNode, path: p.value.path, variable: p.value.variable}.place()
}

// A place is where a value was given.
type place struct {
	line, column int
	variable     string
	path         string
}

// where says it for a warning.
func (p place) where() string {
	if p.variable != "" {
		return "environment variable " + p.variable
	}
	return "line " + strconv.Itoa(p.line)
}

func (n node) place() place {
	p := place{line: n.Line, path: n.path, variable: n.variable}
	if n.variable != "" {
		p.column = n.Column
	}
	return p
}

// child is a node of the same document at another path.
func (n node) child(c *yaml.Node, path string) node {
	if c.Kind == yaml.AliasNode {
		c = c.Alias
	}
	return node{Node: c, path: path, variable: n.variable}
}

// isNull reports that nothing is given: a missing value, null or ~.
func (n node) isNull() bool {
	return n.Kind == 0 || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

func (n node) what() string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}

// join appends a key to a path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// loader reads one configuration and collects what is wrong with it.
type loader struct {
	env      environ
	faults   Errors
	warnings []string
	visits   int  // nodes so far
	size     int  // bytes of text so far
	over     bool // one of the two was too many, which is reported once
}

func newLoader(lookup func(string) (string, bool)) *loader {
	if lookup == nil {
		lookup = func(string) (string, bool) { return "", false }
	}
	return &loader{env: environ{lookup: lookup, known: map[string]string{}}}
}

func (l *loader) fault(at place, found, want, hint string) {
	if !l.full() {
		l.faults = append(l.faults, &Error{Line: at.line, Column: at.column, Variable: at.variable, Path: at.path, Found: found, Want: want, Hint: hint})
	}
}

// full reports whether nothing more will be reported: there are enough faults,
// or what follows from half a document is no fault of its own. Who looks for a
// suggestion among thousands of names asks before.
func (l *loader) full() bool { return l.over || len(l.faults) >= maxFaults }

func (l *loader) warn(at place, format string, args ...any) {
	if len(l.warnings) < maxFaults {
		l.warnings = append(l.warnings, at.where()+": "+fmt.Sprintf(format, args...))
	}
}

// spent counts a node with so many bytes of text and reports whether the
// document is too large to go on.
func (l *loader) spent(n node, bytes int) bool {
	l.visits++
	l.size += bytes
	if l.over {
		return true
	}
	switch {
	case l.visits > maxVisits:
		l.fault(n.place(), "more than 200000 values, with all aliases followed", "a smaller configuration", "")
	case l.size > maxText:
		l.fault(n.place(), "more than 4 MiB of text, with all aliases followed and all variables put in", "a smaller configuration", "")
	default:
		return false
	}
	l.over = true
	return true
}

// mapping calls entry for every pair of a mapping whose key is known; nil is
// any key. A null has no pairs. A key that is unknown or there twice is a
// fault.
func (l *loader) mapping(n node, known []string, entry func(pair)) {
	if n.isNull() {
		return
	}
	want := "a mapping"
	if len(known) > 0 {
		want += " with " + list(known)
	}
	if n.Kind != yaml.MappingNode {
		l.fault(n.place(), n.what(), want, "")
		return
	}
	for _, p := range l.pairs(n, known, 0) {
		if l.full() {
			return
		}
		if known != nil && !slices.Contains(known, p.key) {
			l.fault(p.keyPlace(), "an unknown key", "one of "+list(known), suggestKey(p.key, known))
			continue
		}
		entry(p)
	}
}

// pairs lists the entries of a mapping, first its own, then those that a
// merge key (<<) brings and that it does not have.
func (l *loader) pairs(n node, known []string, depth int) []pair {
	var own, merged []pair
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.child(n.Content[i], n.path)
		if l.spent(k, len(k.Value)) {
			return nil
		}
		switch {
		case k.Kind != yaml.ScalarNode:
			l.fault(k.place(), k.what()+" as a key", "a name", "")
			continue
		case k.ShortTag() == "!!merge":
			merged = append(merged, l.merge(n.child(n.Content[i+1], join(n.path, "<<")), known, depth+1)...)
			continue
		}
		p := pair{k.Value, n.Content[i], n.child(n.Content[i+1], join(n.path, shownKey(k.Value, known)))}
		if line, twice := seen[k.Value]; twice {
			l.fault(p.keyPlace(), "a key that is already on line "+strconv.Itoa(line), "each key once", "")
			continue
		}
		seen[k.Value] = k.Line
		own = append(own, p)
	}
	for _, p := range merged {
		if _, has := seen[p.key]; !has {
			seen[p.key] = p.keyNode.Line
			p.value.path = join(n.path, shownKey(p.key, known))
			own = append(own, p)
		}
	}
	return own
}

// merge lists the entries of what a << names: a mapping or a list of them, of
// which the earlier wins.
func (l *loader) merge(n node, known []string, depth int) []pair {
	if l.spent(n, 0) {
		return nil
	}
	if depth > maxMerges {
		l.fault(n.place(), "merge keys inside merge keys, without end", "at most 16 levels", "")
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		return l.pairs(n, known, depth)
	case yaml.SequenceNode:
		var all []pair
		for _, c := range n.Content {
			all = append(all, l.merge(n.child(c, n.path), known, depth+1)...)
		}
		return all
	}
	l.fault(n.place(), n.what(), "an alias of a mapping, or a list of them", "")
	return nil
}

// elements lists the entries of a sequence.
func (l *loader) elements(n node, want string) []node {
	if n.isNull() {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		l.fault(n.place(), n.what(), want, "")
		return nil
	}
	var all []node
	for i, c := range n.Content {
		if l.full() {
			return nil
		}
		all = append(all, n.child(c, fmt.Sprintf("%s[%d]", n.path, i)))
	}
	return all
}

// suggestKey says where a key that is not known here belongs.
func suggestKey(key string, known []string) string {
	if s := meant(key, known); s != "" {
		return s
	}
	for _, f := range allFields {
		if f.key == key || strings.HasSuffix(f.key, "."+key) {
			return fmt.Sprintf("did you mean %q?", f.key)
		}
	}
	return ""
}
