package resilience

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Values of [Builder.Conventions]: by which names the metrics go that the
// OpenTelemetry GenAI conventions define.
const (
	ConventionsOld  = "old"  // gen_ai.client.operation.*, as of semantic conventions 1.41
	ConventionsNew  = "new"  // gen_ai.client.inference.* and gen_ai.client.embeddings.*, of the repository that they moved to
	ConventionsBoth = "both" // for a time of change
)

// optIn is the variable by which instrumentations are told to use conventions
// that are not stable: a list, separated by commas.
const optIn = "OTEL_SEMCONV_STABILITY_OPT_IN"

// conventions returns which names are asked for: by the program, else by the
// environment, else both.
func conventions(chosen string) (old, latest bool, err error) {
	if chosen == "" {
		chosen = ConventionsBoth
		for word := range strings.SplitSeq(os.Getenv(optIn), ",") {
			switch strings.TrimSpace(word) {
			case "gen_ai_latest_experimental":
				chosen = ConventionsNew
			case "gen_ai_latest_experimental/dup":
				return true, true, nil
			}
		}
	}
	switch chosen {
	case ConventionsOld:
		return true, false, nil
	case ConventionsNew:
		return false, true, nil
	case ConventionsBoth:
		return true, true, nil
	}
	return false, false, fmt.Errorf("unknown conventions %q, want %s, %s or %s", chosen, ConventionsOld, ConventionsNew, ConventionsBoth)
}

// tokenBuckets are the boundaries that the conventions advise for tokens.
var tokenBuckets = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}

// genAI are the instruments of the conventions. Those of names that nobody asked
// for are nil.
type genAI struct {
	duration   metric.Float64Histogram // old
	firstChunk metric.Float64Histogram // old

	inference      metric.Float64Histogram
	embeddings     metric.Float64Histogram
	inferenceFirst metric.Float64Histogram
	perChunk       metric.Float64Histogram
	inputs         metric.Int64Histogram // of a call
	outputs        metric.Int64Histogram
	used           [5]metric.Int64Counter // in the order of Call.Usage's parts, see tokens
}

const (
	durationText   = "Duration of a call, its retries and its body included."
	firstChunkText = "Time from a call's start to the first data event of its stream."
)

func (b *instruments) genAI(old, latest bool) (g genAI) {
	if old {
		g.duration = b.seconds("gen_ai.client.operation.duration", durationText)
		g.firstChunk = b.seconds("gen_ai.client.operation.time_to_first_chunk", firstChunkText)
	}
	if !latest {
		return g
	}
	g.inference = b.seconds("gen_ai.client.inference.duration", durationText)
	g.embeddings = b.seconds("gen_ai.client.embeddings.duration", "Duration of a call for embeddings, its retries and its body included.")
	g.inferenceFirst = b.seconds("gen_ai.client.inference.time_to_first_chunk", firstChunkText)
	g.perChunk = b.seconds("gen_ai.client.inference.time_per_output_chunk", "Time from one data event of a stream to the next.")
	g.inputs = b.tokens("gen_ai.client.inference.operation.input_tokens", "Tokens of a call's input, as its upstream says.")
	g.outputs = b.tokens("gen_ai.client.inference.operation.output_tokens", "Tokens of a call's output, as its upstream says.")
	for i, n := range [...]struct{ name, desc string }{
		{"input_tokens", "Tokens of the input, cached ones included, as upstreams say."},
		{"output_tokens", "Tokens of the output, those of reasoning included, as upstreams say."},
		{"cache_read.input_tokens", "Tokens of the input that were read from a provider's cache."},
		{"cache_write.input_tokens", "Tokens of the input that were written to a provider's cache."},
		{"reasoning.output_tokens", "Tokens of the output that were spent on reasoning."},
	} {
		g.used[i] = b.counter("gen_ai.client.inference.usage."+n.name, "{token}", n.desc)
	}
	return g
}

func (b *instruments) tokens(name, desc string) metric.Int64Histogram {
	h, err := b.meter.Int64Histogram(name, metric.WithUnit("{token}"), metric.WithDescription(desc),
		metric.WithExplicitBucketBoundaries(tokenBuckets...))
	b.keep(err)
	return h
}

// record is the measure of one call: what it is called by is the same for all of
// its instruments.
type record struct {
	ctx   context.Context
	attrs []attribute.KeyValue
}

// with returns the attributes with more of them.
func (r record) with(more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(append(r.attrs[:len(r.attrs):len(r.attrs)], more...)...)
}

// record returns what the conventions have in common for a call. It has no
// operation where the format is unknown.
func (m *metrics) record(c *call, op, format, model string) record {
	r := record{context.WithoutCancel(c.caller), append(make([]attribute.KeyValue, 0, 8),
		m.provider,
		attribute.String("gen_ai.operation.name", op),
		attribute.String("gen_ai.provider.name", m.vendorOf(format)),
	)}
	if model != "" {
		r.attrs = append(r.attrs, m.model(model))
	}
	return r
}

// measure records a call that has ended.
func (m *metrics) measure(c *call, rec Call, op string) {
	r, g := m.record(c, op, rec.Format, rec.Model), &m.genAI
	g.spend(r, rec, op)
	r.attrs = append(r.attrs, attribute.Bool("gen_ai.request.stream", rec.Stream))
	inference := g.inference
	if op == operationEmbeddings {
		inference = g.embeddings
	}
	if rec.FirstEvent > 0 {
		r.took(g.firstChunk, rec.FirstEvent)
		if op != operationEmbeddings {
			r.took(g.inferenceFirst, rec.FirstEvent)
		}
	}
	if rec.Reason != "" {
		r.attrs = append(r.attrs, errorType(rec.Reason))
	}
	r.took(g.duration, rec.Duration)
	r.took(inference, rec.Duration)
}

const operationEmbeddings = "embeddings"

func (r record) took(h metric.Float64Histogram, d time.Duration) {
	if h != nil {
		h.Record(r.ctx, d.Seconds(), r.with())
	}
}

// spend records what the upstream said of tokens, which is nothing for most that
// failed. The conventions have no such counters for embeddings.
func (g *genAI) spend(r record, rec Call, op string) {
	u := rec.Usage
	if g.inputs == nil || op == operationEmbeddings {
		return
	}
	var failed []attribute.KeyValue
	if rec.Reason != "" {
		failed = append(failed, errorType(rec.Reason))
	}
	if u.Input > 0 {
		g.inputs.Record(r.ctx, u.Input, r.with(failed...))
	}
	if u.Output > 0 {
		g.outputs.Record(r.ctx, u.Output, r.with(failed...))
	}
	for i, n := range [...]int64{u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning} {
		if n > 0 {
			// Few vendors tell text from images and sound, and each in another way.
			g.used[i].Add(r.ctx, n, r.with(attribute.String("gen_ai.token.modality", "unknown")))
		}
	}
}

// A chunkClock measures the time from one event of a stream to the next.
type chunkClock struct {
	ctx  context.Context
	last time.Time
	opts []metric.RecordOption
}

// clock returns the clock of a stream whose first event has come, nil where
// nobody measures it.
func (m *metrics) clock(c *call, now time.Time) *chunkClock {
	if !m.clocks(c) {
		return nil
	}
	r := m.record(c, c.wire.Format.Operation(), c.wire.Format.String(), c.wire.Model)
	return &chunkClock{r.ctx, now, []metric.RecordOption{r.with(attribute.Bool("gen_ai.request.stream", true))}}
}

// clocks reports whether somebody measures the events of c's stream.
func (m *metrics) clocks(c *call) bool {
	op := c.wire.Format.Operation()
	return m != nil && m.perChunk != nil && op != "" && op != operationEmbeddings
}

// Chunks reports whether the call wants to hear of each event of its stream.
func (c *call) Chunks() bool { return c.t.metrics.clocks(c) }

// OnChunk hears of a data event behind the first.
func (c *call) OnChunk() {
	if k := c.chunks; k != nil {
		now := c.t.now()
		c.t.metrics.perChunk.Record(k.ctx, now.Sub(k.last).Seconds(), k.opts...)
		k.last = now
	}
}
