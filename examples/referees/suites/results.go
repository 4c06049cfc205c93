package main

import (
	"context"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/surefoot-go/surefoot/examples/referees/wrapped"
)

// What a test's result can be beside the PASS, FAIL and SKIP of go test.
const (
	missing = "MISSING" // it ran in the other run alone
	crashed = "CRASH"   // the process ended, or was ended, while it ran
)

// results are those of one run: the name of each test and subtest, and how it
// ended.
type results map[string]string

// A test binary that panics takes the tests with it that have not run yet, so
// it is started again for them, this often at most.
const maxRounds = 12

// runBinary runs the tests that match, all for "", and returns their results
// and what they printed. never is a pattern of tests that are left out.
func runBinary(ctx context.Context, binary string, p program, s suite, pattern, never string, env []string) (results, string) {
	all, printed, skip := results{}, "", never
	for range maxRounds {
		out := start(ctx, binary, p, s, pattern, skip, env)
		printed += out
		got, begun := parse(out)
		fresh := false
		for _, name := range hung(out) {
			if _, known := all[name]; !known {
				all[name], fresh = crashed, true
			}
		}
		for name, r := range got {
			if _, known := all[name]; !known {
				all[name], fresh = r, true
			}
		}
		if ended(out) || ctx.Err() != nil {
			break
		}
		for _, name := range begun { // nothing ended: what ran is at fault
			if _, known := all[name]; !known && !fresh {
				all[name] = crashed
			}
		}
		skip = skipping(never, all)
	}
	return all, printed
}

// ended reports whether a binary got to its end, and had anything left to run.
func ended(out string) bool {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	tail := lines[max(0, len(lines)-3):]
	return slices.ContainsFunc(tail, func(l string) bool { return l == "PASS" || l == "FAIL" || strings.Contains(l, "no tests to run") }) &&
		!strings.Contains(out, "\npanic: ") && !strings.HasPrefix(out, "panic: ") && !strings.Contains(out, "\nfatal error: ")
}

// skipping adds the tests that have a result to a pattern for -test.skip.
func skipping(never string, all results) string {
	var names []string
	for name := range all {
		if !strings.Contains(name, "/") {
			names = append(names, regexp.QuoteMeta(name))
		}
	}
	slices.Sort(names)
	done := "^(" + strings.Join(names, "|") + ")$"
	if never == "" {
		return done
	}
	return never + "|" + done
}

func start(ctx context.Context, binary string, p program, s suite, pattern, skip string, env []string) string {
	args := append([]string{"-test.v", "-test.short", "-test.timeout=" + testTimeout.String(), "-test.run=" + pattern}, s.args...)
	if skip != "" {
		args = append(args, "-test.skip="+skip)
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = p.src
	cmd.Env = slices.Concat(os.Environ(), p.env, env)
	if s.once {
		cmd.Env = append(cmd.Env, wrapped.OnceVar+"=1")
	}
	out, _ := cmd.CombinedOutput() // a failed test is no error of ours
	return string(out)
}

// testTimeout ends a binary that hangs; then what ran counts as crashed. All of
// net/http takes half a minute where nothing else runs.
const testTimeout = 3 * time.Minute

// hung returns the tests that ran when the time was over, with their parents.
func hung(out string) []string {
	_, list, found := strings.Cut(out, "panic: test timed out after ")
	if !found {
		return nil
	}
	var names []string
	for _, line := range strings.Split(list, "\n")[2:] {
		name, _, ok := strings.Cut(strings.TrimSpace(line), " (")
		if !ok {
			break
		}
		for ; name != "."; name = path.Dir(name) {
			names = append(names, name)
		}
	}
	return names
}

var (
	endLine = regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)
	runLine = regexp.MustCompile(`(?m)^=== RUN   (\S+)$`)
)

// parse reads the output of -test.v: the results, and the top-level tests that
// were begun.
func parse(out string) (results, []string) {
	got := results{}
	for _, m := range endLine.FindAllStringSubmatch(out, -1) {
		got[m[2]] = m[1]
	}
	var begun []string
	for _, m := range runLine.FindAllStringSubmatch(out, -1) {
		if !strings.Contains(m[1], "/") {
			begun = append(begun, m[1])
		}
	}
	return got, begun
}

// environment is what the tests see: no credentials or proxies of this machine.
// calls is the file that counts the stack's calls, "" for a bare run.
func environment(home, stub, calls string) []string {
	env := []string{"HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, ".config")}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		upper := strings.ToUpper(name)
		if strings.HasSuffix(upper, "_API_KEY") || strings.HasSuffix(upper, "_PROXY") || strings.HasSuffix(upper, "_BASE_URL") {
			env = append(env, name+"=")
		}
	}
	return append(env, "TEST_API_BASE_URL="+stub, wrapped.EnvVar+"="+calls)
}
