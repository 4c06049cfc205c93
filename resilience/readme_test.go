package resilience_test

import (
	"encoding/json"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readmePackages are what the README's snippets and sentences name. The SDK is
// no requirement of this module: what the snippets use of it stands below.
var readmePackages = map[string]string{
	"context": "context", "http": "net/http", "httputil": "net/http/httputil", "slog": "log/slog", "time": "time",
	"breaker": module + "/breaker", "discovery": module + "/discovery", "retry": module + "/retry",
	"resilience": module + "/resilience", "upstreamtest": module + "/resilience/upstreamtest",
	"failover": module + "/failover", "config": module + "/failover/config",
	"openai": module + "/examples/readme/openai", "option": module + "/examples/readme/option",
}

// readmeFiles stand for github.com/openai/openai-go/v3 and its option package.
var readmeFiles = map[string]string{
	"option/option.go": `package option

import "net/http"

type RequestOption func()

type HTTPClient interface {
	Do(*http.Request) (*http.Response, error)
}

func WithHTTPClient(HTTPClient) RequestOption { return nil }

func WithMaxRetries(int) RequestOption { return nil }
`,
	"openai/openai.go": `package openai

import "` + module + `/examples/readme/option"

type Client struct{}

func NewClient(...option.RequestOption) Client { return Client{} }
`,
}

// readmeVariables are those that a snippet takes from the text around it.
const readmeVariables = `
var (
	ctx                     context.Context
	app                     *config.Assembly
	openaiKey, groqKey      string
	openaiStack, groqStack  *resilience.Transport
)
`

// TestReadmeSnippetsBuild builds every Go snippet of the README as it is
// printed, in packages that exist in an overlay only. It needs no network.
func TestReadmeSnippetsBuild(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	snippets := regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllSubmatch(readme, -1)
	require.GreaterOrEqual(t, len(snippets), 3)

	temp := t.TempDir()
	replace := map[string]string{}
	put := func(name, text string) {
		file := filepath.Join(temp, strings.ReplaceAll(name, "/", "_"))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		replace[filepath.Join(root, "examples", "readme", filepath.FromSlash(name))] = file
	}
	for name, text := range readmeFiles {
		put(name, text)
	}
	args := []string{"build", "-overlay", filepath.Join(temp, "overlay.json")}
	for i, match := range snippets {
		text, name := string(match[1]), "s"+string(rune('a'+i))
		if !strings.HasPrefix(text, "package ") {
			text = completed(t, text)
		}
		formatted, err := format.Source([]byte(text))
		require.NoError(t, err, "snippet %d:\n%s", i+1, text)
		if strings.HasPrefix(string(match[1]), "package ") {
			assert.Equal(t, string(formatted), text, "snippet %d is not formatted", i+1)
		}
		// Linking a program takes seconds and finds nothing.
		put(name+"/main.go", strings.Replace(text, "package main\n", "package snippet\n", 1))
		args = append(args, "./examples/readme/"+name)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(temp, "overlay.json"), overlay, 0o600))

	build := exec.CommandContext(t.Context(), "go", args...)
	build.Dir = root
	build.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// completed makes a program of statements: the imports and variables that they
// name, and a use of each variable that they declare.
func completed(t *testing.T, text string) string {
	body := "func main() {\n" + text
	file, err := parser.ParseFile(token.NewFileSet(), "", "package main\n"+body+"}\n", parser.SkipObjectResolution)
	require.NoError(t, err, text)
	var declared []string
	for _, s := range file.Decls[0].(*ast.FuncDecl).Body.List {
		if a, ok := s.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
			for _, left := range a.Lhs {
				declared = append(declared, left.(*ast.Ident).Name)
			}
		}
	}
	used := map[string]bool{"context": true, "resilience": true, "config": true}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && readmePackages[x.Name] != "" && !slices.Contains(declared, x.Name) {
				used[x.Name] = true
			}
		}
		return true
	})
	var b strings.Builder
	b.WriteString("package main\n\nimport (\n")
	for name := range used {
		b.WriteString("\t\"" + readmePackages[name] + "\"\n")
	}
	b.WriteString(")\n" + readmeVariables + "\n" + body)
	for _, name := range declared {
		if name != "_" {
			b.WriteString("\t_ = " + name + "\n")
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// TestManualsNameWhatExists holds every package.Name that the README and the
// manual write against what the package exports.
func TestManualsNameWhatExists(t *testing.T) {
	t.Parallel()
	exported := map[string]map[string]bool{}
	for name, path := range readmePackages {
		dir, ours := strings.CutPrefix(path, module+"/")
		if !ours || strings.HasPrefix(dir, "examples/") {
			continue
		}
		exported[name] = map[string]bool{}
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		require.NoError(t, err)
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, d := range file.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					exported[name][d.Name.Name] = exported[name][d.Name.Name] || d.Recv == nil
				case *ast.GenDecl:
					for _, s := range d.Specs {
						switch s := s.(type) {
						case *ast.TypeSpec:
							exported[name][s.Name.Name] = true
						case *ast.ValueSpec:
							for _, n := range s.Names {
								exported[name][n.Name] = true
							}
						}
					}
				}
			}
		}
	}
	written := regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w*)`)
	for _, manual := range []string{"README.md", "doc.go"} {
		text, err := os.ReadFile(filepath.Join("..", manual))
		require.NoError(t, err)
		for _, m := range written.FindAllStringSubmatch(string(text), -1) {
			if names := exported[m[1]]; names != nil {
				assert.True(t, names[m[2]], "%s: there is no %s", manual, m[0])
			}
		}
	}
}
