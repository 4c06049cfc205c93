package failover

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// link is the chain that a target's model names.
type link struct {
	chain     *Chain
	preferred *target // of it, that the name asks for; nil: its strategy picks
}

// lists returns the chain's target that is this very model, nil for none.
func (c *Chain) lists(provider, model string) *target {
	for _, t := range c.targets {
		if !t.Disabled && !t.pure && t.Provider == provider && t.Model == model {
			return t
		}
	}
	return nil
}

// resolveNames returns copies of the chains in which every target that names a
// virtual model is linked to its chain.
func resolveNames(chains map[string]*Chain) (map[string]*Chain, error) {
	out := make(map[string]*Chain, len(chains))
	for name, c := range chains {
		linked := *c
		linked.asks = true // a chain that it is linked to may ask
		linked.targets = make([]*target, len(c.targets))
		for i, t := range c.targets {
			own := *t
			linked.targets[i] = &own
		}
		out[name] = &linked
	}
	edges := make(map[string][]string, len(out))
	for _, name := range slices.Sorted(maps.Keys(out)) {
		for _, t := range out[name].targets {
			to, preferred, err := refers(out, name, t)
			if err != nil {
				return nil, err
			}
			if to != "" {
				t.virtual = &link{chain: out[to], preferred: preferred}
				edges[name] = append(edges[name], to)
			}
		}
	}
	if cycle := findCycle(edges); cycle != nil {
		return nil, fmt.Errorf("virtual models in a cycle: %s", strings.Join(cycle, "→"))
	}
	return out, nil
}

// refers returns the virtual model that target t of the chain from stands for,
// "" if it is a concrete one.
func refers(chains map[string]*Chain, from string, t *target) (to string, preferred *target, err error) {
	if t.Model == "" {
		return "", nil, nil
	}
	for _, name := range namesOf(t) {
		c := chains[name]
		if c == nil {
			continue
		}
		if name == from {
			if t.pure {
				return "", nil, fmt.Errorf("virtual models in a cycle: %s→%s", from, from)
			}
			return "", nil, nil // the model that the chain overlays
		}
		real := c.lists(t.Provider, t.Model)
		switch {
		case real == nil && t.Provider != "":
			continue // it names its provider: no virtual model
		case real != nil && !t.pure && backsUp(c, from, chains[from]):
			return "", nil, nil // they back each other up: the model itself
		case real != nil && t.Provider != "" && name == t.Model:
			return name, real, nil
		}
		return name, nil, nil
	}
	return "", nil, nil
}

// namesOf returns the names of virtual models that t may stand for.
func namesOf(t *target) []string {
	if t.Provider == "" {
		return []string{t.Model}
	}
	return []string{t.Provider + "/" + t.Model, t.Model}
}

// backsUp reports whether chain c has a target that is the real model which
// the chain own, of that name, overlays.
func backsUp(c *Chain, name string, own *Chain) bool {
	return slices.ContainsFunc(c.targets, func(t *target) bool {
		return slices.Contains(namesOf(t), name) && own.lists(t.Provider, t.Model) != nil
	})
}

// findCycle returns the names along the first cycle, the first one again at
// its end; nil if there is none.
func findCycle(edges map[string][]string) []string {
	const (
		open = 1 + iota
		done
	)
	state := make(map[string]int)
	var path []string
	var visit func(name string) []string
	visit = func(name string) []string {
		switch state[name] {
		case done:
			return nil
		case open:
			return append(path[slices.Index(path, name):], name)
		}
		state[name] = open
		path = append(path, name)
		for _, to := range edges[name] {
			if cycle := visit(to); cycle != nil {
				return cycle
			}
		}
		path = path[:len(path)-1]
		state[name] = done
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(edges)) {
		if cycle := visit(name); cycle != nil {
			return cycle
		}
	}
	return nil
}
