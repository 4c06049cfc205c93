package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/surefoot-go/surefoot/resilience"
)

// Prometheus's own database and query engine answer each query of the dashboard,
// and each alert's before its threshold, from what a scrape of the scenes shows.
func TestPrometheusAnswersTheQueries(t *testing.T) {
	db, at := stored(t)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 20, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	defer func() { require.NoError(t, engine.Close()) }()
	for where, expr := range queries(t) {
		q, err := engine.NewInstantQuery(t.Context(), db, nil, expr, at)
		require.NoError(t, err, "%s: %s", where, expr)
		answer, err := q.Exec(t.Context()).Vector()
		require.NoError(t, err, "%s: %s", where, expr)
		assert.NotEmpty(t, answer, "%s: %s", where, expr)
		q.Close()
	}
}

// stored is a database in which everything has grown from zero to what the scenes
// export, within five minutes before at.
func stored(t *testing.T) (db *tsdb.DB, at time.Time) {
	t.Helper()
	var text bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		exp, err := newExporter()
		require.NoError(t, err)
		defer func() { require.NoError(t, exp.close()) }()
		alive := play(t, exp, resilience.Builder{Conventions: resilience.ConventionsNew})
		require.NoError(t, scrape(&text, exp))
		runtime.KeepAlive(alive)
	})
	db, err := tsdb.Open(t.TempDir(), nil, nil, tsdb.DefaultOptions(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	start := time.Unix(1_800_000_000, 0)
	for i := range 5 {
		app := db.Appender(t.Context())
		samples := textparse.NewPromParser(text.Bytes(), labels.NewSymbolTable(), false)
		for {
			entry, err := samples.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if entry != textparse.EntrySeries {
				continue
			}
			var l labels.Labels
			samples.Labels(&l)
			_, _, value := samples.Series()
			if name := l.Get("__name__"); name != "surefoot_circuit_breaker_state" {
				value *= float64(i)
			}
			_, err = app.Append(0, l, start.Add(time.Duration(i)*time.Minute).UnixMilli(), value)
			require.NoError(t, err)
		}
		require.NoError(t, app.Commit())
	}
	return db, start.Add(4 * time.Minute)
}

// queries are those of the dashboard and of the alerts, by where they stand.
func queries(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	raw, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(raw, &board))
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			all[p.Title+" "+q.RefID] = strings.NewReplacer("$__rate_interval", "5m", "$provider", ".*").Replace(q.Expr)
		}
	}
	raw, err = os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	require.NoError(t, yaml.Unmarshal(raw, &file))
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
			require.NoError(t, err, r.Alert)
			threshold, ok := expr.(*parser.BinaryExpr)
			require.True(t, ok, r.Alert)
			all[r.Alert] = threshold.LHS.String()
		}
	}
	return all
}
