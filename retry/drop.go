package retry

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Bounds for answers that are dropped, and for the part of them that a decision
// may hang on. Draining a small body keeps its connection for the next attempt;
// a long or slow one is not worth it.
const (
	dropBytes = 64 << 10
	dropTime  = 250 * time.Millisecond
	headBytes = 64 << 10
	headTime  = 500 * time.Millisecond
)

// drop drains what is left of the answer's body, within dropBytes and limit,
// and closes it.
func drop(resp *http.Response, limit time.Duration) {
	body := resp.Body
	p, looked := body.(*peeked)
	if looked {
		defer p.recycle() // nobody sees the answer any more
	}
	if body == http.NoBody || resp.ContentLength > dropBytes || limit <= 0 || looked && p.ended {
		_ = body.Close()
		return
	}
	timer := time.AfterFunc(limit, func() { _ = body.Close() })
	// One byte more, so that a body of exactly dropBytes is read to its end.
	_, _ = io.Copy(io.Discard, io.LimitReader(body, dropBytes+1))
	if timer.Stop() {
		_ = body.Close()
	}
}

// peek reads up to headBytes of the answer's body, and leaves the answer whole:
// what was read comes first when its body is read again. A body that hangs is
// closed after headTime, and whoever reads it then is told that it was cut.
func peek(resp *http.Response) []byte {
	body := resp.Body
	if body == http.NoBody {
		return nil
	}
	// A length of 0 says nothing: many a transport that is not net/http's leaves
	// the field alone.
	length, size := int64(-1), 512
	if n := resp.ContentLength; n > 0 {
		length = n
		if n < headBytes {
			size = int(n) + 1 // room for the Read that returns io.EOF
		}
	}
	p := &peeked{ReadCloser: body, buf: heads.Get().(*[]byte)}
	if p.head = *p.buf; cap(p.head) < size {
		p.head = make([]byte, 0, size)
	}
	timer := time.AfterFunc(headTime, func() { _ = body.Close() })
	// A body of declared length is over with its last byte (RFC 9112 §6.2):
	// no Read is spent on the io.EOF behind it.
	for p.err == nil && len(p.head) < headBytes && int64(len(p.head)) != length {
		if len(p.head) == cap(p.head) {
			p.head = append(p.head, 0)[:len(p.head)]
		}
		var n int
		n, p.err = body.Read(p.head[len(p.head):min(cap(p.head), headBytes)])
		p.head = p.head[:len(p.head)+n]
	}
	if !timer.Stop() && !errors.Is(p.err, io.EOF) {
		p.err = io.ErrUnexpectedEOF
	}
	head := p.head
	*p.buf = head
	p.ended = p.err != nil || int64(len(head)) == length
	resp.Body = p
	return head
}

// heads are the buffers of bodies that were looked at. That of an answer that is
// kept goes to its reader, and not back.
var heads = sync.Pool{New: func() any { return new([]byte) }}

// peeked is a body whose head was read before.
type peeked struct {
	io.ReadCloser
	head  []byte
	buf   *[]byte
	err   error // what ended the reading of the head
	ended bool  // the head is all there is
}

// recycle gives the buffer back, once the body has been dropped.
func (p *peeked) recycle() {
	*p.buf = (*p.buf)[:0]
	p.head = nil
	heads.Put(p.buf)
}

func (p *peeked) Read(b []byte) (int, error) {
	if len(p.head) > 0 {
		n := copy(b, p.head)
		p.head = p.head[n:]
		return n, nil
	}
	if p.err != nil {
		return 0, p.err
	}
	return p.ReadCloser.Read(b)
}
