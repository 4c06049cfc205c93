package matrix

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
	"github.com/surefoot-go/surefoot/examples/sdk/internal/faults"
)

func small() matrix {
	return matrix{
		name:   "x-matrix",
		faults: []faults.Fault{{Name: "cut"}, {Name: "whole", Good: true}},
		sdks:   []adapter.SDK{{Name: "one"}, {Name: "two"}},
		cells: [][]cell{
			{{bare: faults.Outcome{Text: "H"}, stack: faults.Outcome{Err: assert.AnError}}, {bare: faults.Outcome{Hung: true}, stack: faults.Outcome{Err: assert.AnError, Status: 502}}},
			{{bare: faults.Outcome{Text: faults.Whole, Whole: true}, stack: faults.Outcome{Text: faults.Whole, Whole: true}}, {wrong: errors.New("short")}},
		},
	}
}

func TestMarkdown(t *testing.T) {
	assert.Equal(t, `| provider does | one | two |
| --- | --- | --- |
| cut | short, no error → error | hangs → error 502 |
| whole | whole → whole | empty, no error → empty, no error |
`, small().markdown())
	assert.EqualError(t, small().verdict(), "two, whole, under the stack: short")
}

func TestWriteAndCheck(t *testing.T) {
	begin, end := small().markers()
	path := filepath.Join(t.TempDir(), "README.md")
	require.NoError(t, os.WriteFile(path, []byte("# Title\n\n"+begin+"\nold\n"+end+"\nmore\n"), 0o600))
	require.ErrorIs(t, checkTable(path, small()), errStale)
	require.NoError(t, writeTable(path, small()))
	require.NoError(t, checkTable(path, small()))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "# Title\n\n"+begin+"\n"+small().markdown()+end+"\nmore\n", string(got))

	require.NoError(t, os.WriteFile(path, []byte("no markers"), 0o600))
	require.ErrorContains(t, writeTable(path, small()), "has no lines")
	require.ErrorContains(t, checkTable(path, small()), "has no lines")
	require.Error(t, writeTable(filepath.Join(t.TempDir(), "missing"), small()))
}
