package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	assert.Equal(t, `resume: on   "The stream goes on.", 3 requests, the program saw 0 breaks
resume: off  "The stream goes on.", 3 requests, the program saw 2 breaks
`, out.String())
}
