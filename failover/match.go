package failover

import (
	"fmt"
	"strings"

	"github.com/surefoot-go/surefoot/internal/layer"
)

func isClass(word string) bool { return len(word) == 3 && strings.EqualFold(word[1:], "xx") }

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// phrase is one compiled entry of RetryOnErrors.
type phrase struct {
	text     string // as configured
	words    []string
	statuses []layer.StatusSet // all of them must hold the status
	length   bool              // it says that the request is too long for the model
}

// parsePhrase compiles one phrase. A numeric word is a status or a class; at
// least one word must be something else, or the phrase would match any error
// of that status and belong to the list of statuses.
func parsePhrase(text string) (phrase, error) {
	p := phrase{text: text}
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		if !digits(word) && (!isClass(word) || !digits(word[:1])) {
			p.words = append(p.words, word)
			continue
		}
		var set layer.StatusSet
		if err := set.Add(word); err != nil {
			return p, fmt.Errorf("phrase %q: %w", text, err)
		}
		p.statuses = append(p.statuses, set)
	}
	if len(p.words) == 0 {
		return p, fmt.Errorf("phrase %q has no word that is not a number", text)
	}
	return p, nil
}

// matches reports whether every word occurs in text, which is the error's
// code and message in lower case, and the status is the phrase's.
func (p *phrase) matches(status int, text string) bool {
	for i := range p.statuses {
		if !p.statuses[i].Has(status) {
			return false
		}
	}
	for _, w := range p.words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// rules are a policy's compiled lists.
type rules struct {
	statuses layer.StatusSet
	phrases  []phrase
	length   bool // some of them are about a request's length
}

// listed returns a policy's list with the default one in place of the word for
// it, and of an empty list.
func listed(own, def []string) []string {
	if len(own) == 0 {
		return def
	}
	var out []string
	for _, entry := range own {
		if layer.IsDefault(entry) {
			out = append(out, def...)
			continue
		}
		out = append(out, entry)
	}
	return out
}

// compile reads both lists.
func compile(p Policy) (*rules, []error) {
	var (
		r    rules
		errs []error
		def  = DefaultPolicy()
	)
	statuses := p.RetryOnStatuses
	if len(statuses) == 0 {
		statuses = def.RetryOnStatuses
	}
	r.statuses, errs = layer.ParseStatuses("failover.retry_on_statuses", statuses, def.RetryOnStatuses)
	for _, s := range listed(p.RetryOnErrors, def.RetryOnErrors) {
		if isTooLong(s) {
			r.phrases, r.length = append(r.phrases, tooLong...), true
			continue
		}
		ph, err := parsePhrase(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("failover.retry_on_errors: %w", err))
		}
		r.phrases = append(r.phrases, ph)
	}
	r.phrases = append(r.phrases, modelGone...)
	for _, s := range p.Words.ModelGone {
		if layer.IsDefault(s) {
			continue // the built-in ones are there
		}
		ph, err := parsePhrase(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("failover.words.model_gone: %w", err))
		}
		r.phrases = append(r.phrases, ph)
	}
	return &r, errs
}

// modelGone are wordings of known vendors for a model that is no longer served,
// beside those that the default phrases match: NVIDIA's, DeepSeek's. What they
// look for is long enough not to occur in an error about something else.
var modelGone = []phrase{
	{text: "model end of life", words: []string{"model", "end of life"}},
	{text: "model not exist", words: []string{"model not exist"}},
	{text: "model no longer available", words: []string{"model", "no longer available"}},
	{text: "model no longer supported", words: []string{"model", "no longer supported"}},
	{text: "model decommissioned", words: []string{"model", "decommissioned"}},
}

// match returns the first phrase that matches, nil if none does. length asks
// for those alone that are about the request's length.
func (r *rules) match(status int, code, message string, length bool) *phrase {
	text := strings.ToLower(code + "\n" + message)
	for i := range r.phrases {
		if p := &r.phrases[i]; (p.length || !length) && p.matches(status, text) {
			return p
		}
	}
	return nil
}
