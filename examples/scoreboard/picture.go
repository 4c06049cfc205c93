package main

import (
	"fmt"
	"html"
	"strings"
)

const (
	margin  = 16
	labels  = 268 // width of the faults' names
	column  = 86
	rowHigh = 40
	header  = 104
	footer  = 56
)

// style has no font of its own, and colours for a light and a dark page; the
// background is the page's.
const style = `
text{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328;font-size:13px}
.got{font-size:11px;text-anchor:middle}
.head{font-size:12px;font-weight:600;text-anchor:middle}
.sum,.foot{font-size:11px;fill:#59636e}
.sum{text-anchor:middle}
.mark{fill:none;stroke-width:2.4;stroke-linecap:round;stroke-linejoin:round}
.pass rect{fill:#dcf5e3}.pass .got{fill:#116329}.pass .mark{stroke:#1a7f37}
.partial rect{fill:#ddf0fb}.partial .got{fill:#0a4a78}.partial .mark{stroke:#0969da}
.safe rect{fill:#fff1c2}.safe .got{fill:#6b4a00}.safe .mark{stroke:#9a6700}
.fail rect{fill:#ffdfdc}.fail .got{fill:#9a0d22}.fail .mark{stroke:#cf222e}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.sum,.foot{fill:#9198a1}
.pass rect{fill:#12351f}.pass .got{fill:#8ae6a6}.pass .mark{stroke:#3fb950}
.partial rect{fill:#0f2d44}.partial .got{fill:#8cc8f5}.partial .mark{stroke:#58a6ff}
.safe rect{fill:#3b2e08}.safe .got{fill:#f2d06b}.safe .mark{stroke:#d29922}
.fail rect{fill:#4b161b}.fail .got{fill:#ffaba5}.fail .mark{stroke:#f85149}
}`

// marks tell the verdicts apart without their colours, around (0,0).
var marks = map[verdict]string{
	pass:    "M-6 0l4 4 8-8",
	partial: "M-6 3l6-6 6 6",
	safe:    "M-6 0h12",
	fail:    "M-5-5l10 10M5-5l-10 10",
}

// picture has a row for each fault and a column for each contender.
func picture(b board, o options) string {
	width := 2*margin + labels + column*len(contenders)
	height := header + rowHigh*len(faults) + footer
	var s strings.Builder
	fmt.Fprintf(&s, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" aria-labelledby=\"t\">\n", width, height, width, height)
	fmt.Fprintf(&s, "<!-- made by: %s -->\n<title id=\"t\">What a caller gets from %d provider faults</title>\n<style>%s\n</style>\n", o.command(), len(faults), style)
	for i, c := range contenders {
		heading(&s, margin+labels+column*i+column/2, c.name, b[i])
	}
	for j, f := range faults {
		y := header + rowHigh*j
		fmt.Fprintf(&s, "<text x=\"%d\" y=\"%d\">%s. %s</text>\n", margin, y+rowHigh/2+4, f.id, html.EscapeString(f.name))
		for i := range contenders {
			drawCell(&s, margin+labels+column*i, y, &b[i][j])
		}
	}
	legend(&s, header+rowHigh*len(faults)+30, o)
	s.WriteString("</svg>\n")
	return s.String()
}

// heading writes the name, a line for each of its parts, above the sums.
func heading(s *strings.Builder, x int, name string, row []cell) {
	var lines []string
	for _, l := range strings.Split(name, ", ") {
		if head, tail, ok := strings.Cut(l, "-"); ok && len(l) > 12 {
			lines = append(lines, head+"-")
			l = tail
		}
		lines = append(lines, l)
	}
	for k, l := range lines {
		fmt.Fprintf(s, "<text class=\"head\" x=\"%d\" y=\"%d\">%s</text>\n", x, header-28-15*(len(lines)-1-k), html.EscapeString(l))
	}
	fmt.Fprintf(s, "<text class=\"sum\" x=\"%d\" y=\"%d\">%s</text>\n", x, header-10, sums(row))
}

func drawCell(s *strings.Builder, x, y int, c *cell) {
	fmt.Fprintf(s, "<g class=\"%s\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\"/>", c.Verdict, x+1, y+1, column-2, rowHigh-2)
	mark(s, x+column/2, y+13, c.Verdict)
	fmt.Fprintf(s, "<text class=\"got\" x=\"%d\" y=\"%d\">%s</text></g>\n", x+column/2, y+32, html.EscapeString(c.Got))
}

func mark(s *strings.Builder, x, y int, v verdict) {
	fmt.Fprintf(s, "<path class=\"mark\" transform=\"translate(%d %d)\" d=\"%s\"/>", x, y, marks[v])
}

func legend(s *strings.Builder, y int, o options) {
	x := margin + 8
	for _, l := range []struct {
		v    verdict
		text string
	}{
		{pass, "pass: the whole answer, all checks hold"},
		{partial, "partial: the answer, an advisory check does not hold"},
		{safe, "safe: a clean error in time"},
		{fail, "fail: a hang, a short answer taken for whole, a required check"},
	} {
		fmt.Fprintf(s, "<g class=\"%s\">", l.v)
		mark(s, x, y-4, l.v)
		fmt.Fprintf(s, "</g><text class=\"foot\" x=\"%d\" y=\"%d\">%s</text>\n", x+14, y, l.text)
		x += 40 + len(l.text)*11/2
	}
	fmt.Fprintf(s, "<text class=\"foot\" x=\"%d\" y=\"%d\">Under each name: how many of each, of the sixteen. Made by %s in examples/scoreboard.</text>\n", margin, y+18, html.EscapeString(o.command()))
}
