package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of one configuration, against aliases of aliases: a small text can
// name billions of nodes.
const (
	maxVisits = 200_000
	maxMerges = 16 // << in a << in a <<
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

// isNull says that nothing is given: a missing value, null or ~.
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
	lookup   func(string) (string, bool)
	faults   Errors
	warnings []string
	visits   int
}

func (l *loader) fault(at place, found, want, hint string) {
	if len(l.faults) < maxFaults {
		l.faults = append(l.faults, &Error{Line: at.line, Column: at.column, Variable: at.variable, Path: at.path, Found: found, Want: want, Hint: hint})
	}
}

// spent counts a node and says whether the document is too large to go on. It
// is told once.
func (l *loader) spent(n node) bool {
	l.visits++
	if l.visits == maxVisits+1 {
		l.fault(n.place(), "more than 200000 values, with all aliases followed", "a smaller configuration", "")
	}
	return l.visits > maxVisits
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
	for _, p := range l.pairs(n, 0) {
		if l.spent(n) {
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
func (l *loader) pairs(n node, depth int) []pair {
	var own, merged []pair
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if l.spent(n) {
			return nil
		}
		k := n.child(n.Content[i], n.path)
		switch {
		case k.Kind != yaml.ScalarNode:
			l.fault(k.place(), k.what()+" as a key", "a name", "")
			continue
		case k.ShortTag() == "!!merge":
			merged = append(merged, l.merge(n.child(n.Content[i+1], join(n.path, "<<")), depth+1)...)
			continue
		}
		p := pair{k.Value, n.Content[i], n.child(n.Content[i+1], join(n.path, shownKey(k.Value)))}
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
			p.value.path = join(n.path, shownKey(p.key))
			own = append(own, p)
		}
	}
	return own
}

// merge lists the entries of what a << names: a mapping or a list of them, of
// which the earlier wins.
func (l *loader) merge(n node, depth int) []pair {
	if l.spent(n) {
		return nil
	}
	if depth > maxMerges {
		l.fault(n.place(), "merge keys inside merge keys, without end", "at most 16 levels", "")
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		return l.pairs(n, depth)
	case yaml.SequenceNode:
		var all []pair
		for _, c := range n.Content {
			all = append(all, l.merge(n.child(c, n.path), depth+1)...)
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
		if l.spent(n) {
			return nil
		}
		all = append(all, n.child(c, fmt.Sprintf("%s[%d]", n.path, i)))
	}
	return all
}

// shownKey is a key as it may stand in a path: names as they are, anything
// else not at all, since a misplaced secret may end up as a key.
func shownKey(key string) string {
	odd := strings.ContainsFunc(key, func(r rune) bool {
		return r <= ' ' || r == ':' || r == '=' || r == '$' || r > '~'
	})
	if key == "" || odd || len(key) > 64 || strings.HasPrefix(key, "sk-") {
		return "(a key that is no name)"
	}
	return key
}

// suggestKey says where a key that is not known here belongs.
func suggestKey(key string, known []string) string {
	if s := meant(key, known); s != "" {
		return s
	}
	for _, f := range allFields() {
		if f.key == key || strings.HasSuffix(f.key, "."+key) {
			return fmt.Sprintf("did you mean %q?", f.key)
		}
	}
	return ""
}
