package main

import (
	"context"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// wrapFile is the file that is added to every package with tests.
const wrapFile = "surefoot_referee_test.go"

// program is a package's tests, ready to be compiled and run.
type program struct {
	name string   // as results are named
	path string   // import path
	src  string   // its directory, where the tests find their testdata
	from string   // where the go command is started
	env  []string // in addition to this process's
}

// goCommand runs the go command and returns what it printed.
func goCommand(ctx context.Context, dir string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return out, nil
}

// directoryOf returns where the module of a package is.
func directoryOf(ctx context.Context, pkg string) (string, error) {
	out, err := goCommand(ctx, "", nil, "list", "-f", "{{.Module.Dir}}", pkg)
	return strings.TrimSpace(string(out)), err
}

// workspace copies a module to dir and puts it beside this one in a go.work, so
// that its tests can import the stack without a change to their go.mod.
func workspace(ctx context.Context, s suite, dir string) ([]program, error) {
	out, err := goCommand(ctx, "", []string{"GOWORK=off"}, "mod", "download", "-json", s.module+"@"+s.version)
	if err != nil {
		return nil, err
	}
	var mod struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, err
	}
	if mod.Sum != s.sum {
		return nil, fmt.Errorf("%s@%s has the hash %s, and not %s", s.module, s.version, mod.Sum, s.sum)
	}
	own, err := directoryOf(ctx, wrappedPackage)
	if err != nil {
		return nil, err
	}
	root, err := directoryOf(ctx, "github.com/surefoot-go/surefoot/resilience")
	if err != nil {
		return nil, err
	}
	work := filepath.Join(dir, "go.work")
	text := fmt.Sprintf("go 1.26.0\n\nuse (\n\t./module\n\t%q\n\t%q\n)\n", own, root)
	if err := os.WriteFile(work, []byte(text), 0o600); err != nil {
		return nil, err
	}
	copied := filepath.Join(dir, "module")
	if err := copyTree(copied, mod.Dir); err != nil {
		return nil, err
	}
	var programs []program
	for _, pkg := range s.packages {
		src := filepath.Join(copied, filepath.FromSlash(pkg))
		if err := addWrap(src); err != nil {
			return nil, err
		}
		programs = append(programs, program{name: pkg, path: "./" + pkg, src: src, from: copied, env: []string{"GOWORK=" + work, "GOFLAGS="}})
	}
	return programs, nil
}

// copyTree copies the regular files, writable as those of the module cache are
// not.
func copyTree(dst, src string) error {
	return filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		target := filepath.Join(dst, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o600)
	})
}

// addWrap adds the file that wraps http.DefaultTransport to a package's tests.
func addWrap(dir string) error {
	name, err := testPackage(dir)
	if err != nil {
		return err
	}
	text := fmt.Sprintf(`package %s

import (
	"net/http"

	%q
)

func init() { http.DefaultTransport = wrapped.Wrap(http.DefaultTransport) }
`, name, wrappedPackage)
	return os.WriteFile(filepath.Join(dir, wrapFile), []byte(text), 0o600)
}

// testPackage returns the package name of a directory's tests.
func testPackage(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return "", err
	}
	for _, f := range files {
		file, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.PackageClauseOnly)
		if err == nil {
			return file.Name.Name, nil
		}
	}
	return "", fmt.Errorf("%s has no tests", dir)
}
