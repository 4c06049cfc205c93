package config

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience"
)

// A kind is what a value may look like. parse sees one scalar, of a list one
// element, and returns an int, int64, float64, bool, string or time.Duration;
// hint may say what is wrong with a text that is refused.
type kind struct {
	want      string
	each      string // what one element of a list may be
	list      bool
	keepEmpty bool   // [] means none; otherwise it means "not given"
	most      int    // entries of a list; 0 is any number
	adds      bool   // the list adds to the built-in one, so that "default" in it says nothing
	free      bool   // any text will do: what came from a variable is not shown
	quotes    quotes // which refused values a message may quote
	parse     func(text string) (v any, hint string, ok bool)
}

var (
	durations   = kind{want: "a duration such as 15s or 500ms, or 0", quotes: quoteNumbers, parse: parseDuration}
	patience    = kind{want: "a duration such as 3.5s or 500ms, 0, or off", quotes: quoteNumbers, parse: parsePatience}
	affinities  = kind{want: "prompt_cache_key, user_id, prompt, header:NAME or off", quotes: quoteWords, parse: parseAffinity}
	intervals   = kind{want: "a number of seconds, 0 or more", quotes: quoteNumbers, parse: parseInterval}
	counts      = kind{want: "a whole number, 0 or more", quotes: quoteNumbers, parse: parseCount}
	sizes       = kind{want: "a number of bytes such as 8388608 or 8MiB", quotes: quoteNumbers, parse: parseSize}
	switches    = kind{want: "true or false", quotes: quoteWords, parse: parseSwitch}
	weights     = kind{want: "a whole number, 0 to 2147483647", quotes: quoteNumbers, parse: parseWeight}
	costs       = kind{want: "a number, 0 or more", quotes: quoteNumbers, parse: factor(0, math.MaxFloat64)}
	texts       = kind{want: "a text", parse: func(s string) (any, string, bool) { return s, "", s != "" }}
	headerNames = kind{want: "the name of a header such as x-session-id", quotes: quoteWords, parse: parseHeaderName}
	names       = kind{want: "a list of names such as [a, b]", each: "a name", list: true, parse: texts.parse}
	phrases     = kind{want: `a list of phrases such as ["model not found", "404 retired"]`, each: "a phrase with a word that is not a number", list: true, most: maxEntries, free: true, quotes: quoteNumbers, parse: parsePhrase}

	noStatus   = kind{want: statusWant, each: oneStatus, list: true, most: maxEntries, keepEmpty: true, quotes: quoteNumbers, parse: parseStatus}
	someStatus = kind{want: statusWant, each: oneStatus, list: true, most: maxEntries, quotes: quoteNumbers, parse: parseStatus}
)

const (
	statusWant = "a list of status codes and classes such as [429, 5xx]"
	oneStatus  = "a status code 100 to 599 or a class 1xx to 5xx"

	// builtIn is the word that stands for the built-in list of statuses or
	// phrases, with a profile for the profile's. The layers put the list in its
	// place.
	builtIn = "default"

	// offWord is a patience without an end.
	offWord = "off"

	// maxEntries bounds the lists that every call, or every virtual model, goes
	// through.
	maxEntries = 1000
)

// words is a kind of which only these are written.
func words(known ...string) kind {
	return kind{want: list(known), quotes: quoteWords, parse: func(s string) (any, string, bool) {
		for _, k := range known {
			if s == k {
				return s, "", true
			}
		}
		return nil, meant(s, known), false
	}}
}

func parseDuration(s string) (any, string, bool) {
	d, err := time.ParseDuration(s)
	switch {
	case err == nil && d < 0:
		return nil, "a duration is not negative", false
	case err == nil:
		return d, "", true
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return nil, "a number needs a unit: ns, us, ms, s, m or h", false
	}
	return nil, "", false
}

// parsePatience takes off beside what a duration is.
func parsePatience(s string) (any, string, bool) {
	if s == offWord {
		return failover.PatienceOff, "", true
	}
	return parseDuration(s)
}

func parseAffinity(s string) (any, string, bool) {
	if _, err := failover.ParseAffinityKey(s); err != nil {
		return nil, meant(s, []string{"prompt_cache_key", "user_id", "prompt", offWord}), false
	}
	return s, "", true
}

func parseHeaderName(s string) (any, string, bool) {
	_, err := failover.ParseAffinityKey("header:" + s)
	return s, "", err == nil
}

// parseInterval takes seconds, or a duration of one at least: what is shorter
// would ask the upstreams all the time.
func parseInterval(s string) (any, string, bool) {
	n, err := strconv.Atoi(s)
	switch {
	case err != nil:
		d, hint, ok := parseDuration(s)
		if ok && d.(time.Duration) > 0 && d.(time.Duration) < time.Second {
			return nil, "an interval is a second at least", false
		}
		return d, hint, ok
	case n < 0:
		return nil, "an interval is not negative", false
	case int64(n) > int64(math.MaxInt64/time.Second):
		return nil, "that is longer than 292 years", false
	}
	return time.Duration(n) * time.Second, "", true
}

func parseCount(s string) (any, string, bool) {
	n, err := strconv.Atoi(s)
	if err == nil && n < 0 {
		return nil, "a count is not negative", false
	}
	return n, "", err == nil
}

func parseWeight(s string) (any, string, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), "", err == nil
}

func parseSize(s string) (any, string, bool) {
	number, shift := s, 0
	for unit, bits := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30} {
		if n, found := strings.CutSuffix(s, unit); found {
			number, shift = strings.TrimSpace(n), bits
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	switch {
	case err != nil:
		return nil, "", false
	case n < 0:
		return nil, "a size is not negative", false
	case n > math.MaxInt64>>shift:
		return nil, "that is too large", false
	}
	return n << shift, "", true
}

func parseSwitch(s string) (any, string, bool) {
	switch strings.ToLower(s) {
	case "true":
		return true, "", true
	case "false":
		return false, "", true
	}
	return nil, "", false
}

// factor parses a number from low to high.
func factor(low, high float64) func(string) (any, string, bool) {
	return func(s string) (any, string, bool) {
		f, err := strconv.ParseFloat(s, 64)
		// A NaN fails both comparisons.
		return f, "", err == nil && f >= low && f <= high
	}
}

// parseStatus takes what the layers take: they share one set of statuses.
func parseStatus(s string) (any, string, bool) {
	return strings.ToLower(strings.TrimSpace(s)), "", layer.IsDefault(s) || isStatus(s)
}

func isStatus(s string) bool { return new(layer.StatusSet).Add(s) == nil }

var numeric = regexp.MustCompile(`^([0-9]+|[0-9][xX][xX])$`)

// parsePhrase wants a word that is not a number: a number only constrains the
// status, and a phrase of nothing else would match every error of it. The
// phrase "default" stands for the built-in ones.
func parsePhrase(s string) (any, string, bool) {
	text := false
	for w := range strings.FieldsSeq(s) {
		if !numeric.MatchString(w) {
			text = true
		} else if !isStatus(w) {
			return nil, "a number in it is a status 100 to 599 or a class 1xx to 5xx", false
		}
	}
	if !text {
		return nil, "a status alone belongs in retry_on_statuses", false
	}
	return s, "", true
}

// addedWords is a kind for a list of words that are added to the built-in ones.
// The policy that the list belongs to knows what a word may be.
func addedWords(list func(*resilience.Policy) *[]string) kind {
	return kind{
		want: "a list of words such as [slow_down]", each: "a word of 1 to 64 bytes with a letter or a digit",
		list: true, keepEmpty: true, most: maxEntries, adds: true, free: true,
		parse: func(s string) (any, string, bool) {
			var p resilience.Policy
			*list(&p) = []string{s}
			return s, "", p.Words.Validate() == nil
		},
	}
}

// gonePhrases are phrases like those of failover.retry_on_errors.
var gonePhrases = func() kind {
	k := addedWords(func(p *resilience.Policy) *[]string { return &p.Words.ModelGone })
	k.want, k.each, k.quotes = phrases.want, phrases.each, phrases.quotes
	word := k.parse
	k.parse = func(s string) (any, string, bool) {
		if _, _, ok := word(s); !ok {
			return nil, "it has 1 to 64 bytes", false
		}
		return parsePhrase(s)
	}
	return k
}()
