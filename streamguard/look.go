package streamguard

import (
	"net/http"
	"strings"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// look returns what the request is and the request to send. A layer that is used
// alone reads the body of an inference call into memory, up to
// [layer.MaxBody], looks at it there and sends it from there; of a longer one it
// sees the beginning. GetBody is not asked: what is sent is Body (contract 2).
// The request itself is never modified. On an error its body has been closed.
func look(call Call, req *http.Request) (wire.Request, *http.Request, error) {
	if call != nil {
		return call.Inspect(), req, nil
	}
	w := wire.Inspect(req.Method, req.URL, req.Header)
	if w.Format == wire.Unknown || req.Body == nil || req.Body == http.NoBody {
		return w, req, nil
	}
	var data []byte
	out, whole := req, layer.InMemory(req.Body, &data)
	if !whole {
		var err error
		if data, whole, err = layer.ReadAhead(req.Context(), req.Body, req.ContentLength, layer.MaxBody+1); err != nil {
			return w, req, err
		}
		out = req.WithContext(req.Context())
		if whole {
			out.Body, out.GetBody = layer.NewBody(data), layer.Copies(data)
		} else {
			out.Body, out.GetBody = &layer.Upload{Head: data, Body: req.Body, Length: req.ContentLength}, nil
		}
	}
	if whole {
		if err := layer.CheckLength(req, int64(len(data))); err != nil {
			_ = req.Body.Close() // err says what is wrong
			return w, req, err
		}
	}
	content := wire.ReadContent(req.Header, data)
	w.Add(&content)
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
	if v := resp.Header["Content-Type"]; len(v) > 0 { // Get would look at each letter of the key
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
