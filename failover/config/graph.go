package config

import (
	"fmt"
	"slices"
	"strings"
)

// graph settles what every target of every virtual model means, and refuses
// names that mean nothing and chains that come back to themselves.
func (l *loader) graph(c *Config) {
	g := graph{providers: c.providers, bySource: map[string]*virtual{}}
	for _, v := range c.virtual {
		g.bySource[v.source] = v
	}
	for _, v := range c.virtual {
		seen := map[string]bool{}
		for _, t := range v.targets {
			l.resolve(&g, v, t)
			key := t.name
			if t.provider != "" {
				key = t.provider + "/" + t.model
			}
			if seen[key] {
				l.fault(t.at, fmt.Sprintf("the target %s again", shown(key, t.hidden)), "each target once", "")
			}
			seen[key] = true
		}
	}
	l.cycles(&g, c.virtual)
	for _, v := range c.virtual {
		provider, model, _ := strings.Cut(v.source, "/")
		if g.provider(provider) != nil && !v.lists(provider, model) {
			v.passed = true
			l.warnings = append(l.warnings, fmt.Sprintf("%s: %s.source: a request for this name names the provider %s and passes the virtual model by, which does not list it as a target", v.at.where(), v.at.path, provider))
		}
	}
}

type graph struct {
	providers []*provider
	bySource  map[string]*virtual
}

// resolve settles one target: another virtual model, a model of a provider
// that is named, or a bare model that a provider lists.
func (l *loader) resolve(g *graph, v *virtual, t *target) {
	first, model, qualified := strings.Cut(t.name, "/")
	named := g.provider(first)
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
	if t.nested = g.bySource[t.name]; t.nested != nil {
		return
	}
	for _, p := range g.providers {
		if slices.Contains(p.Models, t.name) {
			t.provider, t.model = p.Name, t.name
			return
		}
	}
	switch {
	case qualified && named == nil:
		l.fault(t.at, fmt.Sprintf("the provider %s, which is not configured", shown(first, t.hidden)), g.known(), meant(first, g.names()))
	case qualified:
		l.fault(t.at, fmt.Sprintf("the provider %q without a model", first), modelNames.want, "")
	case len(g.providers) == 1:
		t.provider, t.model = g.providers[0].Name, t.name
	default:
		l.fault(t.at, fmt.Sprintf("the model %s, which no provider lists", shown(t.name, t.hidden)), modelNames.want+"; "+g.known(), meant(t.name, g.sources()))
	}
}

func (g *graph) provider(name string) *provider {
	for _, p := range g.providers {
		if p.Name == name {
			return p
		}
	}
	return nil
}

func (g *graph) names() []string {
	var all []string
	for _, p := range g.providers {
		all = append(all, p.Name)
	}
	return all
}

func (g *graph) sources() []string {
	var all []string
	for s, v := range g.bySource {
		if !v.hidden {
			all = append(all, s)
		}
	}
	slices.Sort(all)
	return all
}

// known lists the configured providers, for a message.
func (g *graph) known() string {
	if len(g.providers) == 0 {
		return "a configured provider (there are none)"
	}
	return "one of the configured providers: " + strings.Join(g.names(), ", ")
}

// lists returns whether the chain has this model of a provider.
func (v *virtual) lists(provider, model string) bool {
	return slices.ContainsFunc(v.targets, func(t *target) bool {
		return !t.disabled && t.provider == provider && t.model == model
	})
}

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
		w := g.bySource[name]
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

// backsUp says whether w lists the very model that v overlays.
func (g *graph) backsUp(w, v *virtual) bool {
	return slices.ContainsFunc(w.targets, func(t *target) bool {
		return t.provider != "" && slices.Contains(t.chainNames(), v.source) && v.lists(t.provider, t.model)
	})
}

// cycles refuses virtual models that come back to themselves.
func (l *loader) cycles(g *graph, all []*virtual) {
	const (
		open = 1
		done = 2
	)
	state := map[*virtual]int{}
	var path []*virtual
	var visit func(v *virtual)
	visit = func(v *virtual) {
		state[v] = open
		path = append(path, v)
		for _, t := range v.targets {
			w := g.follows(v, t)
			switch {
			case w == nil || state[w] == done:
			case state[w] == open:
				l.cycle(t, path[slices.Index(path, w):])
			default:
				visit(w)
			}
		}
		path = path[:len(path)-1]
		state[v] = done
	}
	for _, v := range all {
		if state[v] == 0 {
			visit(v)
		}
	}
}

// cycle tells of the target that closes one.
func (l *loader) cycle(t *target, round []*virtual) {
	const most = 16
	var names []string
	for _, v := range append(slices.Clip(round[:min(len(round), most)]), round[0]) {
		name := v.source
		if v.hidden {
			name = "(a name that is not shown)"
		}
		names = append(names, name)
	}
	if len(round) > most {
		names = slices.Insert(names, most, "…")
	}
	l.fault(t.at, "a cycle of virtual models: "+strings.Join(names, " → "), "targets that end at models of providers", "")
}
