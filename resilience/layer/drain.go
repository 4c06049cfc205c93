package layer

import (
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Bounds for an answer that is dropped: a small body that is read to its end
// leaves its connection to the next attempt, a long or slow one is not worth
// the wait.
const (
	DrainBytes = 64 << 10
	DrainTime  = 250 * time.Millisecond
)

// Drain reads what is left of the body of an answer that nobody will see, up to
// [DrainBytes] and for at most wait, and closes it.
func Drain(resp *http.Response, wait time.Duration) {
	switch b := resp.Body.(type) {
	case nil:
	case *kept:
		b.peeked.recycle()
	case *Peeked:
		defer b.recycle()
		b.drain(wait)
	default:
		drain(b, resp.ContentLength, wait)
	}
}

// Keep takes an answer off its connection while another attempt is waited for:
// its status, its headers and up to [PeekBytes] of its body stay readable, the
// rest is drained within the same wait. Where that cuts the body, its length
// says what is left. Whoever drops the answer later has [Drain] do it.
func Keep(resp *http.Response, wait time.Duration) {
	until := time.Now().Add(wait)
	p := Peek(resp, PeekBytes, wait)
	if p.body == http.NoBody {
		return
	}
	head, err := p.drain(time.Until(until))
	b := &kept{Prefix{Head: head, Err: err, Body: http.NoBody}, p}
	resp.Body = b
	if err != nil {
		return
	}
	b.Err = io.EOF
	resp.ContentLength = int64(len(head))
	if _, ok := resp.Header["Content-Length"]; ok {
		resp.Header = resp.Header.Clone() // a base may share one map among its responses
		resp.Header.Set("Content-Length", strconv.Itoa(len(head)))
	}
}

// drain drains and closes what is left of the body. It returns what was read
// before, and what had ended the body by then.
func (p *Peeked) drain(wait time.Duration) (head []byte, ended error) {
	head, ended, rest := p.taken()
	if ended != nil {
		wait = 0
	}
	drain(p, rest, wait)
	return head, ended
}

// kept is what [Keep] leaves of a body.
type kept struct {
	Prefix
	peeked *Peeked
}

// scratch are the buffers that drained bytes go to.
var scratch = sync.Pool{New: func() any { return new([8 << 10]byte) }}

// drain reads up to DrainBytes of body, for at most wait, and closes it. length
// is how much is left as far as anybody declared it.
func drain(body io.ReadCloser, length int64, wait time.Duration) {
	if wait <= 0 || length > DrainBytes || isInMemory(body) {
		_ = body.Close() // nobody will see what is wrong with it
		return
	}
	timer := time.AfterFunc(wait, func() {
		defer func() { _ = recover() }() // nobody above this frame could
		_ = body.Close()                 // ends a Read that waits
	})
	defer func() {
		if timer.Stop() {
			_ = body.Close()
		}
	}()
	buf := scratch.Get().(*[8 << 10]byte)
	defer scratch.Put(buf)
	// One byte more, so that a body of exactly DrainBytes is read to its end.
	for left, empty := DrainBytes+1, 0; left > 0 && empty < maxEmptyReads; {
		n, err := body.Read(buf[:min(len(buf), left)])
		if err != nil {
			return
		}
		left -= n
		if empty++; n > 0 {
			empty = 0
		}
	}
}
