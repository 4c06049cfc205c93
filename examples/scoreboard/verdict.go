package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// verdict is what one contender made of one fault.
type verdict string

const (
	pass verdict = "pass" // the whole answer, or the right error, with good conduct towards the provider
	safe verdict = "safe" // a clean error in time
	fail verdict = "fail" // a hang, a short answer taken for a whole one, hammering
)

// rule is one condition of a verdict. The text is what the documentation
// prints, so that no criterion is checked that is not written down.
type rule struct {
	text string
	ok   func(*recording) bool
}

// never are the rules that every verdict but fail asks for.
func never(f *fault) []rule {
	return []rule{noHang, noShort, noHammering(f.most), noTightLoop}
}

// judge is the verdict on a recording and, where it is no pass, the first rule
// that was broken.
func judge(f *fault, r *recording) (verdict, string) {
	if why := broken(never(f), r); why != "" {
		return fail, why
	}
	why := broken(f.pass, r)
	if why == "" {
		return pass, ""
	}
	if worse := broken(f.safe, r); worse != "" {
		return fail, worse
	}
	return safe, why
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

// tight is the shortest wait between a failure and the next request to the
// same provider that is not a tight loop. Every library here waits ten times
// as long by the settings it was given.
const tight = 5 * time.Millisecond

var (
	noHang = rule{"every call ends before the caller's patience does", func(r *recording) bool {
		return each(r.all(), func(c result) bool { return !c.hung })
	}}
	noShort = rule{"no text but the whole one is taken for an answer", func(r *recording) bool {
		return each(r.all(), func(c result) bool { return !c.answered() || c.whole() })
	}}
	noTightLoop = rule{"no request to a provider within 5 ms of the end of the last one", func(r *recording) bool {
		return !r.well.IsZero() || spaced(r.primary, tight) && spaced(r.backup, tight) // the outage's calls are independent
	}}
	wholeAnswer   = rule{"the whole answer", func(r *recording) bool { return each(r.calls, result.whole) }}
	errorOrAnswer = rule{"an error in time, or the whole answer", func(r *recording) bool {
		return each(r.calls, func(c result) bool { return !c.answered() || c.whole() })
	}}
	cleanError = rule{"an error in time", func(r *recording) bool {
		return each(r.calls, func(c result) bool { return !c.answered() })
	}}
	waitHonoured = rule{"no request to the provider before the wait is over that it asked for", func(r *recording) bool {
		for i := 1; i < len(r.primary); i++ {
			if r.primary[i].at.Sub(r.primary[i-1].at) < r.times.retryAfter {
				return false
			}
		}
		return true
	}}
	askedOnce = rule{"no provider asked twice", func(r *recording) bool {
		return len(r.primary) <= 1 && len(r.backup) <= 1
	}}
	nothingElse = rule{"one request in all, nothing else tried", func(r *recording) bool {
		return len(r.primary) == 1 && len(r.backup) == 0
	}}
	backAgain = rule{"afterwards every call gets the whole answer, the last one from the primary", func(r *recording) bool {
		return each(r.after, result.whole) && r.after[len(r.after)-1].model == primaryModel
	}}
	afterwards = rule{"afterwards the last call gets the whole answer", func(r *recording) bool {
		return len(r.after) > 0 && r.after[len(r.after)-1].whole()
	}}
	backupsAccount = rule{fmt.Sprintf("model %s and its usage of %d and %d tokens reported, and no other model by the library", backupModel, backupIn, backupOut), func(r *recording) bool {
		return each(r.calls, func(c result) bool {
			return c.model == backupModel && c.in == backupIn && c.out == backupOut
		})
	}}
)

// refusedWith wants the provider's own refusal to reach the caller.
func refusedWith(code string) rule {
	return rule{"the provider's 400 with the code " + code, func(r *recording) bool {
		return each(r.calls, func(c result) bool { return c.status == http.StatusBadRequest && c.code == code })
	}}
}

// noHammering bounds the requests to one provider, by the call; in an outage
// only those to the provider that is down count.
func noHammering(most int) rule {
	return rule{fmt.Sprintf("at most %d requests a call to one provider", most), func(r *recording) bool {
		limit := most * len(r.calls)
		return len(r.down()) <= limit && len(r.backup) <= limit+len(r.after)
	}}
}

// spaced tells whether d lay between the end of each exchange and the next
// request.
func spaced(hits []hit, d time.Duration) bool {
	for i := 1; i < len(hits); i++ {
		if hits[i].at.Sub(hits[i-1].over) < d {
			return false
		}
	}
	return true
}
