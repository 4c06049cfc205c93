package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// check compares a run with the files in o.dir, and with what surefoot promises.
func check(b board, o options) error {
	errs := []error{promises(b)}
	md, err := os.ReadFile(filepath.Join(o.dir, markdownFile))
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	svg, err := os.ReadFile(filepath.Join(o.dir, pictureFile))
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for what, text := range map[string]string{"the criteria": criteria(), "the reasons": reasons(b)} {
		if !strings.Contains(string(md), text) {
			errs = append(errs, fmt.Errorf("%s: %s are not those of the code", markdownFile, what))
		}
	}
	errs = append(errs,
		differences(markdownFile, b, verdictsOfMarkdown(string(md)), o.full),
		differences(pictureFile, b, verdictsOfPicture(string(svg)), o.full))
	return errors.Join(errs...)
}

// promises are the profiles': live has nothing below safe, whole passes
// everywhere, and the defaults fail only where reasons name the setting.
func promises(b board) error {
	var errs []error
	for i, c := range contenders {
		for j, f := range faults {
			x := b[i][j]
			ok := true
			switch c.name {
			case whole:
				ok = x.Verdict == pass
			case live:
				ok = x.Verdict != fail
			case defaults, budgeted:
				ok = x.Verdict == pass || explained[c.name][f.id] != nil
			}
			if !ok {
				errs = append(errs, fmt.Errorf("%s: %s: %s (%s; %s)", c.name, f.name, x.Verdict, x.Got, x.Why))
			}
		}
	}
	return errors.Join(errs...)
}

// differences lists where a file says another verdict than the run; lucky says
// that a better one in the run is none.
func differences(file string, b board, was [][]verdict, lucky bool) error {
	var errs []error
	for i, c := range contenders {
		for j, f := range faults {
			w := verdict("nothing")
			if i < len(was) && j < len(was[i]) {
				w = was[i][j]
			}
			x := b[i][j]
			better := slices.Index(verdicts, x.Verdict) < slices.Index(verdicts, w)
			if x.Verdict != w && (!lucky || !better) {
				errs = append(errs, fmt.Errorf("%s says %s for %s, %s; this run: %s (%s; %s)", file, w, c.name, f.name, x.Verdict, x.Got, x.Why))
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
