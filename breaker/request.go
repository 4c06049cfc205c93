package breaker

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
)

// done reports whether a context has ended; a deadline ends it by the clock,
// even where its timer is late.
func done(ctx context.Context) bool { return ctx.Err() != nil || expired(ctx) }

func expired(ctx context.Context) bool {
	d, ok := ctx.Deadline()
	return ok && !time.Now().Before(d)
}

// cancelled reports whether the caller gave the request up, by the clock and
// the context and never by an error's text: past the deadline it is a local
// timeout whoever cancelled then, and so is a cancel whose cause is one of our
// own timers.
func cancelled(req *http.Request) bool {
	ctx := req.Context()
	if expired(ctx) {
		return false
	}
	if ctx.Err() != nil {
		cause, ok := errors.AsType[interface {
			error
			Timeout() bool
		}](context.Cause(ctx))
		return !ok || !cause.Timeout()
	}
	select {
	case <-req.Cancel:
		return true
	default:
		return false
	}
}

// unsendable reports whether the base refused the request itself. What other
// transports refuse is not known. It is asked about failed requests only.
func (t *Transport) unsendable(req *http.Request) bool {
	_, std := t.base().(*http.Transport)
	return std && Unsendable(req)
}

// Unsendable reports whether an [http.Transport] refuses the request itself,
// before it looks for a connection: nothing that an upstream could be blamed
// for.
func Unsendable(req *http.Request) bool {
	if req.URL == nil || req.Header == nil || req.URL.Scheme == "" {
		return true
	}
	if (req.URL.Scheme == "http" || req.URL.Scheme == "https") && req.URL.Host == "" {
		return true
	}
	if req.Method != "" && !isToken(req.Method) {
		return true
	}
	for name, values := range req.Header {
		if !isToken(name) {
			return true
		}
		for _, v := range values {
			if strings.ContainsFunc(v, isControl) {
				return true
			}
		}
	}
	return false
}

// isToken reports whether s is a token of RFC 9110 §5.6.2.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
			!strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// isControl reports whether r may not be part of a field value.
func isControl(r rune) bool { return (r < ' ' && r != '\t') || r == 0x7f }

// isStream reports whether an answer's body may go on for long, so that its end
// is worth waiting for.
func isStream(resp *http.Response) bool {
	if resp.StatusCode/100 != 2 || resp.Body == nil || resp.Body == http.NoBody {
		return false
	}
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "text/event-stream", "application/x-ndjson", "application/vnd.amazon.eventstream":
		return true
	}
	return false
}
