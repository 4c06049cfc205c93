package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const wrappedPackage = "github.com/surefoot-go/surefoot/examples/referees/wrapped"

// shadow makes a GOROOT of links to the real one, in which the stack stands in
// src/vendor: the only place where a test of the standard library can import it
// from. The tests' files are copied, and those of net/http wrap each client.
func shadow(ctx context.Context, s suite, dir string) ([]program, error) {
	out, err := goCommand(ctx, "", nil, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	real, root := strings.TrimSpace(string(out)), filepath.Join(dir, "goroot")
	stack, err := imports(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range opened(s.packages, stack) {
		if err := linkEntries(filepath.Join(root, d), filepath.Join(real, d)); err != nil {
			return nil, err
		}
	}
	if err := vendorStack(stack, filepath.Join(root, "src", "vendor")); err != nil {
		return nil, err
	}
	env := []string{"GOROOT=" + root, "GOTOOLCHAIN=local", "GOFLAGS=", "GOWORK=off"}
	var programs []program
	for _, p := range s.packages {
		src := filepath.Join(root, "src", filepath.FromSlash(p))
		if err := wrapStandard(p, src); err != nil {
			return nil, err
		}
		programs = append(programs, program{name: ".", path: p, src: src, from: dir, env: env})
	}
	return programs, nil
}

// opened returns the directories of the GOROOT that have to be real ones, for
// files to be added to the packages and the stack to src/vendor, outermost
// first. A link among them would lead the additions into the real GOROOT.
func opened(packages []string, stack []library) []string {
	dirs := []string{"."}
	add := func(path string) {
		dir := ""
		for _, part := range strings.Split(path, "/") {
			dir = strings.TrimPrefix(dir+"/"+part, "/")
			if !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	for _, p := range packages {
		add("src/" + p)
	}
	for _, p := range stack {
		add("src/vendor/" + p.ImportPath)
	}
	return dirs
}

// linkEntries makes dst, or the link that an outer call made in its place, a
// directory of links to src's entries. src need not exist.
func linkEntries(dst, src string) error {
	if info, err := os.Lstat(dst); err == nil && info.Mode()&os.ModeSymlink != 0 {
		if err := os.Remove(dst); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dst, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(src)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(src, e.Name()), filepath.Join(dst, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// library is a package that the stack consists of or imports.
type library struct {
	ImportPath, Dir         string
	Standard                bool
	GoFiles, SFiles, HFiles []string
}

// imports returns the packages of the stack but for the standard library's.
func imports(ctx context.Context) ([]library, error) {
	out, err := goCommand(ctx, "", nil, "list", "-deps", "-json=ImportPath,Dir,Standard,GoFiles,SFiles,HFiles", wrappedPackage)
	if err != nil {
		return nil, err
	}
	var found []library
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p library
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		if !p.Standard {
			found = append(found, p)
		}
	}
}

// vendorStack links the stack's files.
func vendorStack(stack []library, vendor string) error {
	for _, p := range stack {
		for _, f := range slices.Concat(p.GoFiles, p.SFiles, p.HFiles) {
			if err := os.Symlink(filepath.Join(p.Dir, f), filepath.Join(vendor, filepath.FromSlash(p.ImportPath), f)); err != nil {
				return err
			}
		}
	}
	return nil
}

// wrapStandard adds the wrap to a package of the standard library.
func wrapStandard(pkg, src string) error {
	if pkg != "net/http" {
		return addWrap(src)
	}
	files, err := filepath.Glob(filepath.Join(src, "*_test.go"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := wrapClients(f); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(src, wrapFile), fmt.Appendf(nil, `package http_test

import (
	"net/http"

	%q
)

func init() { http.DefaultTransport = wrapped.Wrap(http.DefaultTransport) }

func surefootWrap(rt http.RoundTripper) http.RoundTripper { return wrapped.Wrap(rt) }

func surefootBare(rt http.RoundTripper) http.RoundTripper { return wrapped.Bare(rt) }
`, wrappedPackage), 0o600)
}

// The tests of net/http seldom use http.DefaultTransport: most make a client of
// a test server or of a transport of their own. In the copies those clients are
// wrapped, and where a test wants the *http.Transport back it is unwrapped.
var (
	assertion = regexp.MustCompile(`((?:\w+(?:\(\))?\.)+Transport|\w*\.?DefaultTransport)\.\(\*(http\.)?Transport\)`)
	literal   = regexp.MustCompile(`(Client\{\s*Transport:\s+)([\w.&]+(?:\{\})?)(,|\})`)
	served    = regexp.MustCompile(`(?m)^(\tt\.Cleanup\(func\(\) \{\n\t\tcst\.close\(\))`)
)

// wrapClients replaces the link to a test file by a copy with wrapped clients.
// Files of package http itself stay: what the stack imports they cannot import.
func wrapClients(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(data)
	if !strings.Contains(text, "\npackage http_test\n") && !strings.HasPrefix(text, "package http_test\n") {
		return nil
	}
	text = assertion.ReplaceAllString(text, "surefootBare($1).(*${2}Transport)")
	text = literal.ReplaceAllString(text, "${1}surefootWrap($2)$3")
	text = served.ReplaceAllString(text, "\tcst.c.Transport = surefootWrap(cst.tr)\n$1")
	if err := os.Remove(file); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o600)
}
