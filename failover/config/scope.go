package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/surefoot-go/surefoot/internal/layer"
)

// given is one value that somebody wrote.
type given struct {
	value  any
	at     place
	hidden bool // a variable was put in: the text is not shown
}

// A scope holds what one layer of the configuration gives, by key, and
// nothing else: what is not in it is inherited.
type scope map[string]given

// block reads a nested block of fields; prefix is what their keys start with
// and the block's path does not repeat.
func (l *loader) block(n node, fields []field, prefix string, into scope) {
	var known []string
	leaf := map[string]field{}
	for _, f := range fields {
		rest, ok := strings.CutPrefix(f.key, prefix)
		if !ok {
			continue
		}
		key, _, nested := strings.Cut(rest, ".")
		if !nested {
			leaf[key] = f
		}
		if !slices.Contains(known, key) {
			known = append(known, key)
		}
	}
	l.mapping(n, known, func(p pair) {
		f, ok := leaf[p.key]
		if !ok {
			l.block(p.value, fields, prefix+p.key+".", into)
		} else if g, ok := l.value(p.value, f.kind); ok {
			into[f.key] = g
		}
	})
}

// value reads a scalar or a list of them. ok is false where nothing is given
// or it is a fault.
func (l *loader) value(n node, k kind) (g given, ok bool) {
	if !k.list {
		text, hidden, ok := l.text(n, k.want)
		if !ok {
			return g, false
		}
		v, ok := l.parsed(n.place(), text, hidden, k)
		return given{v, n.place(), hidden}, ok
	}
	if n.isNull() {
		return g, false
	}
	g = given{at: n.place()}
	all, none := []string{}, len(n.Content) == 0
	good := n.Kind == yaml.SequenceNode && l.fits(n.place(), len(n.Content), k)
	for _, c := range l.elements(n, k.want) {
		if c.isNull() {
			l.fault(c.place(), "nothing", k.each, "")
			good = false
			continue
		}
		before := len(l.faults)
		text, hidden, ok := l.text(c, k.each)
		if !ok {
			good = good && len(l.faults) == before
			continue
		}
		v, ok := l.parsed(c.place(), text, hidden, k)
		if !ok {
			good = false
			continue
		}
		g.hidden = g.hidden || hidden
		if word := v.(string); k.adds && layer.IsDefault(word) {
			none = true
		} else {
			all = append(all, word)
		}
	}
	// [] says "none" where that means something, and so does [default] where
	// words are added. A list whose elements all came to nothing says nothing.
	g.value = all
	return g, good && (len(all) > 0 || k.keepEmpty && none)
}

// fits reports whether a list may have so many entries; if not, that is a
// fault.
func (l *loader) fits(at place, entries int, k kind) bool {
	if k.most == 0 || entries <= k.most {
		return true
	}
	l.fault(at, fmt.Sprintf("%d entries", entries), fmt.Sprintf("at most %d", k.most), "")
	return false
}

// text reads a scalar with its variables put in. ok is false where nothing is
// given or it is a fault; hidden says that the text is not to be shown.
func (l *loader) text(n node, want string) (text string, hidden, ok bool) {
	if n.isNull() {
		l.spent(n, 0)
		return "", false, false
	}
	if n.Kind != yaml.ScalarNode {
		l.fault(n.place(), n.what(), want, "")
		return "", false, false
	}
	if n.variable != "" {
		return n.Value, false, !l.spent(n, len(n.Value))
	}
	e, ok := l.expanded(n)
	switch {
	case !ok:
		return "", true, false
	case e.fault != "":
		l.fault(n.place(), e.fault, want, "")
		return "", true, false
	case len(e.missing) > 0:
		l.fault(n.place(), unset(e.missing), want, fmt.Sprintf("set it, or write ${%s:-default}", shownVariable(e.missing[0])))
		return "", true, false
	}
	return e.text, e.used, !e.used || e.text != ""
}

// expanded puts the variables into a scalar. ok is false where the document
// becomes too large by it, which is reported.
func (l *loader) expanded(n node) (e expansion, ok bool) {
	e = expand(n.Value, l.env.get, maxText-l.size)
	size := len(e.text)
	if e.tooLong {
		size = maxText + 1
	}
	return e, !l.spent(n, size)
}

// parsed parses one scalar, or reports what is wrong with it.
func (l *loader) parsed(at place, text string, hidden bool, k kind) (any, bool) {
	v, hint, ok := k.parse(text)
	if !ok {
		want := k.want
		if k.list {
			want = k.each
		}
		l.fault(at, shown(text, hidden, k.quotes), want, hint)
	}
	return v, ok
}

// environment reads the variables of fields, which stand for everyone. path
// is what the keys' full paths start with.
func (l *loader) environment(fields []field, path string, into scope) {
	for _, f := range fields {
		text, ok := l.variable(f.env)
		if !ok {
			continue
		}
		at := place{variable: f.env, path: path + f.key}
		if !f.kind.list {
			if v, ok := l.parsed(at, text, false, f.kind); ok {
				into[f.key] = given{value: v, at: at}
			}
			continue
		}
		entries := split(text)
		all, good := []string{}, l.fits(at, len(entries), f.kind)
		for _, s := range entries {
			v, ok := l.parsed(at, s, false, f.kind)
			if good = good && ok; ok {
				all = append(all, v.(string))
			}
		}
		if len(all) == 0 && good {
			l.fault(at, "nothing but commas", f.kind.want, "separate them with commas")
		} else if good {
			into[f.key] = given{value: all, at: at}
		}
	}
}

// variable is the value of an environment variable; empty counts as not given.
func (l *loader) variable(name string) (string, bool) {
	if name == "" {
		return "", false
	}
	text, ok := l.env.get(name)
	if len(text) > maxBytes {
		l.fault(place{variable: name}, fmt.Sprintf("%d bytes", len(text)), "at most 4 MiB", "")
		return "", false
	}
	return strings.TrimSpace(text), ok
}

// split takes a list of the environment apart.
func split(text string) []string {
	var all []string
	for s := range strings.SplitSeq(text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, s)
		}
	}
	return all
}
