package resilience

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/surefoot-go/surefoot/breaker"
)

const meterName = "github.com/surefoot-go/surefoot/resilience"

// maxModels is how many model names a stack puts on its metrics; callers may
// invent any number of them. The rest is "_OTHER", as is an overlong name.
const (
	maxModels   = 100
	maxModelLen = 128
	otherModel  = "_OTHER"
)

// secondBuckets are the boundaries that the GenAI conventions advise.
var secondBuckets = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}

// metrics are a stack's instruments; nil without a MeterProvider.
type metrics struct {
	provider attribute.KeyValue
	vendor   string
	models   labels

	duration   metric.Float64Histogram
	firstChunk metric.Float64Histogram
	emptied    metric.Int64Counter
	retries    metric.Int64Counter
	rejections metric.Int64Counter
	incomplete metric.Int64Counter
}

func newMetrics(mp metric.MeterProvider, provider, providerType string, br *breaker.Transport) (*metrics, error) {
	if mp == nil {
		return nil, nil
	}
	m := &metrics{
		provider: attribute.String("surefoot.provider.name", provider),
		vendor:   vendors[providerType],
	}
	if m.vendor == "" {
		m.vendor = providerType
	}
	b := instruments{meter: mp.Meter(meterName)}
	m.duration = b.seconds("gen_ai.client.operation.duration", "Duration of a call, its retries and its body included.")
	m.firstChunk = b.seconds("gen_ai.client.operation.time_to_first_chunk", "Time from a call's start to the first data event of its stream.")
	m.emptied = b.counter("surefoot.client.empty_responses", "{response}", "Successful answers with nothing in them, by kind.")
	m.retries = b.counter("surefoot.client.retries", "{retry}", "Attempts after the first of a call.")
	m.rejections = b.counter("surefoot.client.rejections", "{call}", "Calls that an open circuit breaker let not through.")
	m.incomplete = b.counter("surefoot.client.incomplete_streams", "{stream}", "Streams that broke off, stalled or reported an error, by reason.")
	b.stateGauge(br, m.provider)
	return m, b.err
}

// instruments makes instruments and keeps the first error.
type instruments struct {
	meter metric.Meter
	err   error
}

func (b *instruments) keep(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *instruments) seconds(name, desc string) metric.Float64Histogram {
	h, err := b.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(desc),
		metric.WithExplicitBucketBoundaries(secondBuckets...))
	b.keep(err)
	return h
}

func (b *instruments) counter(name, unit, desc string) metric.Int64Counter {
	c, err := b.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(desc))
	b.keep(err)
	return c
}

// stateGauge observes the provider's worst breaker: one series, however many
// models have a breaker of their own. A disabled breaker has none.
func (b *instruments) stateGauge(br *breaker.Transport, provider attribute.KeyValue) {
	set := metric.WithAttributeSet(attribute.NewSet(provider))
	_, err := b.meter.Int64ObservableGauge("surefoot.circuit_breaker.state",
		metric.WithDescription("State of the provider's circuit breaker: 0 closed, 1 half-open, 2 open. With scope model, of the worst of them."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			all := br.Breakers()
			if len(all) == 0 {
				return nil
			}
			worst := breaker.Closed
			for _, s := range all {
				worst = max(worst, s.State)
			}
			o.Observe(int64(worst), set)
			return nil
		}))
	b.keep(err)
}

// vendors maps a provider's type to its name in the GenAI conventions; a type
// without an entry stands for itself.
var vendors = map[string]string{
	"gemini":  "gcp.gemini",
	"vertex":  "gcp.vertex_ai",
	"bedrock": "aws.bedrock",
	"azure":   "azure.ai.openai",
	"mistral": "mistral_ai",
	"xai":     "x_ai",
}

// formatVendors is whose API a format is, for stacks without a provider type.
var formatVendors = map[string]string{
	"messages": "anthropic",
	"gemini":   "gcp.gemini",
	"ollama":   "ollama",
	"cohere":   "cohere",
	"bedrock":  "aws.bedrock",
}

func (m *metrics) vendorOf(format string) string {
	if m.vendor != "" {
		return m.vendor
	}
	if v := formatVendors[format]; v != "" {
		return v
	}
	return "openai"
}

// model returns the label of a model's name.
func (m *metrics) model(name string) attribute.KeyValue {
	return attribute.String("gen_ai.request.model", m.models.label(name))
}

// ended records a call, once.
func (m *metrics) ended(c *call, rec Call) {
	if m == nil {
		return
	}
	ctx := context.WithoutCancel(c.caller)
	if rec.Outcome == OutcomeStreamError {
		m.incomplete.Add(ctx, 1, metric.WithAttributes(m.provider, m.model(rec.Model), errorType(rec.Reason)))
	}
	op := c.wire.Format.Operation()
	if op == "" {
		return
	}
	attrs := []attribute.KeyValue{
		m.provider,
		attribute.String("gen_ai.operation.name", op),
		attribute.String("gen_ai.provider.name", m.vendorOf(rec.Format)),
		attribute.Bool("gen_ai.request.stream", rec.Stream),
	}
	if rec.Model != "" {
		attrs = append(attrs, m.model(rec.Model))
	}
	if rec.FirstEvent > 0 {
		m.firstChunk.Record(ctx, rec.FirstEvent.Seconds(), metric.WithAttributes(attrs...))
	}
	if rec.Reason != "" {
		attrs = append(attrs, errorType(rec.Reason))
	}
	m.duration.Record(ctx, rec.Duration.Seconds(), metric.WithAttributes(attrs...))
}

func errorType(reason string) attribute.KeyValue { return attribute.String("error.type", reason) }

func (m *metrics) empty(c *call, reason string) {
	if m != nil {
		m.emptied.Add(context.WithoutCancel(c.caller), 1,
			metric.WithAttributes(m.provider, m.model(c.wire.Model), errorType(reason)))
	}
}

func (m *metrics) retry(c *call) {
	if m != nil {
		m.retries.Add(context.WithoutCancel(c.caller), 1, metric.WithAttributes(m.provider, m.model(c.wire.Model)))
	}
}

func (m *metrics) rejected(c *call, open *breaker.OpenError) {
	if m != nil {
		m.rejections.Add(context.WithoutCancel(c.caller), 1,
			metric.WithAttributes(m.provider, m.model(c.wire.Model), errorType(rejectionReason(open))))
	}
}

// labels is a set of names that does not grow beyond maxModels.
type labels struct {
	mu    sync.RWMutex
	known map[string]struct{} // guarded by mu
}

func (l *labels) label(name string) string {
	if len(name) > maxModelLen {
		return otherModel
	}
	l.mu.RLock()
	_, ok := l.known[name]
	full := len(l.known) >= maxModels
	l.mu.RUnlock()
	switch {
	case ok:
		return name
	case full:
		return otherModel
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.known[name]; !ok && len(l.known) >= maxModels {
		return otherModel
	}
	if l.known == nil {
		l.known = make(map[string]struct{})
	}
	l.known[name] = struct{}{}
	return name
}
