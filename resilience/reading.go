package resilience

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// A Reading is what one look at a request has shown: its format, its model,
// whether it asks for a stream, and its body, read into memory where that may
// be done. Whoever meets the request first makes it, a router, a chain or a
// stack; below, it goes on in the context ([Reading.Carry]), so that nobody
// looks at a request twice or reads its body again. It is read-only once its
// request was sent, and then safe for concurrent use.
type Reading struct {
	wire.Request

	content wire.Content
	data    []byte        // of the body: all of it, or its beginning
	whole   bool          // all of it
	own     bool          // the request's own Body was read for it
	repeats bool          // it may be sent any number of times
	upload  *layer.Upload // goes on behind data, where that is the beginning
	looks   int           // how often a request of this call was looked at
	parses  int           // and how often a body was parsed for it

	// What it is a reading of: who replaces one of these between two layers
	// has made another request.
	body                io.ReadCloser
	method, path, query string
	accept              []string
}

// ReadRequest returns the reading of req: the one that its context carries,
// where that belongs to req as it is now, else a new one. The body of an
// inference call is read, and with forms also one whose media type (JSON, a
// multipart form) may name a model. What has up to limit bytes is read whole;
// of a larger one no more than the beginning is, and [Reading.Fits] is false.
// req is not modified, but its Body may have been read: it is sent by
// [Reading.Fill]. On an error, which is [*ending.RequestError] or the
// context's own, the body has been closed.
func ReadRequest(req *http.Request, limit int64, forms bool) (*Reading, error) {
	known := readingOf(req.Context())
	if known != nil && known.covers(req, limit, forms) {
		return known, nil
	}
	rd := new(Reading)
	return rd, rd.read(req.Context(), req, known, limit, forms)
}

// read looks at req; ctx bounds how long that may take. known is of the same
// call, or nil.
func (rd *Reading) read(ctx context.Context, req *http.Request, known *Reading, limit int64, forms bool) error {
	rd.Request = wire.Inspect(req.Method, req.URL, req.Header)
	rd.looks = 1
	if known != nil {
		rd.looks, rd.parses = rd.looks+known.looks, known.parses
	}
	if known != nil && known.sameBody(req) && (known.whole || known.empty()) {
		rd.content, rd.data, rd.whole, rd.repeats = known.content, known.data, known.whole, known.repeats
	} else if err := rd.readBody(ctx, req, limit, forms); err != nil {
		return err
	}
	rd.Add(&rd.content)
	rd.identify(req)
	return nil
}

// identify remembers which request rd is the reading of.
func (rd *Reading) identify(req *http.Request) {
	rd.body, rd.method, rd.accept = req.Body, req.Method, req.Header["Accept"]
	if req.URL != nil {
		rd.path, rd.query = req.URL.Path, req.URL.RawQuery
	}
}

func (rd *Reading) readBody(ctx context.Context, req *http.Request, limit int64, forms bool) error {
	if empty(req) || !wanted(req, rd.Format, forms) {
		return nil
	}
	if layer.InMemory(req.Body, &rd.data) {
		rd.whole = true
		rd.repeats = int64(len(rd.data)) <= limit || req.GetBody != nil
	} else {
		some := limit
		if req.ContentLength > limit {
			some = min(limit, layer.MaxBody) // as much as the look needs
		}
		var err error
		rd.data, rd.whole, err = layer.ReadAhead(ctx, req.Body, req.ContentLength, some+1)
		if err != nil {
			return err
		}
		rd.own, rd.repeats = true, rd.whole
		if !rd.whole {
			rd.upload = &layer.Upload{Head: rd.data, Body: req.Body, Length: req.ContentLength}
		}
	}
	if rd.whole {
		if err := layer.CheckLength(req, int64(len(rd.data))); err != nil {
			closeBody(req)
			return err
		}
	}
	seen := rd.data
	if !rd.repeats && int64(len(seen)) > limit {
		seen = seen[:limit] // whatever it is read from
	}
	rd.content = wire.ReadContent(req.Header, seen)
	rd.parses++
	return nil
}

func empty(req *http.Request) bool { return req.Body == nil || req.Body == http.NoBody }

// wanted reports whether somebody has to know what the body says.
func wanted(req *http.Request, f *wire.Format, forms bool) bool {
	if f.Inference() || !forms {
		return f.Inference()
	}
	mt, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	return err == nil && (mt == "application/json" || strings.HasSuffix(mt, "+json") || mt == "multipart/form-data")
}

// empty reports whether nothing is known of a body.
func (rd *Reading) empty() bool { return rd.body == nil || rd.body == http.NoBody }

// covers reports whether rd is a reading of req as it is, and all that is asked
// of one.
func (rd *Reading) covers(req *http.Request, limit int64, forms bool) bool {
	switch {
	case req.URL == nil, rd.method != req.Method, rd.path != req.URL.Path, rd.query != req.URL.RawQuery,
		!slices.Equal(rd.accept, req.Header["Accept"]), rd.Format == wire.DashScope, !rd.sameBody(req):
		return false
	case rd.whole, rd.empty():
		return true
	case rd.upload != nil: // whose limit is higher reads on
		return limit <= int64(len(rd.data)) || req.ContentLength > limit
	}
	return !wanted(req, rd.Format, forms)
}

// sameBody reports whether req's body is the very one that rd was handed out
// with, and still unread.
func (rd *Reading) sameBody(req *http.Request) bool {
	if rd.empty() {
		return empty(req)
	}
	if empty(req) || rd.body != req.Body {
		return false
	}
	return !rd.whole || layer.Unread(req.Body) == len(rd.data)
}

// Fits reports whether the body was read whole, or is none, and is no longer
// than limit: only then can it be re-written.
func (rd *Reading) Fits(limit int64) bool {
	return rd.upload == nil && int64(len(rd.data)) <= limit
}

// Repeats reports whether the body may be sent any number of times.
func (rd *Reading) Repeats() bool { return rd.repeats || rd.empty() }

// Whole reports whether all of the body is in memory.
func (rd *Reading) Whole() bool { return rd.whole }

// Partial reports whether the beginning of the body was read, and no more.
func (rd *Reading) Partial() bool { return rd.upload != nil }

// Bytes returns the body where all of it is in memory, else nil. It must not be
// written to.
func (rd *Reading) Bytes() []byte {
	if !rd.whole {
		return nil
	}
	return rd.data
}

// Size returns how many bytes of the body are in memory.
func (rd *Reading) Size() int { return len(rd.data) }

// Discard closes the body of req, which rd is the reading of and which nobody
// was given.
func (rd *Reading) Discard(req *http.Request) {
	if !rd.own || !rd.whole { // else reading it has closed it
		closeBody(req)
	}
}

// carrier is a context with a reading.
type carrier struct {
	context.Context
	rd Reading
}

type readingKey struct{}

// Value makes the reading its own context value.
func (c *carrier) Value(key any) any {
	if key == (readingKey{}) {
		return &c.rd
	}
	return c.Context.Value(key)
}

// readingOf returns the reading that ctx carries, nil for none.
func readingOf(ctx context.Context) *Reading {
	rd, _ := ctx.Value(readingKey{}).(*Reading)
	return rd
}

// Carry returns a context for one request, and the copy of rd that goes on in
// it, for [Reading.Fill].
func (rd *Reading) Carry(ctx context.Context) (context.Context, *Reading) {
	c := &carrier{Context: ctx, rd: *rd}
	return c, &c.rd
}

// Fill gives out the body that rd stands for: a reader of its own over the
// bytes in memory, of a type that net/http knows, or else the one that goes on
// behind them, which there is once. A body that rd has not read stays the
// request's own. out has the context that [Reading.Carry] returned, and its
// method, URL and header are final but for what belongs to the body.
func (rd *Reading) Fill(out *http.Request) {
	switch {
	case rd.whole:
		rd.fill(out)
	case rd.upload != nil:
		out.Body, out.GetBody = rd.upload, nil
	}
	rd.identify(out)
}

func (rd *Reading) fill(out *http.Request) {
	out.ContentLength = int64(len(rd.data))
	out.Body = layer.NewBody(rd.data)
	if out.GetBody = nil; rd.repeats {
		out.GetBody = layer.Copies(rd.data)
	}
}

// Replace makes model the one that the body names, without another byte changed.
// It reports whether the body is another now. The error is one of package wire:
// [wire.ErrNoModel] where the body names none.
func (rd *Reading) Replace(model string) (changed bool, err error) {
	data, content, err := rd.content.Replace(rd.data, model)
	if err != nil {
		return false, err
	}
	rd.Model = model
	if bytes.Equal(data, rd.data) {
		return false, nil
	}
	rd.data, rd.content = data, content
	return true, nil
}

// noted returns body such that what is wrong with it is recognised as the
// request's own fault. What net/http knows stays as it is: memory, and files,
// which it can send without copying.
func noted(req *http.Request) io.ReadCloser {
	if empty(req) || layer.Known(req.Body) {
		return req.Body
	}
	switch req.Body.(type) {
	case *os.File, *layer.Upload:
		return req.Body
	}
	return &layer.Upload{Body: req.Body, Length: req.ContentLength}
}
