package main

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/surefoot-go/surefoot/streamguard"
)

// TestRun runs every row once: none fails, and what does not depend on the
// machine is within its target. Shorter runs would count what warms up, too.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(&out, options{rounds: 1, time: 20 * time.Millisecond, only: regexp.MustCompile("")}); err != nil {
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

// TestGuardJudges shows that the guard which is measured does its work on both
// streams: a fault in their middle ends them, and so does a missing end.
func TestGuardJudges(t *testing.T) {
	read := func(data []byte) error {
		resp, err := newGuard(streaming(data)).RoundTrip(streamRequest())
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return err
	}
	for name, data := range map[string][]byte{"alike": chatStream(streamEvents), "varied": variedStream(streamEvents)} {
		if err := read(data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		events := bytes.SplitAfter(data, []byte("\n\n"))
		broken := func(from, to string) []byte {
			all := slices.Clone(events)
			all[streamEvents/2] = bytes.Replace(all[streamEvents/2], []byte(from), []byte(to), 1)
			return bytes.Join(all, nil)
		}
		for fault, stream := range map[string][]byte{
			"an unclosed object":       broken("}\n\n", "\n\n"),
			"a literal that is none":   broken(`"logprobs":null`, `"logprobs":nul1`),
			"a number that is none":    broken(`"created":`, `"created":x`),
			"a control byte in a text": broken(" token", " tok\x01"),
			"an escape that is none":   broken(" token", ` \q`),
			"no end":                   bytes.Join(events[:streamEvents], nil),
			"half an event at the end": data[:len(data)/2],
		} {
			if err := read(stream); !errors.Is(err, streamguard.ErrIncomplete) {
				t.Errorf("%s, %s: %v", name, fault, err)
			}
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
