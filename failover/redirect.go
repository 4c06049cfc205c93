package failover

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// redirected sends a request that follows a redirect to the target that gave
// it. It belongs to the call before it: its URL is the upstream's, nothing
// fails over, and credentials go along to the target's own scheme and host
// only (RFC 9110 §15.4).
func redirected(req *http.Request, from *leg) (*http.Response, error) {
	t := from.target
	l := &leg{
		Context: req.Context(), call: from.call, target: t,
		backup: from.backup, first: from.first, sent: from.sent, asked: from.asked, foreign: from.foreign,
	}
	out := req.WithContext(l.requestContext())
	out.Header = req.Header.Clone()
	if out.Header == nil {
		out.Header = make(http.Header)
	}
	u := *req.URL
	out.URL = &u
	out.Response = from.askedBelow(req.Response)
	home := wire.SameOrigin(out.URL, l.sent)
	if !home || t.ownAuth || l.foreign {
		wire.StripRedirected(out.Header, l.cookiesBefore(req), t.secrets...)
		out.URL.User = nil // an http.Client resolves a Location against the caller's URL
	}
	if home {
		t.setHeader(out)
		if t.base != nil && t.base.User != nil {
			out.URL.User = t.base.User
		}
		out.URL.RawQuery = addQuery(out.URL.RawQuery, t.Query)
	} else {
		leaveSecrets(out.URL, t, l.sent, l.asked.URL)
	}
	if !l.first {
		deleteHeader(out.Header, "Idempotency-Key")
	}
	out, err := redirectedBody(out, t)
	if err != nil {
		l.call.failedAt(nil)
		return nil, l.call.failure(err)
	}
	resp, err := send(t, l, out)
	if err != nil {
		l.call.failedAt(out.URL)
		return nil, l.call.failed(nil, ending.Of(req, nil), err)
	}
	return resp, nil
}

// askedBelow is a redirecting answer of the leg as what is below it knows it: a
// chain behind a layer goes on with its own leg, or guesses, and does not take
// the one above it for that, which would send the request round for ever.
func (l *leg) askedBelow(resp *http.Response) *http.Response {
	below := *resp
	below.Request = l.below
	return &below
}

// cookiesBefore returns the Cookie headers of the requests before a redirected
// one.
func (l *leg) cookiesBefore(req *http.Request) []string {
	cookies := l.asked.Header["Cookie"]
	if last := req.Response.Request; last != nil {
		cookies = slices.Concat(cookies, last.Header["Cookie"])
	}
	return cookies
}

// guess is the leg that a redirected request seems to belong to where the
// response before it does not tell, because somebody put it there: the first
// target's. Its credentials go to where its base URL points, no further.
func (c *Chain) guess(req *http.Request) *leg {
	t := c.targets[0]
	for _, other := range c.targets {
		if !other.Disabled {
			t = other
			break
		}
	}
	l := &leg{call: newCall(req.Context()), target: t, first: true, sent: t.base, asked: req}
	switch {
	case t.base != nil:
		l.foreign = true
	case t.ownAuth:
		l.sent = &url.URL{} // nobody's origin
	default:
		l.sent = req.URL
	}
	return l
}

// redirectedBody makes the body what the redirected request's was: a 307 and
// a 308 repeat its content (RFC 9110 §15.4.8), and that named the target's
// model. It is read like any other body.
func redirectedBody(out *http.Request, t *target) (*http.Request, error) {
	if empty(out) || t.Model == "" {
		return out, nil
	}
	pl, err := readPayload(out, defaultMaxBody, true)
	if err != nil {
		return nil, err
	}
	ctx, rd := pl.Carry(out.Context())
	own := out.WithContext(ctx)
	if err := pl.fill(own, rd, t); err != nil {
		pl.Discard(out)
		return nil, err
	}
	return own, nil
}

// leaveSecrets takes off a URL on another host the query's credentials that
// are the target's or the caller's: an upstream that builds a Location from
// the request may have copied them. Its own, of a signed URL, stay.
func leaveSecrets(u *url.URL, t *target, sent, asked *url.URL) {
	known := func(key, value string) bool {
		for _, q := range []url.Values{t.Query, sent.Query(), asked.Query()} {
			for k, values := range q {
				if wire.CredentialKey(k, t.secrets...) && slices.Contains(values, value) {
					return true
				}
			}
		}
		return slices.Contains(t.Query[key], value)
	}
	u.RawQuery = stripQuery(u.RawQuery, known)
}

// addQuery sets the values whose keys a raw query lacks.
func addQuery(raw string, values url.Values) string {
	missing := make(url.Values)
	have, _ := url.ParseQuery(raw) // the faulty pairs count as missing
	for k, v := range values {
		if !have.Has(k) {
			missing[k] = v
		}
	}
	return setQuery(raw, missing)
}

// ownResponse makes an answer fit for the caller of a request to asked: cookies
// of another host must not be kept for the caller's, and a relative Location
// is relative to where the request went, which an http.Client does not know.
func ownResponse(resp *http.Response, asked, sent *url.URL) {
	if sent == nil || asked == nil {
		return
	}
	if !wire.SameOrigin(asked, sent) {
		resp.Header.Del("Set-Cookie")
	}
	if resp.StatusCode/100 != 3 || wire.SameOrigin(asked, sent) && asked.EscapedPath() == sent.EscapedPath() {
		return
	}
	loc, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || loc.IsAbs() || resp.Header.Get("Location") == "" {
		return
	}
	u := sent.ResolveReference(loc)
	if loc.Host == "" {
		u.User = nil // of the target's base URL
	}
	resp.Header.Set("Location", u.String())
}

// send is one leg over the target's transport. Whatever the transport says,
// the response's request is one through which the leg is found.
func send(t *target, l *leg, out *http.Request) (*http.Response, error) {
	l.out.Store(out)
	resp, err := layer.Send(t.rt, out)
	l.out.Store(nil)
	if err != nil {
		return nil, err
	}
	got := legOf(resp)
	if got != nil && got.backup {
		l.backup = true // whosever call it was
	}
	if got == nil || got.call != l.call {
		l.below, resp.Request = resp.Request, out
	}
	return resp, nil
}
