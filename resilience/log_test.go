package resilience_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
)

// lines makes a call per reply list and returns what was logged, as JSON
// objects without their time.
func lines(t *testing.T, b resilience.Builder, p resilience.Policy, ctx context.Context, body string, calls int) []map[string]any { //nolint:revive // t comes first in tests
	t.Helper()
	var buf bytes.Buffer
	b.Logger = slog.New(slog.NewJSONHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))
	tr, err := b.Build("eu", p)
	require.NoError(t, err)
	for range calls {
		_, _, _ = do(t, tr, chat(t, ctx, body))
	}
	var out []map[string]any
	for dec := json.NewDecoder(&buf); dec.More(); {
		var line map[string]any
		require.NoError(t, dec.Decode(&line))
		assert.NotEmpty(t, line["time"])
		delete(line, "time")
		out = append(out, line)
	}
	return out
}

// line is what the logger writes about a call, with more attributes.
func line(level, msg string, stream bool, more map[string]any) map[string]any {
	out := map[string]any{
		"level": level, "msg": msg, "provider": "eu", "model": "m1", "format": "chat completions", "stream": stream,
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

func TestLogLines(t *testing.T) {
	t.Parallel()
	one := quick()
	one.Retry.JitterFactor = 0
	one.CircuitBreaker.FailureThreshold = 1
	none := one
	none.Retry.MaxRetries = 0
	changed := map[string]any{
		"level": "WARN", "msg": "surefoot: circuit breaker state changed", "provider": "eu", "key": "", "from": "closed", "to": "open",
	}
	for _, c := range []struct {
		name  string
		p     resilience.Policy
		body  string
		base  []reply
		calls int
		want  []map[string]any
	}{
		{"a good call says nothing", one, plainBody, []reply{{status: 200, body: okJSON}}, 1, nil},
		{"nor does a 400", one, plainBody, []reply{{status: 400}}, 1, nil},
		{"retries", one, plainBody, []reply{{status: 503}, {err: errReset}, {status: 200, body: okJSON}}, 1, []map[string]any{
			line("INFO", "surefoot: retry", false, map[string]any{"attempt": 1., "status": 503., "wait": 1e7}),
			line("INFO", "surefoot: retry", false, map[string]any{"attempt": 2., "error_type": "transport_error", "wait": 2e7}),
		}},
		{"state changes once, rejections each", none, plainBody, []reply{{status: 503}}, 2, []map[string]any{
			changed,
			line("WARN", "surefoot: circuit breaker rejected a call", false, map[string]any{"reason": "circuit_open", "retry_after": 2e8}),
		}},
		{"no usage", one, plainBody, []reply{{status: 200, body: strings.Replace(okJSON, `"total_tokens":3`, `"total_tokens":0`, 1)}}, 1, []map[string]any{
			line("WARN", "surefoot: empty answer", false, map[string]any{"reason": "no_usage"}),
		}},
		{"cut stream", quick(), streamBody, []reply{{status: 200, body: evA}}, 1, []map[string]any{
			line("WARN", "surefoot: incomplete stream", true, map[string]any{"reason": "stream_incomplete", "events": 1., "outcome": "stream_error"}),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				assert.Equal(t, c.want, lines(t, resilience.Builder{Base: play(c.base...)}, c.p, t.Context(), c.body, c.calls))
			})
		})
	}
}

var errReset = errorText("connection reset")

type errorText string

func (e errorText) Error() string { return string(e) }

func TestLogPanicOfAHook(t *testing.T) {
	t.Parallel()
	b := resilience.Builder{
		Base:   play(reply{status: 200, body: okJSON}),
		OnCall: func(context.Context, resilience.Call) { panic("with a prompt in it") },
	}
	assert.Equal(t, []map[string]any{
		{"level": "ERROR", "msg": "surefoot: panic in a hook", "provider": "eu", "hook": "OnCall", "panic": "string"},
	}, lines(t, b, quick(), t.Context(), plainBody, 1))
}

// A model's name is a caller's text, of any length; no line is as long.
func TestLogClipsModelNames(t *testing.T) {
	t.Parallel()
	p := quick()
	p.CircuitBreaker.Scope = "model"
	p.Retry.InitialBackoff, p.Retry.MaxBackoff = time.Nanosecond, time.Nanosecond
	for _, name := range []string{strings.Repeat("x", 1<<20), strings.Repeat("é", 1<<19), "a" + strings.Repeat("世", 1<<18)} {
		got := lines(t, resilience.Builder{Base: play(reply{status: 503})}, p, resilience.WithModel(t.Context(), name), plainBody, 4)
		require.Len(t, got, 3*p.Retry.MaxRetries+2) // the third call opens, the fourth is rejected
		for _, l := range got {
			for _, attr := range []string{"model", "key"} {
				if text, ok := l[attr].(string); ok {
					assert.Less(t, len(text), 140)
					assert.True(t, utf8.ValidString(text))
					assert.NotContains(t, text, "\ufffd")
				}
			}
		}
	}
}
