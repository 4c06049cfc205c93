package failover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// maxBuffered is how much of a body without GetBody is read ahead.
const maxBuffered = 4 << 20

// payload is what one look at a request tells, with its body where that was
// read: every target then gets a reader of its own over these bytes.
type payload struct {
	wire     wire.Request
	data     []byte        // the whole body, if buffered
	buffered bool          // the original body was read and closed
	rest     io.ReadCloser // of a body too large to be buffered: all of it, once
	handed   bool          // the original body belongs to a target now, which closes it
}

// replayable reports whether any number of targets can get the body.
func (p *payload) replayable(req *http.Request) bool {
	return p.buffered || empty(req) || p.rest == nil && req.GetBody != nil
}

func empty(req *http.Request) bool { return req.Body == nil || req.Body == http.NoBody }

// readPayload looks at a request once. rewrites says that a body may have to
// change; others than those of inference calls are left alone without it.
// named says that somebody wants to know the model in it. On an error the body
// is closed.
func readPayload(req *http.Request, rewrites, named bool) (*payload, error) {
	p := &payload{wire: wire.Inspect(req.Method, req.URL, req.Header)}
	explicit := namedModel(req)
	if err := p.read(req, rewrites, named && explicit == ""); err != nil {
		closeBody(req)
		return nil, err
	}
	if explicit != "" {
		p.wire.Model = explicit
	}
	return p, nil
}

func (p *payload) read(req *http.Request, rewrites, named bool) error {
	contentType := req.Header.Get("Content-Type")
	if wanted := p.wire.Format.Inference() || rewrites && readable(contentType); empty(req) || !wanted {
		return nil
	}
	src := req.Body
	if req.GetBody != nil {
		// Some SDKs' Body and GetBody share one reader: the one is closed
		// before the other is asked for.
		if err := req.Body.Close(); err != nil {
			return fmt.Errorf("request body: close: %w", err)
		}
		var err error
		if src, err = req.GetBody(); err != nil {
			return fmt.Errorf("request body: GetBody: %w", err)
		}
	}
	if err := p.buffer(req, src); err != nil || !p.buffered || !named {
		return err
	}
	text, _ := bytes.CutPrefix(p.data, []byte(byteOrderMark))
	return p.wire.ReadBody(contentType, bytes.NewReader(text))
}

// buffer reads src, without a bound where GetBody vouches that it is in
// memory already. A larger body is left in p.rest.
func (p *payload) buffer(req *http.Request, src io.ReadCloser) error {
	ctx := req.Context()
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { _ = src.Close() }) // ends a blocked Read
	}
	var r io.Reader = src
	if req.GetBody == nil {
		r = io.LimitReader(src, maxBuffered+1)
	}
	var err error
	p.data, err = readAll(r, req.ContentLength)
	stop()
	switch n := int64(len(p.data)); {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err != nil:
	case req.GetBody == nil && n > maxBuffered:
		p.rest = &prefixed{Reader: io.MultiReader(bytes.NewReader(p.data), src), Closer: src}
		p.data = nil
		return nil
	case req.ContentLength > 0 && req.ContentLength != n:
		err = fmt.Errorf("%d bytes, but ContentLength is %d", n, req.ContentLength)
	}
	if cerr := src.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close: %w", cerr)
	}
	if err != nil {
		return fmt.Errorf("request body: %w", err)
	}
	p.buffered = true
	return nil
}

// readAll reads r to its end, into a buffer of the declared length where there
// is one.
func readAll(r io.Reader, length int64) ([]byte, error) {
	size := int64(bytes.MinRead)
	if length > 0 {
		size = min(length, maxBuffered) + 1 // room for the Read that sees the end
	}
	b := make([]byte, 0, size)
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

// prefixed is a body of which the beginning was read ahead.
type prefixed struct {
	io.Reader
	io.Closer
}

// readable reports whether a body of that type may name a model.
func readable(contentType string) bool {
	mt, _, err := mime.ParseMediaType(contentType)
	return err == nil && (mt == "application/json" || strings.HasSuffix(mt, "+json") || mt == "multipart/form-data")
}

// byteOrderMark may stand before JSON: parsers may ignore it (RFC 8259 §8.1).
const byteOrderMark = "\xef\xbb\xbf"

// bytesFor returns the body that target t gets.
func (p *payload) bytesFor(t *target, contentType string) []byte {
	if t.Model == "" || len(p.data) == 0 {
		return p.data
	}
	replace := wire.ReplaceModel
	if contentType != "application/json" { // what nearly all of them say needs no parsing
		if mt, params, err := mime.ParseMediaType(contentType); err == nil && mt == "multipart/form-data" {
			replace = func(b []byte, model string) ([]byte, error) {
				return replaceFormModel(b, params["boundary"], model)
			}
		}
	}
	text, marked := bytes.CutPrefix(p.data, []byte(byteOrderMark))
	data, err := replace(text, t.Model)
	if err != nil {
		// No model in it (some formats have it in the path), or not what its
		// type says: the upstream gets it as it is and will say so.
		return p.data
	}
	if marked {
		data = append([]byte(byteOrderMark), data...)
	}
	return data
}

// body gives out the target's body. The original one is handed on at most
// once, to the first target.
func (p *payload) body(out *http.Request, t *target) error {
	switch {
	case p.buffered:
		data := p.bytesFor(t, out.Header.Get("Content-Type"))
		setBody(out, data)
	case p.rest != nil:
		if p.handed {
			return errors.New("the request body was sent and cannot be read again")
		}
		p.handed = true
		out.Body, out.GetBody = p.rest, nil
	default:
		p.handed = true
	}
	return nil
}

// setBody gives out a reader of its own over data, of a type that net/http
// knows: others cost it a write more.
func setBody(out *http.Request, data []byte) {
	out.ContentLength = int64(len(data))
	out.TransferEncoding = nil
	if out.Header.Get("Content-Length") != "" {
		out.Header.Set("Content-Length", fmt.Sprint(len(data)))
	}
	if len(data) == 0 {
		out.Body = http.NoBody
		out.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
		return
	}
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	out.Body = io.NopCloser(bytes.NewReader(data))
}
