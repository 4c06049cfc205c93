// Package matrix makes a Markdown table of what each Go SDK makes of each
// misbehaviour of a provider: over a bare client, and over the stack. Every cell
// is computed by a call over loopback; the SDKs' own retries are off.
package matrix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
	"github.com/surefoot-go/surefoot/examples/sdk/internal/faults"
)

var errStale = errors.New("the table is stale")

// cell is what one SDK made of one fault.
type cell struct {
	bare, stack faults.Outcome
	wrong       error // what is wrong with it
}

// matrix has a row for each fault and in it a cell for each SDK.
type matrix struct {
	name   string // of the markers around it in a file
	faults []faults.Fault
	sdks   []adapter.SDK
	cells  [][]cell
}

// build asks everything, the SDKs side by side.
func build(ctx context.Context, name string, all []adapter.SDK) (matrix, error) {
	m := matrix{name: name, faults: faults.Table(), sdks: all}
	m.cells = make([][]cell, len(m.faults))
	for i := range m.cells {
		m.cells[i] = make([]cell, len(m.sdks))
	}
	errs := make([]error, len(m.sdks))
	var wait sync.WaitGroup
	for i := range m.sdks {
		wait.Go(func() { errs[i] = m.column(ctx, i) })
	}
	wait.Wait()
	return m, errors.Join(errs...)
}

func (m matrix) column(ctx context.Context, i int) error {
	results, err := faults.RunAll(ctx, m.sdks[i], m.faults)
	for j, r := range results {
		m.cells[j][i] = cell{r.Bare, r.Stack, faults.Check(m.sdks[i], r.Fault, r.Stack)}
	}
	return err
}

func (m matrix) markdown() string {
	var b strings.Builder
	b.WriteString("| provider does |")
	for _, s := range m.sdks {
		fmt.Fprintf(&b, " %s |", s.Name)
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", len(m.sdks)+1) + "\n")
	for j, row := range m.cells {
		fmt.Fprintf(&b, "| %s |", m.faults[j].Name)
		for _, c := range row {
			fmt.Fprintf(&b, " %s → %s |", c.bare, c.stack)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// verdict is an error that names every cell in which the stack fell short.
func (m matrix) verdict() error {
	var errs []error
	for j, row := range m.cells {
		for i, c := range row {
			if c.wrong != nil {
				errs = append(errs, fmt.Errorf("%s, %s, under the stack: %w", m.sdks[i].Name, m.faults[j].Name, c.wrong))
			}
		}
	}
	return errors.Join(errs...)
}

func (m matrix) markers() (begin, end string) {
	return "<!-- " + m.name + ":begin -->", "<!-- " + m.name + ":end -->"
}

// split returns what a file has before, between and after its markers.
func (m matrix) split(path string) (before, between, after []byte, err error) {
	begin, end := m.markers()
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, nil, err
	}
	before, rest, found := bytes.Cut(file, []byte(begin))
	between, after, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		return nil, nil, nil, fmt.Errorf("%s has no lines %s and %s", path, begin, end)
	}
	return before, between, after, nil
}

func (m matrix) between() string { return "\n" + m.markdown() }

func writeTable(path string, m matrix) error {
	before, _, after, err := m.split(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	begin, end := m.markers()
	return os.WriteFile(path, []byte(string(before)+begin+m.between()+end+string(after)), info.Mode())
}

func checkTable(path string, m matrix) error {
	_, between, _, err := m.split(path)
	if err != nil {
		return err
	}
	if string(between) != m.between() {
		return fmt.Errorf("%s: %w: run the same command with -w in place of -check; it should be\n%s", path, errStale, m.markdown())
	}
	return nil
}
