package resilience

import (
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/retry"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// Events that a stack logs. Each line has "provider", and each of a call has
// "model", "format" and "stream"; what more there is stands beside the event.
// Never an answer, a prompt, a credential or an upstream's text.
const (
	eventRetry      = "surefoot: retry"                           // INFO   attempt, status or error_type, wait
	eventRejected   = "surefoot: circuit breaker rejected a call" // WARN   reason, retry_after
	eventHeld       = "surefoot: key held"                        // INFO   kind, wait, guess
	eventEmpty      = "surefoot: empty answer"                    // WARN   reason
	eventIncomplete = "surefoot: incomplete stream"               // WARN   reason, events, outcome
	eventResume     = "surefoot: broken stream resumed"           // INFO   reconnects
	eventNoResume   = "surefoot: broken stream not resumed"       // WARN   reason, reconnects
)

// logger writes them. The layers below write to the same Logger what only they
// know:
//
//	INFO   surefoot: circuit breaker state changed        provider, key, from, to; WARN where it opened
//	ERROR  surefoot: circuit breaker hook is too slow, …  the same, dropped
//	ERROR  surefoot: panic in a hook                      hook, panic; of the breaker's also provider, key, from, to
type logger struct {
	l        *slog.Logger // nil: silent
	provider string
}

// event writes a line about a call.
func (g logger) event(c *call, level slog.Level, msg string, attrs ...slog.Attr) {
	if g.l == nil {
		return
	}
	defer func() { _ = recover() }() // a handler that panics costs its line only
	if !g.l.Enabled(c.caller, level) {
		return
	}
	g.l.LogAttrs(c.caller, level, msg, append([]slog.Attr{
		slog.String("provider", g.provider),
		slog.String("model", clip(c.wire.Model)),
		slog.String("format", c.wire.Format.String()),
		slog.Bool("stream", c.wire.Stream),
	}, attrs...)...)
}

func (g logger) retry(c *call, a retry.Attempt, wait time.Duration) {
	why := slog.Int("status", a.Status)
	if a.Err != nil {
		why = slog.String("error_type", "transport_error")
	}
	g.event(c, slog.LevelInfo, eventRetry, slog.Int("attempt", a.Number), why, slog.Duration("wait", wait))
}

func (g logger) rejected(c *call, open *breaker.OpenError) {
	g.event(c, slog.LevelWarn, eventRejected,
		slog.String("reason", rejectionReason(open)), slog.Duration("retry_after", open.RetryAfter))
}

func (g logger) held(c *call, l wire.Limit, guess bool) {
	g.event(c, slog.LevelInfo, eventHeld,
		slog.String("kind", string(l.Kind)), slog.Duration("wait", l.Wait), slog.Bool("guess", guess))
}

func (g logger) empty(c *call, reason string) {
	g.event(c, slog.LevelWarn, eventEmpty, slog.String("reason", reason))
}

// resume is about a stream that broke off: reason is why it does not go on, ""
// if it does.
func (g logger) resume(c *call, reason string, reconnects int) {
	if reason == "" {
		g.event(c, slog.LevelInfo, eventResume, slog.Int("reconnects", reconnects))
		return
	}
	g.event(c, slog.LevelWarn, eventNoResume, slog.String("reason", reason), slog.Int("reconnects", reconnects))
}

func (g logger) ended(c *call, rec Call) {
	if rec.Outcome == OutcomeStreamError {
		g.event(c, slog.LevelWarn, eventIncomplete,
			slog.String("reason", rec.Reason), slog.Int("events", rec.Events), slog.String("outcome", rec.Outcome))
	}
}

// clip keeps a caller's text, which may be of any length, to a line's size.
func clip(name string) string {
	if len(name) <= maxModelLen {
		return name
	}
	cut := maxModelLen
	for cut > maxModelLen-utf8.UTFMax && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + "…"
}
