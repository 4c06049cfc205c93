package upstreamtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"sync"
	"syscall"
)

// RoundTripper reaches the Upstream without sockets, whatever host a request
// names: the same scripts, the same records, the bytes of HTTP/1.1 parsed by
// net/http, and errors as a socket gives them. It starts no goroutine; waits
// are timers, so that it works in a testing/synctest bubble. It is safe for
// concurrent use.
//
// Requests are recorded as they are given: net/http's own headers (User-Agent,
// Accept-Encoding) are not there. There are no connections: none is counted, [Step.ResetOnReuse] ends like a
// good answer, gzip is never undone, and [Raw] answers when its function
// returns. The hooks of httptrace are called: GetConn, GotConn, WroteHeaders,
// WroteRequest, GotFirstResponseByte.
func (u *Upstream) RoundTripper() http.RoundTripper { return memory{u} }

// Client is a client of the Upstream: with a transport of its own, or over
// [Upstream.RoundTripper] for one made by [NewInMemory].
func (u *Upstream) Client() *http.Client {
	if u.srv == nil {
		return &http.Client{Transport: u.RoundTripper()}
	}
	return &http.Client{Transport: &http.Transport{}}
}

// Switch is a RoundTripper over several in-memory Upstreams: each request goes
// to the one whose URL has its host; other hosts are not found, as by DNS.
func Switch(ups ...*Upstream) http.RoundTripper {
	byHost := make(hosts, len(ups))
	for _, u := range ups {
		byHost[strings.TrimPrefix(u.URL, "http://")] = u
	}
	return byHost
}

type hosts map[string]*Upstream

func (h hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	if u := h[r.URL.Host]; u != nil {
		return memory{u}.RoundTrip(r)
	}
	closeBody(r)
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: r.URL.Hostname(), IsNotFound: true}}
}

type memory struct{ u *Upstream }

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // what a transport does, too
	}
}

// RoundTrip implements [http.RoundTripper].
func (m memory) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	trace := httptrace.ContextClientTrace(ctx)
	if err := context.Cause(ctx); err != nil {
		closeBody(r)
		return nil, err
	}
	if err := m.connect(r, trace); err != nil {
		closeBody(r)
		return nil, err
	}
	req, err := m.send(r, trace)
	if err != nil {
		return nil, err
	}
	step := m.u.record(req)
	c := &call{u: m.u, ctx: ctx, req: req, gone: make(chan struct{}), trace: trace, legacy: r.Cancel, due: req.Time} //nolint:staticcheck // Cancel is deprecated and still obeyed
	if !m.u.begin(c) {
		m.u.settle(req, false)
		return nil, errClosed
	}
	if step.handler != nil {
		return c.handled(r, step)
	}
	p := step.render(req)
	c.parts, c.end = p.wire(r.Method), p.end
	c.wholeBy = c.schedule()
	stop := context.AfterFunc(ctx, c.leave)
	resp, err := http.ReadResponse(bufio.NewReader(c), r)
	if err != nil {
		stop()
		c.leave()
		return nil, c.failed(err)
	}
	resp.Body = &memoryBody{call: c, body: resp.Body, stop: stop}
	return resp, nil
}

var errClosed = errors.New("upstreamtest: the upstream is closed")

// connect refuses where a stopped provider does.
func (m memory) connect(r *http.Request, trace *httptrace.ClientTrace) error {
	m.u.mu.Lock()
	down := m.u.stopped || m.u.closed
	m.u.mu.Unlock()
	addr := r.URL.Host
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(addr)
	}
	if down {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	if trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	return nil
}

// send reads the request as a server would and closes its body.
func (m memory) send(r *http.Request, trace *httptrace.ClientTrace) (*Request, error) {
	in := r.WithContext(r.Context())
	in.Proto = "HTTP/1.1"
	if in.Method == "" {
		in.Method = http.MethodGet
	}
	if r.Body == nil || r.Body == http.NoBody {
		in.ContentLength = 0
	} else {
		if r.ContentLength == 0 {
			in.ContentLength = -1
		}
		closer := sync.OnceFunc(func() { closeBody(r) })
		// A body that blocks, such as a pipe, is closed to end its Read.
		defer closer()
		defer context.AfterFunc(r.Context(), closer)()
	}
	if in.Header == nil {
		in.Header = http.Header{}
	}
	if trace != nil && trace.WroteHeaders != nil {
		trace.WroteHeaders()
	}
	req, err := receive(in)
	if err == nil && in.ContentLength >= 0 && req.Size != in.ContentLength {
		err = fmt.Errorf("http: ContentLength=%d with Body length %d", in.ContentLength, req.Size)
	}
	if err != nil {
		if cause := context.Cause(r.Context()); cause != nil {
			err = cause
		}
		m.u.mu.Lock()
		m.u.log.partial++
		m.u.notify()
		m.u.mu.Unlock()
	}
	if trace != nil && trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{Err: err})
	}
	return req, err
}
