package resilience

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/retry"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// maxBuffered is how much of a body without GetBody is read ahead.
const maxBuffered = 4 << 20

// prepare looks at the request once and returns the copy that the layers
// below get: with the call as its context and, where the body can be sent
// again, with GetBody.
func (c *call) prepare(req *http.Request) (*http.Request, error) {
	if prev := callOfResponse(req.Response); prev != nil {
		c.redirect = true // RFC 9110 §15.4: it belongs to the call before it
		c.wire, c.origin = prev.wire, prev.origin
		c.cookies = slices.Concat(prev.cookies, prev.orig.Header["Cookie"])
	} else {
		c.wire, c.origin = wire.Inspect(req.Method, req.URL, req.Header), req.URL
	}
	r := req.WithContext(c)
	r.Header = retry.DropInvalidKey(r.Header)
	if err := c.readBody(req, r); err != nil {
		return nil, err
	}
	if m := ModelOf(c.caller); m != "" {
		c.wire.Model = m
	}
	c.replayable = r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
	if c.inference() {
		r.Header = negotiated(r.Header)
	}
	if c.redirect && !wire.SameOrigin(c.origin, req.URL) {
		r.Header = r.Header.Clone()
		wire.StripRedirected(r.Header, c.cookies, c.t.policy.Words.Credentials...) // net/http leaves X-Api-Key and its like on
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rec.Model, c.rec.Format, c.rec.Stream = c.wire.Model, c.wire.Format.String(), c.wire.Stream
	return r, nil
}

// negotiated returns h, or a copy of it without the Accept-Encoding that the
// caller set, in whatever spelling: net/http then asks for what it decodes.
func negotiated(h http.Header) http.Header {
	const name = "Accept-Encoding"
	same := func(k string, _ []string) bool { return len(k) == len(name) && strings.EqualFold(k, name) }
	for k := range h {
		if same(k, nil) {
			h = h.Clone()
			maps.DeleteFunc(h, same)
			return h
		}
	}
	return h
}

// inference reports whether the call's answers are judged.
func (c *call) inference() bool { return c.wire.Format.Inference() && !c.passthrough }

// readBody finds model and stream in the body and makes the body of an
// inference call replayable. It leaves r's own body alone where GetBody
// serves.
func (c *call) readBody(req, r *http.Request) error {
	if c.redirect || req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	switch {
	case req.GetBody != nil:
		if c.t.wouldReject() {
			return nil // nothing will be sent: an open breaker does not look at bodies
		}
		return c.inspectCopy(req)
	case c.wire.Format.Inference():
		return c.readAhead(req, r)
	}
	return nil
}

// wouldReject tells whether the provider's breaker rejects every call now,
// whatever model it names.
func (t *Transport) wouldReject() bool {
	p := t.policy.CircuitBreaker
	return p.Scope != breaker.ScopeModel && t.breaker.Peek("") != nil
}

// inspectCopy reads model and stream through GetBody.
func (c *call) inspectCopy(req *http.Request) error {
	body, err := req.GetBody()
	if err != nil {
		return fmt.Errorf("request body: GetBody: %w", err)
	}
	if body == nil {
		return nil // as http.NoBody
	}
	err = c.wire.ReadBody(req.Header.Get("Content-Type"), body)
	if cerr := body.Close(); err == nil && cerr != nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("request body: %w", err)
	}
	return nil
}

// readAhead buffers a body without GetBody, up to maxBuffered. A larger one
// is sent once, as it streams in, and is not looked at.
func (c *call) readAhead(req, r *http.Request) error {
	stop := context.AfterFunc(c.caller, func() { _ = req.Body.Close() }) // ends a blocked Read
	buf, err := readUpTo(req.Body, req.ContentLength)
	stop()
	switch {
	case c.caller.Err() != nil:
		return c.caller.Err()
	case errors.Is(err, errTooLarge):
		r.Body = &prefixed{Reader: io.MultiReader(bytes.NewReader(buf), req.Body), Closer: req.Body}
		return nil
	case err != nil:
		return fmt.Errorf("request body: %w", err)
	case req.ContentLength > 0 && req.ContentLength != int64(len(buf)):
		return fmt.Errorf("request body: %d bytes, but ContentLength is %d", len(buf), req.ContentLength)
	}
	if err := req.Body.Close(); err != nil {
		return fmt.Errorf("request body: close: %w", err)
	}
	r.ContentLength = int64(len(buf))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf)), nil }
	r.Body, _ = r.GetBody()
	if err := c.wire.ReadBody(req.Header.Get("Content-Type"), bytes.NewReader(buf)); err != nil {
		return fmt.Errorf("request body: %w", err)
	}
	return nil
}

var errTooLarge = errors.New("larger than the read-ahead limit")

// readUpTo reads r to its end. It stops with errTooLarge, and what was read,
// beyond maxBuffered bytes.
func readUpTo(r io.Reader, length int64) ([]byte, error) {
	var buf bytes.Buffer
	if length > 0 {
		buf.Grow(int(min(length, maxBuffered)) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(r, maxBuffered+1))
	if err == nil && n > maxBuffered {
		err = errTooLarge
	}
	return buf.Bytes(), err
}

// prefixed is a body of which the beginning was read already.
type prefixed struct {
	io.Reader
	io.Closer
}
