package failover

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/surefoot-go/surefoot/internal/layer"
)

const scope = "github.com/surefoot-go/surefoot/failover"

// telemetry is what a chain tells beside its answers: a hook, a log, counters.
// Their labels are the configured providers and fixed words.
type telemetry struct {
	over     func(context.Context, []Attempt)
	hook     func(context.Context, Attempt)
	log      *slog.Logger        // nil: silent
	attempts metric.Int64Counter // nil: no metrics
	calls    metric.Int64Counter // nil: no metrics
	outcomes [4]metric.MeasurementOption
}

// targetTelemetry holds a target's labels, made once.
type targetTelemetry map[string]metric.MeasurementOption

// outcomeKey is the attribute that says how it went.
const outcomeKey = "surefoot.failover.outcome"

// Values of outcomeKey in surefoot.failover.attempts.
var attemptOutcomes = []string{
	"success", "error", "skipped", "rejected", ReasonTransportError, ReasonTimeout, ReasonCanceled,
}

// Values of outcomeKey in surefoot.failover.calls.
const (
	callFirst    = iota // the first target answered well
	callBackup          // another one did
	callFailed          // none did
	callCanceled        // the caller left before one did
)

func newTelemetry(p Policy) (*telemetry, error) {
	t := &telemetry{hook: p.OnAttempt, over: p.OnFailover, log: p.Logger}
	if p.MeterProvider == nil {
		return t, nil
	}
	meter := p.MeterProvider.Meter(scope)
	var err error
	if t.attempts, err = meter.Int64Counter("surefoot.failover.attempts",
		metric.WithUnit("{attempt}"),
		metric.WithDescription("Targets of failover chains that were tried or passed over.")); err != nil {
		return nil, err
	}
	if t.calls, err = meter.Int64Counter("surefoot.failover.calls",
		metric.WithUnit("{call}"),
		metric.WithDescription("Calls through failover chains by who answered.")); err != nil {
		return nil, err
	}
	for i, word := range [...]string{"first", "backup", "failed", "canceled"} {
		t.outcomes[i] = metric.WithAttributeSet(attribute.NewSet(attribute.String(outcomeKey, word)))
	}
	return t, nil
}

// target prepares the labels of one target.
func (t *telemetry) target(in *Target) targetTelemetry {
	if t.attempts == nil {
		return nil
	}
	labels := make(targetTelemetry, len(attemptOutcomes))
	for _, o := range attemptOutcomes {
		labels[o] = metric.WithAttributeSet(attribute.NewSet(
			attribute.String("surefoot.provider.name", in.Provider), attribute.String(outcomeKey, o)))
	}
	return labels
}

func attemptOutcome(a *Attempt) string {
	switch {
	case a.Skipped && a.Status == 0 && a.Err == nil:
		return "skipped"
	case a.Skipped:
		return "rejected"
	case a.Reason == "":
		return "success"
	case a.Reason == ReasonTransportError, a.Reason == ReasonTimeout, a.Reason == ReasonCanceled:
		return a.Reason
	}
	return "error"
}

// attempt tells of one attempt or skip.
func (t *telemetry) attempt(ctx context.Context, tg *target, a Attempt) {
	if t.attempts != nil {
		t.attempts.Add(ctx, 1, tg.tele[attemptOutcome(&a)])
	}
	if t.hook != nil {
		layer.Hook(t.log, "OnAttempt", func() { t.hook(ctx, a) })
	}
}

// moved logs that the call goes on to another target, and why.
func (t *telemetry) moved(ctx context.Context, last *result, to *target) {
	if t.log == nil {
		return
	}
	t.line(ctx, slog.LevelWarn, "surefoot: failover: trying another target",
		slog.String("reason", last.reason), slog.String("target", to.Name),
		slog.String("provider", to.Provider), slog.String("model", to.Model))
}

// line writes a line. A handler that panics costs its line only.
func (t *telemetry) line(ctx context.Context, level slog.Level, msg string, attrs ...slog.Attr) {
	defer func() { _ = recover() }()
	t.log.LogAttrs(ctx, level, msg, attrs...)
}

// waiting logs that a call waits until a target can be tried.
func (t *telemetry) waiting(ctx context.Context, d time.Duration) {
	if t.log != nil {
		t.line(ctx, slog.LevelInfo, "surefoot: failover: waiting for a target", slog.Duration("wait", d))
	}
}

// ended counts a call by who answered, and tells who listens of one that went on
// behind its first target.
func (t *telemetry) ended(ctx context.Context, c *call, r *result) {
	outcome := callFailed
	switch {
	case r.ok && r.backup:
		outcome = callBackup
	case r.ok:
		outcome = callFirst
	case r.canceled:
		outcome = callCanceled
	case t.log != nil && c.sweeping():
		t.line(ctx, slog.LevelWarn, "surefoot: failover: no target answered well", slog.String("reason", r.reason))
	}
	if t.calls != nil {
		t.calls.Add(ctx, 1, t.outcomes[outcome])
	}
	if t.over == nil || outcome == callCanceled {
		return
	}
	c.mu.Lock()
	all := slices.Clone(c.attempts)
	c.mu.Unlock()
	if failedOver(all) {
		layer.Hook(t.log, "OnFailover", func() { t.over(ctx, all) })
	}
}

// failedOver reports whether a call went on behind the target that came first in it.
// One that the configuration or the request rules out does not come first.
func failedOver(all []Attempt) bool {
	for i := range all {
		switch all[i].Reason {
		case ReasonDisabled, ReasonNotAllowed, ReasonOtherModel, ReasonBound, ReasonTried:
			continue
		case "":
			return false
		}
		return i < len(all)-1
	}
	return false
}
