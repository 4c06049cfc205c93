package main

import (
	"errors"
	"net/http"
	"time"

	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
	"github.com/surefoot-go/surefoot/streamguard"
)

const whole = "Hello there, friend"

var words = []string{"Hello", " there,", " friend"}

// fault is a script of the provider and what is right to deliver for it.
type fault struct {
	name   string
	stream bool
	steps  []upstreamtest.Step
	right  func(result) bool
}

// wholeAnswer wants the answer as the provider meant it.
func wholeAnswer(r result) bool { return r.answered() && r.text == whole }

// failed wants an error of that status.
func failed(status int) func(result) bool {
	return func(r result) bool { return !r.answered() && r.status == status && r.text == "" }
}

// toldShort wants what had arrived, and to be told that it is not the whole.
func toldShort(r result) bool {
	return r.text == words[0]+words[1] && errors.Is(r.err, streamguard.ErrIncomplete)
}

func steps(s ...upstreamtest.Step) []upstreamtest.Step { return s }

var good = upstreamtest.OK(words...)

var faults = []fault{
	{"a good answer", false, steps(good), wholeAnswer},
	{"a good stream", true, steps(good), wholeAnswer},
	{"503 twice, then well", false, steps(upstreamtest.Status(http.StatusServiceUnavailable).Times(2), good), wholeAnswer},
	{"429 with Retry-After", false, steps(upstreamtest.Status(http.StatusTooManyRequests).RetryAfter(time.Second), good), wholeAnswer},
	{"rate limit inside a 200", false, steps(upstreamtest.Hidden(upstreamtest.HiddenCode, http.StatusTooManyRequests), good), wholeAnswer},
	{"bad key inside a 200", false, steps(upstreamtest.Hidden(upstreamtest.HiddenCode, http.StatusUnauthorized)), failed(http.StatusUnauthorized)},
	{"empty 200", false, steps(upstreamtest.Empty()), failed(http.StatusBadGateway)},
	{"no choices in a 200", false, steps(upstreamtest.Body("application/json", `{"choices":[]}`)), failed(http.StatusBadGateway)},
	{"login page as a 200", false, steps(upstreamtest.HTML()), failed(http.StatusBadGateway)},
	{"connection reset once", false, steps(upstreamtest.Drop().Reset(), good), wholeAnswer},
	{"no answer at all", false, steps(upstreamtest.Silence()), failed(http.StatusGatewayTimeout)},
	{"error as first event", true, steps(good.FailAfter(0, http.StatusServiceUnavailable)), failed(http.StatusServiceUnavailable)},
	{"stream cut, ends cleanly", true, steps(good.CutAfterText(2)), toldShort},
	{"stream cut inside a line", true, steps(good.CutAfterText(2).InsideLine()), toldShort},
	{"stream goes silent", true, steps(good.CutAfterText(2).Stall()), toldShort},
	{"malformed chunk", true, steps(good.CutAfterText(2).At(-1, upstreamtest.Malformed())), toldShort},
}
