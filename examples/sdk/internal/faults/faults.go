// Package faults sends the same misbehaviour of a provider through each SDK,
// over a bare client and over the stack, and says in a few words what the SDK
// makes of it.
package faults

import (
	"net/http"
	"strings"
	"time"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

var words = []string{"Hello", " there,", " friend"}

// Whole is the text of the whole answer.
var Whole = strings.Join(words, "")

const (
	tool      = "weather"
	arguments = `{"city":"Paris"}`
	// WholeCall is the whole answer where that is a tool call.
	WholeCall = tool + " " + arguments
)

// settle lets what was sent reach the client before a connection is reset, so
// that the outcome does not depend on which of the two it sees first.
const settle = 30 * time.Millisecond

// Fault is something that a provider does to every request.
type Fault struct {
	Name   string
	Stream bool // it is done to a stream
	Good   bool // the answer is whole
	Tool   bool // the answer is a tool call
	Status int  // see Want
	Hidden bool // that status is the SDK's HiddenStatus
	Step   func(adapter.SDK) upstreamtest.Step
}

// Want is the status that the SDK must be told under the stack; 0: any error.
func (f Fault) Want(s adapter.SDK) int {
	if f.Hidden {
		return s.HiddenStatus
	}
	return f.Status
}

// Whole is what the whole answer says.
func (f Fault) Whole() string {
	if f.Tool {
		return WholeCall
	}
	return Whole
}

func hidden(s adapter.SDK) upstreamtest.Step {
	return upstreamtest.Hidden(s.Hidden, http.StatusTooManyRequests)
}

func always(s upstreamtest.Step) func(adapter.SDK) upstreamtest.Step {
	return func(adapter.SDK) upstreamtest.Step { return s }
}

var (
	good = upstreamtest.OK(words...)
	call = upstreamtest.ToolCall(tool, arguments)
	// failed is an error event; what a good answer ends with may follow it: [DONE],
	// and its like in other formats.
	failed = upstreamtest.ErrorEvent(http.StatusServiceUnavailable)
)

// Table are the faults of the table that the README shows.
func Table() []Fault {
	return []Fault{
		{Name: "whole answer", Good: true, Step: always(good)},
		{Name: "whole stream", Stream: true, Good: true, Step: always(good)},
		{Name: "cut between two events", Stream: true, Step: always(good.CutAfterText(2))},
		{Name: "cut inside a line", Stream: true, Step: always(good.CutAfterText(2).InsideLine())},
		{Name: "connection reset", Stream: true, Step: always(good.CutAfterText(2).At(-1, upstreamtest.Wait(settle)).Reset())},
		{Name: "silent mid-stream", Stream: true, Step: always(good.CutAfterText(2).Stall())},
		{Name: "error event first", Stream: true, Step: always(good.FailAfter(0, http.StatusServiceUnavailable))},
		{Name: "error event mid-stream", Stream: true, Step: always(good.CutAfterText(2).At(-1, failed))},
		{Name: "error event, then [DONE]", Stream: true, Step: always(good.CutAfterText(2).At(-1, failed, upstreamtest.Ending()))},
		{Name: "whole tool call, streamed", Stream: true, Good: true, Tool: true, Step: always(call)},
		{Name: "cut in a tool call", Stream: true, Tool: true, Step: always(call.CutAfterText(1))},
		{Name: "error event in a tool call", Stream: true, Tool: true, Step: always(call.CutAfterText(1).At(-1, failed))},
		{Name: "error event in a tool call, then [DONE]", Stream: true, Tool: true, Step: always(call.CutAfterText(1).At(-1, failed, upstreamtest.Ending()))},
		{Name: "error inside a 200", Hidden: true, Step: hidden},
		{Name: "empty 200", Status: http.StatusBadGateway, Step: always(upstreamtest.Empty())},
		{Name: "empty stream", Stream: true, Status: http.StatusBadGateway, Step: always(good.CutAfter(0))},
	}
}

// More are faults that the table has no room for.
func More() []Fault {
	return []Fault{
		{Name: "whole stream, CRLF", Stream: true, Good: true, Step: always(good.LineEnds(upstreamtest.CRLF))},
		{Name: "whole stream, byte by byte", Stream: true, Good: true, Step: always(good.WriteSize(1))},
		{Name: "whole tool call", Good: true, Tool: true, Step: always(call)},
		{Name: "tool call cut inside a line", Stream: true, Tool: true, Step: always(call.CutAfterText(1).InsideLine())},
		{Name: "reset in a tool call", Stream: true, Tool: true, Step: always(call.CutAfterText(1).At(-1, upstreamtest.Wait(settle)).Reset())},
		{Name: "error event, then the end after a while", Stream: true, Step: always(good.CutAfterText(2).At(-1, failed, upstreamtest.Wait(settle), upstreamtest.Pings(0, 2), upstreamtest.Ending()))},
		{Name: "error event, then [DONE], CRLF", Stream: true, Step: always(good.CutAfterText(2).LineEnds(upstreamtest.CRLF).At(-1, failed, upstreamtest.Ending()))},
		{Name: "error event, then the framing breaks", Stream: true, Step: always(good.CutAfterText(2).At(-1, failed).FIN())},
		{Name: "error inside a 200 instead of a stream", Stream: true, Hidden: true, Step: hidden},
		{Name: "empty 200 instead of a stream", Stream: true, Status: http.StatusBadGateway, Step: always(upstreamtest.Empty())},
		{Name: "page instead of a stream", Stream: true, Status: http.StatusBadGateway, Step: always(upstreamtest.HTML())},
		{Name: "page instead of an answer", Status: http.StatusBadGateway, Step: always(upstreamtest.HTML())},
		{Name: "answer cut short", Status: http.StatusBadGateway, Step: always(upstreamtest.Hidden(upstreamtest.HiddenTruncated, http.StatusBadGateway))},
		{Name: "answer of null", Status: http.StatusBadGateway, Step: always(upstreamtest.Hidden(upstreamtest.HiddenNull, http.StatusBadGateway))},
		{Name: "connection lost mid-answer", Step: always(good.CutBytes(40).FIN())},
		{Name: "stream cut in its first event", Stream: true, Step: always(good.CutAfter(0).InsideLine())},
		{Name: "stream cut, CRLF", Stream: true, Step: always(good.CutAfterText(2).LineEnds(upstreamtest.CRLF))},
		{Name: "broken chunk framing", Stream: true, Step: always(good.CutAfterText(2).At(-1, upstreamtest.Wait(settle)).BadChunk())},
		{Name: "malformed event", Stream: true, Step: always(good.CutAfterText(2).At(-1, upstreamtest.Malformed()))},
		{Name: "503", Status: http.StatusServiceUnavailable, Step: always(upstreamtest.Status(http.StatusServiceUnavailable))},
		{Name: "503 instead of a stream", Stream: true, Status: http.StatusServiceUnavailable, Step: always(upstreamtest.Status(http.StatusServiceUnavailable))},
	}
}
