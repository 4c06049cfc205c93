package retry

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"
)

// releaseWait bounds how long a new attempt waits for the one before it to let
// go of its body. An attempt that has ended does so at once, unless a Read of
// the caller's reader hangs.
const releaseWait = time.Second

// releaser is something that may still be using a request body.
type releaser interface {
	// release returns nil if the body is closed and nobody reads it, else a
	// channel that is closed when it is time to ask again.
	release() <-chan struct{}
}

// await waits for r, as long as the call lives and at most for limit.
func await(req *http.Request, r releaser, limit time.Duration) error {
	ch := r.release()
	if ch == nil {
		return nil
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for ch != nil {
		select {
		case <-ch:
			ch = r.release()
		case <-timer.C:
			return errBodyBusy
		case <-req.Context().Done():
			return endOf(req).Explain(nil)
		case <-req.Cancel:
			return endOf(req).Explain(nil)
		}
	}
	return nil
}

// copies hands out fresh copies of a request's body, one after the other: some
// clients' Body and GetBody share one reader, which asking rewinds, so the next
// copy is asked for only when nothing reads the one before.
type copies struct {
	req *http.Request

	mu    sync.Mutex // held while a copy is made
	cur   *tracked   // the last copy; nil where that was empty
	first tracked    // of many calls the only one
}

// next waits for the previous copy's release and returns a new one. It is the
// GetBody of an attempt as well: net/http re-sends by itself where a connection
// turned out to be dead or going away.
func (c *copies) next() (io.ReadCloser, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cur != nil {
		if err := await(c.req, c.cur, releaseWait); err != nil {
			return nil, err
		}
		c.cur = nil
	}
	rc, err := c.req.GetBody()
	if err != nil {
		return nil, fmt.Errorf("retry: GetBody: %w", err)
	}
	if rc == nil || rc == http.NoBody {
		return rc, nil
	}
	c.cur = &tracked{rc: rc}
	return c.cur, nil
}

// tracked is a body that knows whether it is in use. RoundTrippers may read and
// close a body in goroutines of their own, even after RoundTrip has returned.
type tracked struct {
	rc io.ReadCloser

	mu     sync.Mutex
	calls  int  // calls of rc that have not returned
	sealed bool // no Read reaches rc any more
	closed bool // Close of rc was called
	idle   chan struct{}
}

func (b *tracked) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.sealed {
		b.mu.Unlock()
		return 0, errBodyReleased
	}
	b.calls++
	b.mu.Unlock()
	defer b.leave()
	return b.rc.Read(p)
}

func (b *tracked) Close() error {
	b.mu.Lock()
	b.sealed = true
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	b.calls++
	b.mu.Unlock()
	defer b.leave()
	return b.rc.Close()
}

func (b *tracked) leave() {
	b.mu.Lock()
	b.calls--
	if b.calls == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
	b.mu.Unlock()
}

// release is called when the attempt is over. A body that nobody reads at the
// moment is closed here, if its RoundTripper has not come to it yet.
func (b *tracked) release() <-chan struct{} {
	b.mu.Lock()
	b.sealed = true
	if b.calls > 0 {
		defer b.mu.Unlock()
		if b.idle == nil {
			b.idle = make(chan struct{})
		}
		return b.idle
	}
	closed := b.closed
	b.closed = true
	b.mu.Unlock()
	if !closed {
		_ = b.rc.Close() // what it says would help nobody: the attempt is over
	}
	return nil
}

var (
	nopCloserType         = reflect.TypeOf(io.NopCloser(nil))
	nopCloserWriterToType = reflect.TypeOf(io.NopCloser(struct {
		io.Reader
		io.WriterTo
	}{}))
)

// inMemory reports whether net/http knows that rc reads from memory. It sends
// the headers and such a body in one write; any other type, a wrapper too,
// makes it two.
func inMemory(rc io.ReadCloser) bool {
	switch reflect.TypeOf(rc) {
	case nopCloserType, nopCloserWriterToType:
		switch reflect.ValueOf(rc).Field(0).Interface().(type) {
		case *bytes.Reader, *bytes.Buffer, *strings.Reader:
			return true
		}
	}
	return false
}

// closeBody closes the body of a request that goes nowhere.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
