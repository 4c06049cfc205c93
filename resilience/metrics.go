package resilience

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/streamguard"
)

const meterName = "github.com/surefoot-go/surefoot/resilience"

// maxModels is how many model names a stack puts on its metrics; callers may
// invent any number of them. The rest is "_OTHER", as is an overlong name.
const (
	maxModels   = 100
	maxModelLen = 128
	other       = "_OTHER"
)

// secondBuckets are the boundaries that the GenAI conventions advise.
var secondBuckets = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}

// metrics are a stack's instruments; nil without a MeterProvider. What they
// export is listed in the manual of the module root.
type metrics struct {
	provider attribute.KeyValue
	vendor   string
	models   labels

	genAI
	emptied    metric.Int64Counter
	accepted   metric.Int64Counter
	retries    metric.Int64Counter
	rejections metric.Int64Counter
	incomplete metric.Int64Counter
	resumes    metric.Int64Counter
}

func newMetrics(mp metric.MeterProvider, chosen, providerType string, t *Transport) (*metrics, error) {
	if mp == nil {
		return nil, nil
	}
	old, latest, err := conventions(chosen)
	if err != nil {
		return nil, err
	}
	m := &metrics{
		provider: attribute.String("surefoot.provider.name", t.provider),
		vendor:   vendors[providerType],
	}
	if m.vendor == "" {
		m.vendor = providerType
	}
	b := instruments{meter: mp.Meter(meterName)}
	m.genAI = b.genAI(old, latest)
	m.emptied = b.counter("surefoot.client.empty_responses", "{response}", "Answers with nothing in them, or in no known form, by kind.")
	m.accepted = b.counter("surefoot.client.accepted", "{response}", "Answers that are a ticket for work to be done later.")
	m.retries = b.counter("surefoot.client.retries", "{retry}", "Attempts after the first of a call.")
	m.rejections = b.counter("surefoot.client.rejections", "{call}", "Calls that a circuit breaker, a held key or a full provider did not let through.")
	m.incomplete = b.counter("surefoot.client.incomplete_streams", "{stream}", "Streams that broke off, stalled or reported an error, by reason.")
	m.resumes = b.counter("surefoot.client.resumes", "{stream}", "Streams that broke off and were asked for again, by why that failed; no error.type where they went on.")
	if len(t.Breakers()) > 0 { // else it is disabled, and has no state
		b.stateGauge(t, m.provider)
	}
	if t.limits.holds != nil {
		b.heldGauge(t, m.provider)
	}
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
	"messages":     "anthropic",
	"gemini":       "gcp.gemini",
	"interactions": "gcp.gemini",
	"ollama":       "ollama",
	"cohere":       "cohere",
	"bedrock":      "aws.bedrock",
	"dashscope":    "alibaba",
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

// ended records a call, once.
func (m *metrics) ended(c *call, rec Call) {
	if m == nil {
		return
	}
	if rec.Outcome == OutcomeStreamError {
		m.count(c, m.incomplete, rec.Reason)
	}
	if rec.Accepted {
		m.count(c, m.accepted, "")
	}
	op := c.wire.Format.Operation()
	if op == "" {
		return
	}
	m.measure(c, rec, op)
}

func (m *metrics) empty(c *call, reason string) {
	if m != nil {
		m.count(c, m.emptied, reason)
	}
}

func (m *metrics) retry(c *call) {
	if m != nil {
		m.count(c, m.retries, "")
	}
}

func (m *metrics) resume(c *call, reason string) {
	if m != nil {
		m.count(c, m.resumes, reason)
	}
}

func (m *metrics) rejected(c *call, open *breaker.OpenError) {
	if m != nil {
		m.count(c, m.rejections, rejectionReason(open))
	}
}

// count adds one to a counter of provider, model and, unless it is "", reason.
func (m *metrics) count(c *call, n metric.Int64Counter, reason string) {
	attrs := append(make([]attribute.KeyValue, 0, 3), m.provider)
	if c.wire.Model != "" {
		attrs = append(attrs, m.model(c.wire.Model))
	}
	if reason != "" {
		attrs = append(attrs, errorType(reason))
	}
	n.Add(context.WithoutCancel(c.caller), 1, metric.WithAttributes(attrs...))
}

// errorWords are the values of error.type that are no status.
var errorWords = map[string]bool{
	"no_choices": true, "no_usage": true, "no_output": true, "unknown_shape": true, // empty answers
	ending.ReasonCircuitOpen: true, ending.ReasonCircuitFull: true, ending.ReasonRateLimited: true, ending.ReasonConcurrency: true, // rejections
	ending.ReasonTransportError: true, ending.ReasonTimeout: true, ending.ReasonCanceled: true, ending.ReasonClosed: true,
	ending.ReasonRequestError: true, ending.ReasonPanic: true,
	ending.ReasonInBandError: true, ending.ReasonIncomplete: true, ending.ReasonStreamError: true,
	ending.ReasonIdleTimeout: true, ending.ReasonEventTimeout: true, ending.ReasonMinRate: true, ending.ReasonMalformed: true,
	streamguard.ReasonGap: true, streamguard.ReasonOlder: true, streamguard.ReasonNoEvent: true,
}

// oddStatuses are in use and in no registry: nginx, Cloudflare, Anthropic.
var oddStatuses = map[int]bool{
	499: true, 520: true, 521: true, 522: true, 523: true, 524: true, 525: true, 526: true, 529: true, 530: true,
}

// errorType keeps the attribute to a fixed list: an upstream may answer with
// any number for a status.
func errorType(reason string) attribute.KeyValue {
	known := errorWords[reason]
	if !known {
		status, err := strconv.Atoi(reason)
		known = err == nil && (http.StatusText(status) != "" || oddStatuses[status])
	}
	if !known {
		reason = other
	}
	return attribute.String("error.type", reason)
}

// model returns the label of a model's name.
func (m *metrics) model(name string) attribute.KeyValue {
	return attribute.String("gen_ai.request.model", m.models.label(name))
}

// labels is a set of names that does not grow beyond maxModels.
type labels struct {
	mu    sync.RWMutex
	known map[string]struct{} // guarded by mu
}

func (l *labels) label(name string) string {
	// An exporter may refuse everything for one label that is no UTF-8.
	if len(name) > maxModelLen || !utf8.ValidString(name) {
		return other
	}
	l.mu.RLock()
	_, ok := l.known[name]
	full := len(l.known) >= maxModels
	l.mu.RUnlock()
	switch {
	case ok:
		return name
	case full:
		return other
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.known[name]; !ok && len(l.known) >= maxModels {
		return other
	}
	if l.known == nil {
		l.known = make(map[string]struct{})
	}
	l.known[name] = struct{}{}
	return name
}
