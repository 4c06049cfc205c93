package layer

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"
)

// Bounds for what is read ahead of an answer that may still go back.
const (
	PeekBytes = 64 << 10
	PeekTime  = 500 * time.Millisecond
)

// maxEmptyReads is how often in a row a Read may return nothing, as in bufio.
const maxEmptyReads = 100

// errPanicked is what Read returns after a panic of the body reached somebody.
var errPanicked = errors.New("reading the body panicked")

// inMemory is what bodies implement of which no Read waits for anybody.
type inMemory interface{ InMemory() bool }

func isInMemory(body io.ReadCloser) bool {
	m, ok := body.(inMemory)
	return ok && m.InMemory() || body == http.NoBody || Known(body)
}

// Peek reads the head of resp's body, up to limit bytes and for at most wait,
// and leaves the answer whole: whoever reads resp.Body afterwards gets what was
// read, then the rest as it arrives, without a time limit of ours (contract 3).
// Looking once more reads on where the last look ended.
//
// A Read cannot be given up without closing the body, so that a body which may
// make it wait is read by a goroutine of its own. It ends with the head. Where
// the wait was over first, it ends with the Read that is under way, whose bytes
// come next, thus at the latest when the body is closed.
func Peek(resp *http.Response, limit int, wait time.Duration) *Peeked {
	p := peekedOf(resp)
	if p.body != http.NoBody { // callers compare with it
		resp.Body = p
	}
	p.look(limit, max(0, wait))
	return p
}

// Peeked is a body that was looked at. Close may run beside a Read.
type Peeked struct {
	body   io.ReadCloser
	length int64   // that was declared; -1 is unknown
	pooled *[]byte // where buf was taken from; nil: from nowhere

	mu      sync.Mutex
	buf     []byte        // what has been read; the bytes before len never change
	pos     int           // how much of buf was handed out
	limit   int           // of the look that is under way
	err     error         // what ended the body
	fault   any           // of a Read that panicked
	exited  bool          // a Read ended its goroutine
	reading bool          // the goroutine is at it
	closed  bool          // by the reader
	freed   bool          // body was closed
	wake    chan struct{} // closed when reading or closed changes; made by who waits
}

func peekedOf(resp *http.Response) *Peeked {
	if p, ok := resp.Body.(*Peeked); ok {
		return p
	}
	p := &Peeked{body: resp.Body, length: -1}
	if resp.Body == nil || resp.Body == http.NoBody {
		p.body, p.err = http.NoBody, io.EOF
		return p
	}
	size := 512
	// A length of 0 says nothing: many a transport that is not net/http's leaves
	// the field alone.
	if n := resp.ContentLength; n > 0 {
		p.length = n
		size = int(min(n, PeekBytes)) + 1 // room for the Read that returns io.EOF
	}
	p.pooled = heads.Get().(*[]byte)
	if p.buf = *p.pooled; cap(p.buf) < size {
		p.buf = make([]byte, 0, size)
	}
	return p
}

// heads are the buffers of answers that were looked at and then dropped. Those
// of an answer that goes back stay with it.
var heads = sync.Pool{New: func() any { return new([]byte) }}

// here, in place of a wait, has the calling goroutine read: something else
// closes the body when that takes too long.
const here time.Duration = -1

// look reads until limit bytes are there, the body is over or wait is.
func (p *Peeked) look(limit int, wait time.Duration) {
	defer p.raise()
	var timer *time.Timer
	var over <-chan time.Time
	for {
		wake := p.start(limit, wait)
		if wake == nil {
			return
		}
		if timer == nil && wait != here {
			timer = time.NewTimer(wait)
			defer timer.Stop()
			over = timer.C
		}
		select {
		case <-wake: // usually all is there; else the Read of an earlier look has ended
		case <-over:
			p.mu.Lock()
			p.limit = 0 // the Read that is under way is the last
			p.mu.Unlock()
			return
		}
	}
}

// start has the head read, unless somebody is at it. It returns what tells of
// the reading's end, nil where there is nothing to wait for.
func (p *Peeked) start(limit int, wait time.Duration) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.limit = limit; {
	case p.closed, p.full():
		return nil
	case p.reading && wait != 0:
		return p.waiter()
	case p.reading:
		return nil
	case wait == here, isInMemory(p.body):
		p.reading = true
		p.mu.Unlock()
		p.fill()
		p.mu.Lock()
		return nil
	case wait == 0:
		return nil
	}
	p.reading = true
	go p.fill()
	return p.waiter()
}

// full reports whether there is nothing more to look at. mu is held.
func (p *Peeked) full() bool {
	return p.err != nil || len(p.buf) >= p.limit || p.over()
}

// over reports whether the body is over by its declared length (RFC 9112 §6.2):
// no Read is spent on the io.EOF behind it. mu is held.
func (p *Peeked) over() bool { return int64(len(p.buf)) == p.length }

// waiter returns the channel that tells of the next change. mu is held.
func (p *Peeked) waiter() <-chan struct{} {
	if p.wake == nil {
		p.wake = make(chan struct{})
	}
	return p.wake
}

// changed wakes who waits. mu is held.
func (p *Peeked) changed() {
	if p.wake != nil {
		close(p.wake)
		p.wake = nil
	}
}

// fill reads the head, on a goroutine of its own where that may wait. Its panic
// or Goexit is raised again by who waits for it.
func (p *Peeked) fill() {
	returned := false
	defer func() {
		fault := recover()
		p.mu.Lock()
		defer p.mu.Unlock()
		if !returned {
			p.fault, p.exited, p.err = fault, fault == nil, errPanicked
		}
		p.reading = false
		p.changed()
	}()
	for empty := 0; empty < maxEmptyReads; {
		room := p.room()
		if room == nil {
			break
		}
		n, err := p.body.Read(room)
		if empty++; n > 0 {
			empty = 0
		}
		if err == nil && empty == maxEmptyReads {
			err = io.ErrNoProgress
		}
		p.mu.Lock()
		p.buf, p.err = p.buf[:len(p.buf)+n], err
		p.mu.Unlock()
	}
	returned = true
}

// room returns where the next Read goes, nil if there is none.
func (p *Peeked) room() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.full() {
		return nil
	}
	if len(p.buf) == cap(p.buf) {
		p.buf = append(p.buf, 0)[:len(p.buf)]
	}
	return p.buf[len(p.buf):min(cap(p.buf), p.limit)]
}

// raise passes a panic or Goexit of the body on, once; the body is closed.
func (p *Peeked) raise() {
	p.mu.Lock()
	fault, exited := p.fault, p.exited
	p.fault, p.exited = nil, false
	p.mu.Unlock()
	if fault == nil && !exited {
		return
	}
	defer Abandon(p.Close)
	if exited {
		runtime.Goexit()
	}
	panic(fault)
}

// Head returns what has been read by now. The bytes must not be changed, nor
// used once the answer was dropped.
func (p *Peeked) Head() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf
}

// Whole reports whether the head is all of the body, which has ended well.
func (p *Peeked) Whole() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err == io.EOF || p.err == nil && p.over()
}

// InMemory reports whether no Read waits for anybody.
func (p *Peeked) InMemory() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil && !p.reading
}

// Read returns what was read ahead, then the rest.
func (p *Peeked) Read(b []byte) (int, error) {
	p.mu.Lock()
	for {
		switch {
		case p.closed:
			p.mu.Unlock()
			return 0, http.ErrBodyReadAfterClose
		case p.pos < len(p.buf):
			n := copy(b, p.buf[p.pos:])
			p.pos += n
			p.mu.Unlock()
			return n, nil
		case p.reading:
			wake := p.waiter()
			p.mu.Unlock()
			<-wake
			p.mu.Lock()
		case p.err != nil:
			err := p.err
			p.mu.Unlock()
			p.raise()
			return 0, err
		default:
			p.mu.Unlock()
			return p.body.Read(b)
		}
	}
}

// Close closes the body, which ends a Read that is under way.
func (p *Peeked) Close() error {
	p.mu.Lock()
	p.closed = true
	freed := p.freed
	p.freed = true
	p.mu.Unlock()
	defer func() { // whoever waits goes on when the connection is free
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed()
	}()
	if freed {
		return nil
	}
	return p.body.Close()
}

// taken returns what has been read by now and what ended the body, and skips
// the former for Read. rest is the declared length of what is left, or less
// than 0.
func (p *Peeked) taken() (head []byte, rest int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err = p.err; err == nil && p.over() {
		err = io.EOF
	}
	p.pos = len(p.buf)
	return p.buf, p.length - int64(len(p.buf)), err
}

// recycle gives the buffer of an answer that nobody sees any more back.
func (p *Peeked) recycle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pooled == nil || p.reading {
		return
	}
	*p.pooled = p.buf[:0]
	heads.Put(p.pooled)
	p.pooled, p.buf, p.pos, p.closed = nil, nil, 0, true
}
