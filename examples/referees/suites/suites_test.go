package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/examples/referees/wrapped"
)

func TestOutputIsReadTestByTest(t *testing.T) {
	got, begun := parse(`=== RUN   TestA
=== RUN   TestA/one
    a_test.go:1: text
--- FAIL: TestA (0.00s)
    --- FAIL: TestA/one (0.00s)
    --- SKIP: TestA/two (0.00s)
=== RUN   TestB
--- PASS: TestB (1.00s)
FAIL`)
	assert.Equal(t, results{"TestA": "FAIL", "TestA/one": "FAIL", "TestA/two": "SKIP", "TestB": "PASS"}, got)
	assert.Equal(t, []string{"TestA", "TestB"}, begun)
}

func TestABinaryThatDiedIsNotAtItsEnd(t *testing.T) {
	for out, want := range map[string]bool{
		"--- PASS: TestA (0.00s)\nPASS\n":                                      true,
		"--- FAIL: TestA (0.00s)\nFAIL\n":                                      true,
		"testing: warning: no tests to run\nPASS\n":                            true,
		"--- FAIL: TestA (0.00s)\npanic: boom [recovered]\n\ngoroutine 1\n":    false,
		"=== RUN   TestA\npanic: test timed out after 1m30s\nrunning tests:":   false,
		"=== RUN   TestA\nfatal error: all goroutines are asleep\n\ngoroutine": false,
		"": false,
	} {
		assert.Equal(t, want, ended(out), out)
	}
}

func TestWhatRanWhenTheTimeWasOverHung(t *testing.T) {
	out := "=== RUN   TestA\npanic: test timed out after 25s\n\trunning tests:\n\t\tTestA (25s)\n\t\tTestB/h1 (20s)\n\ngoroutine 95 [running]:\n"
	assert.Equal(t, []string{"TestA", "TestB/h1", "TestB"}, hung(out))
	assert.Empty(t, hung("PASS"))
}

func TestOnlyTheInnermostTestDiffers(t *testing.T) {
	bare := results{"TestA": "PASS", "TestA/one": "PASS", "TestA/two": "PASS", "TestB": "PASS", "TestC": "FAIL"}
	over := results{"TestA": "FAIL", "TestA/one": "FAIL", "TestA/two": "PASS", "TestC": "FAIL", "TestD": "PASS"}
	assert.Equal(t, []string{"TestA/one", "TestB", "TestD"}, leaves(diff(bare, over)))
}

func TestADifferenceIsExplainedByItsLineOrItsParents(t *testing.T) {
	known, err := readDifferences("# comment\n\ns TestA: why\ns dir.TestB/one: why\ns TestH: hangs, why\n")
	require.NoError(t, err)
	for test, want := range map[string]string{"TestA": "s TestA", "TestA/one/two": "s TestA", "dir.TestB/one": "s dir.TestB/one", "dir.TestB": "", "TestC": ""} {
		assert.Equal(t, want, known.line(&difference{suite: "s", test: test}), test)
	}
	assert.Empty(t, known.line(&difference{suite: "other", test: "TestA"}))
	assert.Equal(t, "^TestS$|^TestH$", known.never(suite{name: "s", skip: []string{"TestS"}}))
	for _, line := range []string{"s TestA", "s TestA: ", "TestA: why"} {
		_, err := readDifferences(line)
		assert.ErrorContains(t, err, "line 1", line)
	}
}

func TestALineThatMatchesNothingIsOutdated(t *testing.T) {
	known, err := readDifferences("s TestA: why\ns TestB: why\ns TestC: any RoundTripper, why\ns TestH: hangs, why\nother TestA: why\n")
	require.NoError(t, err)
	assert.Equal(t, []string{"s TestB"}, known.outdated("s", []string{"s TestA"}))
	assert.True(t, (&tally{outdated: []string{"s TestB"}}).failed())
	assert.False(t, (&tally{matched: []string{"s TestA"}}).failed())
}

func TestTheListedDifferencesAreOfSuitesThatRun(t *testing.T) {
	known, err := readDifferences(differencesFile)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, s := range all() {
		names[s.name] = true
	}
	for line := range known {
		assert.True(t, names[strings.Fields(line)[0]], line)
	}
}

func TestADifferenceThatIsNotListedIsUnexplainedUnlessItDoesNotComeBack(t *testing.T) {
	known, err := readDifferences("s TestAny: any RoundTripper, why")
	require.NoError(t, err)
	pass, fail := []string{"PASS", "PASS"}, []string{"FAIL", "FAIL"}
	for name, row := range map[string]struct {
		d    difference
		want [3]int // any RoundTripper's, did not come back, unexplained
	}{
		"comes back":                     {difference{test: "TestA", bare: pass, over: fail, plain: pass}, [3]int{0, 0, 1}},
		"comes back, in the control too": {difference{test: "TestA", bare: pass, over: fail, plain: fail}, [3]int{0, 0, 1}},
		"comes back in one run of two":   {difference{test: "TestA", bare: []string{"PASS", "PASS", "PASS"}, over: []string{"FAIL", "PASS", "FAIL"}}, [3]int{0, 0, 1}},
		"does not come back":             {difference{test: "TestA", bare: pass, over: []string{"FAIL", "PASS"}}, [3]int{0, 1, 0}},
		"bare is no better":              {difference{test: "TestA", bare: []string{"PASS", "FAIL"}, over: fail}, [3]int{0, 1, 0}},
		"listed, the control shows it":   {difference{test: "TestAny", bare: pass, over: fail, plain: []string{"PASS", "FAIL"}}, [3]int{1, 0, 0}},
		"listed, another subtest panics": {difference{test: "TestAny", bare: pass, over: fail, plain: []string{"MISSING"}}, [3]int{1, 0, 0}},
		"listed, the control passes":     {difference{test: "TestAny", bare: pass, over: fail, plain: pass}, [3]int{0, 0, 1}},
	} {
		var sum tally
		row.d.suite = "s"
		sum.place(&row.d, known, "")
		assert.Equal(t, row.want, [3]int{len(sum.general), len(sum.unsteady), len(sum.unexplained)}, name)
		assert.Equal(t, row.want[2] > 0, sum.failed(), name)
	}
}

func TestAModuleOfAnotherHashIsRefused(t *testing.T) {
	s := all()[0]
	s.sum = "h1:other"
	_, err := workspace(t.Context(), s, t.TempDir())
	assert.ErrorContains(t, err, "h1:other")
}

// What is added to the shadow of GOROOT must not land in the real one.
func TestTheRealGOROOTIsNotWrittenTo(t *testing.T) {
	dir := t.TempDir()
	programs, err := shadow(t.Context(), suite{packages: []string{"net/http", "net/http/httputil"}}, dir)
	require.NoError(t, err)
	vendor := filepath.Join(dir, "goroot", "src", "vendor")
	added := []string{filepath.Join(vendor, "golang.org", "x", "sync", "semaphore"), filepath.Join(vendor, filepath.FromSlash(wrappedPackage))}
	for _, p := range programs {
		added = append(added, p.src)
	}
	for _, a := range added {
		where, err := filepath.EvalSymlinks(a)
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(where, dir), where)
	}
	std, err := os.Stat(filepath.Join(vendor, "golang.org", "x", "net"))
	require.NoError(t, err)
	assert.True(t, std.IsDir(), "what the standard library vendors is still there")
}

func TestClientsAreWrappedInCopiesOfTestFiles(t *testing.T) {
	for in, want := range map[string]string{
		"c := &Client{Transport: tr}":                     "c := &Client{Transport: surefootWrap(tr)}",
		"c := &http.Client{\n\tTransport: tr,\n}":         "c := &http.Client{\n\tTransport: surefootWrap(tr),\n}",
		"tr := ts.Client().Transport.(*Transport)":        "tr := surefootBare(ts.Client().Transport).(*Transport)",
		"http.DefaultTransport.(*http.Transport).Clone()": "surefootBare(http.DefaultTransport).(*http.Transport).Clone()",
		"Abruptly(c.Transport.(*Transport))":              "Abruptly(surefootBare(c.Transport).(*Transport))",
		"\tt.Cleanup(func() {\n\t\tcst.close()\n\t})":     "\tcst.c.Transport = surefootWrap(cst.tr)\n\tt.Cleanup(func() {\n\t\tcst.close()\n\t})",
	} {
		file := filepath.Join(t.TempDir(), "x_test.go")
		require.NoError(t, os.WriteFile(file, []byte("package http_test\n"+in), 0o600))
		require.NoError(t, wrapClients(file))
		got, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, "package http_test\n"+want, string(got))
	}
}

func TestThePolicyOfTheSuitesIsValid(t *testing.T) {
	for _, once := range []string{"", "1"} {
		t.Setenv(wrapped.OnceVar, once)
		require.NoError(t, wrapped.Policy().Validate())
	}
}
