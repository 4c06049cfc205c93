package main

import (
	"net/http"
	"time"

	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// result is what a caller has in hand after a call.
type result struct {
	status  int    // of the response; 0: none, or the contender does not tell
	text    string // what the model is taken to have said
	model   string // who is said to have answered
	in, out int    // tokens that are said to have been used
	err     error
	took    time.Duration
	hung    bool // it had to be cut off
}

// answered reports whether the caller takes this for an answer.
func (r result) answered() bool { return r.err == nil && r.status == http.StatusOK }

// whole reports whether it is the answer as the provider meant it.
func (r result) whole() bool { return r.answered() && r.text == wholeText }

// recording is everything that a verdict is made from: what the callers got
// and when the providers had read a request.
type recording struct {
	calls           []result // one, in the outage one every four seconds
	primary, backup []time.Time
	well            time.Time // when the primary was well again; zero: no outage
}

// hitsOf is when the provider read its requests after the first n.
func hitsOf(up *upstreamtest.Upstream, n int) []time.Time {
	var hits []time.Time
	for _, req := range up.Requests()[n:] {
		hits = append(hits, req.Time)
	}
	return hits
}
