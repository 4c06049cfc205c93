package layer

import (
	"io"
	"net/http"
	"sync/atomic"
)

// Prefix is a body of which the head was read ahead: Head comes first, then Err
// if that is not nil, else the rest of Body. Close closes Body, and may run
// beside a Read.
type Prefix struct {
	Head []byte
	Err  error // what reading ahead ended with, behind Head; nil: Body goes on
	Body io.ReadCloser

	closed atomic.Bool
}

// Read implements [io.Reader].
func (b *Prefix) Read(p []byte) (int, error) {
	switch {
	case b.closed.Load():
		return 0, http.ErrBodyReadAfterClose
	case len(b.Head) > 0:
		n := copy(p, b.Head)
		if b.Head = b.Head[n:]; len(b.Head) == 0 {
			b.Head = nil // its memory is free while the rest is read
		}
		return n, nil
	case b.Err != nil:
		return 0, b.Err
	}
	return b.Body.Read(p)
}

// Close implements [io.Closer].
func (b *Prefix) Close() error {
	b.closed.Store(true)
	return b.Body.Close()
}

// InMemory reports whether no Read waits for anybody.
func (b *Prefix) InMemory() bool { return b.Err != nil }

// AtEnd returns body such that release is called when it has ended: at the
// first error of Read, io.EOF included, at a panic in it, or at Close. release
// may be called more than once and from any goroutine. A body that is nil or
// empty has ended already. What can be written to, as the body of a 101 can,
// still can, and where it has a CloseWrite of its own, so has what is returned.
func AtEnd(body io.ReadCloser, release func()) io.ReadCloser {
	if body == nil || body == http.NoBody {
		release()
		return body
	}
	b := &endBody{ReadCloser: body, release: release}
	w, ok := body.(io.Writer)
	if !ok {
		return b
	}
	if half, ok := body.(halfCloser); ok {
		return &endHalf{endConn{b, w}, half}
	}
	return &endConn{b, w}
}

type endBody struct {
	io.ReadCloser
	release func()
}

func (b *endBody) Read(p []byte) (n int, err error) {
	ended := true
	defer func() {
		if ended {
			b.release()
		}
	}()
	n, err = b.ReadCloser.Read(p)
	ended = err != nil
	return n, err
}

func (b *endBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

// endConn keeps the Writer of the connection.
type endConn struct {
	*endBody
	io.Writer
}

// halfCloser ends one direction of a connection: the other side reads io.EOF and
// can still answer.
type halfCloser interface{ CloseWrite() error }

// endHalf keeps CloseWrite, too.
type endHalf struct {
	endConn
	halfCloser
}
