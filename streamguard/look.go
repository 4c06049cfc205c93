package streamguard

import (
	"net/http"
	"strings"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// look returns what the request is and the request to send. A layer that has no
// Inspect reads model and stream through GetBody and then sends a fresh copy
// from it: some SDKs' Body and GetBody share one reader. The request itself is
// never modified. On an error its body has been closed.
func look(inspect func(*http.Request) wire.Request, req *http.Request) (wire.Request, *http.Request, error) {
	if inspect != nil {
		return inspect(req), req, nil
	}
	w := wire.Inspect(req.Method, req.URL, req.Header)
	if w.Format == wire.Unknown || req.GetBody == nil || req.Body == nil || req.Body == http.NoBody {
		return w, req, nil
	}
	_ = req.Body.Close()
	body, err := req.GetBody()
	if err != nil {
		return w, req, err
	}
	// A body that cannot be read here is the upstream's to complain about: what
	// is known of it then is what path and headers tell.
	if body != nil {
		_ = w.ReadBody(req.Header.Get("Content-Type"), body)
		_ = body.Close()
	}
	// Replay: nothing was sent yet, the copy read above never leaves this layer.
	fresh, err := req.GetBody()
	if err != nil {
		return w, req, err
	}
	out := req.WithContext(req.Context())
	out.Body = fresh
	return w, out, nil
}

// judgeable reports whether resp is an answer that may be judged: a 2xx of an
// inference call, decoded. What still has a Content-Encoding is not looked at,
// but for a body that is empty: net/http leaves the header on one that it has
// nothing to decode of, and nothing is no answer in any encoding.
func judgeable(f *wire.Format, req *http.Request, resp *http.Response) bool {
	if f == wire.Unknown || resp.StatusCode/100 != 2 || bodyless(req, resp) {
		return false
	}
	if resp.Body == http.NoBody {
		return true
	}
	for _, v := range resp.Header["Content-Encoding"] {
		if v = strings.TrimSpace(v); v != "" && !strings.EqualFold(v, "identity") {
			return false
		}
	}
	return true
}

func contentType(resp *http.Response) string {
	if v := resp.Header["Content-Type"]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// mediaType returns the media type of a Content-Type, in lower case, without
// its parameters.
func mediaType(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}
