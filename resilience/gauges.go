package resilience

import (
	"context"
	"runtime"
	"weak"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// stateGauge observes the provider's worst breaker: one series, however many
// models have a breaker of their own.
func (b *instruments) stateGauge(t *Transport, provider attribute.KeyValue) {
	gauge, err := b.meter.Int64ObservableGauge("surefoot.circuit_breaker.state",
		metric.WithDescription("State of the provider's circuit breaker: 0 closed, 1 half-open, 2 open. With scope model, of the worst of them."))
	if b.keep(err); err != nil {
		return
	}
	set := metric.WithAttributeSet(attribute.NewSet(provider))
	b.observe(t, gauge, func(t *Transport, o metric.Observer) {
		o.ObserveInt64(gauge, int64(worst(t.Breakers())), set)
	})
}

// holdKinds are the kinds of limits that hold a key.
var holdKinds = []wire.LimitKind{wire.LimitRate, wire.LimitQuota, wire.LimitBilling}

// heldGauge observes how many keys are held: one series a kind, however many
// models are held, and 0 where none is, so that an alert sees a hold end.
func (b *instruments) heldGauge(t *Transport, provider attribute.KeyValue) {
	gauge, err := b.meter.Int64ObservableGauge("surefoot.limits.held_keys", metric.WithUnit("{key}"),
		metric.WithDescription("Accounts and models from which calls are kept by a limit of the provider, by kind."))
	if b.keep(err); err != nil {
		return
	}
	sets := make([]metric.MeasurementOption, len(holdKinds))
	for i, kind := range holdKinds {
		sets[i] = metric.WithAttributeSet(attribute.NewSet(provider, attribute.String("surefoot.limit.kind", string(kind))))
	}
	b.observe(t, gauge, func(t *Transport, o metric.Observer) {
		held := make(map[wire.LimitKind]int64, len(holdKinds))
		for _, h := range t.Holds() {
			held[wire.LimitKind(h.Kind)]++
		}
		for i, kind := range holdKinds {
			o.ObserveInt64(gauge, held[kind], sets[i])
		}
	})
}

// observe has a gauge observed. A MeterProvider keeps its callbacks for good, so
// this one must not keep the stack: it holds it weakly, and goes when the stack
// has been dropped.
func (b *instruments) observe(t *Transport, gauge metric.Observable, read func(*Transport, metric.Observer)) {
	stack := weak.Make(t)
	reg, err := b.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		if t := stack.Value(); t != nil {
			read(t, o)
		}
		return nil
	}, gauge)
	if b.keep(err); err != nil {
		return
	}
	runtime.AddCleanup(t, func(reg metric.Registration) { _ = reg.Unregister() }, reg) // nobody is left to be told
}

func worst(all []breaker.Snapshot) breaker.State {
	state := breaker.Closed
	for _, s := range all {
		state = max(state, s.State)
	}
	return state
}
