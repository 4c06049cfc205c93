package main

import (
	"fmt"
	"strings"
	"time"
)

// verdict is what one contender made of one fault.
type verdict string

const (
	pass    verdict = "pass"    // the whole answer, all checks hold
	partial verdict = "partial" // rescued, but an advisory check does not hold
	safe    verdict = "safe"    // a clean error in time
	fail    verdict = "fail"    // a hang, a required check, a cut answer taken for a whole one
)

var verdicts = []verdict{pass, partial, safe, fail}

// rule is one condition of a verdict. The text is what the documentation
// prints, so that no criterion is checked that is not written down.
type rule struct {
	text string
	ok   func(*recording) bool
}

// judge is the verdict on a recording and, where it is no pass, the first rule
// that was broken.
func judge(f *fault, r *recording) (verdict, string) {
	if why := broken(append([]rule{ends, notShort(f)}, f.required...), r); why != "" {
		return fail, why
	}
	ideal := f.ideal
	if ideal.ok == nil {
		ideal = rescued(f)
	}
	why := broken([]rule{ideal}, r)
	switch {
	case why != "" && broken([]rule{complete}, r) == "": // got round a refusal
		return partial, why
	case why != "":
		return safe, why
	}
	if why = broken(f.advisory, r); why != "" {
		return partial, why
	}
	return pass, ""
}

// broken is the text of the first rule that does not hold, "" if all do.
func broken(rules []rule, r *recording) string {
	for _, u := range rules {
		if !u.ok(r) {
			return "not: " + u.text
		}
	}
	return ""
}

// texts joins what rules say, for the documentation.
func texts(rules []rule) string {
	var t []string
	for _, u := range rules {
		t = append(t, u.text)
	}
	return strings.Join(t, "; ")
}

func each(results []result, ok func(result) bool) bool {
	for _, r := range results {
		if !ok(r) {
			return false
		}
	}
	return len(results) > 0
}

var (
	ends = rule{"every call ends before it is cut off", func(r *recording) bool {
		return each(r.calls, func(c result) bool { return !c.hung })
	}}
	complete   = rule{"the whole answer", func(r *recording) bool { return each(r.calls, result.whole) }}
	cleanError = rule{"a clean error", func(r *recording) bool {
		return each(r.calls, func(c result) bool { return !c.answered() })
	}}
	askedAgain = rule{"the primary asked again", func(r *recording) bool { return len(r.primary) >= 2 }}
	askedOnce  = rule{"the primary asked once", func(r *recording) bool { return len(r.primary) <= 1 }}
	notResent  = rule{"the same request not sent again to the same model", func(r *recording) bool {
		return len(r.primary) <= 1 && len(r.backup) <= 1
	}}
	backAgain = rule{"the primary asked again within 30 s of its recovery", func(r *recording) bool {
		for _, h := range r.primary {
			if d := h.Sub(r.well); d >= 0 && d <= recovery {
				return true
			}
		}
		return false
	}}
	accounted = rule{"an answer names the model that gave it, and its usage", func(r *recording) bool {
		return each(r.calls, func(c result) bool {
			return !c.answered() || c.model == backupModel && c.in == backupIn && c.out == backupOut
		})
	}}
)

// notShort is what nobody may do to a caller.
func notShort(f *fault) rule {
	text := "no text but the whole one is taken for an answer"
	if f.hole {
		text = "no text is taken for an answer that lacks more than the tenth token"
	}
	return rule{text, func(r *recording) bool {
		return each(r.calls, func(c result) bool { return !c.answered() || c.whole() || f.hole && c.text == holedText })
	}}
}

// rescued is what every fault but a refusal wants.
func rescued(f *fault) rule {
	if !f.hole {
		return complete
	}
	return rule{"an answer, with or without the tenth token", func(r *recording) bool {
		return each(r.calls, func(c result) bool { return c.whole() || c.answered() && c.text == holedText })
	}}
}

// within bounds the time of a call.
func within(d time.Duration) rule {
	return rule{fmt.Sprintf("the call ends within %g s", d.Seconds()), func(r *recording) bool {
		return each(r.calls, func(c result) bool { return c.took <= d })
	}}
}

// waited wants a gap between the first two requests to the primary.
func waited(d time.Duration) rule {
	return rule{fmt.Sprintf("the first gap at least %g s", d.Seconds()), func(r *recording) bool {
		return len(r.primary) < 2 || r.primary[1].Sub(r.primary[0]) >= d
	}}
}

// atMost bounds the requests to the primary in the time after the first.
func atMost(n int, d time.Duration) rule {
	return rule{fmt.Sprintf("at most %d requests to the primary in %g s", n, d.Seconds()), func(r *recording) bool {
		return len(r.primary) <= n || r.primary[n].Sub(r.primary[0]) > d
	}}
}

// inAll bounds the requests to both providers.
func inAll(n int) rule {
	return rule{fmt.Sprintf("at most %d requests in all", n), func(r *recording) bool {
		return len(r.primary)+len(r.backup) <= n
	}}
}
