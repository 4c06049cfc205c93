package streamguard

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// conclude ends a stream whose body ended with err.
func (b *guardBody) conclude(err error) {
	_, closing := b.takeRest()
	b.finish(err, closing)
}

// takeRest judges what is pending at the end of the body: what counts as whole
// is handed out as it came, the rest is dropped. closing is what must come
// before an event that is added.
func (b *guardBody) takeRest() (m wire.Mark, closing []byte) {
	if b.large {
		closing = b.openEnd(b.st.CloseLarge())
	}
	m, whole := b.st.Rest(b.tail())
	b.large = false
	if b.c == nil {
		b.note(m)
		return m, closing
	}
	if !whole || m&wire.MarkMalformed != 0 || b.untrue(m) {
		b.c.b = b.c.b[:b.c.judged]
		return 0, closing
	}
	if closing == nil {
		closing = b.st.CloseLarge()
		// One line end is enough if the line has ended.
		switch one := closing[len(closing)/2:]; b.c.b[len(b.c.b)-1] {
		case '\n':
			closing = one
		case '\r':
			if len(closing) > 1 { // of an event stream
				closing = afterCR(one)
			}
		}
	}
	b.part = false
	n := b.sift(b.tail(), true)
	b.c.b = b.c.b[:b.c.judged+n]
	b.c.judged = len(b.c.b)
	b.note(m)
	return m, closing
}

// afterCR returns what makes a blank line of the line end eol behind a CR. Where
// lines end with an LF the CR's own comes first: it would be the line's, and to
// decoders that split at LF alone the line has not ended without it.
func afterCR(eol []byte) []byte {
	if bytes.HasSuffix(eol, []byte("\n")) {
		return append([]byte("\n"), eol...)
	}
	return eol
}

// finish decides what the stream was, after the upstream's body ended with err
// or was given up for it, and what Read returns when all is handed out.
func (b *guardBody) finish(err error, closing []byte) {
	_ = b.src.close()
	b.srcErr = err
	fate := b.fate(err)
	if b.err = fate; fate == nil {
		b.err = io.EOF
	}
	var inc *IncompleteError
	if errors.As(fate, &inc) {
		told := inc.Reason == ReasonInBandError || b.add(inc, closing)
		if told && b.g.Policy.IncompleteRead == IncompleteReadEOF {
			b.err = io.EOF
		}
	}
	b.first.release()
	b.mu.Lock()
	b.sum()
	b.over = true
	b.end.Complete = fate == nil && b.end.Failure == nil
	b.end.Err = fate
	b.end.Closed = errors.Is(fate, context.Canceled) && !ending.SaysTimeout(fate)
	b.mu.Unlock()
}

// add appends the event that tells of e, if the format has one.
func (b *guardBody) add(e *IncompleteError, closing []byte) bool {
	message := "the upstream ended the stream before its end"
	switch e.Reason {
	case ReasonIdleTimeout, ReasonEventTimeout:
		message = "the upstream fell silent in the middle of the stream"
	case ReasonMalformed:
		message = "the upstream sent a stream event that does not parse"
	case ReasonTransport:
		message = "the connection to the upstream broke in the middle of the stream"
	}
	event := b.st.Abort(e.Status, "stream_incomplete", message)
	if event == nil {
		return false
	}
	c := b.chunk()
	c.b = append(append(c.b, closing...), event...)
	c.judged = len(c.b)
	return true
}
