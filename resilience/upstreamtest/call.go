package upstreamtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// call is an exchange in memory: the server's side of it is done by whoever
// reads the answer.
type call struct {
	u    *Upstream
	ctx  context.Context
	req  *Request
	gone chan struct{} // closed when the client or the Upstream closed it
	once sync.Once
	// wholeBy is when all has been sent, read or not; zero: cannot be told.
	wholeBy time.Time

	trace  *httptrace.ClientTrace
	legacy <-chan struct{} // http.Request.Cancel

	// Owned by the reader.
	parts []part
	sent  int // repeats of parts[0] that were sent
	left  []byte
	due   time.Time // when the last part was due
	began bool
	end   ending
}

// begin registers the call for Close; false once the Upstream is closed.
func (u *Upstream) begin(c *call) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	u.calls[c] = struct{}{}
	return true
}

// over notes the call's end; only the first one counts.
func (c *call) over(aborted bool) {
	c.u.mu.Lock()
	delete(c.u.calls, c)
	c.u.mu.Unlock()
	c.u.settle(c.req, aborted)
}

// leave notes that the client went away; all may have been sent by then.
func (c *call) leave() {
	c.over(c.wholeBy.IsZero() || time.Now().Before(c.wholeBy))
}

// schedule is when the last part is due, if that can be told.
func (c *call) schedule() time.Time {
	at := c.req.Time
	for _, p := range c.parts {
		if p.gate != nil || p.times < 0 {
			return time.Time{}
		}
		at = at.Add(p.wait * time.Duration(max(p.times, 1)))
	}
	if c.end == endStall {
		return time.Time{}
	}
	return at
}

// close ends every pending and later Read.
func (c *call) close() {
	c.once.Do(func() { close(c.gone) })
}

// failed is the error of a reply that had no head.
func (c *call) failed(err error) error {
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	if !c.began && errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", io.EOF)
	}
	return err
}

// Read gives the bytes of the connection as they fall due. A reader that is
// late finds them there, as in a socket's buffer.
func (c *call) Read(b []byte) (int, error) {
	for len(c.left) == 0 {
		if len(c.parts) == 0 {
			return 0, c.last()
		}
		p := c.parts[0]
		if err := c.wait(p); err != nil {
			return 0, err
		}
		c.left = p.data
		if c.sent++; p.times >= 0 && c.sent >= max(p.times, 1) {
			c.parts, c.sent = c.parts[1:], 0
		}
	}
	if !c.began {
		c.began = true
		if c.trace != nil && c.trace.GotFirstResponseByte != nil {
			c.trace.GotFirstResponseByte()
		}
	}
	n := copy(b, c.left)
	c.left = c.left[n:]
	if len(c.left) == 0 && len(c.parts) == 0 && c.end != endStall {
		c.over(false)
	}
	return n, nil
}

// wait passes until p is due.
func (c *call) wait(p part) error {
	if p.wait > 0 {
		c.due = c.due.Add(p.wait)
		if d := time.Until(c.due); d > 0 {
			t := time.NewTimer(d)
			defer t.Stop()
			if err := c.until(t.C, nil); err != nil {
				return err
			}
		}
	}
	if p.gate != nil {
		if err := c.until(nil, p.gate); err != nil {
			return err
		}
		c.due = time.Now()
	}
	select {
	case <-c.gone:
		return io.EOF
	default:
		return context.Cause(c.ctx)
	}
}

// until blocks for one of the two, or until the call is over.
func (c *call) until(timer <-chan time.Time, gate <-chan struct{}) error {
	select {
	case <-timer:
	case <-gate:
	case <-c.gone:
		return io.EOF
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-c.legacy:
		c.leave()
		return errors.New("net/http: request canceled")
	}
	return nil
}

// last is what Read says when all was sent.
func (c *call) last() error {
	switch c.end {
	case endStall:
		return c.until(nil, nil)
	case endReset:
		return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	}
	c.over(false)
	return io.EOF
}

// memoryBody is a response body whose Close never reads on: net/http's own
// would drain it.
type memoryBody struct {
	call   *call
	body   io.ReadCloser
	stop   func() bool
	closed atomic.Bool

	mu  sync.Mutex // serialises Read
	err error      // of the last Read: it stays
}

func (b *memoryBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if b.err != nil {
		return 0, b.err
	}
	n, err := 0, context.Cause(b.call.ctx)
	if err == nil {
		n, err = b.body.Read(p)
	}
	if err == nil {
		return n, nil
	}
	if b.closed.Load() {
		return n, http.ErrBodyReadAfterClose
	}
	if cause := context.Cause(b.call.ctx); cause != nil && err != io.EOF {
		err = cause
	}
	b.err = err
	b.stop()
	b.call.leave()
	return n, err
}

// Close ends the exchange, and a Read that is blocked. It does not wait.
func (b *memoryBody) Close() error {
	b.closed.Store(true)
	b.stop()
	b.call.leave()
	b.call.close()
	return nil
}
