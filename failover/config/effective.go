package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// Origin is the layer that a value came from.
type Origin string

// The layers, weakest first.
const (
	FromDefault     Origin = "default"
	FromProfile     Origin = "profile" // the profile that holds, where it differs from the default
	FromFile        Origin = "file"    // a global block of the file
	FromEnvironment Origin = "environment"
	FromProvider    Origin = "provider" // the provider's own block
)

// Setting is one key with the value that holds.
type Setting struct {
	Key    string // "circuit_breaker.timeout"
	Value  string // as it would be written in the file
	Origin Origin
	Source string // "line 12", the name of the variable or of the profile; "" for a default
	Unused bool   // kept, but without effect: the breaker, or the failover, is off
}

// Settings are all keys, in the order of the documentation.
type Settings []Setting

// Effective returns the settings that hold for a provider and where each came
// from. A provider that is not configured, such as "", has the global ones.
// There is nothing secret in it.
func (c *Config) Effective(provider string) Settings {
	own := c.own(provider)
	s := c.settings(own)
	base, plain := c.base(own), defaults(resilience.ProfileDefault, resilience.ProfileDefault)
	all := make(Settings, 0, len(allFields))
	for _, f := range allFields {
		row := Setting{Key: f.key, Origin: FromDefault, Unused: s.unused(f.key)}
		if !reflect.DeepEqual(read(f.at(&base)), read(f.at(&plain))) {
			row.Origin, row.Source = FromProfile, c.profileFor(f, own)
		}
		c.given(&row, f, own)
		if row.Value == "" {
			row.Value = f.show(&s)
		}
		all = append(all, row)
	}
	return all
}

// given completes the row of a field that somebody wrote.
func (c *Config) given(row *Setting, f field, own scope) {
	g, ok := strongest(f.key, c.file, c.env, own)
	if !ok {
		return
	}
	for origin, layer := range map[Origin]scope{FromFile: c.file, FromEnvironment: c.env, FromProvider: own} {
		if _, ok := layer[f.key]; ok && origin.rank() > row.Origin.rank() {
			row.Origin = origin
		}
	}
	row.Source = "line " + strconv.Itoa(g.at.line)
	if g.at.variable != "" {
		row.Source = g.at.variable
	}
	if g.hidden && f.kind.free {
		row.Value = "(from a variable, not shown)"
	}
}

// unused reports whether a field has no effect, since its block is off.
func (s *settings) unused(name string) bool {
	switch block, key, _ := strings.Cut(name, "."); {
	case key == "enabled":
	case name == "circuit_breaker.failure_threshold":
		return s.policy.CircuitBreaker.Disabled
	case block == "circuit_breaker":
		return !s.breakerOn()
	case block == "failover":
		return s.failover.Disabled
	}
	return false
}

func (o Origin) rank() int {
	switch o {
	case FromProfile:
		return 1
	case FromFile:
		return 2
	case FromEnvironment:
		return 3
	case FromProvider:
		return 4
	}
	return 0
}

// breakerOn reports whether the thresholds have any effect.
func (s *settings) breakerOn() bool {
	return !s.policy.CircuitBreaker.Disabled && s.policy.CircuitBreaker.FailureThreshold > 0
}

// String is the settings as a table.
func (s Settings) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "KEY\tVALUE\tORIGIN\tSOURCE")
	for _, r := range s {
		value := short(r.Value)
		if r.Unused {
			value += " (unused)"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Key, value, r.Origin, r.Source)
	}
	_ = w.Flush() // into memory
	lines := strings.Split(b.String(), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}

// short cuts a long list for the table, at a comma.
func short(value string) string {
	const most = 60
	if len(value) <= most {
		return value
	}
	cut := strings.ToValidUTF8(value[:most], "")
	if i := strings.LastIndex(cut, ", "); i > 0 {
		cut = cut[:i+1]
	}
	return cut + " …"
}

// show is the field's value as the file would have it.
func (f field) show(s *settings) string {
	v := read(f.at(s))
	if l, ok := v.([]string); ok && l == nil && f.usual != nil {
		v = f.usual
	}
	if d, ok := v.(time.Duration); ok && f.kind.want == intervals.want {
		if d%time.Second == 0 {
			return strconv.FormatInt(int64(d/time.Second), 10)
		}
	}
	return render(v)
}

// render writes a value as YAML would have it.
func render(v any) string {
	switch v := v.(type) {
	case time.Duration:
		if v == failover.PatienceOff {
			return offWord
		}
		return shortDuration(v)
	case []string:
		parts := make([]string, len(v))
		for i, s := range v {
			parts[i] = s
			if strings.ContainsAny(s, " ,") {
				parts[i] = strconv.Quote(s)
			}
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case int64:
		return shortSize(v)
	}
	return fmt.Sprint(v)
}

// shortSize is 8388608 as 8MiB.
func shortSize(n int64) string {
	for _, unit := range []string{"", "KiB", "MiB"} {
		if n == 0 || n%1024 != 0 {
			return strconv.FormatInt(n, 10) + unit
		}
		n /= 1024
	}
	return strconv.FormatInt(n, 10) + "GiB"
}

// shortDuration is 5m0s as 5m, and 0s as 0.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	if d == 0 {
		return "0"
	}
	return s
}
