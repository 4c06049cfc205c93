package wire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/surefoot-go/surefoot/internal/layer"
)

// Words are a provider's own words for kinds of failures. They are added to the
// built-in ones and take nothing away; the word "default", which stands for
// those in other lists, says nothing here. The zero Words adds none.
//
// A word of RateLimited, Quota, Overloaded and Client matches an error's code,
// type or status that holds it; case and the separators "_", "-", "." and the
// space do not count. A word of digits must be the whole code. Text that is
// meant for people is never read for them. Of an answer that ran into a limit
// such a word also says which: a rate, a quota, which is the account's, or too
// much at once.
type Words struct {
	RateLimited []string // status 429
	Quota       []string // status 429 that no wait mends: a quota, a billing limit
	Overloaded  []string // status 503
	Client      []string // status 400: the request's own fault
	// ModelGone are phrases for a model that is no longer served: a failover
	// goes on to the next target. Each word of one must occur in the error's
	// code or message; a numeric word is a status.
	ModelGone []string
	// Credentials are names of headers and query keys that hold credentials.
	Credentials []string
}

// Validate reports every word with nothing in it, by the name of its list in a
// configuration file. It quotes no word.
func (w Words) Validate() error {
	var errs []error
	for _, l := range [...]struct {
		name  string
		words []string
		size  func(string) string
	}{
		{"rate_limited", w.RateLimited, normal},
		{"quota", w.Quota, normal},
		{"overloaded", w.Overloaded, normal},
		{"client", w.Client, normal},
		{"model_gone", w.ModelGone, strings.TrimSpace},
		{"credentials", w.Credentials, strings.TrimSpace},
	} {
		for i, word := range l.words {
			switch n := len(l.size(word)); {
			case n == 0:
				errs = append(errs, fmt.Errorf("words.%s[%d]: is empty, want a word", l.name, i))
			case n > maxKey:
				errs = append(errs, fmt.Errorf("words.%s[%d]: has %d bytes, want at most %d", l.name, i, n, maxKey))
			}
		}
	}
	return errors.Join(errs...)
}

// Vocabulary is the compiled form of [Words]: which status an error's code, type
// or status word stands for. A nil Vocabulary holds the built-in words alone. It
// is immutable and safe for concurrent use.
type Vocabulary struct {
	rules []pattern
}

// Compile returns the vocabulary with these words and the built-in ones, nil if
// w adds none. Call Validate before: a word with nothing in it is left out.
func (w Words) Compile() *Vocabulary {
	var v Vocabulary
	v.add(w.Quota, quotaSpent)
	v.add(w.RateLimited, rateLimited)
	v.add(w.Overloaded, overloaded)
	v.add(w.Client, clientFault)
	if len(v.rules) == 0 {
		return nil
	}
	return &v
}

func (v *Vocabulary) add(words []string, m meaning) {
	for _, w := range words {
		if w = normal(w); w != "" && !layer.IsDefault(w) {
			v.rules = append(v.rules, pattern{w, m})
		}
	}
}

// meaning returns what an error's code, type or status word stands for, the
// zero meaning if the word is not known. A user's words come first.
func (v *Vocabulary) meaning(word string) meaning {
	if word == "" || len(word) > maxKey {
		return meaning{}
	}
	word = normal(word)
	if v != nil {
		for _, r := range v.rules {
			if word == r.holds || !isDigits(r.holds) && strings.Contains(word, r.holds) {
				return r.meaning
			}
		}
	}
	return builtIn(word)
}

// normal takes off what does not count in a word: RESOURCE_EXHAUSTED and
// ResourceExhausted are one.
func normal(word string) string {
	var buf [maxKey]byte // no longer word is looked at
	b := buf[:0]
	for i := range len(word) {
		switch c := word[i]; c {
		case '_', '-', '.', ' ':
		default:
			b = append(b, c)
		}
	}
	return strings.ToLower(string(b))
}

func isDigits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}
