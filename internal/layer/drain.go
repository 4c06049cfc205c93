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
		_, rest, ended := b.taken()
		if ended != nil {
			wait = 0
		}
		drain(b, rest, wait)
		b.recycle()
	default:
		drain(b, resp.ContentLength, wait)
	}
}

// Abandon closes a body whose Read did not return: it panicked, or ended its
// goroutine. What closing panics with does not replace what Read panicked with.
func Abandon(closeBody func() error) {
	defer func() { _ = recover() }()
	_ = closeBody()
}

// Keep takes an answer off its connection while another attempt is waited for:
// its status, its headers and up to [PeekBytes] of its body stay readable, the
// rest is drained within the same wait. Where that cuts the body, its length
// says what is left. Whoever drops the answer later has [Drain] do it.
func Keep(resp *http.Response, wait time.Duration) {
	p := peekedOf(resp)
	if p.body == http.NoBody {
		return
	}
	head, _, err := p.taken()
	if err != nil {
		_ = p.Close()
	} else if inTime := within(wait, p, func() {
		p.look(PeekBytes, here)
		var rest int64
		if head, rest, err = p.taken(); err == nil && rest <= DrainBytes {
			discard(p)
		}
	}); !inTime && err != io.EOF {
		err = nil // of the Read that we ended
	}
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
	if length > DrainBytes || isInMemory(body) {
		_ = body.Close() // nobody will see what is wrong with it
		return
	}
	within(wait, body, func() { discard(body) })
}

// within has body read and then closes it, or closes it when wait is over, which
// ends a Read that waits. It reports whether the former came first.
func within(wait time.Duration, body io.Closer, read func()) (inTime bool) {
	if wait <= 0 {
		_ = body.Close()
		return false
	}
	timer := time.AfterFunc(wait, func() {
		defer func() { _ = recover() }() // nobody above this frame could
		_ = body.Close()
	})
	defer func() {
		if inTime = timer.Stop(); inTime {
			_ = body.Close()
		}
	}()
	read()
	return false
}

// discard reads up to DrainBytes of body, and one more, so that a body of
// exactly that length is read to its end.
func discard(body io.Reader) {
	buf := scratch.Get().(*[8 << 10]byte)
	defer scratch.Put(buf)
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
