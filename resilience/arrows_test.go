package resilience_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/surefoot-go/surefoot"

// arrows is the whole table of who may import what, beside the standard
// library. A package that is not listed may import nothing.
var arrows = map[string][]string{
	"":                        nil,
	"resilience/ending":       nil,
	"internal/layer":          {"resilience/ending"},
	"retry":                   {"resilience/ending", "internal/layer"},
	"breaker":                 {"resilience/ending", "internal/layer"},
	"streamguard/wire":        {"internal/layer"},
	"resilience/upstreamtest": nil,
	"streamguard":             {"streamguard/wire", "resilience/ending", "internal/layer"},
	"resilience": {
		"retry", "breaker", "streamguard", "streamguard/wire", "resilience/ending", "golang.org/x/sync/semaphore", "internal/layer",
		"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/metric",
	},
	"failover": {
		"resilience", "resilience/ending", "internal/layer", "streamguard/wire", "breaker",
		"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/metric",
	},
	"discovery": {"resilience", "resilience/ending", "internal/layer", "breaker", "streamguard/wire", "golang.org/x/sync/singleflight"},
	"failover/config": {
		"resilience", "internal/layer", "retry", "breaker", "streamguard", "streamguard/wire", "failover", "discovery",
		"go.yaml.in/yaml/v3",
	},
}

// onlyInTests may be imported by test files alone.
var onlyInTests = []string{"github.com/stretchr/testify/"}

func TestImportArrows(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || rel == "examples") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		checkImports(t, file, rel)
		return nil
	})
	require.NoError(t, err)
}

func checkImports(t *testing.T, file, rel string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	require.NoError(t, err)
	dir := strings.TrimPrefix(path.Dir(rel), ".")
	allowed, listed := arrows[dir]
	require.True(t, listed, "package %q is not in the table of arrows", dir)
	for _, spec := range f.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		first, _, _ := strings.Cut(imp, "/")
		if !strings.Contains(first, ".") {
			continue // the standard library
		}
		for _, p := range onlyInTests {
			assert.False(t, strings.HasPrefix(imp, p), "%s imports %s outside a test", rel, imp)
		}
		assert.Contains(t, allowed, strings.TrimPrefix(imp, module+"/"), "%s imports %s", rel, imp)
	}
}
