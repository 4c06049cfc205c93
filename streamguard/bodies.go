package streamguard

import (
	"bytes"
	"io"
	"net/http"
	"sync/atomic"
)

// A memBody is a body that was read whole and judged.
type memBody struct {
	r      bytes.Reader
	closed atomic.Bool
}

func newMemBody(b []byte) *memBody {
	m := new(memBody)
	m.r.Reset(b)
	return m
}

func (m *memBody) Read(p []byte) (int, error) {
	if m.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	return m.r.Read(p)
}

func (m *memBody) WriteTo(w io.Writer) (int64, error) {
	if m.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	return m.r.WriteTo(w)
}

func (m *memBody) Close() error {
	m.closed.Store(true)
	return nil
}

// A prefixBody gives back what was read ahead, then the rest.
type prefixBody struct {
	head   []byte
	err    error // what the read ahead ended with, after head
	rc     io.ReadCloser
	judged bool // the layer below has decided; the guard leaves it alone
	closed atomic.Bool
}

func (b *prefixBody) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(b.head) > 0 {
		n := copy(p, b.head)
		if b.head = b.head[n:]; len(b.head) == 0 {
			b.head = nil
		}
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.rc.Read(p)
}

func (b *prefixBody) Close() error {
	b.closed.Store(true)
	return b.rc.Close()
}

func (b *prefixBody) bounded() bool {
	i, ok := b.rc.(interface{ bounded() bool })
	return ok && i.bounded()
}

// settled reports whether rc is a body that a layer of this package has judged.
func settled(rc io.ReadCloser) bool {
	switch b := rc.(type) {
	case *memBody:
		return true
	case *prefixBody:
		return b.judged
	}
	return false
}

// A releaseBody calls release once it has ended or was closed.
type releaseBody struct {
	io.ReadCloser
	release func() // may be called again
}

func (b *releaseBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.release()
	}
	return n, err
}

func (b *releaseBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
