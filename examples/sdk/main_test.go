package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The program's own check holds, for every SDK.
func TestProgram(t *testing.T) {
	var out bytes.Buffer
	wrong, err := run(t.Context(), &out)
	require.NoError(t, err)
	assert.Zero(t, wrong, "\n%s", out.String())
	assert.Contains(t, out.String(), "tries anthropic/model-x")
}
