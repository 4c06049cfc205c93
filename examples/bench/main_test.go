package main

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestRun runs every row once: none fails, and what does not depend on the
// machine is within its target.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(&out, options{rounds: 1, time: time.Millisecond, only: regexp.MustCompile("")}); err != nil {
		t.Fatal(err)
	}
	for _, s := range sections() {
		if !strings.Contains(out.String(), "## "+s.title) {
			t.Errorf("no section %q", s.title)
		}
	}
	for line := range strings.Lines(out.String()) {
		counted := strings.Contains(line, "allocations") || strings.Contains(line, " B |") || strings.Contains(line, "goroutines |") || strings.Contains(line, "last byte")
		if counted && strings.Contains(line, "miss") {
			t.Error(line)
		}
	}
}

func TestNumbers(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.12345: "0.123", 24: "24", 99.96: "100", 1234.5: "1234"} {
		if got := number(x); got != want {
			t.Errorf("%v is printed as %s, not %s", x, got, want)
		}
	}
	for ns, want := range map[float64]string{12.34: "12.3 ns", 1234: "1.23 µs", 5e6: "5 ms"} {
		if got := duration(ns); got != want {
			t.Errorf("%v ns are printed as %s, not %s", ns, got, want)
		}
	}
}
