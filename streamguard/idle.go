package streamguard

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// Idle bounds the silence inside a started body, of any format and any status.
// After the first byte, a Read that waits longer than Timeout for the next one
// fails with a [*ending.TimeoutError] and the upstream's body is closed. Only the wait
// for the upstream counts, never the time that the caller takes between two
// Reads. It starts no goroutine: one timer a body, armed while a Read waits.
//
// The zero Idle has no limit. An Idle must not be copied once used, and may be
// used by any number of goroutines.
type Idle struct {
	// Base is what is below. Nil is a clone of http.DefaultTransport that waits
	// up to 600 s for response headers.
	Base    http.RoundTripper
	Timeout time.Duration // 0 is off

	below layer.Base
}

// RoundTrip returns the base's response with its body bounded. 101, 204, 304,
// the answer to a HEAD and [http.NoBody] are returned untouched.
func (t *Idle) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := layer.Send(t.below.Of(t.Base), req)
	if err != nil {
		return nil, err
	}
	if !bodyless(req, resp) && resp.Body != http.NoBody {
		resp.Body = withIdle(resp, t.Timeout)
	}
	return resp, nil
}

// CloseIdleConnections passes the call on to the base.
func (t *Idle) CloseIdleConnections() { layer.CloseIdle(t.below.Of(t.Base)) }

// bodyless reports whether resp has no body to look at: an upgraded connection
// (its Body is an io.Writer, too, and stays what it is), or none by RFC 9110
// §6.4.1 and §15.3.6.
func bodyless(req *http.Request, resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusSwitchingProtocols, http.StatusNoContent, http.StatusResetContent, http.StatusNotModified:
		return true
	}
	return req.Method == http.MethodHead
}

// withIdle bounds the body of resp, unless a layer below has done so already or
// it reads from memory.
// The length of a stream is not believed, whatever a base says. One of 0 is as
// unknown as -1 once a byte has come: many a transport that is not net/http's
// leaves the field alone.
func withIdle(resp *http.Response, timeout time.Duration) io.ReadCloser {
	if b, ok := resp.Body.(interface{ bounded() bool }); timeout <= 0 || ok && b.bounded() || layer.Known(resp.Body) {
		return resp.Body
	}
	b := &idleBody{timeout: timeout, left: resp.ContentLength}
	if labelled(resp) {
		b.left = -1
	}
	b.w.body = resp.Body
	return b
}

// maxIdleRead bounds one Read: a chunked body goes on filling a large buffer for
// as long as bytes keep coming, which would look like silence.
const maxIdleRead = 256 << 10

type idleBody struct {
	timeout time.Duration
	started bool  // a byte came; used by Read alone, as is left
	left    int64 // bytes still due; less than 0: unknown
	err     error
	w       watch
	whole   memBody // in its place once it was read whole
}

func (b *idleBody) bounded() bool { return true }

func (b *idleBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	// Behind the last byte of a known length comes io.EOF, without a wait.
	if !b.started || len(p) == 0 || b.left == 0 {
		n, err := b.w.body.Read(p)
		b.started = b.started || n > 0
		b.count(n)
		return n, err
	}
	b.w.arm(b.timeout)
	n, err := b.w.body.Read(p[:min(len(p), maxIdleRead)])
	b.count(n)
	if b.w.disarm() {
		// What arrived with the timer's last tick is still handed out.
		b.err = &ending.TimeoutError{What: limitIdle, After: b.timeout}
		if n == 0 || err != nil && err != io.EOF {
			err = b.err // not what closing the body made of it
		}
	}
	return n, err
}

// count takes off what came. If that is more than was due, the length was
// wrong, and no end is in sight.
func (b *idleBody) count(n int) {
	if b.left >= 0 {
		b.left = max(-1, b.left-int64(n))
	}
}

func (b *idleBody) Close() error { return b.w.close() }

// A watch bounds one wait at a time on a body and closes the body when the wait
// is too long, which makes its pending Read return: net/http allows a Close
// beside a Read.
type watch struct {
	body   io.ReadCloser
	closed atomic.Bool

	armed bool // guarded by mu, as is what follows
	fired bool
	stale int16       // callbacks under way of waits that were over just before
	timer *time.Timer // created by the first wait
	mu    sync.Mutex
}

// arm starts a wait of at most d.
func (w *watch) arm(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = true
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.expire)
		return
	}
	w.timer.Reset(d)
}

// disarm ends the wait and reports whether the body was closed for it, in this
// wait or in an earlier one.
func (w *watch) disarm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.armed {
		w.armed = false
		if !w.timer.Stop() {
			w.stale++
		}
	}
	return w.fired
}

// expire runs on the timer's own goroutine.
func (w *watch) expire() {
	w.mu.Lock()
	if w.stale > 0 || !w.armed {
		w.stale = max(0, w.stale-1)
		w.mu.Unlock()
		return
	}
	w.armed, w.fired = false, true
	w.mu.Unlock()
	// Nobody above this frame could recover; the pending Read tells the fault.
	defer func() { _ = recover() }()
	_ = w.close()
}

// close closes the body once and lets no timer outlive it.
func (w *watch) close() error {
	w.disarm()
	if w.closed.Swap(true) {
		return nil
	}
	return w.body.Close()
}
