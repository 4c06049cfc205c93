package upstreamtest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Upstream is a scripted provider. Its methods are safe for concurrent use.
// Make one with [New] or [NewInMemory] and close it when done.
type Upstream struct {
	// URL is the base URL, without a path or a trailing slash.
	URL string

	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	srv    *http.Server // nil in memory

	handlers sync.WaitGroup // handlers that run
	serving  sync.WaitGroup // accept loops
	open     sync.WaitGroup // connections that the server holds

	life sync.Mutex // Stop, Start and the first half of Close: one at a time

	mu       sync.Mutex // guards everything below
	queue    script
	rules    []rule
	models   map[string]*script
	lists    *script
	rests    *script
	kept     []*keptAnswer
	fallback *script
	log      journal
	changed  chan struct{} // closed and replaced at each change of log
	ln       net.Listener  // nil in memory and while stopped
	states   map[net.Conn]http.ConnState
	calls    map[*call]struct{} // in memory
	stopped  bool
	closed   bool
}

func newUpstream() *Upstream {
	u := &Upstream{
		models:  map[string]*script{},
		log:     journal{byModel: map[string]int{}},
		changed: make(chan struct{}),
		states:  map[net.Conn]http.ConnState{},
		calls:   map[*call]struct{}{},
	}
	u.queue.queue = true
	return u
}

// New starts a provider on a port of the loopback interface. It speaks
// HTTP/1.1 and, to clients that begin with it, unencrypted HTTP/2. It panics
// if there is no loopback to listen on.
func New() *Upstream {
	ln, err := listenOn("127.0.0.1:0")
	if err != nil {
		if ln, err = listenOn("[::1]:0"); err != nil {
			panic(fmt.Sprintf("upstreamtest: no loopback port: %v", err))
		}
	}
	u := newUpstream()
	u.ctx, u.cancel = context.WithCancel(context.Background())
	u.URL = "http://" + ln.Addr().String()
	u.srv = &http.Server{
		Handler:     http.HandlerFunc(u.serve),
		BaseContext: func(net.Listener) context.Context { return u.ctx },
		ConnState:   u.connState,
		Protocols:   new(http.Protocols),
	}
	u.srv.Protocols.SetHTTP1(true)
	u.srv.Protocols.SetUnencryptedHTTP2(true)
	u.listen(ln)
	return u
}

// NewInMemory makes a provider without sockets, goroutines or wall-clock
// needs: only [Upstream.RoundTripper] reaches it, so that it can be used, and
// has to be made and closed, inside a testing/synctest bubble. Its URL is
// http://host; an empty host is "upstream.test".
func NewInMemory(host string) *Upstream {
	if host == "" {
		host = "upstream.test"
	}
	u := newUpstream()
	u.URL = "http://" + host
	return u
}

func listenOn(addr string) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(context.Background(), "tcp", addr)
}

// listen accepts connections on ln.
func (u *Upstream) listen(ln net.Listener) {
	u.mu.Lock()
	u.ln, u.stopped = ln, false
	u.mu.Unlock()
	u.serving.Go(func() {
		_ = u.srv.Serve(ln) // ends when ln is closed
	})
}

// Stop makes the provider refuse connections, as a process that is gone: idle
// connections are closed, requests that are being answered run to their end.
// [Upstream.Start] undoes it.
func (u *Upstream) Stop() {
	u.life.Lock()
	defer u.life.Unlock()
	u.mu.Lock()
	if u.stopped || u.closed {
		u.mu.Unlock()
		return
	}
	u.stopped = true
	ln := u.ln
	u.ln = nil
	u.mu.Unlock()
	if ln != nil {
		_ = ln.Close() // nothing to be done about it
		u.serving.Wait()
	}
	u.drop(hangUp, true)
}

// Start accepts connections again after [Upstream.Stop], at the same URL. It
// fails if another process has taken the port.
func (u *Upstream) Start() error {
	u.life.Lock()
	defer u.life.Unlock()
	u.mu.Lock()
	if !u.stopped || u.closed {
		u.mu.Unlock()
		return nil
	}
	if u.srv == nil {
		u.stopped = false
		u.mu.Unlock()
		return nil
	}
	u.mu.Unlock()
	ln, err := listenOn(u.URL[len("http://"):])
	if err != nil {
		return fmt.Errorf("upstreamtest: start again: %w", err)
	}
	u.listen(ln)
	return nil
}

// CloseIdle closes the connections that no request is using (FIN), those whose
// answer has just been sent included. One that no request has used yet stays.
func (u *Upstream) CloseIdle() { u.drop(hangUp, false) }

// ResetIdle resets the connections that [Upstream.CloseIdle] would close (RST).
func (u *Upstream) ResetIdle() { u.drop(reset, false) }

// drop ends idle connections, and fresh ones if told so. A client may have its
// answer before the server counts the connection as idle: that is waited for,
// a second at most, since a client may also be slow in sending a request.
func (u *Upstream) drop(end func(net.Conn), fresh bool) {
	if u.srv == nil {
		return
	}
	ctx, cancel := context.WithTimeout(u.ctx, time.Second)
	defer cancel()
	_ = u.Wait(ctx, func() bool { return read(u, (*journal).settled) }) // late: the idle ones are dropped
	u.mu.Lock()
	var idle []net.Conn
	for c, state := range u.states {
		if state == http.StateIdle || fresh && state == http.StateNew {
			idle = append(idle, c)
		}
	}
	u.mu.Unlock()
	for _, c := range idle {
		end(c)
	}
}

// connState follows the server's connections.
func (u *Upstream) connState(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	was, known := u.states[c]
	switch {
	case state == http.StateNew:
		u.log.conns++
		u.open.Add(1)
	case !known: // HTTP/2 reports some states for a wrapper
		return
	case state == http.StateClosed, state == http.StateHijacked:
		u.open.Done()
	case state == http.StateIdle && u.stopped:
		hangUp(c)
	}
	if was == http.StateActive {
		u.log.active--
	}
	if state == http.StateActive {
		u.log.active++
	}
	u.states[c] = state
	if state == http.StateClosed || state == http.StateHijacked {
		delete(u.states, c)
	}
	u.notify()
}

// Close ends all exchanges, closes all connections and waits until no handler
// and no goroutine of the Upstream is left. It may be called more than once.
// What was recorded can still be read.
func (u *Upstream) Close() {
	u.mu.Lock()
	if u.closed {
		u.mu.Unlock()
		return
	}
	u.closed = true
	calls := make([]*call, 0, len(u.calls))
	for c := range u.calls {
		calls = append(calls, c)
	}
	u.mu.Unlock()
	slices.SortFunc(calls, func(a, b *call) int { return a.req.Seq - b.req.Seq })
	for _, c := range calls {
		c.close()
	}
	if u.srv == nil {
		return
	}
	// First the connections, so that no handler can end its answer properly.
	// cancel also ends a Stop that waits for idle connections.
	_ = u.srv.Close() // closes what it can
	u.cancel()
	u.life.Lock() // a Start that was under way has begun to serve, and ends
	u.serving.Wait()
	u.life.Unlock()
	u.handlers.Wait()
	u.open.Wait()
}

// enter counts a handler in; false once the Upstream is closed.
func (u *Upstream) enter() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	u.handlers.Add(1)
	return true
}

// hangUp closes a connection (FIN).
func hangUp(c net.Conn) {
	_ = c.Close() // there is nobody to tell
}

// reset closes a connection by RST: with a linger of 0 the kernel drops what
// was not sent and resets.
func reset(c net.Conn) {
	if t, ok := c.(interface{ SetLinger(sec int) error }); ok {
		_ = t.SetLinger(0) // without it the close is a FIN
	}
	_ = c.Close()
}
