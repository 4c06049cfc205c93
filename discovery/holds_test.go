package discovery_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/resilience"
)

// holding is a registry of one healthy provider with these holds.
func holding(t *testing.T, c discovery.Config, holds ...breaker.Hold) *discovery.Registry {
	t.Helper()
	return registry(t, c, discovery.Provider{Name: "p", Models: []string{"m"}, Mode: discovery.ModeAllowlist,
		Holds: func() []breaker.Hold { return holds }})
}

func TestHeldKeysAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UTC()
		r := holding(t, discovery.Config{},
			breaker.Hold{Key: "m", Kind: "rate", RetryAfter: time.Minute},
			breaker.Hold{Key: "over", Kind: "rate"},
			breaker.Hold{Key: "", Kind: "billing", RetryAfter: 5 * time.Minute, Guess: true},
			breaker.Hold{Key: "late", Kind: "quota", RetryAfter: time.Hour, Guess: true})
		s := statusOf(t, r, "p")
		assert.Equal(t, []discovery.HoldStatus{
			{Key: "", Kind: "billing", Until: now.Add(5 * time.Minute), Guess: true},
			{Key: "late", Kind: "quota", Until: now.Add(time.Hour), Guess: true},
			{Key: "m", Kind: "rate", Until: now.Add(time.Minute)},
		}, s.Holds)
		assert.Equal(t, 3, s.HeldKeys)
		assert.Equal(t, discovery.StatusHealthy, s.Status, "a hold is no failure")

		var all struct{ Providers []map[string]any }
		require.NoError(t, json.Unmarshal(get(r.Handler(), "/?format=json").Body.Bytes(), &all))
		require.Len(t, all.Providers, 1)
		assert.EqualValues(t, 3, all.Providers[0]["held_keys"])
		assert.Equal(t, map[string]any{"key": "", "kind": "billing", "until": s.Holds[0].Until.Format(time.RFC3339Nano), "guess": true},
			all.Providers[0]["holds"].([]any)[0])

		for _, text := range []string{get(r.Handler(), "/").Body.String(), strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(firstEvents(t, r))} {
			assert.Contains(t, text, "account</bdi> held (billing)")
			assert.Contains(t, text, "m</bdi> held (rate)")
			assert.Equal(t, 2, strings.Count(text, ", a guess"))
		}
	})
}

func TestWithoutHoldsNothingIsShown(t *testing.T) {
	for name, r := range map[string]*discovery.Registry{
		"no hook": registry(t, discovery.Config{}, discovery.Provider{Name: "p"}), "none held": holding(t, discovery.Config{}),
	} {
		assert.Nil(t, statusOf(t, r, "p").Holds, name)
		assert.NotContains(t, get(r.Handler(), "/?format=json").Body.String(), "held_keys", name)
		assert.NotContains(t, get(r.Handler(), "/").Body.String(), "Held by a limit", name)
	}
}

// Callers may name any number of models of any length.
func TestShownHoldsAreBounded(t *testing.T) {
	holds := []breaker.Hold{{Key: strings.Repeat("x", 1<<20), Kind: hostile, RetryAfter: time.Hour}}
	for i := range 1023 {
		holds = append(holds, breaker.Hold{Key: fmt.Sprintf("invented-%04d", i), Kind: "rate", RetryAfter: time.Hour})
	}
	r := holding(t, discovery.Config{}, holds...)
	s := statusOf(t, r, "p")
	assert.Len(t, s.Holds, 32)
	assert.Equal(t, 1024, s.HeldKeys)
	page := get(r.Handler(), "/").Body.String()
	assert.Equal(t, 6, strings.Count(page, "held (rate)"))
	assert.Contains(t, page, "… and 1018 more")
	assert.Less(t, len(get(r.Handler(), "/?format=json").Body.String()), 16<<10)
	assert.NotContains(t, get(holding(t, discovery.Config{}, holds[0]).Handler(), "/").Body.String(), "<img")
}

// A panic in one hook is reported once, however often the page asks and whatever
// the other hooks do.
func TestAPanicInHoldsIsContained(t *testing.T) {
	var log strings.Builder
	r := registry(t, discovery.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, discovery.Provider{
		Name: "p", Breakers: func() []breaker.Snapshot { return []breaker.Snapshot{{}} },
		Holds: func() []breaker.Hold { panic("ours") },
	})
	for range 3 {
		s := statusOf(t, r, "p")
		assert.Nil(t, s.Holds)
		assert.NotNil(t, s.Breaker)
	}
	assert.Equal(t, 1, strings.Count(log.String(), "hook=Holds"))
}

// A rejection by a limit is a failure of the window like any other, but hides
// nothing that the upstream did (contract 8).
func TestWindowCountsRejectionsByLimits(t *testing.T) {
	for _, reason := range []string{"rate_limited", "concurrency"} {
		rejected := resilience.Call{Provider: "p", Model: "m", Status: 429, Outcome: resilience.OutcomeRejected, Reason: reason}
		r := holding(t, discovery.Config{})
		observe(r, 1, rejected)
		assert.Equal(t, reason, statusOf(t, r, "p").LastFailure.Reason)
		observe(r, 1, call("m", 429))
		observe(r, 2, rejected)
		s := statusOf(t, r, "p")
		assert.Equal(t, 4, s.Failures, reason)
		assert.Equal(t, discovery.StatusDegraded, s.Status, reason)
		assert.Equal(t, "429", s.LastFailure.Reason, reason)
	}
}
