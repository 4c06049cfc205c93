package resilience

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// prepare looks at the request, where nobody above has, and returns the copy
// that the layers below get: with the call as its context and a body that can
// be sent again, where there is a way.
func (c *call) prepare(req *http.Request) (*http.Request, error) {
	r := req.WithContext(c)
	if c.follows(req) {
		c.replayable = empty(req) || req.GetBody != nil
	} else if err := c.readBody(req, r); err != nil {
		return nil, err
	}
	c.describe()
	if c.inference() {
		r.Header = negotiated(r.Header)
	}
	if c.redirect && !wire.SameOrigin(c.origin, req.URL) {
		r.Header = r.Header.Clone()
		wire.StripRedirected(r.Header, c.cookies, c.t.policy.Words.Credentials...) // net/http leaves X-Api-Key and its like on
	}
	return r, nil
}

// follows reports whether req follows a redirect: then it belongs to the call
// before it (RFC 9110 §15.4).
func (c *call) follows(req *http.Request) bool {
	c.origin = req.URL
	prev := callOfResponse(req.Response)
	if prev == nil {
		return false
	}
	c.redirect = true
	c.wire, c.origin = prev.wire, prev.origin
	c.cookies = slices.Concat(prev.cookies, prev.orig.Header["Cookie"])
	return true
}

// describe records what the request asks for.
func (c *call) describe() {
	if m := ModelOf(c.caller); m != "" {
		c.wire.Model = m
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rec.Model, c.rec.Format, c.rec.Stream = c.wire.Model, c.wire.Format.String(), c.wire.Stream
}

// shut is the rejection of a call by a provider that rejects every call now,
// whatever model it names: an open breaker does not look at bodies.
func (c *call) shut(req *http.Request) *breaker.OpenError {
	if c.t.policy.CircuitBreaker.Scope == breaker.ScopeModel {
		return nil
	}
	open, rejects := c.t.opened("")
	if !rejects {
		return nil
	}
	if !c.follows(req) {
		if rd := readingOf(c.caller); rd != nil && rd.covers(req, layer.MaxBody, false) {
			c.wire = rd.Request
		} else {
			c.wire = wire.Inspect(req.Method, req.URL, req.Header)
		}
	}
	c.describe()
	if held := c.held(); held != nil {
		return held
	}
	return new(open)
}

// readBody finds out what the request asks for and gives r the body to send.
// What goes out first is Body, whatever GetBody would give (contract 2).
func (c *call) readBody(req, r *http.Request) error {
	rd := readingOf(c.caller)
	if rd == nil || !rd.covers(req, layer.MaxBody, false) {
		known := rd
		rd = &c.reading
		if err := rd.read(c.within(), req, known, layer.MaxBody, false); err != nil {
			return err
		}
	}
	c.wire = rd.Request
	switch {
	case rd.whole:
		if rd.own {
			r.Body = layer.NewBody(rd.data)
		}
		r.ContentLength = int64(len(rd.data))
		switch {
		case !rd.repeats:
			r.GetBody = nil
		case r.GetBody == nil: // else the retry has it give what Body holds
			r.GetBody = layer.Copies(rd.data)
		}
	case rd.upload != nil:
		r.Body = rd.upload
		if req.GetBody != nil {
			r.GetBody = rd.again(c.within(), req.GetBody)
		}
	default:
		r.Body = noted(req)
	}
	c.replayable = empty(r) || r.GetBody != nil
	return nil
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
