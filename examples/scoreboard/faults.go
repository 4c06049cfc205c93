package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	up "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

const (
	primaryModel = "model-a"
	backupModel  = "model-b"

	primaryIn, primaryOut = 11, 22
	backupIn, backupOut   = 33, 44
)

// The budget of every contender, as far as it can be told.
const (
	retries    = 2
	perRequest = 30 * time.Second
)

const (
	usualLimit = time.Minute // of a call whose fault names no other
	rest       = time.Minute // between two faults

	outage   = time.Minute
	cadence  = 4 * time.Second
	recovery = 30 * time.Second
)

// words are the sixty tokens of an answer.
var words = func() []string {
	all := make([]string, 60)
	for i := range all {
		all[i] = fmt.Sprintf("w%d ", i+1)
	}
	return all
}()

var (
	wholeText = strings.Join(words, "")
	lost      = 9 // the token that stands in the event that is not JSON
	holed     = slices.Concat(words[:lost], words[lost+1:])
	holedText = strings.Join(holed, "")
)

// fault is a script of the primary provider, with what is right to make of it.
type fault struct {
	id       string
	name     string
	does     string        // what the primary does
	limit    time.Duration // the call is cut off then; 0: usualLimit
	primary  func(form) up.Step
	second   *up.Step               // what the primary answers from the second request on, nil: the same
	refuses  func(*up.Request) bool // what the backup answers with a 400; nil: nothing
	outage   bool                   // calls during a time in which the primary is down, and after it
	hole     bool                   // an answer without the lost token is a rescue, if not a whole one
	ideal    rule                   // zero: the whole answer
	required []rule
	advisory []rule
}

// form is how events of one wire format are counted.
type form struct{ lifecycle int } // events before the first token

var (
	good = up.OK(words...).Usage(primaryIn, primaryOut)
	well = good
)

func every(s up.Step) func(form) up.Step { return func(form) up.Step { return s } }

// faults is the one place where they are described: the runs, the verdicts and
// the documentation are made from it. The first sixteen are those of the public
// benchmark; the last, which is stricter, is ours.
var faults = []*fault{
	{
		id: "1", name: "429 with Retry-After once", does: "a 429 with `Retry-After: 2`, then well",
		primary: every(up.Status(http.StatusTooManyRequests).RetryAfter(2 * time.Second)), second: &well,
		advisory: []rule{askedAgain, waited(1800 * time.Millisecond), atMost(2, 1500*time.Millisecond)},
	},
	{
		id: "2", name: "429 for ever", does: "a 429 without Retry-After, each time",
		primary:  every(up.Status(http.StatusTooManyRequests)),
		required: []rule{atMost(4, 3*time.Second), inAll(6)},
	},
	{
		id: "3", name: "500 once", does: "a 500, then well",
		primary: every(up.Status(http.StatusInternalServerError)), second: &well,
		advisory: []rule{askedAgain},
	},
	{
		id: "4", name: "503 for ever", does: "a 503 each time",
		primary:  every(up.Status(http.StatusServiceUnavailable)),
		required: []rule{inAll(6)},
	},
	{
		id: "5", name: "reset before headers once", does: "reads the request and resets the connection, then well",
		primary: every(up.Drop().Reset()), second: &well,
	},
	{
		id: "6", name: "no answer at all", does: "reads the request and says nothing, each time", limit: 130 * time.Second,
		primary:  every(up.Silence()),
		required: []rule{within(100 * time.Second)}, advisory: []rule{askedOnce},
	},
	{
		id: "7", name: "first token late", does: "headers at once, the first token after 20 s, each time",
		primary:  every(good.FirstToken(20 * time.Second)),
		advisory: []rule{within(15 * time.Second)},
	},
	{
		id: "8", name: "stream cut", does: "40 of 60 tokens, then the connection is closed without an end of the stream or of the body, each time",
		primary: every(good.CutAfterText(40).FIN()),
	},
	{
		id: "9", name: "stream stalls", does: "20 of 60 tokens, 30 s of silence, then the connection is closed, each time", limit: 45 * time.Second,
		primary: every(good.CutAfterText(20).At(-1, up.Wait(30*time.Second)).FIN()),
	},
	{
		id: "10", name: "one event is not JSON", does: "the tenth token's event is not JSON, all else is as it should be, each time", hole: true,
		primary: func(f form) up.Step {
			return up.OK(holed...).Usage(primaryIn, primaryOut).At(f.lifecycle+lost, up.Malformed())
		},
		advisory: []rule{complete},
	},
	{
		id: "11", name: "no [DONE]", does: "a whole stream with its finish reason, but without [DONE], each time",
		primary:  every(good.NoDone()),
		required: []rule{within(8 * time.Second)},
	},
	{
		id: "12", name: "context length exceeded", does: "a 400 with the code context_length_exceeded, each time",
		primary:  every(refusal("context_length_exceeded", "this request is longer than the 8192 tokens that fit")),
		required: []rule{notResent},
	},
	{
		id: "13", name: "content policy", does: "a 400 with the code content_policy_violation, each time",
		primary: every(refusal("content_policy_violation", "the request was rejected by the safety system")),
		ideal:   cleanError,
	},
	{
		id: "14", name: "stream cut, no prefill", does: "as in 8; the backup answers a request that ends in the assistant's words with a 400",
		primary: every(good.CutAfterText(40).FIN()), refuses: prefilled,
	},
	{
		id: "15", name: "down for a minute", does: "a 503 for 60 s, then well; a call every 4 s until 30 s after that", outage: true,
		primary:  every(up.Status(http.StatusServiceUnavailable)),
		required: []rule{backAgain},
	},
	{
		id: "16", name: "accounting", does: fmt.Sprintf("a 503 each time; the backup's good answer names %s and %d and %d tokens", backupModel, backupIn, backupOut),
		primary:  every(up.Status(http.StatusServiceUnavailable)),
		required: []rule{accounted},
	},
	{
		id: "8c", name: "stream cut, ends cleanly", does: "40 of 60 tokens, then a clean end of the body, each time",
		primary: every(good.CutAfterText(40)),
	},
}

// public is how many of the faults are the public benchmark's.
const public = 16

func refusal(code, message string) up.Step {
	return up.Status(http.StatusBadRequest).Body("application/json", fmt.Sprintf(
		`{"error":{"message":%q,"type":"invalid_request_error","param":"messages","code":%q}}`, message, code))
}

// prefilled reports whether a request ends in a message of the assistant, for
// the model to go on from.
func prefilled(r *up.Request) bool {
	var b struct {
		Messages []struct{ Role string }
	}
	n := 0
	if json.Unmarshal(r.Body, &b) == nil {
		n = len(b.Messages)
	}
	return n > 0 && b.Messages[n-1].Role == "assistant"
}
