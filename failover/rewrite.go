package failover

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// request builds the request of l's target from the caller's, which stays as
// it is. What it returns shares no map, URL or reader with any other target's.
func (x *exchange) request(l *leg) (*http.Request, error) {
	t := l.target
	ctx, rd := x.pl.Carry(l.requestContext())
	out := x.req.WithContext(ctx)
	out.URL = t.url(x.req.URL, x.pl.Format)
	out.Header = x.req.Header.Clone()
	if out.Header == nil {
		out.Header = make(http.Header)
	}
	l.foreign = !wire.SameOrigin(out.URL, x.req.URL)
	if t.ownAuth || l.foreign {
		separate(out, t)
	}
	if !l.first {
		deleteHeader(out.Header, "Idempotency-Key")
	}
	if t.base != nil {
		out.Host = "" // the URL's
	}
	t.setHeader(out)
	if name := t.AffinityHeader; name != "" && l.walk.key != "" && anySpelling(out.Header, http.CanonicalHeaderKey(name)) == "" {
		out.Header.Set(name, token(l.walk.key))
	}
	out.URL.RawQuery = setQuery(out.URL.RawQuery, t.Query)
	if err := x.pl.fill(out, rd, t); err != nil {
		return nil, err
	}
	ready := false
	defer func() {
		if !ready { // Rewrite failed, or it panicked
			closeBody(out)
		}
	}()
	if err := x.lastWord(out, l); err != nil {
		return nil, fmt.Errorf("failover: target %s: rewrite: %w", t.Name, err)
	}
	l.sent, l.asked = out.URL, x.req
	ready = true
	return out, nil
}

// requestContext is the leg with what the target says of its calls.
func (l *leg) requestContext() context.Context {
	var ctx context.Context = l
	if l.target.Model != "" {
		ctx = resilience.WithModel(ctx, l.target.Model)
	}
	if l.target.Lenient {
		ctx = resilience.WithLenient(ctx)
	}
	return ctx
}

// separate takes the caller's credentials off a request for a target that has
// its own, or that is somebody else.
func separate(out *http.Request, t *target) {
	wire.StripCredentials(out.Header, t.secrets...)
	if t.base == nil {
		out.URL.User = nil // net/http makes it an Authorization
	}
	out.URL.RawQuery = t.stripCredentialKeys(out.URL.RawQuery)
}

// setHeader sets the target's own headers. Host is no header to net/http.
func (t *target) setHeader(out *http.Request) {
	for key, values := range t.Header {
		deleteHeader(out.Header, key)
		if key == "Host" && len(values) > 0 {
			out.Host = values[0]
			continue
		}
		out.Header[key] = slices.Clone(values)
	}
}

// lastWord lets the target's Rewrite change the request. Where that led to
// another host, credentials of the caller that it left in place are taken off:
// what it set itself differs from them.
func (x *exchange) lastWord(out *http.Request, l *leg) error {
	t := l.target
	if t.Rewrite == nil {
		return nil
	}
	was, host := out.URL.Host, out.Host
	if err := t.Rewrite(out); err != nil {
		return err
	}
	if out.URL == nil {
		return errors.New("left no URL")
	}
	if out.Host == host && host == was && out.URL.Host != was {
		out.Host = "" // http.NewRequest copied the URL's, which is another now
	}
	if l.foreign || wire.SameOrigin(out.URL, x.req.URL) {
		return nil
	}
	l.foreign = true
	if t.ownAuth {
		return nil // they went already
	}
	harmless := out.Header.Clone()
	wire.StripCredentials(harmless, t.secrets...)
	for key, values := range out.Header {
		if _, stays := harmless[key]; !stays && slices.Equal(values, x.req.Header[key]) {
			delete(out.Header, key)
		}
	}
	theirs := x.req.URL.Query()
	out.URL.RawQuery = stripQuery(out.URL.RawQuery, func(key, value string) bool {
		return wire.CredentialKey(key, t.secrets...) && slices.Contains(theirs[key], value)
	})
	if out.URL.User != nil && x.req.URL.User != nil && out.URL.User.String() == x.req.URL.User.String() {
		out.URL.User = nil
	}
	return nil
}

// url returns the URL of the target's request: its base URL joined with the
// format's endpoint, as an SDK would join it, and its model in place of one
// that the request's path names. What the base URL names, such as an Azure
// deployment, is the target's own and stays.
func (t *target) url(from *url.URL, f *wire.Format) *url.URL {
	u := new(url.URL)
	*u = *from
	if t.base != nil {
		*u = *t.base
		join(u, t.modelPath(endpoint(from, f, t.base)))
		u.RawQuery = from.RawQuery
	} else if path := u.EscapedPath(); t.Model != "" {
		if own := t.modelPath(path); own != path {
			setPath(u, own)
		}
	}
	return u
}

// endpoint returns the escaped part of a request's path that follows the base
// URL of an SDK. Of an unknown format, it is what follows the API's version
// where the base has one of its own, else all from the version on.
func endpoint(from *url.URL, f *wire.Format, base *url.URL) string {
	path := from.EscapedPath()
	end := ""
	if e := f.Endpoint(from); e != "" && strings.HasSuffix(path, e) {
		end = e
	} else if e != "" {
		end = escapedTail(path, e)
	} else if i := versionAt(path); i >= 0 {
		end = path[i:]
	} else {
		return path
	}
	basePath := strings.TrimSuffix(base.EscapedPath(), "/")
	if last := basePath[strings.LastIndexByte(basePath, '/')+1:]; isVersion(last) {
		if seg, rest, ok := strings.Cut(strings.TrimPrefix(end, "/"), "/"); ok && isVersion(seg) {
			return "/" + rest // https://host/v1 and /v1/messages: not twice
		}
	}
	return end
}

// escapedTail returns the part of an escaped path that stands for tail, as it is
// escaped there: a model's name may hold a slash.
func escapedTail(path, tail string) string {
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		if p, err := url.PathUnescape(path[i:]); err == nil && p == tail {
			return path[i:]
		}
	}
	return (&url.URL{Path: tail}).EscapedPath()
}

// versionAt returns where the first segment that is a version begins, with its
// slash, -1 for none.
func versionAt(path string) int {
	for i := 0; i < len(path); {
		next := strings.IndexByte(path[i+1:], '/')
		seg := path[i+1:]
		if next >= 0 {
			seg = seg[:next]
		}
		if isVersion(seg) {
			return i
		}
		if next < 0 {
			return -1
		}
		i += 1 + next
	}
	return -1
}

// isVersion knows v1, v2, v1beta, v1beta1, v1alpha.
func isVersion(seg string) bool {
	if len(seg) < 2 || seg[0] != 'v' || seg[1] < '0' || seg[1] > '9' {
		return false
	}
	rest := strings.Trim(seg[1:], "0123456789")
	return rest == "" || rest == "beta" || rest == "alpha"
}

// join appends an escaped path to a base URL of the request's own.
func join(u *url.URL, escaped string) {
	setPath(u, strings.TrimSuffix(u.EscapedPath(), "/")+"/"+strings.TrimPrefix(escaped, "/"))
}

// setPath sets a path in its escaped form.
func setPath(u *url.URL, escaped string) {
	path, err := url.PathUnescape(escaped)
	if err != nil { // cannot be: it comes from URLs that parsed
		path = escaped
	}
	u.Path, u.RawPath = path, escaped
}

// modelPath returns an escaped path with the target's model in place of the one
// that it names.
func (t *target) modelPath(path string) string {
	if t.Model == "" {
		return path
	}
	replaced, _ := wire.ReplacePathModel(path, t.Model)
	return replaced
}
