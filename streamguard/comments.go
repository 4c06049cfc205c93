package streamguard

import (
	"bytes"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// A commentFilter takes the comment lines out of an event of an event stream
// that comes in pieces, and the event's blank line, too, if nothing else stays.
type commentFilter struct {
	inLine  bool // behind a line's first byte
	comment bool // the line is one
	cr      bool // the last byte was a CR, whose LF may follow
	last    bool // the last line end stayed
	kept    bool // a line of the event stayed
}

// drop moves what stays of b to its front and returns how many bytes that is.
func (f *commentFilter) drop(b []byte) int {
	w := 0
	for i := 0; i < len(b); {
		n, stays := f.piece(b[i:])
		if stays {
			w += copy(b[w:], b[i:i+n])
		}
		i += n
	}
	return w
}

// piece takes the bytes up to the next line end, or a line end itself, and
// reports whether they stay.
func (f *commentFilter) piece(b []byte) (n int, stays bool) {
	c, lf := b[0], f.cr
	f.cr = c == '\r'
	switch {
	case lf && c == '\n': // of the last line end
		return 1, f.last
	case (c == '\n' || c == '\r') && f.inLine:
		f.inLine, f.last = false, !f.comment
		return 1, f.last
	case c == '\n' || c == '\r': // the blank line
		f.last, f.kept = f.kept, false
		return 1, f.last
	case !f.inLine:
		f.inLine, f.comment = true, c == ':'
		f.kept = f.kept || !f.comment
	}
	if n = bytes.IndexAny(b, "\r\n"); n < 0 {
		n = len(b)
	}
	return n, !f.comment
}

// hasComment reports whether a line of ev begins with a colon.
func hasComment(ev []byte) bool {
	return ev[0] == ':' || bytes.Contains(ev, []byte("\n:")) || bytes.Contains(ev, []byte("\r:"))
}

// onlyComments reports whether ev, the beginning of an event, has had nothing
// but comment lines.
func onlyComments(ev []byte) bool {
	for len(ev) > 0 {
		if ev[0] != ':' {
			return false
		}
		i := bytes.IndexAny(ev, "\r\n")
		if i < 0 {
			return true
		}
		ev = bytes.TrimLeft(ev[i:], "\r\n")
	}
	return true
}

// flows reports whether data, the beginning of an event that is too large to
// hold, goes by in pieces. While the stream is held back that would hand it out,
// unless the event is nothing but comments: they commit nothing, and no more of
// them is held.
func (b *guardBody) flows(data []byte) bool {
	if b.behind = b.st.Failure() != nil; b.behind {
		return true // what it is shows at its end, when it is too late to leave it out
	}
	comments := b.holding && b.st.Comments() && onlyComments(data)
	if b.holding && !comments && b.g.Policy.HoldUntil != HoldComplete {
		return false
	}
	b.dropping = comments || b.g.Policy.StripComments && b.st.Comments()
	b.filter = commentFilter{}
	return true
}

// sift takes out of ev, an event or a part of a large one, the comment lines
// that are left out. What stays is at the front of ev; its length is returned.
func (b *guardBody) sift(ev []byte, whole bool) int {
	switch {
	case b.part && b.behind:
		b.stripped = whole
		return 0
	case b.part && b.dropping:
		n := b.filter.drop(ev)
		b.stripped = whole && !b.filter.last
		return n
	case b.part || !b.g.Policy.StripComments || len(ev) == 0 || !b.st.Comments() || !hasComment(ev):
		return len(ev)
	}
	var f commentFilter
	return f.drop(ev)
}

// openEnd returns what ends a large event of which only a part was handed out:
// closing, or less of it if the last line was left out.
func (b *guardBody) openEnd(closing []byte) []byte {
	switch {
	case !b.dropping:
		return closing
	case !b.filter.kept:
		return nil
	case b.filter.inLine && b.filter.comment:
		return closing[len(closing)/2:]
	}
	return closing
}

// overfull reports whether an event of n bytes that is not a data event is one
// too many to hold. Where the whole answer is held, Policy.HoldLimit is for
// everything but comments.
func (b *guardBody) overfull(n int, m wire.Mark) bool {
	if m&^wire.MarkComment != 0 {
		return false
	}
	if b.g.Policy.HoldUntil != HoldComplete {
		return b.c.judged+n > maxEvent
	}
	if m == 0 {
		return false
	}
	b.comments += n
	return b.comments > maxEvent
}

// strips reports whether an event with marks m is left out: one that must be, a
// comment by the policy, and the rest of either's blank line.
func (b *guardBody) strips(m wire.Mark, must bool) bool {
	b.stripped = m&markBlank != 0 && b.stripped || must ||
		m&wire.MarkComment != 0 && b.g.Policy.StripComments
	return b.stripped
}
