package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience"
)

// meter is a MeterProvider that writes down what it is told. The whole output
// through the SDK is tested in examples/telemetry.
type meter struct {
	noop.Meter
	fail error // of every instrument made

	mu      sync.Mutex
	records []string // "name{attributes}", sorted attributes
	gauges  []metric.Callback
}

// provider hands out the one meter.
type provider struct {
	noop.MeterProvider
	m *meter
}

func (p provider) Meter(string, ...metric.MeterOption) metric.Meter { return p.m }

func (m *meter) add(name string, set attribute.Set) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for i, kv := range set.ToSlice() {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%s", kv.Key, kv.Value.String())
	}
	m.records = append(m.records, name+"{"+b.String()+"}")
}

func (m *meter) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.records
	m.records = nil
	slices.Sort(out)
	return out
}

// observe runs the callbacks and returns what they observed.
func (m *meter) observe(t *testing.T) []int64 {
	t.Helper()
	m.mu.Lock()
	all := slices.Clone(m.gauges)
	m.mu.Unlock()
	o := &observer{}
	for _, f := range all {
		if f != nil {
			require.NoError(t, f(t.Context(), o))
		}
	}
	return o.seen
}

func (m *meter) callbacks() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, f := range m.gauges {
		if f != nil {
			n++
		}
	}
	return n
}

type observer struct {
	noop.Observer
	seen []int64
}

func (o *observer) ObserveInt64(_ metric.Int64Observable, v int64, _ ...metric.ObserveOption) {
	o.seen = append(o.seen, v)
}

type histogram struct {
	noop.Float64Histogram
	m    *meter
	name string
}

func (h histogram) Record(_ context.Context, _ float64, o ...metric.RecordOption) {
	h.m.add(h.name, metric.NewRecordConfig(o).Attributes())
}

type tokenHistogram struct {
	noop.Int64Histogram
	m    *meter
	name string
}

func (h tokenHistogram) Record(_ context.Context, _ int64, o ...metric.RecordOption) {
	h.m.add(h.name, metric.NewRecordConfig(o).Attributes())
}

func (m *meter) Int64Histogram(name string, _ ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	return tokenHistogram{m: m, name: name}, m.fail
}

type counter struct {
	noop.Int64Counter
	m    *meter
	name string
}

func (c counter) Add(_ context.Context, n int64, o ...metric.AddOption) {
	for range n {
		c.m.add(c.name, metric.NewAddConfig(o).Attributes())
	}
}

func (m *meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return histogram{m: m, name: name}, m.fail
}

func (m *meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{m: m, name: name}, m.fail
}

type registration struct {
	noop.Registration
	m *meter
	i int
}

func (r registration) Unregister() error {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.m.gauges[r.i] = nil
	return nil
}

func (m *meter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gauges = append(m.gauges, f)
	return registration{m: m, i: len(m.gauges) - 1}, m.fail
}

func metered(t *testing.T, b resilience.Builder, p resilience.Policy) (*resilience.Transport, *meter) {
	t.Helper()
	m := &meter{}
	b.MeterProvider = provider{m: m}
	tr, err := b.Build("eu", p)
	require.NoError(t, err)
	return tr, m
}

func TestMetricsOfACall(t *testing.T) {
	t.Parallel()
	const (
		op   = "gen_ai.client.operation.duration"
		head = "gen_ai.operation.name=chat gen_ai.provider.name=openai gen_ai.request.model=m1 gen_ai.request.stream="
		eu   = "surefoot.provider.name=eu"
		cnt  = "{gen_ai.request.model=m1 " + eu + "}"
	)
	worded := func(name, word string) string {
		return name + "{error.type=" + word + " gen_ai.request.model=m1 " + eu + "}"
	}
	for _, c := range []struct {
		name string
		req  string
		base []reply
		want []string
	}{
		{"success", plainBody, []reply{{status: 200, body: okJSON}}, []string{op + "{" + head + "false " + eu + "}"}},
		{
			"a retry is no record of its own", plainBody, []reply{{status: 503}, {status: 200, body: okJSON}},
			[]string{op + "{" + head + "false " + eu + "}", "surefoot.client.retries" + cnt},
		},
		{"400", plainBody, []reply{{status: 400}}, []string{op + "{error.type=400 " + head + "false " + eu + "}"}},
		{"529", plainBody, []reply{{status: 529}}, []string{op + "{error.type=529 " + head + "false " + eu + "}"}},
		{"invented status", plainBody, []reply{{status: 789}}, []string{op + "{error.type=_OTHER " + head + "false " + eu + "}"}},
		{"invented status of the right class", plainBody, []reply{{status: 477}}, []string{op + "{error.type=_OTHER " + head + "false " + eu + "}"}},
		{
			"no usage", plainBody, []reply{{status: 200, body: strings.Replace(okJSON, `"total_tokens":3`, `"total_tokens":0`, 1)}},
			[]string{op + "{" + head + "false " + eu + "}", worded("surefoot.client.empty_responses", "no_usage")},
		},
		{
			"stream", streamBody, []reply{{status: 200, body: evA + evStop + evDone}},
			[]string{op + "{" + head + "true " + eu + "}", "gen_ai.client.operation.time_to_first_chunk{" + head + "true " + eu + "}"},
		},
		{
			"cut stream", streamBody, []reply{{status: 200, body: evA}},
			[]string{
				op + "{error.type=stream_incomplete " + head + "true " + eu + "}",
				"gen_ai.client.operation.time_to_first_chunk{" + head + "true " + eu + "}",
				worded("surefoot.client.incomplete_streams", "stream_incomplete"),
			},
		},
		{"no model", `{"messages":[]}`, []reply{{status: 200, body: okJSON}}, []string{
			op + "{" + strings.Replace(head, "gen_ai.request.model=m1 ", "", 1) + "false " + eu + "}",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tr, m := metered(t, resilience.Builder{Base: delayed{play(c.base...)}, Conventions: resilience.ConventionsOld}, quick())
				_, _, _ = do(t, tr, chat(t, t.Context(), c.req))
				assert.Equal(t, c.want, m.take())
			})
		})
	}
}

// delayed lets a moment pass, so that no duration is zero.
type delayed struct{ base http.RoundTripper }

func (d delayed) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(time.Millisecond) // of the bubble's clock
	return d.base.RoundTrip(req)
}

// A deadline that passes inside a stream is told from an upstream that broke off.
func TestMetricsOfADeadlineInsideAStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quick()
		p.Stream.IdleTimeout = time.Hour
		tr, m := metered(t, resilience.Builder{Base: play(reply{status: 200, rest: stalled(evA), header: http.Header{"Content-Type": {"text/event-stream"}}})}, p)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err := do(t, tr, chat(t, ctx, streamBody))
		require.Error(t, err)
		assert.Contains(t, strings.Join(m.take(), "\n"), "surefoot.client.incomplete_streams{error.type=timeout ")
	})
}

// The first chunk that counts is that of the answer that was delivered.
func TestMetricsFirstChunkOfTheLastAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quick()
		p.Retry.Streams, p.Stream.HoldUntil = "held_back", "complete"
		base := play(reply{status: 200, body: evA}, reply{status: 200, body: evA + evStop + evDone, delay: time.Minute})
		tr, rec := build(t, base, p)
		status, _, err := do(t, tr, chat(t, t.Context(), streamBody))
		require.NoError(t, err)
		require.Equal(t, 200, status)
		assert.GreaterOrEqual(t, rec.last(t).FirstEvent, time.Minute)
	})
}

func TestMetricsProviderName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, path, want string }{
		{"", "/v1/chat/completions", "openai"},
		{"", "/v1/messages", "anthropic"},
		{"anthropic", "/v1/chat/completions", "anthropic"},
		{"gemini", "/v1/chat/completions", "gcp.gemini"},
		{"azure", "/v1/chat/completions", "azure.ai.openai"},
		{"groq", "/v1/chat/completions", "groq"},
		{"xai", "/v1/chat/completions", "x_ai"},
	} {
		t.Run(c.kind+c.path, func(t *testing.T) {
			t.Parallel()
			tr, m := metered(t, resilience.Builder{Base: play(reply{status: 400}), ProviderType: c.kind}, quick())
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://upstream.invalid"+c.path, strings.NewReader(plainBody))
			require.NoError(t, err)
			_, _, err = do(t, tr, req)
			require.NoError(t, err)
			assert.Contains(t, strings.Join(m.take(), ""), "gen_ai.provider.name="+c.want+" ")
		})
	}
}

// Names are what callers invent: any number, of any length and any bytes.
func TestMetricsModelLabels(t *testing.T) {
	t.Parallel()
	tr, m := metered(t, resilience.Builder{Base: play(reply{status: 400})}, quick())
	call := func(model string) {
		t.Helper()
		_, _, err := do(t, tr, chat(t, resilience.WithModel(t.Context(), model), plainBody))
		require.NoError(t, err)
	}
	for _, odd := range []string{strings.Repeat("x", 1<<20), "bad\xff"} {
		call(odd)
		assert.Contains(t, m.take()[0], "gen_ai.request.model=_OTHER ")
	}
	seen := map[string]bool{}
	for i := range 1000 {
		call(fmt.Sprintf("invented-%d", i))
		seen[m.take()[0]] = true
	}
	assert.Len(t, seen, 101)
	call("invented-7")
	assert.Contains(t, m.take()[0], "gen_ai.request.model=invented-7 ")
}

func TestMetricsUnknownFormatIsNoOperation(t *testing.T) {
	t.Parallel()
	tr, m := metered(t, resilience.Builder{Base: play(reply{status: 200, body: "{}"})}, quick())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://upstream.invalid/v1/models", nil)
	require.NoError(t, err)
	_, _, err = do(t, tr, req)
	require.NoError(t, err)
	assert.Empty(t, m.take())
}

func TestMetricsStateGauge(t *testing.T) {
	t.Parallel()
	p := quick()
	p.Limits.Hold = false // which has a gauge of its own
	tr, m := metered(t, resilience.Builder{Base: play(reply{status: 200, body: okJSON})}, p)
	assert.Equal(t, []int64{int64(breaker.Closed)}, m.observe(t))
	tr.ForceOpen("", time.Hour)
	assert.Equal(t, []int64{int64(breaker.Open)}, m.observe(t))

	off := p
	off.CircuitBreaker.Disabled = true
	_, m = metered(t, resilience.Builder{Base: play(reply{status: 200})}, off)
	assert.Zero(t, m.callbacks(), "a disabled breaker has no state")
}

// A service that builds stacks anew on every reload keeps one MeterProvider.
func TestMetricsLetADroppedStackGo(t *testing.T) {
	t.Parallel()
	base := play(reply{status: 200, body: okJSON})
	p := quick()
	p.Limits.Hold = false
	tr, m := metered(t, resilience.Builder{Base: base}, p)
	_, _, err := do(t, tr, chat(t, t.Context(), plainBody))
	require.NoError(t, err)
	runtime.GC()
	assert.Len(t, m.observe(t), 1, "alive")
	runtime.KeepAlive(tr)
	require.Eventually(t, func() bool {
		runtime.GC()
		return m.callbacks() == 0
	}, time.Minute, time.Millisecond)
	assert.Empty(t, m.observe(t))
}

func TestMetricsFaultOfTheMeter(t *testing.T) {
	t.Parallel()
	broken := errors.New("no more instruments")
	_, err := resilience.Builder{MeterProvider: provider{m: &meter{fail: broken}}}.Build("eu", quick())
	require.ErrorIs(t, err, broken)
	assert.ErrorContains(t, err, "provider eu")
}
