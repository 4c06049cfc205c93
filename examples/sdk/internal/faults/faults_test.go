package faults_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/faults"
	"github.com/surefoot-go/surefoot/examples/sdk/internal/sdks"
)

// No SDK takes a short answer for a whole one, whatever the provider does.
func TestNoShortAnswerUnderTheStack(t *testing.T) {
	for _, s := range sdks.All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			results, err := faults.RunAll(t.Context(), s, append(faults.Table(), faults.More()...))
			require.NoError(t, err)
			for _, r := range results {
				t.Run(r.Fault.Name, func(t *testing.T) {
					t.Logf("%s -> %s (%q, %v)", r.Bare, r.Stack, r.Stack.Text, r.Stack.Err)
					assert.NoError(t, faults.Check(s, r.Fault, r.Stack))
					if r.Fault.Good && r.Bare.Err == nil {
						assert.Equal(t, "whole", r.Bare.String(), "the fault is none")
					}
				})
			}
		})
	}
}

// The words of the table stand for what they say.
func TestWords(t *testing.T) {
	for want, o := range map[string]faults.Outcome{
		"whole":           {Text: faults.Whole, Whole: true},
		"short, no error": {Text: "Hello"},
		"empty, no error": {},
		"error":           {Text: "Hello", Err: assert.AnError},
		"error 503":       {Err: assert.AnError, Status: 503},
		"hangs":           {Text: "Hello", Hung: true},
	} {
		assert.Equal(t, want, o.String())
	}
}
