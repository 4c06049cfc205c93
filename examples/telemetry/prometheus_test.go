package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/surefoot-go/surefoot/resilience"
)

// names are the series that a scrape shows: name, label, values.
type names map[string]map[string]map[string]bool

// scraped is what Prometheus reads after the scenes.
func scraped(t *testing.T) names {
	t.Helper()
	var text bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		exp, err := newExporter()
		require.NoError(t, err)
		defer func() { require.NoError(t, exp.close()) }()
		// What the dashboard and the alerts need are the new names alone.
		alive := play(t, exp, resilience.Builder{Conventions: resilience.ConventionsNew})
		require.NoError(t, scrape(&text, exp))
		runtime.KeepAlive(alive)
	})
	return parse(t, &text)
}

func parse(t *testing.T, text *bytes.Buffer) names {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation) // what every Prometheus reads
	families, err := p.TextToMetricFamilies(text)
	require.NoError(t, err)
	out := names{}
	for name, f := range families {
		series := []string{name}
		if f.GetType() == dto.MetricType_HISTOGRAM {
			series = []string{name + "_bucket", name + "_count", name + "_sum"}
		}
		for _, s := range series {
			out[s] = map[string]map[string]bool{}
			if strings.HasSuffix(s, "_bucket") {
				out[s]["le"] = map[string]bool{}
			}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if out[s][l.GetName()] == nil {
						out[s][l.GetName()] = map[string]bool{}
					}
					out[s][l.GetName()][l.GetValue()] = true
				}
			}
		}
	}
	return out
}

func TestScrape(t *testing.T) {
	exp, err := newExporter()
	require.NoError(t, err)
	defer func() { require.NoError(t, exp.close()) }()
	srv := httptest.NewServer(exp)
	defer srv.Close()
	tr, err := resilience.Builder{Base: brief(200, answer), MeterProvider: exp}.Build("eu", resilience.DefaultPolicy())
	require.NoError(t, err)
	for _, model := range []string{"m1", "no UTF-8 \xff", "quote \" \\ line \n", strings.Repeat("x", 1<<20)} {
		once(t, named(tr, model), scene{})
	}

	resp, err := srv.Client().Get(srv.URL)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	var text bytes.Buffer
	_, err = text.ReadFrom(resp.Body)
	require.NoError(t, err)
	assert.Less(t, text.Len(), 64<<10)
	assert.Contains(t, text.String(), `surefoot_circuit_breaker_state{surefoot_provider_name="eu"} 0`)
	got := parse(t, &text)
	assert.Equal(t, map[string]bool{"m1": true, "_OTHER": true, "quote \" \\ line \n": true},
		got["gen_ai_client_inference_duration_seconds_count"]["gen_ai_request_model"])
	runtime.KeepAlive(tr)
}

// Each query of the dashboard parses, and asks for nothing that is not
// exported: no name, no label, no value.
func TestDashboard(t *testing.T) {
	raw, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var d struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Query string }
		}
	}
	require.NoError(t, json.Unmarshal(raw, &d))
	have, used := scraped(t), map[string]bool{}
	var titles []string
	for i, p := range d.Panels {
		assert.Equal(t, i+1, p.ID)
		assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24)
		titles = append(titles, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, q := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5m", "$provider", ".*").Replace(q.Expr)
			by := check(t, have, used, p.Title, expr)
			for _, m := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(q.LegendFormat, -1) {
				assert.Contains(t, by, m[1], p.Title)
			}
		}
	}
	for _, want := range []string{"Empty answers", "Answers without usage", "Circuit breaker", "Cut streams by reason", "Failover share", "Retry share", "Tokens a minute"} {
		assert.Contains(t, titles, want)
	}
	for _, v := range d.Templating.List {
		if m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Query); m != nil {
			assert.Contains(t, have[m[1]], m[2])
		}
	}
	for name := range have {
		base := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
		if !strings.HasPrefix(name, "promhttp_") {
			assert.True(t, used[name] || used[base+"_bucket"] || used[base+"_count"], "nobody looks at %s", name)
		}
	}
}

// The same for the alert rules, each of which says what it is about.
func TestAlerts(t *testing.T) {
	raw, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	type rule struct {
		Alert, Expr, For    string
		Labels, Annotations map[string]string
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	require.NoError(t, dec.Decode(&file))
	have, used := scraped(t), map[string]bool{}
	var alerts []string
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			alerts = append(alerts, r.Alert)
			assert.Contains(t, []string{"page", "warn"}, r.Labels["severity"], r.Alert)
			assert.NotEmpty(t, r.Annotations["summary"], r.Alert)
			if r.For != "" {
				_, err := model.ParseDuration(r.For)
				assert.NoError(t, err, r.Alert)
			}
			by := check(t, have, used, r.Alert, r.Expr)
			for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(r.Annotations["summary"], -1) {
				assert.Contains(t, by, m[1], r.Alert)
			}
		}
	}
	for _, about := range []string{"EmptyAnswers", "MissingUsage", "CircuitOpen", "CutStreams", "FailoverShare", "RetryShare"} {
		assert.Contains(t, alerts, "Surefoot"+about)
	}
}

// check parses one query, compares it with what is exported and returns the
// labels that its result keeps.
func check(t *testing.T, have names, used map[string]bool, where, query string) []string {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	require.NoError(t, err, "%s: %s", where, query)
	var by []string
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			used[n.Name] = true
			series, ok := have[n.Name]
			if !assert.True(t, ok, "%s: %s is not exported", where, n.Name) {
				return nil
			}
			for _, m := range n.LabelMatchers {
				if m.Name != "__name__" {
					matches(t, series, m, where+": "+n.Name)
				}
			}
			for _, p := range path {
				if agg, ok := p.(*parser.AggregateExpr); ok {
					for _, l := range agg.Grouping {
						assert.Contains(t, series, l, "%s: %s", where, n.Name)
					}
				}
			}
		case *parser.AggregateExpr:
			by = append(by, n.Grouping...)
		}
		return nil
	})
	return by
}

// matches wants the label there, and each value that is asked for.
func matches(t *testing.T, series map[string]map[string]bool, m *labels.Matcher, where string) {
	t.Helper()
	values, ok := series[m.Name]
	if !assert.True(t, ok, "%s has no label %s", where, m.Name) || m.Value == ".*" || m.Value == "" {
		return
	}
	for want := range strings.SplitSeq(m.Value, "|") {
		assert.True(t, values[want], "%s: %s is never %q, but %v", where, m.Name, want, slices.Sorted(maps.Keys(values)))
	}
}

func TestDemonstration(t *testing.T) {
	var out, logs bytes.Buffer
	require.NoError(t, run(t.Context(), &out, &logs, true))
	assert.Contains(t, out.String(), "# span call ")
	assert.Contains(t, out.String(), `surefoot_failover_calls_total{surefoot_failover_outcome="backup"}`)
	assert.Contains(t, out.String(), `surefoot_circuit_breaker_state{surefoot_provider_name="openai-eu"} 2`)
	for _, line := range []string{"surefoot: empty answer", "surefoot: incomplete stream", "surefoot: retry", "circuit breaker state changed"} {
		assert.Contains(t, logs.String(), line)
	}
}
