package upstreamtest

import (
	"bytes"
	"fmt"
	"time"
)

// Piece is something between two events of a body: see [Step.At].
type Piece struct {
	wait  time.Duration
	gate  <-chan struct{}
	times int // 0 is 1; negative is for ever
	data  func(f *format, r *Request, before int) []byte
	done  bool // the format's final mark, unless NoDone
	exact bool // line ends stay as they are
}

// Wait is a pause.
func Wait(d time.Duration) Piece { return Piece{wait: d} }

// Gate is a pause until ch is closed or delivers.
func Gate(ch <-chan struct{}) Piece { return Piece{gate: ch} }

// Bytes are these bytes, flushed by themselves; line ends are kept as they are.
func Bytes(s string) Piece {
	return Piece{exact: true, data: func(*format, *Request, int) []byte { return []byte(s) }}
}

// Pings are keep-alives: one each interval, times over (negative: for ever).
// In an event stream they are comments (": ping" and a blank line), in Amazon's
// frames an event of a type that nobody knows, elsewhere line feeds.
func Pings(interval time.Duration, times int) Piece {
	return Piece{wait: interval, times: times, data: func(f *format, r *Request, _ int) []byte {
		if f.sse {
			return []byte(": ping\n\n")
		}
		if f.binary {
			return eventFrame("ping", "{}")
		}
		return []byte("\n")
	}}
}

// ErrorEvent is the format's own error event, carrying the status as far as
// the format can.
func ErrorEvent(status int) Piece {
	return Piece{data: func(f *format, r *Request, before int) []byte {
		return f.errorEvent(r, status, before)
	}}
}

// Malformed is an event whose data starts as JSON and does not parse.
func Malformed() Piece {
	return Piece{data: func(f *format, _ *Request, _ int) []byte {
		return f.frame(`{"id":"broken","choices":[{"delta":{"content":`)
	}}
}

// Huge is an event of no meaning to any format whose one line is n bytes long,
// line end not counted (at least 40). In Amazon's frames it is what the payload
// or the chunk holds.
func Huge(n int) Piece {
	return Piece{data: func(f *format, _ *Request, _ int) []byte {
		const around = `{"type":"x","b64":""}`
		pad := n - len(around)
		if f.sse {
			pad -= len("data: ")
		}
		fill := bytes.Repeat([]byte{'A'}, max(pad, 0))
		return f.frame(fmt.Sprintf(`{"type":"x","b64":"%s"}`, fill))
	}}
}

// Event is one event with this data (several lines become several data lines).
// A Converse event is given as {"messageStop":{…}}: its type is the only
// member's name.
func Event(data string) Piece {
	return Piece{data: func(f *format, _ *Request, _ int) []byte { return f.frame(data) }}
}

// Ending is what a good stream of the format ends with, behind the last piece of
// its answer: the events that say that it is over. Senders exist that send them
// behind an error event, too.
func Ending() Piece {
	return Piece{data: func(f *format, r *Request, _ int) []byte {
		events := f.events(r, answer{texts: []string{""}})
		var b []byte
		for i := len(events) - 1; i >= 0 && !events[i].text; i-- {
			b = append(bytes.Clone(events[i].data), b...)
		}
		return b
	}}
}

// doneMark is what still follows an error event in a chat stream.
func doneMark() Piece {
	return Piece{done: true, data: func(f *format, _ *Request, _ int) []byte { return []byte(f.done) }}
}
