package streamguard

import "bytes"

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
	for f := (commentFilter{}); len(ev) > 0; {
		n, stays := f.piece(ev)
		if stays {
			return false
		}
		ev = ev[n:]
	}
	return true
}
