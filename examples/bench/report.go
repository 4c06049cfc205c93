package main

import (
	"fmt"
	"runtime/debug"
	"strings"
)

// markdown is the section's table and its targets; missed is how many of
// those were not met.
func (s *section) markdown() (text string, missed int) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", s.title, s.note)
	if s.rows[0].weigh != nil {
		s.weights(&b)
	} else {
		s.times(&b)
	}
	if len(s.targets) == 0 {
		return b.String(), 0
	}
	b.WriteString("\n| target | measured | at most | |\n| --- | ---: | ---: | --- |\n")
	for _, t := range s.targets {
		got := s.over(t.of)
		verdict := "pass"
		switch {
		case got > t.limit:
			verdict = "**miss**"
			missed++
		case t.good > 0 && got <= t.good:
			verdict = fmt.Sprintf("pass, good (%s)", number(t.good))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", t.what, number(got)+t.unit, number(t.limit)+t.unit, verdict)
	}
	return b.String(), missed
}

func (s *section) times(b *strings.Builder) {
	fmt.Fprintf(b, "| | time | × %s | allocs | bytes |\n| --- | ---: | ---: | ---: | ---: |\n", s.base)
	for _, r := range s.rows {
		of := func(get func(sample) float64) float64 {
			return s.over(func(all round) float64 { return get(all[r.name]) })
		}
		fmt.Fprintf(b, "| %s | %s | %s | %.0f | %.0f |\n", r.name,
			duration(of(func(x sample) float64 { return x.ns })),
			number(s.over(func(all round) float64 { return all[r.name].ns / all[s.base].ns })),
			of(func(x sample) float64 { return x.allocs }),
			of(func(x sample) float64 { return x.bytes }))
	}
}

func (s *section) weights(b *strings.Builder) {
	fmt.Fprintf(b, "| | %s |\n| ---%s |\n", strings.Join(s.columns, " | "), strings.Repeat(" | ---:", len(s.columns)))
	for _, r := range s.rows {
		fmt.Fprintf(b, "| %s", r.name)
		for _, get := range []func(sample) float64{
			func(x sample) float64 { return x.bytes },
			func(x sample) float64 { return x.stacks },
			func(x sample) float64 { return x.goroutines },
		}[:len(s.columns)] {
			fmt.Fprintf(b, " | %s", number(s.over(func(all round) float64 { return get(all[r.name]) })))
		}
		b.WriteString(" |\n")
	}
}

// number prints three digits, whole numbers as such.
func number(x float64) string {
	switch {
	case x == 0:
		return "0" // and never -0
	case x == float64(int64(x)) || x >= 1000 || x <= -1000:
		return fmt.Sprintf("%.0f", x)
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

func duration(ns float64) string {
	switch {
	case ns >= 1e6:
		return fmt.Sprintf("%.3g ms", ns/1e6)
	case ns >= 1e3:
		return fmt.Sprintf("%.3g µs", ns/1e3)
	}
	return fmt.Sprintf("%.3g ns", ns)
}

// peers are the measured modules, with the versions that were built in.
func peers() []string {
	wanted := map[string]bool{
		"github.com/sony/gobreaker/v2": true, "github.com/eapache/go-resiliency": true,
		"github.com/failsafe-go/failsafe-go": true, "github.com/hashicorp/go-retryablehttp": true,
		"github.com/hashicorp/golang-lru/v2": true, "github.com/openai/openai-go/v3": true,
		"github.com/anthropics/anthropic-sdk-go": true, "github.com/tmaxmax/go-sse": true,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	var out []string
	for _, m := range info.Deps {
		if wanted[m.Path] {
			out = append(out, strings.TrimPrefix(m.Path, "github.com/")+" "+m.Version)
		}
	}
	return out
}
