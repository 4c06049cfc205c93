package layer_test

import (
	"fmt"
	"math"
	"math/big"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/internal/layer"
)

var waitNow = time.Date(2026, 10, 21, 7, 28, 0, 0, time.UTC)

const (
	none = time.Duration(0)
	ever = time.Duration(math.MaxInt64)
)

// decimals are numbers in units of one second; a header in milliseconds takes
// a thousandth.
var decimals = map[string]time.Duration{
	"1":                            time.Second,
	"6":                            6 * time.Second,
	"60":                           time.Minute,
	"007":                          7 * time.Second,
	" 7 ":                          7 * time.Second,
	"\t7":                          7 * time.Second,
	"00000000000000000000000005":   5 * time.Second,
	"86400":                        24 * time.Hour,
	"1.5":                          1500 * time.Millisecond,
	"0.25":                         250 * time.Millisecond,
	".5":                           500 * time.Millisecond,
	"2.50":                         2500 * time.Millisecond,
	"1.0":                          time.Second,
	"41.724":                       41724 * time.Millisecond,
	"36.429760048":                 36429760048,
	"1.1":                          1100 * time.Millisecond,
	"0.1":                          100 * time.Millisecond,
	"45.8379269270":                45837926927,
	"99999999":                     99999999 * time.Second,
	"9223372036854775807":          none,
	"9223372036854775808":          none,
	"18446744073709551616":         none,
	"18446744073709551617":         none,
	strings.Repeat("9", 400):       none,
	strings.Repeat("9", 99000):     none,
	"0":                            none,
	"00":                           none,
	"0.0":                          none,
	"0.000000":                     none,
	".0":                           none,
	"":                             none,
	" ":                            none,
	".":                            none,
	"5.":                           none,
	"1.2.3":                        none,
	"-5":                           none,
	"-0":                           none,
	"-0.5":                         none,
	"--5":                          none,
	"+5":                           none,
	"5s":                           none,
	"5 s":                          none,
	"1m":                           none,
	"1h2m3s":                       none,
	"5,5":                          none,
	"5, 6":                         none,
	"1,000":                        none,
	"1_000":                        none,
	"5;":                           none,
	"5 6":                          none,
	"\"5\"":                        none,
	"'5'":                          none,
	"(5)":                          none,
	"1e3":                          none,
	"1E3":                          none,
	"1e400":                        none,
	"1e-400":                       none,
	"1e":                           none,
	"0x10":                         none,
	"0b11":                         none,
	"0o17":                         none,
	"NaN":                          none,
	"nan":                          none,
	"Inf":                          none,
	"+Inf":                         none,
	"-Inf":                         none,
	"Infinity":                     none,
	"soon":                         none,
	"later":                        none,
	"null":                         none,
	"undefined":                    none,
	"true":                         none,
	"[]":                           none,
	"{}":                           none,
	"%d":                           none,
	"٥":                            none, // digits, but not ASCII
	"\uff15":                       none,
	"²":                            none,
	"½":                            none,
	"5\x00":                        none,
	"\x005":                        none,
	"5\n":                          5 * time.Second, // cannot come from net/http; trimmed as white space
	"1\u00a0":                      none,
	"\u00a01":                      none,
	"1." + strings.Repeat("0", 99): time.Second,
}

func TestParseWaitDecimals(t *testing.T) {
	for value, want := range decimals {
		d, ok := layer.ParseWait(http.Header{"Retry-After": {value}}, waitNow)
		assert.Equal(t, want, d, "Retry-After: %.40q", value)
		assert.Equal(t, want > 0, ok, "Retry-After: %.40q", value)
		for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
			d, ok = layer.ParseWait(http.Header{name: {value}}, waitNow)
			switch {
			case want == ever:
				assert.Greater(t, d, 100*24*time.Hour, "%s: %.40q", name, value)
			case want%1000 == 0:
				assert.Equal(t, want/1000, d, "%s: %.40q", name, value)
			}
			assert.Equal(t, want > 0, ok, "%s: %.40q", name, value)
			// Seconds do as a fallback for what says nothing.
			d, _ = layer.ParseWait(http.Header{name: {value}, "Retry-After": {"77"}}, waitNow)
			if want == 0 {
				assert.Equal(t, 77*time.Second, d, "%s: %.40q", name, value)
			} else {
				assert.NotEqual(t, 77*time.Second, d, "%s: %.40q", name, value)
			}
		}
	}
}

// A number of over three years of seconds is a moment: case G33. What neither an
// HTTP date nor an epoch can say is no wish.
func TestParseWaitEpochs(t *testing.T) {
	in := func(d time.Duration) string { return strconv.FormatInt(waitNow.Add(d).Unix(), 10) }
	millis := func(d time.Duration) string { return strconv.FormatInt(waitNow.Add(d).UnixMilli(), 10) }
	for value, want := range map[string]time.Duration{
		in(20 * time.Second):           20 * time.Second,
		in(20*time.Second) + ".25":     20250 * time.Millisecond,
		millis(700 * time.Millisecond): 700 * time.Millisecond,
		millis(20 * time.Hour):         20 * time.Hour,
		in(0):                          none,
		in(-time.Second):               none,
		millis(-time.Millisecond):      none,
		"100000000":                    none, // 1973
		"1800000000":                   time.Unix(1800000000, 0).Sub(waitNow),
		"1.8e9":                        none,
		"9223372036":                   time.Unix(9223372036, 0).Sub(waitNow),
		"9999999999":                   time.Unix(0, math.MaxInt64).Sub(waitNow),
		"99999999999":                  time.Unix(0, math.MaxInt64).Sub(waitNow),
		"252979200000":                 none, // 1978 in milliseconds
		"9999999999999":                time.Unix(0, math.MaxInt64).Sub(waitNow),
		"252979200000000":              time.Unix(0, math.MaxInt64).Sub(waitNow),
		"252979200000001":              none,
		"9223372036854775807":          none,
		in(time.Minute) + "000000":     none, // microseconds
	} {
		d, ok := layer.ParseWait(http.Header{"Retry-After": {value}}, waitNow)
		assert.Equal(t, want, d, value)
		assert.Equal(t, want > 0, ok, value)
	}
	for value, want := range map[string]time.Duration{"252979200000000": ever, "252979200000001": none, "1792567680000000": none} {
		d, _ := layer.ParseWait(http.Header{"Retry-After-Ms": {value}}, waitNow)
		assert.Equal(t, want, d, value)
	}
}

func TestParseReset(t *testing.T) {
	for value, want := range map[string]time.Duration{
		// OpenAI and Groq.
		"1s": time.Second, "6m0s": 6 * time.Minute, "12ms": 12 * time.Millisecond, "2m59.56s": 179560 * time.Millisecond,
		"1h2m3s": time.Hour + 2*time.Minute + 3*time.Second, "7.66s": 7660 * time.Millisecond, " 5s ": 5 * time.Second,
		// Google's durations.
		"36s": 36 * time.Second, "45.837906927s": 45837906927,
		// Cerebras.
		"33011.382867097855": 33011382867098, "11.382867097854614": 11382867098,
		// Anthropic, OpenRouter.
		"2026-10-21T07:29:00Z":          time.Minute,
		"1792567700":                    20 * time.Second,
		"1792567680700":                 700 * time.Millisecond,
		"Wed, 21 Oct 2026 07:28:09 GMT": 9 * time.Second,
		// Azure.
		"0": none, "-1": none, "30": 30 * time.Second,
		"": none, "0s": none, "-5s": none, "soon": none, "s": none, "5 s": none, "1d": none, "NaN": none, "1e3": none,
		"2026-10-21T07:28:00Z": none, "2015-10-21T07:28:00Z": none, "1792567680": none,
		"9999999h": none, "292471208677h": none, // more than a time.Duration holds
		strings.Repeat("1h", 40): none,
		"2562047h":               2562047 * time.Hour,
	} {
		d, ok := layer.ParseReset(value, waitNow)
		assert.Equal(t, want, d, value)
		assert.Equal(t, want > 0, ok, value)
	}
}

func TestParseWaitRoundsUp(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"0.000000001":            1,
		"0.0000000001":           1,
		"1.0000000001":           1000000001,
		"1.0000000000":           1000000000,
		"0.00000000000000000009": 1,
	} {
		d, ok := layer.ParseWait(http.Header{"Retry-After": {value}}, waitNow)
		assert.True(t, ok, value)
		assert.Equal(t, want, d, value)
	}
	d, _ := layer.ParseWait(http.Header{"Retry-After-Ms": {"43.0000001"}}, waitNow)
	assert.Equal(t, 43*time.Millisecond+1, d)
}

func TestParseWaitDates(t *testing.T) {
	offsets := map[time.Duration]time.Duration{
		time.Second: time.Second, time.Minute: time.Minute, 90 * time.Minute: 90 * time.Minute, 24 * time.Hour: 24 * time.Hour,
		400 * 24 * time.Hour: 400 * 24 * time.Hour, 0: none, -time.Second: none, -time.Hour: none, -4000 * 24 * time.Hour: none,
	}
	cet := time.FixedZone("", 3600)
	layouts := map[string]*time.Location{
		http.TimeFormat:                   time.UTC,
		"Monday, 02-Jan-06 15:04:05 GMT":  time.UTC, // RFC 850
		time.ANSIC:                        time.UTC,
		"Mon, 02 Jan 2006 15:04:05 +0000": time.UTC,
		"Mon, 2 Jan 2006 15:04:05 GMT":    time.UTC,
		"Mon, 02 Jan 2006 15:04:05 UTC":   time.UTC,
		"Mon, 02-Jan-2006 15:04:05 GMT":   time.UTC,
		"Mon, 02-Jan-06 15:04:05 GMT":     time.UTC,
		time.RFC1123Z:                     cet,
		time.RFC3339:                      time.UTC,
		time.RFC3339Nano:                  cet,
		"2006-01-02t15:04:05z":            time.UTC,
		"2006-01-02T15:04:05+00:00":       time.UTC,
	}
	for layout, zone := range layouts {
		for offset, want := range offsets {
			value := waitNow.Add(offset).In(zone).Format(layout)
			d, ok := layer.ParseWait(http.Header{"Retry-After": {value}}, waitNow)
			assert.Equal(t, want, d, value)
			assert.Equal(t, want > 0, ok, value)
		}
	}
	for value, want := range map[string]time.Duration{
		"Wed, 21 Oct 2015 07:28:00 GMT":         none,
		"Wed, 21 Oct 2026 07:28:01 GMT":         time.Second,
		"wed, 21 oct 2026 07:28:01 GMT":         time.Second,
		"Wed, 21 Oct 2026 07:28:01 -0000":       time.Second,
		"Wed, 21 Oct 2026 07:28:01":             none, // no zone
		"Wed, 21 Oct 2026 07:28:01 PST":         none, // package time does not know what that is
		"Wed, 21 Oct 2026 09:28:01 CEST":        none,
		"Wed, 32 Oct 2026 07:28:01 GMT":         none,
		"Wed, 21 Foo 2026 07:28:01 GMT":         none,
		"Wed, 21 Oct 2026 25:28:01 GMT":         none,
		"Wed, 21 Oct 2026 07:28:60 GMT":         none,
		"Thu, 21 Oct 2026 07:28:01 GMT":         time.Second, // whoever computes the weekday wrong may still know the date
		"Wed, 21 Oct 2026 07:28:01.5 GMT":       1500 * time.Millisecond,
		"Wed, 21 Oct 2026 07:28:01 GMT garbage": none,
		"Fri, 31 Dec 9999 23:59:59 GMT":         ever,
		"Mon, 01 Jan 0001 00:00:00 GMT":         none,
		"9999-12-31T23:59:59Z":                  ever,
		"0000-01-01T00:00:00Z":                  none,
		"2026-10-21":                            none,
		"2026-10-21T07:28:01":                   none,
		"2026-10-21T07:28:01.250Z":              1250 * time.Millisecond,
		"2026-10-21T08:28:01+01:00":             time.Second,
		// RFC 9110 §5.6.7: up to 50 years ahead is the future, beyond the past.
		"Thursday, 01-Jan-70 00:00:00 GMT":  time.Date(2070, 1, 1, 0, 0, 0, 0, time.UTC).Sub(waitNow),
		"Wednesday, 21-Oct-76 07:28:00 GMT": time.Date(2076, 10, 21, 7, 28, 0, 0, time.UTC).Sub(waitNow),
		"Wednesday, 21-Oct-76 07:28:01 GMT": none,
		"Friday, 31-Dec-77 00:00:00 GMT":    none,
		"Friday, 31-Dec-99 23:59:59 GMT":    none,
		"Saturday, 01-Jan-00 00:00:00 GMT":  none,
	} {
		d, ok := layer.ParseWait(http.Header{"Retry-After": {value}}, waitNow)
		assert.Equal(t, want, d, value)
		assert.Equal(t, want > 0, ok, value)
	}
}

func TestParseWaitNearTheTurnOfACentury(t *testing.T) {
	now := time.Date(2098, 12, 31, 23, 59, 0, 0, time.UTC)
	for value, year := range map[string]int{"99": 2099, "00": 2100, "47": 2147, "98": 2098} {
		want := max(0, time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Sub(now))
		d, _ := layer.ParseWait(http.Header{"Retry-After": {"Friday, 01-Jan-" + value + " 00:00:00 GMT"}}, now)
		assert.Equal(t, want, d, value)
	}
}

func TestParseWaitHeaders(t *testing.T) {
	for name, row := range map[string]struct {
		header http.Header
		want   time.Duration
	}{
		"nothing":              {http.Header{}, none},
		"nil":                  {nil, none},
		"milliseconds first":   {http.Header{"Retry-After-Ms": {"43"}, "Retry-After": {"1"}}, 43 * time.Millisecond},
		"Azure's milliseconds": {http.Header{"X-Ms-Retry-After-Ms": {"43"}, "Retry-After": {"1"}}, 43 * time.Millisecond},
		"OpenAI's before":      {http.Header{"X-Ms-Retry-After-Ms": {"50"}, "Retry-After-Ms": {"43"}}, 43 * time.Millisecond},
		"zero milliseconds":    {http.Header{"Retry-After-Ms": {"0"}, "Retry-After": {"1"}}, time.Second},
		"negative":             {http.Header{"Retry-After-Ms": {"-1"}, "Retry-After": {"1"}}, time.Second},
		"no date in ms":        {http.Header{"Retry-After-Ms": {"Wed, 21 Oct 2026 07:28:01 GMT"}}, none},
		"the longest":          {http.Header{"Retry-After": {"1", "3", "2"}}, 3 * time.Second},
		"garbage first":        {http.Header{"Retry-After": {"soon", "3"}}, 3 * time.Second},
		"no values":            {http.Header{"Retry-After": {}}, none},
	} {
		d, ok := layer.ParseWait(row.header, waitNow)
		assert.Equal(t, row.want, d, name)
		assert.Equal(t, row.want > 0, ok, name)
	}
}

func FuzzParseWait(f *testing.F) {
	for value := range decimals {
		if len(value) < 100 {
			f.Add(value, "", int64(0))
			f.Add("", value, int64(1e9))
		}
	}
	for _, layout := range []string{http.TimeFormat, time.RFC850, time.ANSIC, time.RFC3339, time.RFC1123Z} {
		f.Add(waitNow.Add(time.Minute).Format(layout), "", waitNow.Unix())
	}
	number := regexp.MustCompile(`^[ \t\r\n]*([0-9]+(\.[0-9]+)?|\.[0-9]+)[ \t\r\n]*$`)
	f.Fuzz(func(t *testing.T, seconds, millis string, now int64) {
		at := time.Unix(now%(1<<36), 0)
		for name, value := range map[string]string{"Retry-After": seconds, "Retry-After-Ms": millis} {
			d, ok := layer.ParseWait(http.Header{name: {value}}, at)
			require.Equal(t, ok, d > 0)
			require.GreaterOrEqual(t, d, none)
			if !number.MatchString(value) {
				if name == "Retry-After-Ms" {
					require.False(t, ok, "%q", value)
				}
				continue
			}
			want, _ := new(big.Rat).SetString(strings.TrimLeft(strings.TrimSpace(value), "0") + "")
			if want == nil {
				want, _ = new(big.Rat).SetString("0" + strings.TrimSpace(value))
			}
			require.NotNil(t, want, "%q", value)
			unit := int64(time.Second)
			if name == "Retry-After-Ms" {
				unit = int64(time.Millisecond)
			}
			want.Mul(want, new(big.Rat).SetInt64(unit))
			if name == "Retry-After" && want.Cmp(new(big.Rat).SetFloat64(1e17)) >= 0 {
				continue // a moment
			}
			if !ok {
				require.True(t, want.Sign() == 0 || want.Cmp(new(big.Rat).SetFloat64(2e20)) > 0, "%q is a wait", value)
				continue
			}
			if d == ever {
				continue
			}
			// Rounded up, by less than a nanosecond.
			diff := new(big.Rat).Sub(new(big.Rat).SetInt64(int64(d)), want)
			require.True(t, diff.Sign() >= 0 && diff.Cmp(big.NewRat(1, 1)) < 0, fmt.Sprint(value, d))
		}
	})
}
