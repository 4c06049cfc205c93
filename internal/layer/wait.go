package layer

import (
	"math"
	"net/http"
	"net/textproto"
	"strings"
	"time"
)

// maxWish is the longest wait that is taken for a wish at all: what no HTTP
// date could say is absurd. It is far beyond what a time.Duration holds, so
// wishes saturate at about 292 years.
const maxWish = 8000 * 366 * 24 * 60 * 60 // seconds

// A number of seconds beyond leastEpoch, over three years, is a moment since
// 1970 and not a wait; beyond leastFineEpoch it is one in milliseconds. Servers
// send both where a wait belongs.
const (
	leastEpoch     = 1e8 * time.Second
	leastFineEpoch = 1e11 * time.Millisecond
)

// ParseWait returns the wait that an upstream asks for in the headers of its
// answer: retry-after-ms, else x-ms-retry-after-ms, both in milliseconds, else
// Retry-After, in seconds or as a date (RFC 9110 §10.2.3), relative to now.
// Decimals are understood in all of them, and seconds since 1970 in Retry-After;
// of a repeated header the longest wait counts. A value that is zero, negative, past, absurdly large or no wait at
// all is no wish: the result is then 0 and false. A true result is positive.
func ParseWait(h http.Header, now time.Time) (time.Duration, bool) {
	// OpenAI and Azure send the exact value beside a Retry-After that is
	// rounded up to whole seconds.
	if d := longest(h["Retry-After-Ms"], parseMillis); d > 0 {
		return d, true
	}
	if d := longest(h["X-Ms-Retry-After-Ms"], parseMillis); d > 0 {
		return d, true
	}
	d := longest(h["Retry-After"], func(v string) time.Duration { return parseSeconds(v, now) })
	return d, d > 0
}

// ParseReset returns the wait, relative to now, until the moment that v names
// as a field of a rate limit does: seconds, milliseconds or seconds since 1970,
// a date in any form that [ParseWait] knows, or a duration as package time
// writes it ("6m0s", "12ms"). What is zero, negative, past, absurdly large or
// none of these is no wait: the result is then 0 and false. A true result is
// positive.
func ParseReset(v string, now time.Time) (time.Duration, bool) {
	v = textproto.TrimString(v)
	if len(v) > maxReset {
		return 0, false
	}
	d, err := time.ParseDuration(v)
	if err != nil || d == 0 { // "0" is a duration, too
		d = parseSeconds(v, now)
	}
	return max(d, 0), d > 0
}

// maxReset bounds the text that is taken for a moment.
const maxReset = 64

// parseSeconds returns the wait that v names in seconds or as a moment: 0 or
// less if it names none.
func parseSeconds(v string, now time.Time) time.Duration {
	d, ok := parseDecimal(v, time.Second)
	if !ok {
		at, ok := parseDate(v, now)
		if !ok {
			return 0
		}
		return at.Sub(now) // saturates
	}
	if d > 0 && d < leastEpoch {
		return d
	}
	if ms, _ := parseDecimal(v, time.Millisecond); ms >= leastFineEpoch {
		d = ms
	}
	if d == 0 {
		return 0
	}
	return time.Unix(0, int64(d)).Sub(now)
}

func longest(values []string, parse func(string) time.Duration) time.Duration {
	var d time.Duration
	for _, v := range values {
		d = max(d, parse(textproto.TrimString(v)))
	}
	return d
}

func parseMillis(v string) time.Duration {
	d, _ := parseDecimal(v, time.Millisecond)
	return d
}

// parseDecimal reads digits with an optional fraction, in units of unit, rounded
// up to nanoseconds, without the detour over floating point and its NaN and
// exponents. ok says that v is such a number; 0 that it is no wish.
func parseDecimal(v string, unit time.Duration) (d time.Duration, ok bool) {
	whole, frac, point := strings.Cut(v, ".")
	if whole == "" && frac == "" || point && frac == "" || !allDigits(whole) || !allDigits(frac) {
		return 0, false
	}
	n, limit := int64(0), int64(maxWish)*int64(time.Second/unit)
	for _, c := range []byte(whole) {
		if n = n*10 + int64(c-'0'); n > limit {
			return 0, true
		}
	}
	// The fraction, in nanoseconds.
	var ns int64
	for scale, rest := int64(unit)/10, frac; rest != ""; scale, rest = scale/10, rest[1:] {
		if scale == 0 {
			if strings.Trim(rest, "0") != "" {
				ns++
			}
			break
		}
		ns += int64(rest[0]-'0') * scale
	}
	if n > (math.MaxInt64-ns)/int64(unit) {
		return math.MaxInt64, true
	}
	return time.Duration(n*int64(unit) + ns), true
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// dateLayouts are the forms of a date that servers send: the three of RFC 9110
// §5.6.7, with or without a leading zero of the day, which [http.ParseTime]
// knows too, and those that it refuses, with a numeric zone or of RFC 3339.
// Numeric zones come first, since MST would take one for a name.
var dateLayouts = [...]struct {
	layout string
	short  bool // the year has two digits
}{
	{"Mon, _2 Jan 2006 15:04:05 -0700", false},
	{"Mon, _2 Jan 2006 15:04:05 -07:00", false},
	{"Mon, _2 Jan 2006 15:04:05 MST", false},
	{"Monday, _2-Jan-06 15:04:05 MST", true},
	{time.ANSIC, false},
	{"Mon, _2-Jan-2006 15:04:05 MST", false},
	{"Mon, _2-Jan-06 15:04:05 MST", true},
	{time.RFC3339, false},
}

func parseDate(v string, now time.Time) (time.Time, bool) {
	if len(v) < len("2006-01-02T15:04:05Z") || len(v) > 64 {
		return time.Time{}, false
	}
	for _, f := range dateLayouts {
		if f.layout == time.RFC3339 {
			v = strings.ToUpper(v) // RFC 3339 §5.6 allows a small t and z
		}
		at, err := time.ParseInLocation(f.layout, v, time.UTC)
		if err != nil {
			continue
		}
		// Package time makes up an offset of 0 for names that it does not know.
		if name, offset := at.Zone(); offset == 0 && name != "" && name != "UTC" && name != "GMT" && name != "UT" && name != "Z" {
			return time.Time{}, false
		}
		if f.short {
			at = nearCentury(at, now)
		}
		return at, true
	}
	return time.Time{}, false
}

// nearCentury reads a year of two digits as RFC 9110 §5.6.7 asks for: more than
// 50 years in the future is the most recent past year with these digits.
func nearCentury(at, now time.Time) time.Time {
	year := now.Year() - now.Year()%100 + at.Year()%100
	if year < now.Year()-49 {
		year += 100
	}
	at = time.Date(year, at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
	if at.After(now.AddDate(50, 0, 0)) {
		at = at.AddDate(-100, 0, 0)
	}
	return at
}
