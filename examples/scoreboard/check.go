package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// check compares a run with the files in dir, and with what surefoot promises.
func check(b board, dir string) error {
	errs := []error{promises(b)}
	md, err := os.ReadFile(filepath.Join(dir, markdownFile))
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	svg, err := os.ReadFile(filepath.Join(dir, pictureFile))
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if !strings.Contains(string(md), criteria()) {
		errs = append(errs, fmt.Errorf("%s: the criteria are not those of the code", markdownFile))
	}
	errs = append(errs,
		differences(markdownFile, b, verdictsOfMarkdown(string(md))),
		differences(pictureFile, b, verdictsOfPicture(string(svg))))
	return errors.Join(errs...)
}

// promises are about the last two contenders: a chain by its defaults never
// fails, and with whole answers it passes everywhere.
func promises(b board) error {
	var errs []error
	last := len(b) - 1
	for j, f := range faults {
		if x := b[last][j]; x.verdict != pass {
			errs = append(errs, fmt.Errorf("%s: %s: %s, want pass (%s; %s)", contenders[last].name, f.name, x.verdict, x.got, x.why))
		}
		if x := b[last-1][j]; x.verdict != pass && x.verdict != safe {
			errs = append(errs, fmt.Errorf("%s: %s: %s, want safe or better (%s; %s)", contenders[last-1].name, f.name, x.verdict, x.got, x.why))
		}
	}
	return errors.Join(errs...)
}

// differences lists where a file says another verdict than the run.
func differences(file string, b board, was [][]verdict) error {
	var errs []error
	for i, c := range contenders {
		for j, f := range faults {
			w := verdict("nothing")
			if i < len(was) && j < len(was[i]) {
				w = was[i][j]
			}
			if x := b[i][j]; x.verdict != w {
				errs = append(errs, fmt.Errorf("%s says %s for %s, %s; this run: %s (%s; %s)", file, w, c.name, f.name, x.verdict, x.got, x.why))
			}
		}
	}
	return errors.Join(errs...)
}

// verdictsOfMarkdown reads the rows of verdictTable, by the contenders' names.
func verdictsOfMarkdown(md string) [][]verdict {
	was := make([][]verdict, len(contenders))
	for i, c := range contenders {
		for line := range strings.Lines(md) {
			rest, ok := strings.CutPrefix(line, "| "+c.name+" |")
			if !ok {
				continue
			}
			for _, v := range strings.Split(rest, "|") {
				was[i] = append(was[i], verdict(strings.TrimSpace(v)))
			}
			break
		}
	}
	return was
}

var cellClass = regexp.MustCompile(`<g class="(\w+)"><rect`)

// verdictsOfPicture reads the cells, which stand fault by fault.
func verdictsOfPicture(svg string) [][]verdict {
	was := make([][]verdict, len(contenders))
	for n, m := range cellClass.FindAllStringSubmatch(svg, -1) {
		i := n % len(contenders)
		was[i] = append(was[i], verdict(m[1]))
	}
	return was
}
