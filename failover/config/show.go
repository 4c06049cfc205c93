package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What a message may quote is decided here, and nowhere else. A secret in the
// wrong place looks like any text and has no prefix to go by, so the question
// is not what a secret looks like but what cannot be one: a short number, with
// or without a unit, where a number is wanted, and a short word in lower case
// where one of a few such words is wanted. Whatever else is found is described.
// Names (of keys, providers, virtual models and variables) stand in logs and
// metrics anyway; those that look like a token are left out all the same.

// hiddenValue describes a value that is not quoted.
const hiddenValue = "a value that is not shown"

var (
	shortNumber = regexp.MustCompile(`^[-+]?[0-9]{1,11}(\.[0-9]{1,9})?( ?[a-zA-Z]{1,3})?$`)
	shortWord   = regexp.MustCompile(`^[a-z][a-z_]{0,15}$`)
	plainName   = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,64}$`)
	misspelt    = regexp.MustCompile(`^[a-z]{1,16}(_[a-z]{1,16}){0,4}$`)
	upperName   = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
)

// quotes says which values of a kind a message may quote.
type quotes int

const (
	quoteNothing quotes = iota
	quoteNumbers        // such as 99, -5s and 6xx
	quoteWords          // such as modell
)

// shown is a refused value for a message; hidden says that a variable was put
// in.
func shown(text string, hidden bool, q quotes) string {
	switch {
	case hidden:
		return hiddenValue
	case strings.TrimSpace(text) == "":
		return "an empty value"
	case q == quoteNumbers && shortNumber.MatchString(text),
		q == quoteWords && shortWord.MatchString(text):
		return strconv.Quote(text)
	}
	return hiddenValue
}

// looksLikeToken reports whether a piece of a name, between its separators,
// is what keys are made of: long, or letters and digits mixed.
func looksLikeToken(name string) bool {
	for piece := range strings.FieldsFuncSeq(name, func(r rune) bool { return strings.ContainsRune("._/-", r) }) {
		digits := strings.ContainsAny(piece, "0123456789")
		letters := strings.ContainsFunc(piece, func(r rune) bool { return r < '0' || r > '9' })
		if len(piece) > 24 || len(piece) > 11 && digits && letters {
			return true
		}
	}
	return false
}

// plain reports whether a message may hold the name of a provider, a virtual
// model or a model.
func plain(name string) bool {
	return plainName.MatchString(name) && !looksLikeToken(name)
}

// shownName is a name for a message.
func shownName(name string, hidden bool) string {
	if hidden || !plain(name) {
		return "(a name that is not shown)"
	}
	return name
}

// shownKey is a key as it may stand in a path: one that is known, a name where
// names are the keys (known is nil), else a word that may be a misspelt one.
func shownKey(key string, known []string) string {
	if known == nil && plain(key) || misspelt.MatchString(key) || slices.Contains(known, key) {
		return key
	}
	return "(a key that is not shown)"
}

// shownVariable is the name of a variable for a message: in capitals, as they
// are named. Anything else may be a key that somebody put into the braces.
func shownVariable(name string) string {
	if !upperName.MatchString(name) || !plain(name) {
		return "(a name that is not shown)"
	}
	return name
}

// unset names variables that hold nothing.
func unset(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = shownVariable(name)
	}
	return "no value in the environment variable " + strings.Join(all, ", ")
}
