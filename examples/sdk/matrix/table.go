package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/faults"
	"github.com/surefoot-go/surefoot/examples/sdk/internal/sdks"
)

const (
	begin = "<!-- sdk-matrix:begin -->"
	end   = "<!-- sdk-matrix:end -->"
)

var errStale = errors.New("the table is stale")

// cell is what one SDK made of one fault.
type cell struct {
	bare, stack faults.Outcome
	wrong       bool // the stack let a broken answer pass for a whole one, or broke a whole one
}

// matrix has a row for each fault and in it a cell for each SDK.
type matrix struct {
	faults []faults.Fault
	sdks   []sdks.SDK
	cells  [][]cell
}

// build asks everything: the SDKs side by side, each one fault after the other.
func build(ctx context.Context) (matrix, error) {
	m := matrix{faults: faults.Table(), sdks: sdks.All()}
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
	for j, f := range m.faults {
		bare, stack, err := faults.Run(ctx, m.sdks[i], f)
		if err != nil {
			return err
		}
		whole := stack.Believed() && stack.Text == faults.Whole
		m.cells[j][i] = cell{bare, stack, whole != f.Good || stack.Believed() != f.Good}
	}
	return nil
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
			if c.wrong {
				errs = append(errs, fmt.Errorf("%s, %s: %s under the stack", m.sdks[i].Name, m.faults[j].Name, c.stack))
			}
		}
	}
	return errors.Join(errs...)
}

// split returns what a file has before, between and after its markers.
func split(path string) (before, between, after []byte, err error) {
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
	before, _, after, err := split(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(string(before)+begin+m.between()+end+string(after)), info.Mode())
}

func checkTable(path string, m matrix) error {
	_, between, _, err := split(path)
	if err != nil {
		return err
	}
	if string(between) != m.between() {
		return fmt.Errorf("%s: %w: run go run ./matrix -w %s in examples/sdk; it should be\n%s", path, errStale, path, m.markdown())
	}
	return nil
}
