package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// choice is one fault of a stream and what is right to deliver for it under
// each of two profiles.
type choice struct {
	name    string
	steps   []upstreamtest.Step
	plainly func(result) bool // default
	wholly  func(result) bool // whole
}

var choices = []choice{
	{"503 once, before a stream", steps(upstreamtest.Status(http.StatusServiceUnavailable), good), failed(http.StatusServiceUnavailable), wholeAnswer},
	{"stream cut once", steps(good.CutAfterText(2), good), toldShort, wholeAnswer},
}

// compare makes the same calls under two profiles: the default one sends no
// stream twice and hands it out at once, whole holds it until its end.
func compare(out io.Writer, up *upstreamtest.Upstream) (wrong int, err error) {
	var clients []*http.Client
	for _, name := range []string{resilience.ProfileDefault, resilience.ProfileWhole} {
		p, err := resilience.Profile(name)
		if err != nil {
			return 0, err
		}
		p.Retry.InitialBackoff = 50 * time.Millisecond
		stack, err := resilience.Builder{}.Build("demo-"+name, p)
		if err != nil {
			return 0, err
		}
		defer stack.CloseIdleConnections()
		clients = append(clients, stack.Client())
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nFAULT\tPROFILE default DELIVERS\tPROFILE whole DELIVERS\t")
	for _, c := range choices {
		verdict := "ok"
		var got [2]result
		for i, right := range []func(result) bool{c.plainly, c.wholly} {
			up.Model(c.name, c.steps...)
			if got[i] = ask(context.Background(), clients[i], up.URL, c.name, true); !right(got[i]) {
				verdict = "WRONG"
			}
		}
		if verdict != "ok" {
			wrong++
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.name, got[0], got[1], verdict)
	}
	return wrong, table.Flush()
}
