package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	markdownFile = "scoreboard.md"
	pictureFile  = "scoreboard.svg"
)

// write renders both files.
func write(b board, o options) error {
	if err := os.WriteFile(filepath.Join(o.dir, markdownFile), []byte(markdown(b, o)), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.dir, pictureFile), []byte(picture(b, o)), 0o644)
}

func markdown(b board, o options) string {
	speed := "Waits are short ones, see times.go.\n`go run . -full` has those of real life."
	if o.full {
		speed = "Waits are those of real life."
	}
	return fmt.Sprintf(`# Scoreboard

What a caller gets when its provider fails, and how the provider was treated.
Made by `+"`%s`"+` in this directory; `+"`go run . -check`"+` runs it all again and
fails if a verdict has changed. %s

![The verdicts as a picture](%s)

## Verdicts

%s
%s
## What the caller got

In brackets: requests that the primary and the backup have read, and how long the call took (the longest of twenty, in the outage).

%s
## The seven

All ask the same question with a deadline of %.0f minutes (%.0f s in a short run). A backup with another model, `+"`%s`"+`, is well all the time: a caller
without a chain does not know of it, and then a clean error is the best it can get.

%s`, o.command(), speed, pictureFile, verdictTable(b), criteria(), gotTable(b), full.patience.Minutes(), short.patience.Seconds(), backupModel, setUps())
}

// verdictTable has a row for each contender; check reads it back.
func verdictTable(b board) string {
	var s strings.Builder
	s.WriteString("| |")
	for j := range faults {
		fmt.Fprintf(&s, " %d |", j+1)
	}
	s.WriteString(" pass | safe | fail |\n|---|" + strings.Repeat("---|", len(faults)+3) + "\n")
	for i, c := range contenders {
		fmt.Fprintf(&s, "| %s |", c.name)
		for _, x := range b[i] {
			fmt.Fprintf(&s, " %s |", x.verdict)
		}
		n := count(b[i])
		fmt.Fprintf(&s, " %d | %d | %d |\n", n[pass], n[safe], n[fail])
	}
	return s.String()
}

func count(row []cell) map[verdict]int {
	n := make(map[verdict]int)
	for _, x := range row {
		n[x.verdict]++
	}
	return n
}

// criteria is made of the very rules that the verdicts are.
func criteria() string {
	var s strings.Builder
	s.WriteString("## Faults and criteria\n\n")
	s.WriteString("A verdict is **pass** if all that its column says is so, else **safe** if all in that one is, else **fail**. Both ask for this, too:\n\n")
	for _, u := range never(&fault{most: perCall}) {
		fmt.Fprintf(&s, "- %s\n", u.text)
	}
	fmt.Fprintf(&s, "- in fault %d instead: %s while it is down\n\n", outageNumber(), noHammering(perOutage).text)
	s.WriteString("| # | fault | the primary answers with | stream | pass | safe |\n|---|---|---|---|---|---|\n")
	for j, f := range faults {
		stream := "no"
		if f.stream {
			stream = "yes"
		}
		fmt.Fprintf(&s, "| %d | %s | %s | %s | %s | %s |\n", j+1, f.name, f.does, stream, texts(f.pass), texts(f.safe))
	}
	return s.String()
}

func outageNumber() int {
	return 1 + slices.IndexFunc(faults, func(f *fault) bool { return f.outage })
}

func gotTable(b board) string {
	var s strings.Builder
	s.WriteString("| # | fault |")
	for _, c := range contenders {
		fmt.Fprintf(&s, " %s |", c.name)
	}
	s.WriteString("\n|---|---|" + strings.Repeat("---|", len(contenders)) + "\n")
	for j, f := range faults {
		fmt.Fprintf(&s, "| %d | %s |", j+1, f.name)
		for i := range contenders {
			x := b[i][j]
			fmt.Fprintf(&s, " %s (%d+%d, %.1f s) |", x.got, x.asked[0], x.asked[1], float64(x.took)/float64(time.Second))
		}
		s.WriteString("\n")
	}
	return s.String()
}

func setUps() string {
	var s strings.Builder
	for _, c := range contenders {
		fmt.Fprintf(&s, "- **%s**: %s.\n", c.name, c.about)
	}
	return s.String()
}
