package main

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// tally counts what happened and keeps the first violations.
type tally struct {
	mu       sync.Mutex
	counts   map[string]map[string]int
	broken   int
	messages []string
	slowest  time.Duration
}

// keptViolations bounds the report.
const keptViolations = 20

func newTally() *tally { return &tally{counts: map[string]map[string]int{}} }

func (t *tally) count(group, name string) { t.add(group, name, 1) }

func (t *tally) add(group, name string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.counts[group]
	if g == nil {
		g = map[string]int{}
		t.counts[group] = g
	}
	g[name] += n
}

func (t *tally) violation(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken++; t.broken <= keptViolations {
		t.messages = append(t.messages, fmt.Sprintf(format, args...))
	}
}

func (t *tally) violations() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.broken
}

// ended counts a call.
func (t *tally) ended(p *plan, got result, outcome string) {
	kind := p.format.name
	if p.stream {
		kind += ", stream"
	}
	t.count("calls", kind)
	t.count("outcome", outcome)
	if got.backup {
		t.count("failover", "answered by a backup")
	}
	t.mu.Lock()
	t.slowest = max(t.slowest, got.took)
	t.mu.Unlock()
}

// target counts a target of a call.
func (t *tally) target(a failover.Attempt) {
	switch {
	case a.Skipped:
		t.count("failover", "skipped, "+a.Reason)
	default:
		t.count("failover", "targets tried")
	}
}

// call counts what one stack did.
func (t *tally) call(c resilience.Call) {
	t.count("stack "+c.Provider, c.Outcome)
	if n := len(c.Attempts); n > 0 {
		t.add("stack "+c.Provider, "attempts", n)
		t.add("stack "+c.Provider, "retries", n-1)
	}
	if c.Unmasked {
		t.count("stack "+c.Provider, "unmasked")
	}
}

// usage is what a process holds.
type usage struct {
	goroutines int
	heap       uint64
}

func measure() usage {
	for range 2 {
		runtime.GC()
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{runtime.NumGoroutine(), m.HeapInuse}
}

// heapSlack is what may be in use beyond the start: the runtime's own pools,
// fragments, and what is counted.
const heapSlack = 24 << 20

// settle checks what is left once everything is closed.
func (s *soak) settle(before usage) {
	s.book.mu.Lock()
	for _, what := range s.book.beyond {
		s.tally.violation("requests: %s", what)
	}
	s.tally.add("upstreams", "requests read", s.book.total)
	s.tally.add("upstreams", "read after the call's end", s.book.late)
	s.book.mu.Unlock()
	s.book = newBook()
	s.providers, s.openAI, s.anthropic = [3]*provider{}, nil, nil // what they hold is no leak
	if !eventually(func() bool { return runtime.NumGoroutine() <= before.goroutines }) {
		buf := make([]byte, 1<<20)
		s.tally.violation("goroutines: %d, %d at the start\n%s", runtime.NumGoroutine(), before.goroutines, buf[:runtime.Stack(buf, true)])
	}
	after := measure()
	if after.heap > before.heap+heapSlack {
		s.tally.violation("memory: %d KiB of heap in use, %d at the start", after.heap>>10, before.heap>>10)
	}
	s.tally.add("left", "goroutines", after.goroutines-before.goroutines)
	s.tally.add("left", "heap, KiB", (int(after.heap)-int(before.heap))>>10)
}

// report prints the table and the violations.
func (s *soak) report(out io.Writer) {
	t := s.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	total := 0
	for _, n := range t.counts["calls"] {
		total += n
	}
	fmt.Fprintf(out, "\n%d calls in %v, the slowest took %v\n", total, s.took.Round(time.Millisecond), t.slowest.Round(time.Millisecond))
	for _, group := range slices.Sorted(maps.Keys(t.counts)) {
		for _, name := range slices.Sorted(maps.Keys(t.counts[group])) {
			fmt.Fprintf(w, "%s\t%s\t%d\t\n", group, name, t.counts[group][name])
		}
	}
	_ = w.Flush() // to a terminal
	for _, m := range t.messages {
		fmt.Fprintf(out, "\nVIOLATION %s\n", m)
	}
	if t.broken > len(t.messages) {
		fmt.Fprintf(out, "\n… and %d more\n", t.broken-len(t.messages))
	}
	if t.broken == 0 {
		fmt.Fprintln(out, "nothing was violated")
	}
}
