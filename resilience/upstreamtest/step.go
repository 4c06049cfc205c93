package upstreamtest

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Step says how one request is answered. It is a plain value: every method
// returns a changed copy, so that a Step can be kept, shared and varied. Make
// one with [OK], [Stream], [JSON], [Status], [Hidden], [RawStream], [Silence]
// or another constructor. The zero Step is an empty 200.
//
// The parts of a Step are independent of each other: what is sent (the
// constructor, [Step.Set], [Step.At]), where it stops ([Step.CutAfter],
// [Step.CutAfterText], [Step.CutBytes]), how it ends ([Step.FIN],
// [Step.Reset], [Step.Stall], [Step.BadChunk]), when ([Step.Delay],
// [Step.FirstToken], [Step.Every]), how it is framed ([Step.LineEnds],
// [Step.WriteSize], [Step.Gzip], [Step.CloseDelimited]) and for how many
// requests it stands ([Step.Times], [Step.For]).
type Step struct {
	content  func(*Step, *Request) content // nil: nothing
	handler  func(http.ResponseWriter, *http.Request)
	verbatim bool // content is the whole reply, head included
	mute     bool // no head is ever sent

	status  int // 0: 200
	header  []field
	answer  answer
	edits   []edit
	delay   time.Duration
	gate    <-chan struct{}
	inserts []insert
	every   time.Duration

	cutEvents limit
	cutTexts  limit
	cutBytes  limit
	inside    bool
	noDone    bool
	end       ending

	untilClose bool
	length     limit
	gzip       bool
	writeSize  int
	lineEnd    LineEnd

	keep    bool  // the answer can be read again
	repeats []int // of a Rest
	skips   int

	times int
	lasts time.Duration
	cycle []Step
	flap  *flap
}

type field struct{ name, value string }

// limit is an optional number.
type limit struct {
	set bool
	n   int
}

// insert puts pieces after n events; n < 0 is the very end.
type insert struct {
	n      int
	pieces []Piece
}

// ending is what happens once everything was sent.
type ending int

const (
	endClean      ending = iota // the framing's own end
	endFIN                      // TCP close, without the framing's end
	endReset                    // TCP reset
	endStall                    // nothing, until the client goes
	endBadChunk                 // a chunk-size line that is none, then FIN
	endReuseReset               // framing's own end; reset at the next request's first byte
)

// LineEnd is how the lines of an event stream end.
type LineEnd string

// The line ends of an event stream. The empty LineEnd is the format's own: LF,
// for Gemini CRLF. Bedrock's frames have none.
const (
	LF    LineEnd = "\n"
	CRLF  LineEnd = "\r\n"
	CR    LineEnd = "\r"
	Mixed LineEnd = "\n\r\n" // fields end in LF, the blank line in CRLF
)

// OK is a good answer in the request's own format: a stream with one delta for
// each text where the request asked for a stream, else one JSON body with the
// texts joined. Model lists and embeddings are answered as such.
func OK(texts ...string) Step {
	return Step{answer: answer{texts: slices.Clone(texts)}, content: okContent}
}

// Stream is a good streaming answer in the request's format, whether or not
// the request asked for one.
func Stream(texts ...string) Step {
	s := OK(texts...)
	s.content = streamContent
	return s
}

// JSON is a good answer in the request's format as one JSON body, also where
// a stream was asked for.
func JSON(texts ...string) Step {
	s := OK(texts...)
	s.content = wholeContent
	return s
}

// ToolCall is a good answer that calls one tool and says nothing else.
// arguments is the JSON text of the arguments; a stream sends it in two halves.
func ToolCall(name, arguments string) Step {
	return Step{answer: answer{tool: name, args: arguments}, content: okContent}
}

// Status is an answer with this status and, from 400 on, an error body in the
// request's format that names it. [Step.Body] replaces the body.
func Status(code int) Step {
	return Step{status: code, content: statusContent}
}

// Body is a 200 with exactly this body and Content-Type; an empty contentType
// sends no such header.
func Body(contentType, body string) Step {
	return Step{}.Body(contentType, body)
}

// Empty is a 200 with Content-Length: 0.
func Empty() Step { return Step{} }

// HTML is a 200 with a page (a login, a challenge, a maintenance notice) where
// an answer was due.
func HTML() Step { return Hidden(HiddenHTML, 0) }

// RawStream is a 200 text/event-stream with exactly these bytes. Each argument
// counts as one event for [Step.CutAfter] and [Step.At], and is written and
// flushed by itself.
func RawStream(events ...string) Step {
	events = slices.Clone(events)
	return Step{content: func(*Step, *Request) content {
		c := content{mime: "text/event-stream", stream: true, exact: true}
		for _, e := range events {
			c.events = append(c.events, event{data: []byte(e), text: true})
		}
		return c
	}}
}

// Silence reads the request and never answers it: it ends when the client goes
// away or the [Upstream] is closed. To answer late use [Step.Delay].
func Silence() Step { return Step{mute: true, end: endStall} }

// Drop reads the request and closes the connection without an answer (FIN);
// Drop().Reset() resets it. In HTTP/2 both reset the stream.
func Drop() Step { return Step{mute: true, end: endFIN} }

// Raw answers with a handler. The request's body can be read once more (its
// first 32 MiB). The request's context ends when the client goes away or the
// Upstream is closed; h has to return then. In memory the answer begins when h
// returns. Other settings of the Step, except how long it stands, are ignored.
func Raw(h func(http.ResponseWriter, *http.Request)) Step { return Step{handler: h} }

// RawConn answers with exactly these bytes on the connection, status line and
// headers included, then closes it (FIN); [Step.Reset], [Step.Stall],
// [Step.At] and [Step.Delay] apply. Each argument is written by itself. It
// needs HTTP/1: an HTTP/2 stream is reset.
func RawConn(writes ...string) Step {
	s := RawStream(writes...)
	s.verbatim, s.end = true, endFIN
	return s
}

// Cycle goes through the steps again and again, one a request (or as long as
// each of them stands, see [Step.Times] and [Step.For]). Like every Step it
// stands for one request unless it is the last of its script or told otherwise.
func Cycle(steps ...Step) Step { return Step{cycle: append([]Step{}, steps...)} }

// Flap answers with a for one period, then with b for one, and so on, by the
// clock (time.Now), from its first request on. Like every Step it stands for
// one request unless it is the last of its script or told otherwise.
func Flap(period time.Duration, a, b Step) Step {
	return Step{flap: &flap{period: max(period, 1), a: a, b: b}}
}

// Times makes the Step stand for n requests in its script; less than one is one.
func (s Step) Times(n int) Step { s.times = n; return s }

// For makes the Step stand for all requests of its script that come within d
// of the first one, however many; it goes before [Step.Times].
func (s Step) For(d time.Duration) Step { s.lasts = d; return s }

// Code sets the status.
func (s Step) Code(status int) Step { s.status = status; return s }

// Header adds a response header; a value for a name that the Step sets itself
// (Content-Type) replaces it.
func (s Step) Header(name, value string) Step {
	s.header = append(slices.Clip(s.header), field{name, value})
	return s
}

// RetryAfter adds a Retry-After header in whole seconds, rounded up.
func (s Step) RetryAfter(d time.Duration) Step {
	secs := (d + time.Second - 1) / time.Second
	return s.Header("Retry-After", strconv.FormatInt(int64(secs), 10))
}

// Body replaces the body by exactly these bytes, labelled with contentType
// (empty: no Content-Type header).
func (s Step) Body(contentType, body string) Step {
	s.content = func(*Step, *Request) content {
		return content{mime: contentType, exact: true, events: []event{{data: []byte(body), text: true}}}
	}
	return s
}

// Finish sets the reason that a good answer ends with, verbatim: chat
// finish_reason ("length"), messages stop_reason, Gemini finishReason, Ollama
// done_reason, Cohere finish_reason. Responses: "failed", "cancelled" and
// "completed" are the terminal event, anything else the reason of an
// incomplete one.
func (s Step) Finish(reason string) Step { s.answer.finish = reason; return s }

// Usage sets the token counts that a good answer reports; the default is 1 for
// the input and 1 for each text.
func (s Step) Usage(input, output int) Step {
	s.answer.usage, s.answer.in, s.answer.out = true, input, output
	return s
}

// At inserts pieces after n events of the body; a JSON body is one event. A
// negative n is the very end, behind whatever was cut.
func (s Step) At(n int, pieces ...Piece) Step {
	s.inserts = append(slices.Clip(s.inserts), insert{n, slices.Clone(pieces)})
	return s
}

// FailAfter ends the stream with the format's error event after n events; 0
// makes it the first. Chat streams still send their [DONE], as vLLM does,
// unless [Step.NoDone] is given.
func (s Step) FailAfter(n, status int) Step {
	s = s.At(n, ErrorEvent(status), doneMark()).CutAfter(n)
	return s
}

// CutAfter stops after n events, counted as they stand on the wire, lifecycle
// events included; 0 sends none. How the body then ends is another matter: by
// itself the framing's own end is sent, so that only the protocol can tell.
func (s Step) CutAfter(n int) Step { s.cutEvents = limit{true, n}; return s }

// CutAfterText stops after the n-th piece of text (or tool arguments); 0 stops
// before the first, behind the format's lifecycle events.
func (s Step) CutAfterText(n int) Step { s.cutTexts = limit{true, n}; return s }

// CutBytes stops after n bytes of the body (before compression). A JSON body
// is framed as if it ended there; with [Step.FIN], [Step.Reset] or
// [Step.Stall] its Content-Length is still that of the whole.
func (s Step) CutBytes(n int) Step { s.cutBytes = limit{true, n}; return s }

// InsideLine makes a cut fall into the middle of the next event's line instead
// of between two events.
func (s Step) InsideLine() Step { s.inside = true; return s }

// NoDone leaves out the format's final mark: chat and completions [DONE],
// messages message_stop (an invoked Bedrock model's, too). Other formats have
// none beside their last event.
func (s Step) NoDone() Step { s.noDone = true; return s }

// FIN closes the connection without the framing's own end: no terminating
// chunk. An answer whose Content-Length was sent in full is whole for the
// client, which then finds its idle connection closed.
func (s Step) FIN() Step { s.end = endFIN; return s }

// Reset ends as [Step.FIN] does, but by a TCP reset (SO_LINGER 0); in HTTP/2
// by RST_STREAM(INTERNAL_ERROR).
func (s Step) Reset() Step { s.end = endReset; return s }

// Stall leaves the connection open and silent where the body would end, until
// the client goes away or the Upstream is closed.
func (s Step) Stall() Step { s.end = endStall; return s }

// BadChunk ends a chunked body with a chunk-size line that is none.
func (s Step) BadChunk() Step { s.end = endBadChunk; return s }

// ResetOnReuse answers in full and keeps the connection open, but resets it
// when the first byte of the next request arrives.
func (s Step) ResetOnReuse() Step { s.end = endReuseReset; return s }

// Delay waits before anything is sent, headers included.
func (s Step) Delay(d time.Duration) Step { s.delay = d; return s }

// Hold waits, before anything is sent, until ch is closed or delivers.
func (s Step) Hold(ch <-chan struct{}) Step { s.gate = ch; return s }

// FirstToken sends the headers at once and waits before the body's first byte.
func (s Step) FirstToken(d time.Duration) Step { return s.At(0, Wait(d)) }

// Every waits between the events of a stream.
func (s Step) Every(d time.Duration) Step { s.every = d; return s }

// CloseDelimited sends neither a length nor chunks: the body ends where the
// connection does. By HTTP/1.1 such a body cut short looks whole.
func (s Step) CloseDelimited() Step { s.untilClose = true; return s }

// ContentLength declares n bytes whatever is sent. If less is sent the
// connection is closed there; n below the body's length is not supported.
func (s Step) ContentLength(n int) Step { s.length = limit{true, n}; return s }

// Gzip compresses the body with a sync flush at each write, whether or not the
// client accepts it. A cut body has no gzip trailer.
func (s Step) Gzip() Step { s.gzip = true; return s }

// WriteSize sends the body in writes of n bytes; 1 splits every character and
// every CRLF.
func (s Step) WriteSize(n int) Step { s.writeSize = n; return s }

// LineEnds sets the line ends of a stream's events.
func (s Step) LineEnds(e LineEnd) Step { s.lineEnd = e; return s }
