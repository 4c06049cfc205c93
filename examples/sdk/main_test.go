package main

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The program's own check holds, for every SDK, and it leaves nothing running.
func TestProgram(t *testing.T) {
	var out bytes.Buffer
	before := runtime.NumGoroutine()
	wrong, err := run(t.Context(), &out)
	require.NoError(t, err)
	assert.Zero(t, wrong, "\n%s", out.String())
	assert.Contains(t, out.String(), "tries anthropic/model-x")
	assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, // Eventually's own
		5*time.Second, 10*time.Millisecond, "goroutines are left")
}
