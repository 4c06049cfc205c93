package resilience

import (
	"context"
	"log/slog"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/retry"
)

// logger is the one place that names log events and their attributes. Every
// record has "provider"; records of a call have "model", "format" and
// "stream". Never an answer, a prompt, a credential or an upstream's text.
//
//	INFO  surefoot: circuit breaker state changed   key, from, to
//	INFO  surefoot: retry                           attempt, status | error_type, wait
//	WARN  surefoot: circuit breaker rejected a call retry_after, reason
//	WARN  surefoot: empty answer                    reason
//	WARN  surefoot: incomplete stream               reason, events, outcome
//	ERROR surefoot: panic in a hook                 hook
type logger struct {
	l        *slog.Logger // nil: silent
	provider string
}

func (g logger) log(ctx context.Context, level slog.Level, msg string, attrs ...slog.Attr) {
	if g.l == nil || !g.l.Enabled(ctx, level) {
		return
	}
	g.l.LogAttrs(ctx, level, msg, append([]slog.Attr{slog.String("provider", g.provider)}, attrs...)...)
}

func (g logger) state(key string, from, to breaker.State) {
	g.log(context.Background(), slog.LevelInfo, "surefoot: circuit breaker state changed",
		slog.String("key", key), slog.String("from", from.String()), slog.String("to", to.String()))
}

func (g logger) retry(c *call, a retry.Attempt, wait time.Duration) {
	if g.l == nil {
		return
	}
	why := slog.Int("status", a.Status)
	if a.Err != nil {
		why = slog.String("error_type", "transport_error")
	}
	g.log(c.caller, slog.LevelInfo, "surefoot: retry",
		slog.String("model", c.wire.Model), slog.String("format", c.wire.Format.String()),
		slog.Bool("stream", c.wire.Stream), slog.Int("attempt", a.Number), why, slog.Duration("wait", wait))
}

func (g logger) rejected(c *call, open *breaker.OpenError) {
	if g.l == nil {
		return
	}
	g.log(c.caller, slog.LevelWarn, "surefoot: circuit breaker rejected a call",
		slog.String("model", c.wire.Model), slog.String("format", c.wire.Format.String()),
		slog.Bool("stream", c.wire.Stream), slog.Duration("retry_after", open.RetryAfter),
		slog.String("reason", rejectionReason(open)))
}

func (g logger) empty(c *call, reason string) {
	g.log(c.caller, slog.LevelWarn, "surefoot: empty answer",
		slog.String("model", c.wire.Model), slog.String("format", c.wire.Format.String()),
		slog.Bool("stream", c.wire.Stream), slog.String("reason", reason))
}

func (g logger) ended(ctx context.Context, rec Call) {
	if g.l == nil || rec.Outcome != OutcomeStreamError {
		return
	}
	g.log(ctx, slog.LevelWarn, "surefoot: incomplete stream",
		slog.String("model", rec.Model), slog.String("format", rec.Format), slog.Bool("stream", rec.Stream),
		slog.String("reason", rec.Reason), slog.Int("events", rec.Events), slog.String("outcome", rec.Outcome))
}

func (g logger) panicked(ctx context.Context, hook string) {
	g.log(ctx, slog.LevelError, "surefoot: panic in a hook", slog.String("hook", hook))
}
