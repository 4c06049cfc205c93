package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errBroken = errors.New("broken")

// The results that callers may have in hand.
var (
	answer   = result{status: 200, text: wholeText, model: primaryModel, in: primaryIn, out: primaryOut}
	backup   = result{status: 200, text: wholeText, model: backupModel, in: backupIn, out: backupOut}
	cutShort = result{status: 200, text: wholeText[:9], model: primaryModel}
	toldCut  = result{status: 200, text: wholeText[:9], model: primaryModel, err: errBroken}
	failed   = result{err: errBroken}
	hung     = result{err: errBroken, hung: true}
)

func status(code int, word string) result { return result{status: code, code: word} }

// hits are requests so many milliseconds after the start, each answered at
// once.
func hits(ms ...int) []hit {
	var h []hit
	for _, m := range ms {
		at := time.Unix(1000, 0).Add(time.Duration(m) * time.Millisecond)
		h = append(h, hit{at: at, over: at})
	}
	return h
}

func one(r result, primary, second []hit) *recording {
	return &recording{calls: []result{r}, primary: primary, backup: second, times: short}
}

// outage is a recording of twenty calls with that result, n requests to the
// primary while it was down, and what three later calls got.
func outage(r result, n int, after ...result) *recording {
	rec := &recording{after: after, well: time.Unix(1000, 0).Add(short.outage), times: short}
	for range outageCalls {
		rec.calls = append(rec.calls, r)
	}
	for i := range n {
		rec.primary = append(rec.primary, hits(i)...)
	}
	rec.primary = append(rec.primary, hits(4000, 4001, 4002)...) // well again: these do not count
	return rec
}

func byName(t *testing.T, name string) *fault {
	for _, f := range faults {
		if f.name == name {
			return f
		}
	}
	require.FailNow(t, "no such fault", name)
	return nil
}

func TestThereAreSixteenFaultsAndSevenContenders(t *testing.T) {
	assert.Len(t, faults, 16)
	assert.Len(t, contenders, 7)
	for _, f := range faults {
		assert.NotEmpty(t, f.does, f.name)
		assert.NotEmpty(t, f.pass, f.name)
		assert.NotEmpty(t, f.safe, f.name)
		assert.Positive(t, f.most, f.name)
	}
}

func TestEachFaultsPassSafeAndFail(t *testing.T) {
	type want struct {
		what string
		rec  *recording
		v    verdict
	}
	tooLong := status(400, "context_length_exceeded")
	filtered := status(400, "content_filter")
	for name, wants := range map[string][]want{
		"429 with Retry-After once": {
			{"waited", one(answer, hits(0, 1000), nil), pass},
			{"the backup's", one(backup, hits(0), hits(1)), pass},
			{"asked again too soon", one(answer, hits(0, 900), nil), safe},
			{"the 429", one(status(429, ""), hits(0), nil), safe},
		},
		"429 for ever": {
			{"waited, then the backup", one(backup, hits(0, 1000, 2100, 3100), hits(3101)), pass},
			{"the 429", one(status(429, ""), hits(0, 1000), nil), safe},
			{"six requests", one(status(429, ""), hits(0, 1000, 2000, 3000, 4000, 5000), nil), fail},
		},
		"500 once": {
			{"retried", one(answer, hits(0, 50), nil), pass},
			{"the 500", one(status(500, ""), hits(0), nil), safe},
			{"a tight loop", one(answer, hits(0, 4), nil), fail},
		},
		"503 for ever": {
			{"the backup", one(backup, hits(0, 50, 150), hits(151)), pass},
			{"the 503", one(status(503, ""), hits(0, 50, 150, 350, 750), nil), safe},
			{"hammering the backup", one(backup, hits(0), hits(1, 2, 3)), fail},
		},
		"reset before headers once": {
			{"retried", one(answer, hits(0, 50), nil), pass},
			{"an error", one(failed, hits(0), nil), safe},
			{"a hang", one(hung, hits(0), nil), fail},
		},
		"no answer at all": {
			{"the backup", one(backup, hits(0), hits(3000)), pass},
			{"the backup, the primary asked twice", one(backup, hits(0, 3000), hits(6000)), safe},
			{"a timeout", one(failed, hits(0), nil), safe},
			{"a hang", one(hung, hits(0), nil), fail},
		},
		"first token late": {
			{"waited", one(answer, hits(0), nil), pass},
			{"the backup", one(backup, hits(0), hits(600)), pass},
			{"asked again", one(answer, hits(0, 600), nil), safe},
			{"a timeout", one(failed, hits(0), nil), safe},
		},
		"stream cut after two thirds": {
			{"retried", one(answer, hits(0, 50), nil), pass},
			{"told", one(toldCut, hits(0), nil), safe},
			{"short", one(cutShort, hits(0), nil), fail},
		},
		"stream stalls": {
			{"the backup", one(backup, hits(0), hits(500)), pass},
			{"told", one(toldCut, hits(0), nil), safe},
			{"a hang", one(hung, hits(0), nil), fail},
		},
		"one malformed chunk": {
			{"retried", one(answer, hits(0, 50), nil), pass},
			{"told", one(toldCut, hits(0), nil), safe},
			{"a word lost", one(result{status: 200, text: "Nine words make up this whole honest answer"}, hits(0), nil), fail},
		},
		"no [DONE]": {
			{"whole", one(answer, hits(0), nil), pass},
			{"asked again", one(answer, hits(0, 50), nil), safe},
			{"taken for broken", one(toldCut, hits(0), nil), safe},
			{"a hang", one(hung, hits(0), nil), fail},
		},
		"context length exceeded": {
			{"told", one(tooLong, hits(0), nil), pass},
			{"told after a repeat", one(tooLong, hits(0, 50), nil), safe},
			{"told after all others were tried", one(tooLong, hits(0), hits(1)), safe},
			{"the code lost", one(status(400, ""), hits(0), nil), safe},
			{"another model took it", one(backup, hits(0), hits(1)), safe},
		},
		"content filter refusal": {
			{"told", one(filtered, hits(0), nil), pass},
			{"told after a repeat", one(filtered, hits(0, 50), nil), safe},
			{"the code lost", one(failed, hits(0), nil), safe},
			{"got round", one(backup, hits(0), hits(1)), fail},
		},
		"cut stream, backup refuses a prefill": {
			{"the backup", one(backup, hits(0, 50, 150, 350), hits(351)), pass},
			{"told", one(toldCut, hits(0), nil), safe},
			{"refused", one(status(400, "prefill_not_supported"), hits(0), hits(1)), safe},
			{"short", one(cutShort, hits(0), nil), fail},
		},
		"down for a minute": {
			{"the backup, then the primary", outage(backup, 60, backup, answer, answer), pass},
			{"the backup for ever", outage(backup, 20, backup, backup, backup), safe},
			{"errors", outage(status(503, ""), 20, answer, answer, answer), safe},
			{"errors, a slow return", outage(status(503, ""), 20, failed, failed, answer), safe},
			{"never back", outage(status(503, ""), 5, failed, failed, failed), fail},
			{"hammering", outage(backup, 61, answer, answer, answer), fail},
			{"one hangs", outage(backup, 20, answer, hung, answer), fail},
		},
		"accounting": {
			{"the backup's", one(backup, hits(0), hits(1)), pass},
			{"the 503", one(status(503, ""), hits(0), nil), safe},
			{"the primary's model", one(result{status: 200, text: wholeText, model: primaryModel, in: backupIn, out: backupOut}, hits(0), hits(1)), fail},
			{"no usage", one(result{status: 200, text: wholeText, model: backupModel}, hits(0), hits(1)), fail},
		},
	} {
		f := byName(t, name)
		seen := make(map[verdict]bool)
		for _, w := range wants {
			v, why := judge(f, w.rec)
			assert.Equal(t, w.v, v, "%s, %s: %s", name, w.what, why)
			assert.Equal(t, v != pass, why != "", "%s, %s: %q", name, w.what, why)
			seen[w.v] = true
		}
		assert.True(t, seen[pass] && seen[safe], "%s: a case for pass and for safe", name)
		// Whatever the fault, these are never good enough.
		for what, rec := range map[string]*recording{
			"hang":       one(hung, hits(0), nil),
			"short":      one(cutShort, hits(0), nil),
			"six":        one(failed, hits(0, 2000, 4000, 6000, 8000, 10000), nil),
			"tight loop": one(failed, hits(0, 4), nil),
			"nothing":    {times: short},
		} {
			v, _ := judge(f, rec)
			assert.Equal(t, fail, v, "%s: %s", name, what)
		}
	}
}
