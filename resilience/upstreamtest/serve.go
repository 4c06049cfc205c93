package upstreamtest

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// exchange is one request on a socket and its answer.
type exchange struct {
	u   *Upstream
	w   http.ResponseWriter
	rc  *http.ResponseController
	r   *http.Request
	req *Request
}

// serve answers one request.
func (u *Upstream) serve(w http.ResponseWriter, r *http.Request) {
	if !u.enter() {
		panic(http.ErrAbortHandler)
	}
	defer u.handlers.Done()
	req, err := receive(r)
	if err != nil {
		u.mu.Lock()
		u.log.partial++
		u.notify()
		u.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	step := u.record(req)
	aborted := false
	defer func() { u.settle(req, aborted) }()
	if step.handler != nil {
		defer func() { aborted = r.Context().Err() != nil }()
		r.Body = io.NopCloser(bytes.NewReader(req.full))
		step.handler(w, r)
		return
	}
	x := &exchange{u: u, w: w, rc: http.NewResponseController(w), r: r, req: req}
	aborted = x.play(step.render(req)) != nil
	if aborted {
		panic(http.ErrAbortHandler) // nobody is there to be sent a proper end
	}
}

// play sends the reply. An error means that the client went away.
func (x *exchange) play(p *reply) error {
	ctx := x.r.Context()
	if err := wait(ctx, p.delay, p.gate); err != nil {
		return err
	}
	if p.verbatim {
		return x.playVerbatim(p)
	}
	if p.mute {
		return x.finish(p, false)
	}
	h := x.w.Header()
	for name, values := range p.header {
		h[name] = values
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // else net/http guesses one
	}
	switch {
	case p.length == untilClose:
		// The server then neither chunks nor keeps the connection.
		h.Set("Transfer-Encoding", "identity")
	case p.length >= 0 && p.status >= 200 && p.status != http.StatusNoContent && h.Get("Content-Length") == "":
		h.Set("Content-Length", strconv.Itoa(p.length))
	}
	x.w.WriteHeader(p.status)
	body := p.bodyAllowed(x.r.Method)
	if p.length >= 0 && p.end == endClean {
		x.u.mu.Lock()
		x.u.log.pay(x.req)
		x.u.mu.Unlock()
	}
	if body {
		if p.length == chunked {
			if err := x.rc.Flush(); err != nil {
				return err
			}
		}
		if err := play(ctx, p.parts, x.write); err != nil {
			return err
		}
	}
	return x.finish(p, body)
}

// write sends one part at once.
func (x *exchange) write(b []byte) error {
	if _, err := x.w.Write(b); err != nil {
		return err
	}
	return x.rc.Flush()
}

// play sends the parts at their times.
func play(ctx context.Context, parts []part, write func([]byte) error) error {
	for _, p := range parts {
		for i := 0; p.times < 0 || i < max(p.times, 1); i++ {
			if err := wait(ctx, p.wait, p.gate); err != nil {
				return err
			}
			if len(p.data) == 0 {
				continue
			}
			if err := write(p.data); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish ends the reply in its own way; body tells that one was begun.
func (x *exchange) finish(p *reply, body bool) error {
	if p.end == endClean {
		return nil
	}
	ctx := x.r.Context()
	if p.end == endStall {
		if !p.mute {
			if err := x.rc.Flush(); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	}
	if !p.mute {
		if err := x.rc.Flush(); err != nil {
			return err
		}
	}
	conn, buf, err := x.rc.Hijack()
	if err != nil { // HTTP/2: RST_STREAM(INTERNAL_ERROR)
		x.u.settle(x.req, false)
		panic(http.ErrAbortHandler)
	}
	defer hangUp(conn)
	defer context.AfterFunc(x.u.ctx, func() { hangUp(conn) })()
	switch p.end {
	case endReset:
		reset(conn)
	case endBadChunk:
		_, err = io.WriteString(conn, badChunk)
	case endReuseReset:
		if body && p.length == chunked {
			if _, err = io.WriteString(conn, "0\r\n\r\n"); err != nil {
				return err
			}
		}
		x.u.settle(x.req, false)
		if _, e := buf.Peek(1); e == nil { // else the client went first
			reset(conn)
		}
	}
	return err
}

// playVerbatim sends the parts on the bare connection. A goroutine, gone when
// this returns, watches for the client's leaving.
func (x *exchange) playVerbatim(p *reply) error {
	conn, buf, err := x.rc.Hijack()
	if err != nil { // HTTP/2
		x.u.settle(x.req, false)
		panic(http.ErrAbortHandler)
	}
	ctx, cancel := context.WithCancel(x.u.ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer cancel()
		_, _ = io.Copy(io.Discard, buf) // ends with the connection
	}()
	defer func() {
		hangUp(conn)
		<-gone
	}()
	defer context.AfterFunc(x.u.ctx, func() { hangUp(conn) })()
	if err := play(ctx, p.parts, func(b []byte) error { return writeAll(conn, b) }); err != nil {
		return err
	}
	switch p.end {
	case endStall:
		<-ctx.Done()
		return ctx.Err()
	case endReset:
		reset(conn)
	}
	return nil
}

func writeAll(conn net.Conn, b []byte) error {
	_, err := conn.Write(b)
	return err
}

// wait passes d, then the gate, unless ctx ends first.
func wait(ctx context.Context, d time.Duration, gate <-chan struct{}) error {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}
