package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"sort"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/surefoot-go/surefoot/resilience"
)

var update = flag.Bool("update", false, "write testdata/metrics.txt anew")

// exported is what the scenes export.
func exported(t *testing.T) metricdata.ResourceMetrics {
	t.Helper()
	var rm metricdata.ResourceMetrics
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		alive := play(t, mp, resilience.Builder{})
		require.NoError(t, reader.Collect(t.Context(), &rm))
		runtime.KeepAlive(alive)
	})
	return rm
}

// point is one series: its attributes and its count, sum or state.
type point struct {
	attrs attribute.Set
	value string
}

// points are the series of an instrument. Durations are masked: only how
// often one was recorded is told.
func points(m metricdata.Metrics) (kind string, out []point) {
	switch d := m.Data.(type) {
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			kind = fmt.Sprintf("histogram %v %v", d.Temporality, p.Bounds)
			out = append(out, point{p.Attributes, fmt.Sprintf("count %d", p.Count)})
		}
	case metricdata.Histogram[int64]:
		for _, p := range d.DataPoints {
			kind = fmt.Sprintf("histogram %v %v", d.Temporality, p.Bounds)
			out = append(out, point{p.Attributes, fmt.Sprintf("count %d, sum %d", p.Count, p.Sum)})
		}
	case metricdata.Sum[int64]:
		kind = fmt.Sprintf("counter %v monotonic=%v", d.Temporality, d.IsMonotonic)
		for _, p := range d.DataPoints {
			out = append(out, point{p.Attributes, fmt.Sprint(p.Value)})
		}
	case metricdata.Gauge[int64]:
		kind = "gauge"
		for _, p := range d.DataPoints {
			out = append(out, point{p.Attributes, fmt.Sprint(p.Value)})
		}
	default:
		kind = fmt.Sprintf("%T", d)
	}
	return kind, out
}

// render spells everything that was exported, in order.
func render(rm metricdata.ResourceMetrics) string {
	var b strings.Builder
	scopes := slices.Clone(rm.ScopeMetrics)
	sort.Slice(scopes, func(i, j int) bool { return scopes[i].Scope.Name < scopes[j].Scope.Name })
	for _, s := range scopes {
		fmt.Fprintf(&b, "scope %s\n", s.Scope.Name)
		all := slices.Clone(s.Metrics)
		sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
		for _, m := range all {
			kind, ps := points(m)
			fmt.Fprintf(&b, "\n%s [%s] %s\n\t%s\n", m.Name, m.Unit, kind, m.Description)
			lines := make([]string, len(ps))
			for i, p := range ps {
				lines[i] = "\t" + spell(p.attrs) + ": " + p.value + "\n"
			}
			sort.Strings(lines)
			b.WriteString(strings.Join(lines, ""))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// spell puts the provider first: it is the scene's name.
func spell(set attribute.Set) string {
	var provider string
	var rest []string
	for _, kv := range set.ToSlice() {
		if kv.Key == "surefoot.provider.name" {
			provider = kv.Value.AsString()
			continue
		}
		rest = append(rest, string(kv.Key)+"="+kv.Value.String())
	}
	return fmt.Sprintf("%-26s %s", "("+provider+")", strings.Join(rest, " "))
}

// Everything that is exported for every outcome: names, units, descriptions,
// boundaries, attributes and counts. Run with -update after a wanted change
// and read the difference.
func TestExportedMetrics(t *testing.T) {
	const file = "testdata/metrics.txt"
	got := render(exported(t))
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

// Whatever happens, a call that ended is one record of the duration.
func TestOneRecordACall(t *testing.T) {
	calls := map[string]int{}
	for _, s := range scenes() {
		calls[s.name] = max(1, s.calls)
	}
	calls["unknown format"] = 0 // is no operation
	seen := map[string]int{}
	for _, m := range instruments(exported(t)) {
		switch m.Name {
		case "gen_ai.client.inference.duration", "gen_ai.client.embeddings.duration":
		default:
			continue
		}
		for _, p := range m.Data.(metricdata.Histogram[float64]).DataPoints {
			name, _ := p.Attributes.Value("surefoot.provider.name")
			seen[name.AsString()] += int(p.Count)
		}
	}
	for name, n := range calls {
		assert.Equal(t, n, seen[name], name)
	}
}

func instruments(rm metricdata.ResourceMetrics) []metricdata.Metrics {
	var all []metricdata.Metrics
	for _, s := range rm.ScopeMetrics {
		all = append(all, s.Metrics...)
	}
	return all
}

// The manual's table names exactly what is exported, with kinds and units,
// and every word that error.type and the outcome take.
func TestManualListsTheMetrics(t *testing.T) {
	raw, err := os.ReadFile("../../doc.go")
	require.NoError(t, err)
	_, manual, ok := strings.Cut(string(raw), "// # Metrics\n")
	require.True(t, ok)
	manual, _, _ = strings.Cut(manual, "\n// # ")
	manual, _, _ = strings.Cut(manual, "\npackage ")

	row := regexp.MustCompile(`(?m)^//\t((?:gen_ai|surefoot)\.[a-z_.]+) +(histogram|counter|gauge) +(?:(\S+) {2,})?`)
	listed := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(manual, -1) {
		listed[m[1]] = m[2] + " " + m[3]
	}
	found := map[string]string{}
	for _, m := range instruments(exported(t)) {
		kind, ps := points(m)
		found[m.Name] = strings.Fields(kind)[0] + " " + m.Unit
		for _, p := range ps {
			for _, key := range []attribute.Key{"error.type", "surefoot.failover.outcome"} {
				v, ok := p.attrs.Value(key)
				if word := v.AsString(); ok && !regexp.MustCompile(`^\d+$`).MatchString(word) {
					assert.Regexp(t, `\b`+word+`\b`, manual, "%s of %s", key, m.Name)
				}
			}
			for _, kv := range p.attrs.ToSlice() {
				assert.Contains(t, manual, string(kv.Key), m.Name)
			}
		}
	}
	assert.Equal(t, found, listed)
}
