package config

import (
	"net/url"
	"strings"
	"unicode"
)

// provider is a configured provider and what its own blocks give.
type provider struct {
	Provider
	own scope
}

var providerKeys = []string{"type", "base_url", "api_key", "models", "models_mode", "resilience"}

// maxName bounds a provider's name. It stands in logs and metrics, and a registry
// takes no more than 512 bytes.
const maxName = 256

// providers reads the providers block, in the order of the file.
func (l *loader) providers(n node) []*provider {
	var all []*provider
	l.mapping(n, nil, func(p pair) {
		if p.key == "" || strings.ContainsFunc(p.key, func(r rune) bool {
			return r == '/' || unicode.IsSpace(r) || !unicode.IsPrint(r)
		}) || len(p.key) > maxName {
			// "provider/model" is taken apart at the first slash.
			l.fault(place{line: p.keyNode.Line, path: n.path}, "a provider name that is empty, very long, or holds a slash, a space or what cannot be printed", "a plain name such as openai-eu", "")
			return
		}
		all = append(all, l.provider(p))
	})
	l.modelVariables(all)
	return all
}

func (l *loader) provider(entry pair) *provider {
	p := &provider{Provider: Provider{Name: entry.key}, own: scope{}}
	typ, base := given{at: entry.value.place(), value: entry.key}, given{}
	typ.at.line = entry.keyNode.Line
	named := false
	l.mapping(entry.value, providerKeys, func(f pair) {
		switch f.key {
		case "type":
			before := len(l.faults)
			if g, ok := l.value(f.value, texts); ok {
				typ, named = g, true
			} else if len(l.faults) > before {
				typ, named = given{at: typ.at}, true // reported already
			}
		case "base_url":
			base, _ = l.value(f.value, kind{want: urlWant, parse: func(s string) (any, string, bool) { return s, "", true }})
		case "api_key":
			l.key(f.value, p)
		case "models":
			if g, ok := l.value(f.value, names); ok {
				p.Models = unique(g.value.([]string))
			}
		case "models_mode":
			if g, ok := l.value(f.value, modeField.kind); ok {
				p.own[modeField.key] = g
			}
		case "resilience":
			l.block(f.value, resilienceFields, "", p.own)
		}
	})
	l.identity(p, typ, base, named)
	return p
}

const urlWant = "an absolute http or https URL without a fragment"

// identity settles a provider's type and address. A type that is not given is
// the provider's name, else, with an address of its own, OpenAI's, which most
// of them speak. Without an address it is a fault: the key of a provider whose
// name is misspelt must go nowhere.
func (l *loader) identity(p *provider, typ, base given, named bool) {
	name, _ := typ.value.(string)
	t, known := typeOf(name)
	raw, _ := base.value.(string)
	raw = strings.TrimSpace(raw)
	switch {
	case !known && !named && raw != "":
		t, known = typeOf("openai")
	case !known && !named:
		at := typ.at
		at.path += ".type"
		l.fault(at, "no type, and a name that is none", "one of "+list(typeNames())+", or a base_url", meant(name, typeNames()))
	case !known && name != "":
		l.fault(typ.at, shown(name, typ.hidden, quoteWords), "one of "+list(typeNames()), meant(name, typeNames()))
	}
	p.Type, p.auth, p.BaseURL = t.name, t.auth, t.base
	if raw == "" {
		if known && t.base == "" {
			at := typ.at
			at.path = join(strings.TrimSuffix(at.path, ".type"), "base_url")
			l.fault(at, "nothing", urlWant+": the type "+t.name+" has no address of its own", "")
		}
		return
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Fragment != "" || strings.ContainsFunc(raw, unicode.IsSpace) {
		// A URL may hold a user or a key, and a key may stand where a URL was due, or
		// in a line below it that continues its text.
		l.fault(base.at, hiddenValue, urlWant, "")
		return
	}
	p.BaseURL = raw
	// Google's OpenAI-compatible surface wants the key as OpenAI does.
	if p.auth == authGoogle && strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/openai") {
		p.auth = authBearer
	}
}

// key reads a provider's api_key. What is found is never shown.
func (l *loader) key(n node, p *provider) {
	const want = "a key, usually ${NAME}"
	if n.isNull() {
		l.spent(n, 0)
		return
	}
	if len(n.Content) > 0 {
		l.fault(n.place(), n.what(), want, "")
		return
	}
	e, ok := l.expanded(n)
	text := strings.TrimSpace(e.text)
	switch {
	case !ok: // reported
	case e.fault != "":
		l.fault(n.place(), "a reference that is neither ${NAME} nor ${NAME:-default}", want, "")
	case len(e.missing) > 0:
		p.why = unset(e.missing)
		l.warn(n.place(), "%s: %s; the provider is unavailable", n.path, p.why)
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		l.fault(n.place(), "a control character, such as a line break", want, "no header may carry that")
	case text != "":
		p.cred = &credential{key: &text}
	}
}

// modelVariables reads <PROVIDER>_MODELS. Unlike the global defaults such a
// variable is about one provider, and it wins over the file.
func (l *loader) modelVariables(all []*provider) {
	owner := map[string]string{}
	for _, p := range all {
		name := modelsVariable(p.Name)
		text, ok := l.variable(name)
		if !ok || name == virtualVariable { // of a provider called "virtual"
			continue
		}
		if other, twice := owner[name]; twice {
			l.warn(place{variable: name}, "is read for two providers, %s and %s", shownName(other, false), shownName(p.Name, false))
		}
		owner[name] = p.Name
		if models := split(text); len(models) > 0 {
			p.Models = unique(models)
		}
	}
}

// modelsVariable is the variable that lists a provider's models: its name in
// capitals, anything but letters and digits as _.
func modelsVariable(provider string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, provider) + "_MODELS"
}

// unique drops what was listed before.
func unique(names []string) []string {
	var all []string
	seen := make(map[string]bool, len(names))
	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			all = append(all, n)
		}
	}
	return all
}
