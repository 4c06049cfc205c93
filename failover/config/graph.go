package config

import (
	"maps"
	"slices"
	"strings"
)

// graph settles what every target of every virtual model means, and refuses
// names that mean nothing and chains that come back to themselves. Everything
// is looked up by name, so that thousands of virtual models take a time that
// grows with their number and not with its square.
func (l *loader) graph(c *Config) *graph {
	g := newGraph(c)
	for _, v := range c.virtual {
		seen := make(map[string]bool, len(v.targets))
		for _, t := range v.targets {
			if l.full() {
				return g
			}
			l.resolve(g, v, t)
			key := t.name
			if t.provider != "" {
				key = t.provider + "/" + t.model
			}
			if seen[key] {
				l.fault(t.at, "a target that is listed already", "each target once", "")
			}
			seen[key] = true
		}
		v.index()
	}
	l.cycles(g, c.virtual)
	for _, v := range c.virtual {
		provider, model, _ := strings.Cut(v.source, "/")
		if g.providers[provider] != nil && !v.lists(provider, model) {
			v.passed = true
			l.warn(v.at, "%s.source: a request for this name names the provider %s and passes the virtual model by, which does not list it as a target", v.at.path, shownName(provider, v.hidden))
		}
	}
	return g
}

// graph is the configured names and what they stand for.
type graph struct {
	order     []*provider
	providers map[string]*provider
	owners    map[string]*provider // the first provider that lists a model
	sources   map[string]*virtual
	mutual    map[[2]*virtual]bool // what backsUp has found
}

func newGraph(c *Config) *graph {
	g := &graph{
		order: c.providers, providers: map[string]*provider{}, owners: map[string]*provider{},
		sources: make(map[string]*virtual, len(c.virtual)), mutual: map[[2]*virtual]bool{},
	}
	for _, p := range c.providers {
		g.providers[p.Name] = p
		for _, m := range p.Models {
			if g.owners[m] == nil {
				g.owners[m] = p
			}
		}
	}
	for _, v := range c.virtual {
		g.sources[v.source] = v
	}
	return g
}

// resolve settles one target: another virtual model, a model of a provider
// that is named, or a bare model that a provider lists.
func (l *loader) resolve(g *graph, v *virtual, t *target) {
	first, model, qualified := strings.Cut(t.name, "/")
	named := g.providers[first]
	if qualified && named != nil && model != "" {
		t.provider, t.model = first, model
		if t.name == v.source && len(v.targets) == 1 {
			l.fault(t.at, "itself as target", modelNames.want, "")
		}
		return
	}
	if t.name == v.source {
		l.fault(t.at, "itself as target", modelNames.want, "write provider/model for the model of that name")
		return
	}
	if t.nested = g.sources[t.name]; t.nested != nil {
		return
	}
	if p := g.owners[t.name]; p != nil {
		t.provider, t.model = p.Name, t.name
		return
	}
	switch {
	case qualified && named == nil:
		l.fault(t.at, "a provider that is not configured", g.known(), g.meant(first))
	case qualified:
		l.fault(t.at, "the provider "+shownName(first, t.hidden)+" without a model", modelNames.want, "")
	case len(g.order) == 1:
		t.provider, t.model = g.order[0].Name, t.name
	default:
		l.fault(t.at, "a model that no provider lists", modelNames.want+"; "+g.known(), g.meant(t.name))
	}
}

// Bounds of what one message lists and of where a suggestion is looked for.
const (
	maxListed   = 20
	maxCompared = 1000
)

// known lists the configured providers, for a message.
func (g *graph) known() string {
	if len(g.order) == 0 {
		return "a configured provider (there are none)"
	}
	var all []string
	for _, p := range g.order[:min(len(g.order), maxListed)] {
		all = append(all, shownName(p.Name, false))
	}
	if len(g.order) > maxListed {
		all = append(all, "…")
	}
	return "one of the configured providers: " + strings.Join(all, ", ")
}

// meant suggests the provider or the virtual model that a name was meant to
// be. A suggestion is a name that is configured, never what was found.
func (g *graph) meant(name string) string {
	if len(g.order)+len(g.sources) > maxCompared {
		return ""
	}
	var all []string
	for _, p := range g.order {
		if plain(p.Name) {
			all = append(all, p.Name)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(g.sources)) {
		if plain(s) && !g.sources[s].hidden {
			all = append(all, s)
		}
	}
	return meant(name, all)
}

// index notes which models the chain lists, once they are resolved.
func (v *virtual) index() {
	v.models = make(map[string]bool, len(v.targets))
	v.overlaid = make(map[string][]*target, len(v.targets))
	for _, t := range v.targets {
		if t.provider == "" {
			continue
		}
		if !t.disabled {
			v.models[t.provider+"/"+t.model] = true
		}
		for _, name := range t.chainNames() {
			v.overlaid[name] = append(v.overlaid[name], t)
		}
	}
}

// lists reports whether the chain has this model of a provider.
func (v *virtual) lists(provider, model string) bool { return v.models[provider+"/"+model] }

// chainNames are the virtual models that a target may lead to: the one that it
// names, or those that may overlay its model, the fuller name first.
func (t *target) chainNames() []string {
	if t.provider == "" {
		return []string{t.name}
	}
	return []string{t.provider + "/" + t.model, t.model}
}

// follows returns the virtual model whose chain is walked for target t of v,
// nil where it is a model alone. It is what the Router does: a model that is
// overlaid by a virtual model has that one's backups wherever it is named, but
// two that back each other up reach the model itself.
func (g *graph) follows(v *virtual, t *target) *virtual {
	if t.provider == "" {
		return t.nested
	}
	for _, name := range t.chainNames() {
		w := g.sources[name]
		switch {
		case w == nil:
		case w == v:
			return nil
		case !w.lists(t.provider, t.model):
		case g.backsUp(w, v):
			return nil
		default:
			return w
		}
	}
	return nil
}

// backsUp reports whether w lists the very model that v overlays. It is asked
// for each target of v and gives the same answer each time.
func (g *graph) backsUp(w, v *virtual) bool {
	pair := [2]*virtual{w, v}
	found, asked := g.mutual[pair]
	if !asked {
		found = slices.ContainsFunc(w.overlaid[v.source], func(t *target) bool { return v.lists(t.provider, t.model) })
		g.mutual[pair] = found
	}
	return found
}

// cycles refuses virtual models that come back to themselves.
func (l *loader) cycles(g *graph, all []*virtual) {
	const done = -1
	place := make(map[*virtual]int, len(all)) // in path, from 1; done once left
	var path []*virtual
	var visit func(v *virtual)
	visit = func(v *virtual) {
		path = append(path, v)
		place[v] = len(path)
		for _, t := range v.targets {
			w := g.follows(v, t)
			switch {
			case w == nil || place[w] == done || l.full():
			case place[w] > 0:
				l.cycle(t, path[place[w]-1:])
			default:
				visit(w)
			}
		}
		path = path[:len(path)-1]
		place[v] = done
	}
	for _, v := range all {
		if place[v] == 0 {
			visit(v)
		}
	}
}

// cycle reports the target that closes one.
func (l *loader) cycle(t *target, round []*virtual) {
	const most = 16
	var names []string
	for _, v := range append(slices.Clip(round[:min(len(round), most)]), round[0]) {
		names = append(names, shownName(v.source, v.hidden))
	}
	if len(round) > most {
		names = slices.Insert(names, most, "…")
	}
	l.fault(t.at, "a cycle of virtual models: "+strings.Join(names, " → "), "targets that end at models of providers", "")
}
