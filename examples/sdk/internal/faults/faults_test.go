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
			for _, f := range append(faults.Table(), faults.More()...) {
				t.Run(f.Name, func(t *testing.T) {
					bare, stack, err := faults.Run(t.Context(), s, f)
					require.NoError(t, err)
					t.Logf("%s: %s -> %s (%q, %v)", f.Name, bare, stack, stack.Text, stack.Err)
					assert.False(t, stack.Hung, "the stack left the caller waiting")
					if f.Good {
						require.NoError(t, stack.Err)
						assert.Equal(t, faults.Whole, stack.Text)
						assert.Equal(t, "whole", bare.String(), "the fault is none")
						return
					}
					require.Error(t, stack.Err, "%q was taken for an answer", stack.Text)
					assert.NotEqual(t, faults.Whole, stack.Text)
					if want := f.Want(s); want != 0 {
						assert.Equal(t, want, stack.Status, "%v", stack.Err)
					}
				})
			}
		})
	}
}

// The words of the table stand for what they say.
func TestWords(t *testing.T) {
	for want, o := range map[string]faults.Outcome{
		"whole":           {Text: faults.Whole},
		"short, no error": {Text: "Hello"},
		"empty, no error": {},
		"error":           {Text: "Hello", Err: assert.AnError},
		"error 503":       {Err: assert.AnError, Status: 503},
		"hangs":           {Text: "Hello", Hung: true},
	} {
		assert.Equal(t, want, o.String())
	}
}
