package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// keyed is a transport of a user's own that holds a key, as a value, which fmt
// writes out wherever it is.
type keyed struct{ Key string }

func (keyed) RoundTrip(*http.Request) (*http.Response, error) { return nil, http.ErrNotSupported }

// holders are the exported types that can hold a credential, each with values
// that do.
func holders(t *testing.T) map[string][]any {
	header := http.Header{"Authorization": {canary}, "X-Tenant": {canary}}
	query := url.Values{"tenant": {canary}}
	base := "https://user:" + canary + "@host.example/v1?key=" + canary
	builder := resilience.Builder{Base: keyed{canary}}
	stack, err := builder.Build("p", resilience.DefaultPolicy())
	require.NoError(t, err)
	target := failover.Target{Name: "p/m", Provider: "p", Model: "m", BaseURL: base, Header: header, Query: query, Transport: keyed{canary}}
	unnamed := failover.Target{BaseURL: "://" + canary, Header: header}
	chain, err := failover.NewChain(failover.DefaultPolicy(), target)
	require.NoError(t, err)
	router, err := failover.NewRouter(map[string]*failover.Chain{"v": chain}, &keyed{canary})
	require.NoError(t, err)
	list := discovery.ListerConfig{Type: "openai", Client: &http.Client{Transport: keyed{canary}}, BaseURL: base, Header: header}
	lister, err := discovery.NewLister(list)
	require.NoError(t, err)
	provider := discovery.Provider{Name: "p", Lister: lister}
	reg, err := discovery.NewRegistry(discovery.Config{})
	require.NoError(t, err)
	require.NoError(t, reg.Add(provider))
	cfg := parse(t, "providers: {openai: {api_key: "+canary+", base_url: '"+base+"'}}\nvirtual_models: [{source: v, target: openai/m}]", nil)
	return map[string][]any{
		"resilience.Builder":     {builder, &builder},
		"discovery.ListerConfig": {list, &list, []discovery.ListerConfig{list}},
		"resilience.Transport":   {stack, stack.Client()},
		"failover.Target":        {target, &target, unnamed, []failover.Target{target}, map[string]any{"t": target}, struct{ T failover.Target }{target}},
		"failover.Chain":         {chain, *chain, []*failover.Chain{chain}, chain.Client(), struct{ c *failover.Chain }{chain}},
		"failover.Router":        {router, *router, struct{ r *failover.Router }{router}},
		"discovery.Provider":     {provider, &provider, []discovery.Provider{provider}, lister, []discovery.Lister{lister}, struct{ l discovery.Lister }{lister}},
		"discovery.Registry":     {reg},
		"config.Provider":        {cfg.Providers(), cfg.Providers()[0]},
		"config.Config":          {cfg, *cfg},
	}
}

// harmlessTypes hold a transport or a header and need no text of their own.
var harmlessTypes = map[string]string{
	"retry.Transport":       "a layer: its base is the user's value",
	"breaker.Transport":     "a layer: its base is the user's value",
	"streamguard.Guard":     "a layer: its base is the user's value",
	"streamguard.Unmasker":  "a layer: its base is the user's value",
	"streamguard.Idle":      "a layer: its base is the user's value",
	"layer.Base":            "a clone of net/http's own default transport",
	"upstreamtest.Request":  "of a fake upstream, which shows what it got",
	"upstreamtest.Step":     "of a fake upstream, which sends it",
	"upstreamtest.Upstream": "a fake upstream",
	"wire.Failure":          "its header is made here: the type of an error",
}

// No credential is written out, whatever is printed and however; and whoever
// adds an exported type that can hold one is asked what it shows.
func TestNoCredentialIsShown(t *testing.T) {
	known := holders(t)
	for name := range exportedHolders(t) {
		if harmlessTypes[name] == "" {
			assert.NotEmpty(t, known[name], "%s can hold a credential: add it to holders, with a text that shows none", name)
		}
	}
	for name, values := range known {
		for _, v := range values {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
				require.NotContains(t, fmt.Sprintf(verb, v), canary, "%s of %s", verb, name)
				hex := fmt.Sprintf("%x", canary)
				require.NotContains(t, fmt.Sprintf(verb, v), hex, "%s of %s", verb, name)
			}
			var out bytes.Buffer
			slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
			slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
			if b, err := json.Marshal(v); err == nil { // else nothing is shown
				out.Write(b)
			}
			require.NotContains(t, out.String(), canary, "slog and JSON of %s", name)
		}
	}
	target := known["failover.Target"][0]
	assert.Equal(t, "failover.Target{name: p/m, provider: p, model: m, base_url: https://host.example/v1, header: Authorization X-Tenant, query: tenant}", fmt.Sprintf("%+v", target))
	assert.Equal(t, "failover.Chain{targets: p/m}", fmt.Sprint(known["failover.Chain"][0]))
	assert.Equal(t, "failover.Router{models: v}", fmt.Sprint(known["failover.Router"][0]))
	assert.Equal(t, "discovery.Provider{name: p}", fmt.Sprint(known["discovery.Provider"][0]))
	assert.Equal(t, `"resilience.Transport{provider: p}"`, fmt.Sprintf("%q", known["resilience.Transport"][0]))
}

// secretive are what a field's type or name says where it may hold a
// credential.
var secretive = []string{"http.Header", "url.Values", "url.URL", "RoundTripper", "http.Client", "http.Request", "Lister", "Chain", "*provider", "*target", "[table]"}

// exportedHolders reads the exported struct types of the module with a field
// that may hold a credential.
func exportedHolders(t *testing.T) map[string]bool {
	t.Helper()
	root := filepath.Join("..", "..")
	found := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root:
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil || d.Name() == "examples" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for name, s := range structs(file) {
			for _, f := range s.Fields.List {
				if text := string(source[f.Pos()-file.FileStart : f.End()-file.FileStart]); mayHold(text) {
					found[file.Name.Name+"."+name] = true
				}
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(found), 10, "the walk found the packages")
	return found
}

// structs returns the exported struct types of a file.
func structs(file *ast.File) map[string]*ast.StructType {
	out := make(map[string]*ast.StructType)
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.IsExported() {
			if s, ok := spec.Type.(*ast.StructType); ok {
				out[spec.Name.Name] = s
			}
		}
		return true
	})
	return out
}

func mayHold(field string) bool {
	for _, word := range secretive {
		if strings.Contains(field, word) && !strings.Contains(field, "func(") {
			return true
		}
	}
	return false
}
