package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	up "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

const (
	primaryModel = "model-a"
	backupModel  = "model-b"

	primaryIn, primaryOut = 11, 22
	backupIn, backupOut   = 33, 44

	perCall   = 5 // requests to one provider for one call: a first one and four retries
	perOutage = 3 // in an outage: a first one and two retries of it, on average

	outageCalls = 20
	afterCalls  = 3
)

var words = []string{"Nine", " words", " make", " up", " this", " whole", " and", " honest", " answer"}

var wholeText = strings.Join(words, "")

// cut is how many words of a broken stream arrive: two thirds.
const cut = 6

// fault is a script of the primary provider, and of its backup where that is
// anything but well, with what is right to make of it.
type fault struct {
	name    string
	does    string // what the primary does
	stream  bool   // the caller asks for a stream
	outage  bool   // twenty calls during it, some more afterwards
	most    int    // requests to one provider by the call; more is hammering
	primary func(times) []up.Step
	refuses func(*up.Request) bool // what the backup answers with a 400; nil: nothing
	pass    []rule
	safe    []rule
}

var (
	good = up.OK(words...).Usage(primaryIn, primaryOut)
	half = good.CutAfterText(cut)
)

func steps(s ...up.Step) func(times) []up.Step { return func(times) []up.Step { return s } }

// faults is the one place where the sixteen are described: the runs, the
// verdicts and the documentation are made from it.
var faults = []*fault{
	{
		name: "429 with Retry-After once", does: "a 429 that asks for a wait, then well", most: perCall,
		primary: func(t times) []up.Step { return []up.Step{limited(t), good} },
		pass:    []rule{wholeAnswer, waitHonoured}, safe: []rule{errorOrAnswer},
	},
	{
		name: "429 for ever", does: "a 429 that asks for a wait, each time", most: perCall,
		primary: func(t times) []up.Step { return []up.Step{limited(t)} },
		pass:    []rule{wholeAnswer, waitHonoured}, safe: []rule{errorOrAnswer},
	},
	{
		name: "500 once", does: "a 500, then well", most: perCall,
		primary: steps(up.Status(http.StatusInternalServerError), good),
		pass:    []rule{wholeAnswer}, safe: []rule{cleanError},
	},
	{
		name: "503 for ever", does: "a 503 each time", most: perCall,
		primary: steps(up.Status(http.StatusServiceUnavailable)),
		pass:    []rule{wholeAnswer}, safe: []rule{cleanError},
	},
	{
		name: "reset before headers once", does: "reads the request and resets the connection, then well", most: perCall,
		primary: steps(up.Drop().Reset(), good),
		pass:    []rule{wholeAnswer}, safe: []rule{cleanError},
	},
	{
		name: "no answer at all", does: "reads the request and says nothing, each time", most: perCall,
		primary: steps(up.Silence()),
		pass:    []rule{wholeAnswer, askedOnce}, safe: []rule{errorOrAnswer},
	},
	{
		name: "first token late", does: "headers at once, the first token after 20 s (3 s in a short run)", stream: true, most: perCall,
		primary: func(t times) []up.Step { return []up.Step{good.FirstToken(t.firstToken)} },
		pass:    []rule{wholeAnswer, askedOnce}, safe: []rule{errorOrAnswer},
	},
	{
		name: "stream cut after two thirds", does: "six of nine words, then a clean end of the body, no finish reason; then well", stream: true, most: perCall,
		primary: steps(half, good),
		pass:    []rule{wholeAnswer}, safe: []rule{cleanError},
	},
	{
		name: "stream stalls", does: "six of nine words, then silence on an open connection; then well", stream: true, most: perCall,
		primary: steps(half.Stall(), good),
		pass:    []rule{wholeAnswer}, safe: []rule{cleanError},
	},
	{
		name: "one malformed chunk", does: "the seventh of nine words in a chunk that is no JSON, the rest as it should be; then well", stream: true, most: perCall,
		primary: steps(malformed(), good),
		pass:    []rule{wholeAnswer}, safe: []rule{cleanError},
	},
	{
		name: "no [DONE]", does: "a whole stream with its finish reason, but no [DONE], each time", stream: true, most: perCall,
		primary: steps(good.NoDone()),
		pass:    []rule{wholeAnswer, askedOnce}, safe: []rule{errorOrAnswer},
	},
	{
		name: "context length exceeded", does: "a 400 with the code context_length_exceeded, each time", most: perCall,
		primary: steps(refusal("context_length_exceeded", "this request is longer than the 8192 tokens that fit")),
		pass:    []rule{refusedWith("context_length_exceeded"), nothingElse}, safe: []rule{errorOrAnswer},
	},
	{
		name: "content filter refusal", does: "a 400 with the code content_filter, each time", stream: true, most: perCall,
		primary: steps(refusal("content_filter", "the prompt was filtered by the content management policy, modify it and retry")),
		pass:    []rule{refusedWith("content_filter"), nothingElse}, safe: []rule{cleanError},
	},
	{
		name: "cut stream, backup refuses a prefill", does: "six of nine words, then a clean end of the body, each time; the backup answers a request that ends in the assistant's words with a 400",
		stream: true, most: perCall,
		primary: steps(half), refuses: prefilled,
		pass: []rule{wholeAnswer}, safe: []rule{cleanError},
	},
	{
		name: "down for a minute", does: "a 503 for a minute (3 s in a short run) in which 20 calls come in, then well; 3 more calls when a breaker's open time has passed",
		outage: true, most: perOutage,
		primary: func(t times) []up.Step {
			return []up.Step{up.Status(http.StatusServiceUnavailable).For(t.outage), good}
		},
		pass: []rule{wholeAnswer, backAgain}, safe: []rule{errorOrAnswer, afterwards},
	},
	{
		name: "accounting", does: fmt.Sprintf("a 503 each time; a good answer of it would report %s with %d and %d tokens", primaryModel, primaryIn, primaryOut),
		stream: true, most: perCall,
		primary: steps(up.Status(http.StatusServiceUnavailable)),
		pass:    []rule{wholeAnswer, backupsAccount}, safe: []rule{cleanError},
	},
}

func limited(t times) up.Step { return up.Status(http.StatusTooManyRequests).RetryAfter(t.retryAfter) }

func refusal(code, message string) up.Step {
	return up.Status(http.StatusBadRequest).Body("application/json", fmt.Sprintf(
		`{"error":{"message":%q,"type":"invalid_request_error","param":"messages","code":%q}}`, message, code))
}

// malformed is a good stream but for one word, whose chunk breaks off in the
// middle of its JSON. Its bytes are made here because the loss of a word is
// the point: a reader that skips the chunk has a text that only looks whole.
func malformed() up.Step {
	var events []string
	for i, w := range words {
		chunk := fmt.Sprintf(`{"id":"c","object":"chat.completion.chunk","created":1,"model":%q,"choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, primaryModel, w)
		if i == cut {
			chunk = chunk[:len(chunk)-30]
		}
		events = append(events, "data: "+chunk+"\n\n")
	}
	events = append(events,
		fmt.Sprintf("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":%q,\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n", primaryModel),
		"data: [DONE]\n\n")
	return up.RawStream(events...)
}

// prefilled tells whether a request ends in a message of the assistant, for
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
