package upstreamtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// handled runs a Raw step's function and answers with what it wrote.
func (c *call) handled(r *http.Request, step Step) (*http.Response, error) {
	defer c.over(false)
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	in.URL = &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/1.1", 1, 1
	in.Host = c.req.Host
	in.Body = io.NopCloser(bytes.NewReader(c.req.full))
	w := &recorder{header: http.Header{}}
	if aborted := w.run(step.handler, in); aborted {
		return nil, fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", io.EOF)
	}
	if err := context.Cause(r.Context()); err != nil {
		c.over(true)
		return nil, err
	}
	p := w.reply()
	var wire bytes.Buffer
	for _, q := range p.wire(r.Method) {
		wire.Write(q.data)
	}
	if c.trace != nil && c.trace.GotFirstResponseByte != nil {
		c.trace.GotFirstResponseByte()
	}
	return http.ReadResponse(bufio.NewReader(&wire), r)
}

// recorder collects what a Raw function writes.
type recorder struct {
	header http.Header
	status int
	sent   http.Header // as it was when the head was written
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status, w.sent = status, w.header.Clone()
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// Flush implements [http.Flusher]; everything is handed over at the end.
func (w *recorder) Flush() { w.WriteHeader(http.StatusOK) }

// run calls h and reports a panic with [http.ErrAbortHandler].
func (w *recorder) run(h http.HandlerFunc, r *http.Request) (aborted bool) {
	defer func() {
		if v := recover(); v != nil {
			if err, ok := v.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(v)
			}
			aborted = true
		}
	}()
	h(w, r)
	w.WriteHeader(http.StatusOK)
	return false
}

func (w *recorder) reply() *reply {
	p := &reply{status: w.status, header: w.sent, length: w.body.Len()}
	if w.body.Len() > 0 {
		if w.sent.Get("Content-Type") == "" {
			w.sent.Set("Content-Type", http.DetectContentType(w.body.Bytes()))
		}
		p.parts = []part{{data: w.body.Bytes()}}
	}
	return p
}
