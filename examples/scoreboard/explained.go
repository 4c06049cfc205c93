package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/retry"
	"github.com/surefoot-go/surefoot/streamguard"
)

// The names of our own rows, for the promises and reasons.
const (
	defaults = "surefoot, default"
	budgeted = "surefoot, default, 30 s"
	live     = "surefoot, live"
	whole    = "surefoot, whole"
)

// reason is a setting that keeps a row from a pass, and the change that a test
// proves it with.
type reason struct {
	text   string
	change func(*resilience.Policy, *failover.Policy)
}

var (
	notSentTwice = &reason{
		"`retry.streams: never`: a stream that was dispatched is not sent again, the backup answers; `held_back` asks the primary again",
		func(p *resilience.Policy, _ *failover.Policy) { p.Retry.Streams = retry.StreamsHeldBack },
	}
	notRetried = &reason{
		"`retry.streams: never`, and a 500 is not in `retry.retry_on_statuses`: the backup answers",
		func(p *resilience.Policy, _ *failover.Policy) {
			p.Retry.Streams, p.Retry.RetryOnStatuses = retry.StreamsHeldBack, []string{"default", "500"}
		},
	}
	handedOut = &reason{
		"`stream.hold_until: first_event`: what was handed out can only be told; `complete` holds an answer until it is whole",
		holdComplete,
	}
	handedOutLive = &reason{
		"`stream.hold_until: first_content`: what was handed out can only be told; `complete` holds an answer until it is whole",
		holdComplete,
	}
	notLimited = &reason{
		"`stream.first_event_timeout`, `retry.attempt_timeout` and `timeout` are off: the base transport's 600 s are the only limit; 10 s to the first event leave the backup time",
		limitFirst,
	}
	late = &reason{
		"`stream.first_event_timeout` is off: the late token is waited for; 10 s leave the backup time",
		limitFirst,
	}
	tooLong = &reason{
		"`failover.retry_on_errors` does not hold `too_long`: the refusal goes back",
		func(_ *resilience.Policy, f *failover.Policy) {
			f.RetryOnErrors = append(f.RetryOnErrors, failover.TooLong)
		},
	}
)

func holdComplete(p *resilience.Policy, _ *failover.Policy) {
	p.Stream.HoldUntil = streamguard.HoldComplete
}

func limitFirst(p *resilience.Policy, _ *failover.Policy) {
	p.Stream.FirstEventTimeout = 10 * time.Second
}

// explained names, by row and fault, what keeps it from a pass.
var explained = map[string]map[string]*reason{
	defaults: {
		"1": notSentTwice, "3": notRetried, "6": notLimited, "7": late,
		"8": handedOut, "9": handedOut, "10": handedOut, "12": tooLong, "14": handedOut, "8c": handedOut,
	},
	budgeted: {
		"1": notSentTwice, "3": notRetried, "7": late,
		"8": handedOut, "9": handedOut, "10": handedOut, "12": tooLong, "14": handedOut, "8c": handedOut,
	},
	live: {"8": handedOutLive, "9": handedOutLive, "10": handedOutLive, "14": handedOutLive, "8c": handedOutLive},
}

// reasons lists what is below a pass in surefoot's rows, and why.
func reasons(b board) string {
	var s strings.Builder
	for i, c := range contenders {
		if !strings.HasPrefix(c.name, "surefoot") {
			continue
		}
		var lines []string
		faultsOf := map[string][]string{}
		for j, f := range faults {
			x := b[i][j]
			if x.Verdict == pass {
				continue
			}
			why := "not explained"
			if r := explained[c.name][f.id]; r != nil {
				why = r.text
			}
			line := fmt.Sprintf("%s: %s.", x.Verdict, why)
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
			faultsOf[line] = append(faultsOf[line], f.id)
		}
		if len(lines) == 0 {
			fmt.Fprintf(&s, "- **%s**: nothing.\n", c.name)
		}
		for _, line := range lines {
			fmt.Fprintf(&s, "- **%s**, %s %s\n", c.name, strings.Join(faultsOf[line], ", "), line)
		}
	}
	return s.String()
}
