package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
)

func TestRun(t *testing.T) {
	var out bytes.Buffer
	begin := time.Now()
	wrong, err := run(t.Context(), &out)
	require.NoError(t, err, out.String())
	assert.Zero(t, wrong, out.String())
	assert.Less(t, time.Since(begin), 15*time.Second)
	for _, line := range []string{
		"alpha/large  failed    transport_error  3×", "alpha/large  skipped   circuit_open  0×", `"this is beta"`,
		"cloudflare/model1  failed    524  3×", "cloudflare/model2  answered  200  2×",
		"breaker of alpha/large: closed → open", "breaker of alpha: half-open → closed",
	} {
		assert.Contains(t, out.String(), line)
	}
	assert.NotContains(t, out.String(), "WRONG")
	assert.NotContains(t, out.String(), "key-of-")
}

// A call that goes another way is noticed: the expectations are compared, not
// printed.
func TestWrongWayIsNoticed(t *testing.T) {
	var out bytes.Buffer
	l := newLab(t.Context(), &out)
	defer l.close()
	_, err := l.provider("alpha", policy())
	require.NoError(t, err)
	_, err = l.provider("beta", policy())
	require.NoError(t, err)
	require.NoError(t, l.chain("alpha/large", "beta/large"))
	_, err = l.ask("alpha answers", failed("alpha/large", "503", 3), answered("beta/large", 1))
	require.NoError(t, err)
	assert.Equal(t, 2, l.wrong, out.String())
	assert.Contains(t, out.String(), "WRONG: the way was [alpha/large answered (tries: 1)], not [alpha/large failed with 503 (tries: 3) beta/large answered (tries: 1)]")
	assert.Equal(t, breaker.Closed, l.breaker("alpha/unknown").State)
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := run(ctx, &bytes.Buffer{})
	require.ErrorIs(t, err, context.Canceled)
}
