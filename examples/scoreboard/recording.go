package main

import (
	"net/http"
	"time"

	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// result is what a caller has in hand after a call.
type result struct {
	status  int    // of the response; 0: none, or the contender does not tell
	code    string // error.code of a response that is an error
	text    string // what the model is taken to have said
	model   string // who is said to have answered
	in, out int    // tokens that are said to have been used
	err     error
	took    time.Duration
	hung    bool // it took all of the caller's patience
}

// answered tells whether the caller takes this for an answer.
func (r result) answered() bool { return r.err == nil && r.status == http.StatusOK }

// whole tells whether it is the answer as the provider meant it.
func (r result) whole() bool { return r.answered() && r.text == wholeText }

// hit is one request that a provider read in full.
type hit struct {
	at   time.Time // when it had been read
	over time.Time // when its exchange was over; zero: it never was
}

// recording is everything that a verdict is made from: what the callers got
// and what the providers saw.
type recording struct {
	calls   []result // one, in the outage twenty
	after   []result // calls made once the primary is well again
	primary []hit
	backup  []hit
	well    time.Time // when the primary was well again; zero: no outage
	times   times
}

// down are the primary's hits during the outage, all where there was none.
func (r *recording) down() []hit {
	if r.well.IsZero() {
		return r.primary
	}
	var d []hit
	for _, h := range r.primary {
		if h.at.Before(r.well) {
			d = append(d, h)
		}
	}
	return d
}

// all are the results of all calls.
func (r *recording) all() []result { return append(r.calls[:len(r.calls):len(r.calls)], r.after...) }

func hitsOf(up *upstreamtest.Upstream) []hit {
	var hits []hit
	for _, req := range up.Requests() {
		hits = append(hits, hit{at: req.Time, over: req.Ended})
	}
	return hits
}
