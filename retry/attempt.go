package retry

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/surefoot-go/surefoot/internal/layer"
)

// Attempt is what is known of one attempt once it has ended.
type Attempt struct {
	Number  int           // from 1
	Status  int           // of the response; 0 if there was none
	Err     error         // what came in place of a response
	Wait    time.Duration // the wait before this attempt
	Start   time.Time
	Elapsed time.Duration // until the base transport returned
	Sent    bool          // it reached a connection, or may have
	Timeout bool          // Err is a local timeout
}

// flight watches one attempt through httptrace. The hooks may be called late
// and from other goroutines, so no flight is used twice. It is part of the
// attempt's context.
type flight struct {
	context.Context // of the call

	number int // of the attempt, from 1
	trace  httptrace.ClientTrace

	asked     atomic.Bool // GetConn was called: the base reports to httptrace
	connected atomic.Bool // GotConn was called

	mu   sync.Mutex
	conn net.Conn // guarded by mu: the last one
}

// watch returns ctx with the flight's hooks; a trace that the caller put there
// is called as well.
func (f *flight) watch(ctx context.Context) context.Context {
	// Even an http.Transport may hand requests to a base that reports nothing
	// (RegisterProtocol), so each attempt finds out.
	f.trace.GetConn = f.getConn
	f.trace.GotConn = f.gotConn
	f.Context = ctx
	return httptrace.WithClientTrace(f, &f.trace)
}

type flightKey struct{}

// Value makes the flight visible to [AttemptNumber].
func (f *flight) Value(key any) any {
	if key == (flightKey{}) {
		return f
	}
	return f.Context.Value(key)
}

// AttemptNumber returns which attempt, from 1, a request with that context is:
// for what stands below a Transport, such as a base that is traced. It is 0
// outside of an attempt, and where neither retries nor hooks make the layer
// count. With retry layers in one another the innermost one answers.
func AttemptNumber(ctx context.Context) int {
	if f, ok := ctx.Value(flightKey{}).(*flight); ok {
		return f.number
	}
	return 0
}

func (f *flight) getConn(string) { f.asked.Store(true) }

func (f *flight) gotConn(info httptrace.GotConnInfo) {
	f.connected.Store(true)
	f.mu.Lock()
	f.conn = info.Conn
	f.mu.Unlock()
}

// overHTTP2 reports whether the attempt had an HTTP/2 connection.
func (f *flight) overHTTP2() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, ok := f.conn.(interface{ ConnectionState() tls.ConnectionState })
	return ok && c.ConnectionState().NegotiatedProtocol == "h2"
}

// sendWithin sends r, whose context is or descends from l, under the attempt
// timeout. That ends when base returns, which is when the answer is handed out:
// a layer below that holds one back returns when it lets go of it.
func sendWithin(l *layer.Limit, base http.RoundTripper, r *http.Request) (*http.Response, error) {
	returned := false
	defer func() {
		if !returned { // base panicked
			l.Release()
		}
	}()
	resp, err := layer.Send(base, r)
	returned = true
	inTime := l.Stop()
	switch {
	case !inTime:
		if resp != nil {
			_ = resp.Body.Close()
		}
		return nil, context.Cause(l)
	case err != nil:
		l.Release()
		return nil, err
	}
	resp.Body = layer.AtEnd(resp.Body, l.Release)
	return resp, nil
}
