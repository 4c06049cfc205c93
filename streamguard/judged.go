package streamguard

import (
	"io"
	"net/http"
	"sync"

	"github.com/surefoot-go/surefoot/internal/layer"
)

// buffers are for answers that are read whole. One goes back when its body has
// been read to the end or closed, and then nobody can reach its bytes any more.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is how large a buffer may be that goes back.
const maxPooled = 64 << 10

// takeBuffer returns an empty buffer with room for size bytes.
func takeBuffer(size int64) *[]byte {
	if size > maxPooled {
		b := make([]byte, 0, size)
		return &b
	}
	b := buffers.Get().(*[]byte)
	if int64(cap(*b)) < size {
		*b = make([]byte, 0, size)
	}
	return b
}

// A memBody is a body that was read whole and judged.
type memBody struct {
	mu     sync.Mutex
	data   []byte  // what is left
	buf    *[]byte // where the data goes back to once it is over; nil if nowhere
	closed bool
}

// newMemBody hands out data in place of old, which has been read. buf is of
// takeBuffer, and then nobody else has data, which may have outgrown it; or nil.
func newMemBody(old io.ReadCloser, data []byte, buf *[]byte) *memBody {
	if buf != nil {
		*buf = data
	}
	m := new(memBody)
	if b, ok := old.(*idleBody); ok {
		m = &b.whole
	}
	m.data, m.buf = data, buf
	return m
}

func (m *memBody) Read(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	n := copy(p, m.data)
	if m.data = m.data[n:]; n > 0 || len(p) == 0 {
		return n, nil
	}
	m.release()
	return 0, io.EOF
}

func (m *memBody) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.release()
	return nil
}

// release is called with mu held, so no Read is using the data.
func (m *memBody) release() {
	if m.buf != nil && cap(*m.buf) <= maxPooled {
		*m.buf = (*m.buf)[:0]
		buffers.Put(m.buf)
	}
	m.data, m.buf = nil, nil
}

// InMemory reports that no Read waits.
func (m *memBody) InMemory() bool { return true }

// A prefixBody gives back what was read ahead, then the rest.
type prefixBody struct {
	layer.Prefix
	judged bool // the layer below has decided; the guard leaves it alone
}

// putBack puts what was read of resp's body before the rest of it.
func (o opening) putBack(resp *http.Response, judged bool) *http.Response {
	resp.Body = &prefixBody{layer.Prefix{Head: o.head, Err: o.err, Body: resp.Body}, judged}
	return resp
}

func (b *prefixBody) bounded() bool {
	i, ok := b.Body.(interface{ bounded() bool })
	return ok && i.bounded()
}

// isJudged reports whether rc is a body that a layer of this package has judged.
func isJudged(rc io.ReadCloser) bool {
	switch b := rc.(type) {
	case *memBody:
		return true
	case *prefixBody:
		return b.judged
	}
	return false
}
