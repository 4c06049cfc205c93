package wire

import (
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// RedactURL returns a URL without the parts that may hold credentials: user,
// query and fragment.
func RedactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(a URL that cannot be parsed)"
	}
	if raw == "" {
		return ""
	}
	if u.Host == "" {
		return "(a URL without a host)" // "https:/user:secret@host" is all path
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// RedactNames returns the keys of headers or query values, in order, without
// what they hold; "" for none.
func RedactNames(values map[string][]string) string {
	return strings.Join(slices.Sorted(maps.Keys(values)), " ")
}

// Redact returns the text of a value that holds credentials: its type, and
// what may be shown of it as names and texts in turn. Empty texts are left out.
func Redact(kind string, pairs ...string) string {
	var shown []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			shown = append(shown, pairs[i]+": "+pairs[i+1])
		}
	}
	return kind + "{" + strings.Join(shown, ", ") + "}"
}

// Print is the Format method of a type that is shown as text whatever the
// verb: without one, %+v and %#v write out every header.
func Print(f fmt.State, verb rune, text string) {
	if verb == 'q' {
		text = fmt.Sprintf("%q", text)
	}
	_, _ = io.WriteString(f, text) // fmt's own writer does not fail
}
