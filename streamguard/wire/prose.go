package wire

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// proseWait returns the wait that the message of a limit names in words, as in
// "try again in 7m12s" or "retry after 6 seconds"; 0 if there is none.
func proseWait(message string) time.Duration {
	s := strings.ToLower(message)
	for i := 0; i < len(s); {
		n := strings.IndexAny(s[i:], " \n\t")
		if n < 0 {
			return 0
		}
		i += n + 1
		rest, ok := cutAny(s[i:], "in ", "after ", "for ")
		if ok && saysAgain(s[max(0, i-24):i]) {
			if d := timeSpan(rest); d > 0 {
				return d
			}
		}
	}
	return 0
}

func cutAny(s string, prefixes ...string) (rest string, ok bool) {
	for _, p := range prefixes {
		if rest, ok = strings.CutPrefix(s, p); ok {
			return rest, true
		}
	}
	return s, false
}

// saysAgain reports whether the words before a span of time are those that make
// it a wait.
func saysAgain(before string) bool {
	for _, w := range [...]string{"again", "retry", "wait", "reset", "available"} {
		if strings.Contains(before, w) {
			return true
		}
	}
	return false
}

// timeSpan reads the span of time at the beginning of s: numbers with their units,
// with or without spaces ("7m12s", "5 days 22 hours"). A number without a unit
// is none. It is 0 if there is none or if it is longer than [MaxWait].
func timeSpan(s string) (sum time.Duration) {
	for {
		s = strings.TrimLeft(s, " ,~")
		s = strings.TrimPrefix(s, "and ")
		end := 0
		for end < len(s) && (s[end]-'0' <= 9 || s[end] == '.') {
			end++
		}
		n, err := strconv.ParseFloat(s[:end], 64)
		if err != nil || end > maxDigits {
			return sum
		}
		s = strings.TrimLeft(s[end:], " ")
		for end = 0; end < len(s) && s[end] >= 'a' && s[end] <= 'z'; {
			end++
		}
		unit := timeUnit(s[:end])
		if unit == 0 {
			return sum
		}
		if n > float64(MaxWait/unit) {
			return 0
		}
		if sum += time.Duration(math.Round(n * float64(unit))); sum > MaxWait {
			return 0
		}
		s = s[end:]
	}
}

// maxDigits bounds a number in a text.
const maxDigits = 32

func timeUnit(w string) time.Duration {
	switch w {
	case "ms", "millisecond", "milliseconds":
		return time.Millisecond
	case "s", "sec", "secs", "second", "seconds":
		return time.Second
	case "m", "min", "mins", "minute", "minutes":
		return time.Minute
	case "h", "hr", "hrs", "hour", "hours":
		return time.Hour
	case "d", "day", "days":
		return 24 * time.Hour
	}
	return 0
}

// neverFits reports whether a message has a limit that is smaller than what was
// requested, as in "Limit 6000, Used 0, Requested ~12903".
func neverFits(message string) bool {
	limit := numberAfter(message, "Limit ")
	return limit > 0 && numberAfter(message, "Requested ") > limit
}

// numberAfter returns the number behind the first word of its kind in s, 0 if
// there is none.
func numberAfter(s, word string) int64 {
	_, s, ok := strings.Cut(s, word)
	if !ok {
		return 0
	}
	s = strings.TrimPrefix(s, "~")
	end := 0
	for end < len(s) && s[end]-'0' <= 9 {
		end++
	}
	n, err := strconv.ParseInt(s[:end], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// proseKind returns the kind of limit that a message tells of, "" if none.
func proseKind(message string) LimitKind {
	if neverFits(message) {
		return LimitNeverFits
	}
	s := strings.ToLower(message)
	switch {
	case containsAny(s, "per day", "per-day", "daily limit", "daily quota", "(rpd)", "(tpd)",
		"per month", "per-month", "monthly limit", "monthly quota", "weekly limit"):
		return LimitQuota
	case strings.Contains(s, "concurren"):
		return LimitConcurrency
	case containsAny(s, "per minute", "per-minute", "per min ", "per-min"):
		return LimitRate
	}
	return ""
}

func containsAny(s string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}
