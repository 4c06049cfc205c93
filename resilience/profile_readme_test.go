package resilience_test

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
)

// The README lists what a profile sets, with its values, and nothing is left out.
func TestTheReadmeListsWhatAProfileSets(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	words := map[string]string{
		"Retry.MaxRetries":         "max_retries: %v",
		"Retry.InitialBackoff":     "initial_backoff: %v",
		"Retry.Streams":            "streams: %v",
		"Retry.RetryOnStatuses":    "[default, 408, 500, 520, 521, 523, 529]",
		"Stream.HoldUntil":         "hold_until: %v",
		"Stream.FirstEventTimeout": "first_event_timeout: %v",
		"Stream.IdleTimeout":       "idle_timeout: %v",
		"CircuitBreaker.Scope":     "scope: %v",
		"CircuitBreaker.Timeout":   "timeout: %v, jitter",
		"CircuitBreaker.Jitter":    "jitter: %v",
	}
	for _, name := range []string{resilience.ProfileLive, resilience.ProfileWhole} {
		p, err := resilience.Profile(name)
		require.NoError(t, err)
		set := map[string]any{}
		differences(set, "", reflect.ValueOf(resilience.DefaultPolicy()), reflect.ValueOf(p))
		assert.ElementsMatch(t, slices.Collect(maps.Keys(words)), slices.Collect(maps.Keys(set)), name)
		for field, value := range set {
			text := words[field]
			if field != "Retry.RetryOnStatuses" {
				text = fmt.Sprintf(text, value)
			}
			assert.Contains(t, string(readme), text, "%s of %s", field, name)
		}
	}
	p, err := resilience.Profile(resilience.ProfileLive)
	require.NoError(t, err)
	assert.Equal(t, []string{"default", "408", "500", "520", "521", "523", "529"}, p.Retry.RetryOnStatuses)
}

// differences collects the fields in which b differs from a.
func differences(out map[string]any, path string, a, b reflect.Value) {
	for i := range a.NumField() {
		name := path + a.Type().Field(i).Name
		if a.Field(i).Kind() == reflect.Struct {
			differences(out, name+".", a.Field(i), b.Field(i))
		} else if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			out[name] = b.Field(i).Interface()
		}
	}
}
