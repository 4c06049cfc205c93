package layer

import (
	"fmt"
	"strings"
)

// Default is the word that stands for the built-in list in every list of
// statuses or phrases, so that something can be added to that list without a
// copy of the rest. Case and white space around it do not matter.
const Default = "default"

// IsDefault reports whether an entry of a list is [Default].
func IsDefault(word string) bool { return strings.EqualFold(strings.TrimSpace(word), Default) }

// StatusSet is a set of HTTP statuses from 100 to 599. The zero StatusSet is
// empty. It is a value that is compared and copied freely.
type StatusSet [10]uint64

// Has reports whether the status is in the set; one out of range never is.
func (s *StatusSet) Has(status int) bool {
	return status >= 0 && status < len(s)*64 && s[status/64]&(1<<(status%64)) != 0
}

// Add adds a status ("429") or a class ("5xx"). Case and white space around the
// word do not matter. The error quotes the word and says what was expected.
func (s *StatusSet) Add(word string) error {
	from, to, ok := parseStatus(strings.TrimSpace(word))
	if !ok {
		return fmt.Errorf("%q is neither a status from 100 to 599 nor a class from 1xx to 5xx", word)
	}
	for status := from; status <= to; status++ {
		s[status/64] |= 1 << (status % 64)
	}
	return nil
}

// ParseStatuses compiles a policy's list: statuses, classes, and [Default] for
// the built-in list. What a nil or an empty list means is the caller's to say.
// Each error names the entry as field[i]; the set then holds all the others.
func ParseStatuses(field string, list, builtin []string) (StatusSet, []error) {
	var s StatusSet
	var errs []error
	for i, word := range list {
		if IsDefault(word) {
			for _, w := range builtin {
				_ = s.Add(w) // ours are valid
			}
			continue
		}
		if err := s.Add(word); err != nil {
			errs = append(errs, fmt.Errorf("%s[%d]: %w", field, i, err))
		}
	}
	return s, errs
}

// parseStatus reads "429" as 429 to 429 and "5xx" as 500 to 599.
func parseStatus(word string) (from, to int, ok bool) {
	if len(word) != 3 || word[0] < '1' || word[0] > '5' {
		return 0, 0, false
	}
	from = int(word[0]-'0') * 100
	if strings.EqualFold(word[1:], "xx") {
		return from, from + 99, true
	}
	tens, ones := word[1], word[2]
	if tens < '0' || tens > '9' || ones < '0' || ones > '9' {
		return 0, 0, false
	}
	from += int(tens-'0')*10 + int(ones-'0')
	return from, from, true
}
