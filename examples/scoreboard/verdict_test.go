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
	holeIn   = result{status: 200, text: holedText, model: primaryModel}
	toldCut  = result{status: 200, text: wholeText[:9], model: primaryModel, err: errBroken}
	failing  = result{err: errBroken}
	hung     = result{err: errBroken, hung: true}
)

func status(code int) result { return result{status: code} }

func after(r result, d time.Duration) result {
	r.took = d
	return r
}

// hits are requests so many milliseconds after the start.
func hits(ms ...int) []time.Time {
	var h []time.Time
	for _, m := range ms {
		h = append(h, time.Unix(1000, 0).Add(time.Duration(m)*time.Millisecond))
	}
	return h
}

func single(r result, primary, second []time.Time) *recording {
	return &recording{calls: []result{r}, primary: primary, backup: second}
}

// down is a recording of an outage: 23 calls with that result, and requests to
// the primary so many seconds after its start.
func down(r result, primary ...int) *recording {
	rec := &recording{well: time.Unix(1000, 0).Add(outage)}
	for range 23 {
		rec.calls = append(rec.calls, r)
	}
	for _, s := range primary {
		rec.primary = append(rec.primary, hits(1000*s)...)
	}
	return rec
}

func TestVerdicts(t *testing.T) {
	type want struct {
		what string
		rec  *recording
		v    verdict
	}
	second := hits(1)
	for id, wants := range map[string][]want{
		"1": {
			{"waited", single(answer, hits(0, 2000), nil), pass},
			{"the backup's, not asked again", single(backup, hits(0), second), partial},
			{"asked again too soon", single(answer, hits(0, 1799), nil), partial},
			{"asked again and again", single(answer, hits(0, 1, 1500), nil), partial},
			{"the 429", single(status(429), hits(0), nil), safe},
		},
		"2": {
			{"the backup's", single(backup, hits(0, 500, 1500), hits(1501)), pass},
			{"five requests in 3 s", single(backup, hits(0, 500, 1000, 2000, 3000), hits(3001)), fail},
			{"five requests in more", single(backup, hits(0, 500, 1000, 2000, 3001), hits(3002)), pass},
			{"seven in all", single(backup, hits(0, 3000, 6000, 9000, 12000, 15000), hits(15001)), fail},
			{"the 429", single(status(429), hits(0, 1000), nil), safe},
		},
		"3": {
			{"retried", single(answer, hits(0, 50), nil), pass},
			{"the backup's", single(backup, hits(0), second), partial},
			{"the 500", single(status(500), hits(0), nil), safe},
		},
		"4": {
			{"the backup's", single(backup, hits(0, 50, 150), hits(151)), pass},
			{"seven requests", single(backup, hits(0, 1, 2, 3, 4, 5), second), fail},
			{"the 503", single(status(503), hits(0, 50, 150), nil), safe},
		},
		"5": {
			{"retried", single(answer, hits(0, 50), nil), pass},
			{"the backup's", single(backup, hits(0), second), pass},
			{"an error", single(failing, hits(0), nil), safe},
		},
		"6": {
			{"the backup's", single(after(backup, 99*time.Second), hits(0), hits(30000)), pass},
			{"the primary asked twice", single(backup, hits(0, 30000), hits(60000)), partial},
			{"too late", single(after(backup, 101*time.Second), hits(0), hits(100000)), fail},
			{"an error too late", single(after(failing, 101*time.Second), hits(0), nil), fail},
			{"a timeout", single(after(failing, 90*time.Second), hits(0), nil), safe},
		},
		"7": {
			{"the backup's", single(after(backup, 15*time.Second), hits(0), hits(10000)), pass},
			{"waited for", single(after(answer, 20*time.Second), hits(0), nil), partial},
			{"a timeout", single(failing, hits(0), nil), safe},
		},
		"8":  {{"the backup's", single(backup, hits(0), second), pass}, {"told", single(toldCut, hits(0), nil), safe}},
		"8c": {{"the backup's", single(backup, hits(0), second), pass}, {"told", single(toldCut, hits(0), nil), safe}},
		"9":  {{"the backup's", single(backup, hits(0), second), pass}, {"told", single(toldCut, hits(0), nil), safe}},
		"10": {
			{"the backup's", single(backup, hits(0), second), pass},
			{"a token lost", single(holeIn, hits(0), nil), partial},
			{"told", single(toldCut, hits(0), nil), safe},
		},
		"11": {
			{"whole", single(after(answer, 8*time.Second), hits(0), nil), pass},
			{"too late", single(after(answer, 9*time.Second), hits(0), nil), fail},
			{"taken for broken", single(toldCut, hits(0), nil), safe},
		},
		"12": {
			{"another model's", single(backup, hits(0), second), pass},
			{"told", single(status(400), hits(0), nil), safe},
			{"told after a repeat", single(status(400), hits(0, 50), nil), fail},
		},
		"13": {
			{"told", single(status(400), hits(0), nil), pass},
			{"got round", single(backup, hits(0), second), partial},
		},
		"14": {
			{"the backup's", single(backup, hits(0), second), pass},
			{"refused", single(status(400), hits(0), second), safe},
		},
		"15": {
			{"the backup's, then the primary's", down(backup, 0, 30, 88), pass},
			{"the primary asked too late", down(backup, 0, 30, 91), fail},
			{"never again", down(backup, 0, 59), fail},
			{"errors", down(status(503), 0, 60), safe},
			{"a short answer", down(cutShort, 0, 60), fail},
		},
		"16": {
			{"the backup's", single(backup, hits(0), second), pass},
			{"the primary's model", single(result{status: 200, text: wholeText, model: primaryModel, in: backupIn, out: backupOut}, hits(0), second), fail},
			{"no usage", single(result{status: 200, text: wholeText, model: backupModel}, hits(0), second), fail},
			{"the 503", single(status(503), hits(0), nil), safe},
		},
	} {
		f := byID(t, id)
		for _, w := range wants {
			v, why := judge(f, w.rec)
			assert.Equal(t, w.v, v, "%s, %s: %s", f.name, w.what, why)
			assert.Equal(t, v != pass, why != "", "%s, %s: %q", f.name, w.what, why)
		}
		for what, rec := range map[string]*recording{ // never good enough
			"hang": single(hung, hits(0), nil), "short": single(cutShort, hits(0), nil), "nothing": {},
		} {
			v, _ := judge(f, rec)
			assert.Equal(t, fail, v, "%s: %s", f.name, what)
		}
	}
}

func byID(t *testing.T, id string) *fault {
	for _, f := range faults {
		if f.id == id {
			return f
		}
	}
	require.FailNow(t, "no such fault", id)
	return nil
}
