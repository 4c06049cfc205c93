package main

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/surefoot-go/surefoot/resilience"
)

// Callers invent 100,000 models, each of which fails: the series are those of
// the first hundred and one more, and nothing is kept of the rest.
func TestCardinality(t *testing.T) {
	reader := sdkmetric.NewManualReader(sdkmetric.WithCardinalityLimitSelector(
		func(sdkmetric.InstrumentKind) (int, bool) { return 0, false })) // no help from the SDK
	mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	p := resilience.DefaultPolicy()
	p.Retry.MaxRetries = 0
	p.CircuitBreaker.Scope = "model"
	tr, err := resilience.Builder{Base: brief(503, `{"error":{"message":"x"}}`), MeterProvider: mp}.Build("eu", p)
	require.NoError(t, err)
	call := func(from, to int) {
		for i := from; i < to; i++ {
			once(t, named(tr, fmt.Sprintf("invented-%d", i)), scene{})
		}
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	call(0, 5_000) // breakers and labels are full
	before := heap()
	call(5_000, 100_000)
	assert.Less(t, int64(heap())-int64(before), int64(1<<20))

	var rm metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &rm))
	for _, m := range instruments(rm) {
		_, ps := points(m)
		models := map[string]bool{}
		for _, p := range ps {
			v, _ := p.attrs.Value("gen_ai.request.model")
			models[v.AsString()] = true
		}
		assert.LessOrEqual(t, len(models), 101, m.Name)
		assert.LessOrEqual(t, len(ps), 2*101, m.Name)
	}
	d := instruments(rm)[0].Data.(metricdata.Histogram[float64])
	var total uint64
	for _, p := range d.DataPoints {
		total += p.Count
	}
	assert.EqualValues(t, 100_000, total, "and each call is counted")
	runtime.KeepAlive(tr)
}
