package retry

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/internal/layer"
)

// releaseWait bounds how long a new attempt waits for the one before it to let
// go of its body. An attempt that has ended does so at once, unless a Read of
// the caller's reader hangs.
const releaseWait = time.Second

// await waits for the release of b, as long as the call lives and at most for
// limit.
func (c *call) await(b *tracked, limit time.Duration) error {
	ch := b.release()
	if ch == nil {
		return nil
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for ch != nil {
		select {
		case <-ch:
			ch = b.release()
		case <-timer.C:
			return errBodyBusy
		case <-c.ctx.Done():
			return c.ending(nil).Explain(nil)
		case <-c.req.Cancel:
			return c.ending(nil).Explain(nil)
		}
	}
	return nil
}

// payload is the body of a call's attempts. What net/http knows to read from
// memory is sent again from there, by readers of their own; GetBody is not
// asked, since code above may have replaced Body and left GetBody as it was
// (contract 2). Of any other body, GetBody gives fresh copies, one after the
// other: some clients' Body and GetBody share one reader, which asking rewinds,
// so the next copy is asked for only when nothing reads the one before.
type payload struct {
	c      *call
	again  func() (io.ReadCloser, error) // next
	memory bool
	data   []byte // in memory

	mu   sync.Mutex // held while a copy is made
	cur  *tracked   // the request's own Body, then the last copy; nil where that was empty
	size int64      // of the Body, as far as it is declared or was read to its end; else -1
}

// of takes the body of a request that can be sent again. It reports false for
// one that is sent as it is, once.
func (p *payload) of(c *call) bool {
	req := c.req
	if req.Body == nil || req.Body == http.NoBody || req.GetBody == nil {
		return false
	}
	p.c, p.again = c, p.next
	if p.memory = layer.InMemory(req.Body, &p.data); !p.memory {
		p.cur, p.size = &tracked{rc: upload(req.Body, req.ContentLength)}, -1
	}
	return true
}

// upload makes what is wrong with the body the request's own fault.
func upload(body io.ReadCloser, length int64) *layer.Upload {
	if u, ok := body.(*layer.Upload); ok {
		return u
	}
	return &layer.Upload{Body: body, Length: length}
}

// own puts the request's own Body into the first attempt.
func (p *payload) own(r *http.Request) {
	if r.GetBody = p.again; !p.memory {
		r.Body = p.cur
	}
}

// copy puts a body that next returned into a later attempt.
func (p *payload) copy(r *http.Request, body io.ReadCloser) {
	r.Body, r.GetBody = body, p.again
}

// next returns a new copy, once the one before is released. It is the GetBody
// of an attempt as well: net/http re-sends by itself where a connection turned
// out to be dead or going away.
func (p *payload) next() (io.ReadCloser, error) {
	if p.memory {
		return layer.NewBody(p.data), nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur != nil {
		if err := p.c.await(p.cur, releaseWait); err != nil {
			return nil, err
		}
		if p.size < 0 {
			p.size = p.cur.rc.Size()
		}
		p.cur = nil
	}
	rc, err := p.c.req.GetBody()
	if err != nil {
		return nil, fmt.Errorf("retry: GetBody: %w", err)
	}
	if rc == nil || rc == http.NoBody {
		if p.size == 0 {
			return http.NoBody, nil
		}
		return nil, errNoCopy
	}
	p.cur = &tracked{rc: upload(rc, p.size)}
	return p.cur, nil
}

// tracked is a body that knows whether it is in use. RoundTrippers may read and
// close a body in goroutines of their own, even after RoundTrip has returned.
type tracked struct {
	rc *layer.Upload

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

// release is called when the attempt is over. It returns nil if the body is
// closed and nobody reads it, else a channel that is closed when it is time to
// ask again. A body that nobody reads at the moment is closed here, if its
// RoundTripper has not come to it yet.
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

// closeBody closes the body of a request that goes nowhere.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
