package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/surefoot-go/surefoot/failover"
)

// virtualVariable holds a JSON list of virtual models.
const virtualVariable = "VIRTUAL_MODELS"

// virtual is one virtual model: a name for a chain.
type virtual struct {
	at          place
	source      string
	hidden      bool // the source holds a variable, and is not shown
	description string
	enabled     bool
	passed      bool // its source names a provider and a model that it does not list: no request reaches it
	strategy    string
	failover    scope // over the global failover block
	targets     []*target
	models      map[string]bool      // "provider/model" of the targets that are not disabled
	overlaid    map[string][]*target // by the names of virtual models that they may lead to
}

// target is one entry of a virtual model.
type target struct {
	at       place
	name     string // as written: "provider/model", a model, another source
	hidden   bool   // the name holds a variable, and is not shown
	weight   given
	cost     float64
	timeout  time.Duration
	lenient  bool
	disabled bool

	affinityHeader string

	// What the name means: a model of a provider, another virtual model, or a
	// model that is known by another virtual model that backs it up.
	provider, model string
	nested          *virtual
}

var (
	virtualKeys = []string{"source", "target", "targets", "strategy", "failover", "description", "enabled"}
	targetKeys  = []string{"model", "weight", "cost", "timeout", "lenient", "disabled", "affinity_header"}
	strategies  = words(failover.StrategyFailover, failover.StrategyRoundRobin, failover.StrategyCost)
	modelNames  = kind{want: "a model: provider/model, a model or another virtual model", parse: texts.parse}
)

// virtualModels reads a list of virtual models. A source that is there twice
// is a fault.
func (l *loader) virtualModels(n node) []*virtual {
	var all []*virtual
	seen := map[string]*virtual{}
	for _, e := range l.elements(n, "a list of virtual models") {
		v := l.virtualModel(e)
		if v == nil {
			continue
		}
		if first := seen[v.source]; first != nil {
			at := v.at
			at.path = join(at.path, "source")
			l.fault(at, fmt.Sprintf("the source of line %d again", first.at.line), "each source once", "")
			continue
		}
		seen[v.source] = v
		all = append(all, v)
	}
	return all
}

// virtualVariable reads the environment's list.
func (l *loader) virtualVariable() []*virtual {
	text, ok := l.variable(virtualVariable)
	if !ok {
		return nil
	}
	top, bad := parseJSON(text, virtualVariable)
	if bad != nil {
		l.faults = append(l.faults, bad)
		return nil
	}
	return l.virtualModels(node{variable: virtualVariable}.child(top, "virtual_models"))
}

// overlay puts the environment's virtual models over the file's: one of the
// same source takes the whole entry's place.
func overlay(file, env []*virtual) []*virtual {
	all := slices.Clone(file)
	index := make(map[string]int, len(file))
	for i, v := range file {
		index[v.source] = i
	}
	for _, v := range env {
		if i, ok := index[v.source]; ok {
			all[i] = v
		} else {
			all = append(all, v)
		}
	}
	return all
}

// virtualModel reads one entry, nil for one that has no usable source.
func (l *loader) virtualModel(n node) *virtual {
	v := &virtual{at: n.place(), enabled: true, strategy: failover.StrategyFailover, failover: scope{}}
	var single, several node
	var off place
	before := len(l.faults)
	l.mapping(n, virtualKeys, func(p pair) {
		switch p.key {
		case "source":
			l.source(p.value, v)
		case "target":
			single = p.value
		case "targets":
			several = p.value
		case "strategy":
			before := len(l.faults)
			if g, ok := l.value(p.value, strategies); ok {
				v.strategy = g.value.(string)
			} else if len(l.faults) > before {
				v.strategy = "" // reported already; nothing follows from it
			}
		case "failover":
			off = p.value.place()
			l.virtualFailover(p.value, v)
		case "description":
			if text, _, ok := l.text(p.value, "a text"); ok {
				v.description = text
			}
		case "enabled":
			if g, ok := l.value(p.value, switches); ok {
				v.enabled = g.value.(bool)
			}
		}
	})
	l.targets(v, n, single, several, before)
	if g, ok := v.failover["failover.enabled"]; ok && g.value == false && v.strategy == failover.StrategyFailover {
		l.fault(off, "failover switched off with strategy failover", "a strategy that spreads, round_robin or cost, or no switch", "")
	}
	if v.source == "" {
		if len(l.faults) == before {
			l.missing(n, "source", "the name that requests will use")
		}
		return nil
	}
	return v
}

// missing reports a key that has to be there.
func (l *loader) missing(n node, key, want string) {
	at := n.place()
	at.path = join(at.path, key)
	l.fault(at, "nothing", want, "")
}

func (l *loader) source(n node, v *virtual) {
	const want = "a name without spaces"
	g, ok := l.value(n, kind{want: want, parse: texts.parse})
	if !ok {
		return
	}
	name := g.value.(string)
	if strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		l.fault(n.place(), hiddenValue, want, "")
		return
	}
	v.source, v.hidden = name, g.hidden
	v.at.line, v.at.column = n.place().line, n.place().column
}

// virtualFailover reads a switch or a block.
func (l *loader) virtualFailover(n node, v *virtual) {
	if n.Kind != yaml.ScalarNode || n.isNull() {
		l.block(n, failoverFields, "failover.", v.failover)
		return
	}
	if g, ok := l.value(n, kind{want: "true, false or a block", quotes: quoteWords, parse: parseSwitch}); ok {
		v.failover["failover.enabled"] = g
	}
}

// targets reads target or targets: one of them, and at least one entry.
// That there is none is reported where nothing else was wrong with it: before
// is how many faults there were.
func (l *loader) targets(v *virtual, n, single, several node, before int) {
	one, many := single.Node != nil && !single.isNull(), several.Node != nil && !several.isNull()
	switch {
	case one && many:
		l.fault(several.place(), "targets beside target", "one of the two", "")
		return
	case one:
		if g, ok := l.value(single, modelNames); ok {
			v.targets = append(v.targets, &target{at: g.at, name: g.value.(string), hidden: g.hidden})
		}
	case many:
		for _, e := range l.elements(several, "a list of targets such as [{model: openai/gpt-4o}]") {
			l.target(v, e)
		}
	}
	if len(v.targets) == 0 && len(l.faults) == before {
		l.missing(n, "targets", "at least one target")
	}
}

func (l *loader) target(v *virtual, n node) {
	t := &target{at: n.place()}
	before := len(l.faults)
	l.mapping(n, targetKeys, func(p pair) {
		switch p.key {
		case "model":
			if g, ok := l.value(p.value, modelNames); ok {
				t.name, t.hidden, t.at = g.value.(string), g.hidden, g.at
			}
		case "weight":
			t.weight, _ = l.value(p.value, weights)
		case "cost":
			if g, ok := l.value(p.value, costs); ok {
				t.cost = g.value.(float64)
			}
		case "timeout":
			if g, ok := l.value(p.value, durations); ok {
				t.timeout = g.value.(time.Duration)
			}
		case "lenient":
			if g, ok := l.value(p.value, switches); ok {
				t.lenient = g.value.(bool)
			}
		case "affinity_header":
			if g, ok := l.value(p.value, headerNames); ok {
				t.affinityHeader = g.value.(string)
			}
		case "disabled":
			if g, ok := l.value(p.value, switches); ok {
				t.disabled = g.value.(bool)
			}
		}
	})
	if t.weight.value != nil && v.strategy == failover.StrategyFailover {
		l.fault(t.weight.at, "a weight with strategy failover", "weights with strategy round_robin only", "")
	}
	switch {
	case t.name != "":
		v.targets = append(v.targets, t)
	case len(l.faults) == before:
		l.missing(n, "model", modelNames.want)
	}
}
