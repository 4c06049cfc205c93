package wire

import (
	"bytes"
)

// A Mark is a set of facts about one event. 0 is an event that only passes: it
// has data, but none of the stream's format (a ping, a queue notice, text), so
// it commits, proves and ends nothing and restarts no timer (contract 6).
type Mark uint16

// The marks.
const (
	// MarkData is a data event that is part of an answer: it commits a stream,
	// proves that there is an answer, and restarts a timer.
	MarkData Mark = 1 << iota
	// MarkContent is an event with a piece of the answer, however small.
	MarkContent
	// MarkEnd is an event that ends the stream logically: it is complete now.
	MarkEnd
	// MarkFinal says that the sender is done and nothing more is due. It says
	// nothing of success: [Stream.Complete] does.
	MarkFinal
	// MarkFailed is an error event or a finish that names a failure. The
	// stream is over; [Stream.Failure] tells.
	MarkFailed
	// MarkMalformed is data that starts as JSON and does not parse. The
	// stream's state is what it was before.
	MarkMalformed
	// MarkComment is an event without any data: a comment, a blank line.
	MarkComment
	// MarkAside is a data event beside the answer, such as usage or filter
	// results. It restarts a timer, and does nothing else.
	MarkAside
)

// StreamOptions are the facts about one stream that its bytes do not tell.
type StreamOptions struct {
	// Lenient lets [Stream.CompleteAtEOF] take a clean end after content for
	// an end.
	Lenient bool
	// Words are what errors are called beside the built-in words; nil is none.
	Words *Vocabulary
	// Resumable says that the vendor keeps the stream, see [Request.Resumable]:
	// [Stream.Resume] then says where it is.
	Resumable bool
	// Answer is what a kept answer is called, where the request says it, see
	// [Format.Answer]; else the stream does.
	Answer string
}

// A Stream follows one event stream: it splits it into events and keeps the
// account of what they mean. It reads nothing by itself. It is not safe for
// concurrent use.
type Stream struct {
	f       *Format // of the endpoint: its framing, its errors
	by      *Format // whose members the events carry: it judges them
	framing framing // nil until the first byte shows it
	lenient bool
	vague   bool // the failure has no code and no type
	words   *Vocabulary

	sse      sseFraming   // the usual framing
	frames   frameFraming // of a format that has frames
	lead     int          // how much white space choose has seen
	template template
	join     []byte     // data of several lines
	large    *condenser // of an event that is too large to hold, while there is one

	events  int
	said    int64 // bytes of content
	content bool
	data    bool // a data event was seen
	ended   bool // a terminal mark other than a finish was seen
	torn    bool // an event that was cut off proves that the answer is not whole, see Format.torn
	open    bool // a bracket that the stream has to close
	half    bool // the end of the body cut an event off
	strange bool // what came carries the members of no known format
	final   bool
	failure *Failure
	choices choiceStates
	once    [4]uint64 // the choices that had finished before they went on
	usage   *Usage    // nil while nothing is said of it
	seq     int64     // last sequence_number, -1 before the first
	status  int       // told by a comment, see sseFraming

	position *position // nil: nobody keeps the stream
}

// A framing tells how the events of a stream are told apart, and remembers where
// it is in them.
type framing interface {
	// next is Stream.Next.
	next(s *Stream, buf []byte) int
	// event takes an event apart and has its data judged.
	event(s *Stream, ev []byte) Mark
	// rest judges what is left at the end of the body.
	rest(s *Stream, b []byte) (Mark, bool)
	// begun reports whether an event, and not just a comment, begins in what
	// rest has not found to be whole.
	begun(b []byte) bool
	// flow gives the data of an event that is too large to hold to s.large as it
	// comes; flowEnd judges what is left of it once it is over, and pending
	// reports what it is where the body ends before.
	flow(s *Stream, part []byte) (n int, done bool)
	flowEnd(s *Stream, doc []byte) Mark
	pending(doc *condenser) (whole, half bool)
	// frame puts an event of the library's own into the stream's form.
	frame(name string, data []byte) []byte
	// closeLarge returns what ends a half-sent event.
	closeLarge() []byte
}

// NewStream begins a stream of the format.
func (f *Format) NewStream(o StreamOptions) *Stream {
	s := allocate(f, o)
	s.f, s.by, s.lenient, s.words, s.seq = f, f, o.Lenient, o.Words, -1
	if f.framing == nil {
		s.framing = &s.sse
	}
	return s
}

// choose sets the framing by the first byte of the stream, if it is there.
func (s *Stream) choose(buf []byte) bool {
	if s.framing != nil {
		return true
	}
	if s.lead == 0 {
		if len(buf) < len(bom) && string(buf) == bom[:len(buf)] {
			return false
		}
		if bytes.HasPrefix(buf, []byte(bom)) {
			s.lead = len(bom)
		}
	}
	if s.lead = skipSpace(buf, min(s.lead, len(buf))); s.lead == len(buf) {
		return false // no byte is looked at twice
	}
	s.framing = s.f.framing(s, buf[s.lead])
	return true
}

// form returns the stream's framing, the format's usual one before it shows.
func (s *Stream) form() framing {
	if s.framing == nil {
		return s.f.framing(s, 0)
	}
	return s.framing
}

// Next returns the length of the first whole event in buf, its blank line
// included, or 0 if there is none yet. It looks at no byte twice: after 0 buf
// must begin with the same bytes and go on, after n with what follows the n
// bytes. An event is whole as soon as its blank line can be told: of a blank
// line's CR LF that is split between two reads the LF is an event of its own,
// without marks.
func (s *Stream) Next(buf []byte) int {
	if len(buf) == 0 || !s.choose(buf) {
		return 0
	}
	return s.framing.next(s, buf)
}

// Event judges the whole event that Next found. It keeps nothing of ev and
// does not allocate for content.
func (s *Stream) Event(ev []byte) Mark {
	if s.template.matches(ev) {
		s.events++
		s.repeat()
		s.moved(s.template.place(ev))
		return MarkData | MarkContent
	}
	return s.form().event(s, ev)
}

// Large goes on with an event that Next has not found the end of and that is
// too large to hold: its bytes are given from its beginning on, in pieces cut
// anywhere. n bytes of part belong to it; once it is done, m holds its marks.
// What is between its marks is not validated. After that Next goes on behind
// it.
func (s *Stream) Large(part []byte) (n int, done bool, m Mark) {
	if !s.choose(part) {
		s.framing = s.form()
	}
	if s.large == nil {
		s.large = &condenser{}
	}
	if n, done = s.framing.flow(s, part); !done {
		return n, false, 0
	}
	return n, true, s.endLarge()
}

// Rest judges what is pending at the end of the body, without an end of its
// own. It counts as whole if its data is [DONE] or parses. A large event that
// is under way ends here; b is what Large has not been given.
func (s *Stream) Rest(b []byte) (m Mark, whole bool) {
	if s.large == nil {
		if !s.choose(b) {
			return 0, false
		}
		if m, whole = s.framing.rest(s, b); !whole {
			s.half = s.framing.begun(b)
			s.torn = s.by.torn != nil && s.by.torn(b)
		}
		return m, whole
	}
	s.framing.flow(s, b)
	if whole, s.half = s.framing.pending(s.large); !whole {
		// A part of it has gone by: no answer with that in it is whole, even
		// where it had finished before.
		s.large, s.torn = nil, s.torn || s.half
		return 0, false
	}
	s.half = false
	return s.endLarge(), true
}

// endLarge judges the large event that is over.
func (s *Stream) endLarge() Mark {
	doc, size := s.large.close(), s.large.size
	s.large = nil
	s.template.forget()
	m := s.framing.flowEnd(s, doc)
	if m&MarkContent != 0 {
		s.said += size
	}
	return m
}

// judgeLarge judges what is left of the data of a large event.
func (s *Stream) judgeLarge(name, doc []byte) Mark {
	if len(doc) == 0 {
		return MarkComment
	}
	m := s.judge(name, doc, nil, -1)
	switch {
	case s.final && m&MarkFinal == 0: // behind the last one
		m &^= MarkMalformed
	case m == MarkMalformed: // nobody validates so much
		m = MarkData | MarkContent
		if p := inspect(doc); p.plainError() {
			m = s.fail(p)
		}
		s.count(m)
	case m&MarkData != 0 && s.by.types == nil && s.f.event != nil:
		m |= MarkContent // whatever it is
		s.content = true
	}
	return m
}

// LargeData reports whether a large event is under way that has data, and not
// just a comment.
func (s *Stream) LargeData() bool { return s.large != nil && len(s.large.out) > 0 }

// Complete reports whether the stream has come to its logical end, a failed
// one included. A format without a known end is always complete.
func (s *Stream) Complete() bool {
	done := s.ended || s.choices.done() && !s.open
	return s.f.endless || s.failure != nil || done && (s.final || !s.torn)
}

// CompleteAtEOF is Complete for a body that ended cleanly. A format in which an
// answer can go on after its finish, such as Gemini's, ends with the body if it
// had finished before. A stream of no known format ends wherever it does, and
// with [StreamOptions.Lenient] so does any that has content, unless an event
// was cut off.
func (s *Stream) CompleteAtEOF() bool {
	return s.Complete() || s.once == s.choices.seen && s.once != [4]uint64{} && !s.torn && !s.open ||
		(s.strange || s.lenient && s.content) && !s.half
}

// Failure returns what the stream's error event told, nil without one. Its
// Body is rendered in the format's shape. While the failure is [Stream.Vague],
// later events may replace it.
func (s *Stream) Failure() *Failure { return s.failure }

// Vague reports whether the stream has failed without a code or a type, which
// the next event may still tell: response.failed with a null error is followed
// by an error event that has them. A sentinel ends the wait for it.
func (s *Stream) Vague() bool { return s.vague }

// Content reports whether a piece of the answer was seen.
func (s *Stream) Content() bool { return s.content }

// Said returns how many bytes of content have arrived: the texts of the answer
// as they stand in the events, without their framing.
func (s *Stream) Said() int64 { return s.said }

// repeat counts what an event says that is not parsed.
func (s *Stream) repeat() {
	t := &s.template.text
	s.said += int64(t.to - t.from)
	*t = span{}
}

// Events returns how many data events arrived whole, [DONE] not counted.
func (s *Stream) Events() int { return s.events }

// Abort renders the event that tells the reader of a broken stream, with the
// stream's own line ends. An empty code is stream_incomplete. nil means that
// nothing may be appended to a stream of this format.
func (s *Stream) Abort(status int, code, message string) []byte {
	if code == "" {
		code = "stream_incomplete"
	}
	if s.f.abort != nil {
		name, data := s.f.abort(s, status, code, message)
		return s.form().frame(name, data)
	}
	return s.form().frame("", append(append([]byte(`{"error":`), chatError("server_error", code, message)...), '}'))
}

// CloseLarge returns what ends an event of which a part was sent, so that
// another can follow. It may be empty.
func (s *Stream) CloseLarge() []byte { return s.form().closeLarge() }
