// Sdk sends a handful of a provider's faults through the stack to the official
// and the widely used Go SDKs, and lets a second SDK answer where the first
// one's provider is gone. It needs no key and no network: the providers are on
// loopback. An answer that is neither whole nor an error makes it exit 1.
//
// The adapters in internal/sdks are the code to copy; their package
// documentation says what a user of each SDK has to set and to look at. In
// short: the SDK's own retries are switched off (option.WithMaxRetries(0)), its
// HTTP client is the stack's (option.WithHTTPClient(stack.Client())).
//
// The command in ./matrix prints the whole table of SDKs and faults.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"text/tabwriter"
	"time"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
	"github.com/surefoot-go/surefoot/examples/sdk/internal/faults"
	"github.com/surefoot-go/surefoot/examples/sdk/internal/sdks"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

func main() {
	wrong, err := run(context.Background(), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sdk:", err)
		os.Exit(1)
	}
	if wrong > 0 {
		fmt.Fprintf(os.Stderr, "sdk: %d rows went wrong\n", wrong)
		os.Exit(1)
	}
}

// scene is a provider's behaviour and what an SDK over the stack has to report.
type scene struct {
	name   string
	stream bool
	steps  []upstreamtest.Step
	whole  bool // despite the fault
}

func scenes() []scene {
	good := upstreamtest.OK("Hello", " there,", " friend")
	return []scene{
		{"a good stream", true, []upstreamtest.Step{good}, true},
		{"503 twice, then well", false, []upstreamtest.Step{upstreamtest.Status(http.StatusServiceUnavailable).Times(2), good}, true},
		{"empty 200, then well", false, []upstreamtest.Step{upstreamtest.Empty(), good}, true},
		{"page as a 200", false, []upstreamtest.Step{upstreamtest.HTML()}, false},
		{"stream cut", true, []upstreamtest.Step{good.CutAfterText(2)}, false},
		{"stream goes silent", true, []upstreamtest.Step{good.CutAfterText(2).Stall()}, false},
	}
}

func run(ctx context.Context, w io.Writer) (wrong int, err error) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "SDK\tPROVIDER DOES\tREQUESTS\tSDK REPORTS\t")
	for _, s := range sdks.All() {
		for _, sc := range scenes() {
			ok, err := show(ctx, out, s, sc)
			if err != nil {
				return wrong, err
			}
			if !ok {
				wrong++
			}
		}
	}
	ok, err := failOver(ctx, out)
	if err != nil {
		return wrong, err
	}
	if !ok {
		wrong++
	}
	return wrong, out.Flush()
}

// show plays one scene and prints a line of what came of it.
func show(ctx context.Context, out io.Writer, s adapter.SDK, sc scene) (ok bool, err error) {
	up := upstreamtest.New()
	defer up.Close()
	up.Default(sc.steps...)
	stack, err := resilience.Builder{}.Build("demo", faults.Policy())
	if err != nil {
		return false, err
	}
	defer stack.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	text, askErr := s.Ask(ctx, stack.Client(), up.URL, sc.stream)

	ok = askErr != nil
	if sc.whole {
		ok = askErr == nil && text == faults.Whole
	}
	fmt.Fprintf(out, "%s\t%s\t%d\t%s\t%s\n", s.Name, sc.name, up.Count(), report(text, askErr, s.StatusOf(askErr)), verdict(ok))
	return ok, nil
}

func report(text string, err error, status int) string {
	switch {
	case err == nil:
		return fmt.Sprintf("an answer: %q", text)
	case status != 0:
		return fmt.Sprintf("an error (%d)", status)
	case text != "":
		return fmt.Sprintf("%q, then an error", text)
	}
	return "an error"
}

func verdict(ok bool) string {
	if ok {
		return "ok"
	}
	return "WRONG"
}
