package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// socketsFile keeps the rows of the contenders that cannot have a fake clock, by
// their names.
const socketsFile = "sockets.json"

// playSockets plays those contenders, which takes 25 minutes, and keeps their rows.
// Where a row was kept before, each cell's worse one counts, as of the sittings of
// the others: delete the file to begin anew.
func playSockets(o options) error {
	b, err := play(false)
	if err != nil {
		return err
	}
	rows := map[string][]cell{}
	for i, c := range contenders {
		if c.sockets {
			before, err := played(o.dir, &c)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			rows[c.name] = worst(before, b[i])
		}
	}
	data, err := json.MarshalIndent(rows, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.dir, socketsFile), append(data, '\n'), 0o644)
}

// played returns the row that was kept for a contender.
func played(dir string, c *contender) ([]cell, error) {
	data, err := os.ReadFile(filepath.Join(dir, socketsFile))
	if err != nil {
		return nil, err
	}
	var rows map[string][]cell
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil, fmt.Errorf("%s: %w", socketsFile, err)
	}
	if len(rows[c.name]) != len(faults) {
		return nil, fmt.Errorf("%s: %s has %d cells of %d: go run . -sockets", socketsFile, c.name, len(rows[c.name]), len(faults))
	}
	return rows[c.name], nil
}
