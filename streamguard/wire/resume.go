package wire

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A Resume says where a stream broke off, in the words of a vendor that keeps
// the answer and can send the rest of it.
type Resume struct {
	ID       string // of the answer: a response, an interaction
	Sequence int64  // the number of the last event that arrived whole; 0 with an EventID
	EventID  string // the name of that event, where the vendor names events instead of counting them
}

// A resumption says how the vendor of a format is asked for the rest of a
// stream: GET …/{id}?stream=true, and where it broke off.
type resumption struct {
	after      string // the query parameter that says where
	background bool   // only an answer that was asked for in the background is kept
	// rest returns what goes into the query of what the stream is to include; nil is
	// nothing.
	rest func(*included) string
}

// resumes reports whether the vendor keeps the stream that a request asks for, by
// all but its body: whoever reads a kept one can read it again.
func (f *Format) resumes(method string) bool {
	return f.resume != nil && (!f.resume.background || method == http.MethodGet)
}

// Answer returns what the kept answer is called that a request reads again, ""
// for any other request.
func (f *Format) Answer(method string, u *url.URL) string {
	if f.resume == nil || method != http.MethodGet || u == nil {
		return ""
	}
	return u.Path[strings.LastIndexByte(u.Path, '/')+1:]
}

// Resumption returns the request for the rest of the stream that req began: to
// the same place and with the same credentials, in the query too, but without
// what belongs to req's body. rest is what the query says besides, see
// [Request.Rest]. It returns nil where req's URL has no place for that.
func (f *Format) Resumption(ctx context.Context, req *http.Request, at Resume, rest string) *http.Request {
	if f.resume == nil || req.URL == nil || req.URL.Opaque != "" {
		return nil
	}
	u := *req.URL
	if req.Method != http.MethodGet {
		u.Path += "/" + at.ID
		if u.RawPath != "" {
			u.RawPath += "/" + at.ID // see isID: nothing in it needs to be escaped
		}
	}
	where := at.EventID
	if where == "" {
		where = strconv.FormatInt(at.Sequence, 10)
	}
	u.RawQuery = withQuery(u.RawQuery, "stream", "true", f.resume.after, where)
	if rest != "" {
		u.RawQuery += "&" + rest
	}
	r := req.WithContext(ctx)
	r.Method, r.URL, r.Header = http.MethodGet, &u, bodiless(req.Header)
	r.Body, r.GetBody, r.ContentLength = nil, nil, 0
	r.TransferEncoding, r.Trailer, r.Form, r.PostForm, r.MultipartForm = nil, nil, nil, nil, nil
	return r
}

// withQuery sets parameters in a query, given as name and value in turn, and
// leaves the bytes of all others alone.
func withQuery(query string, set ...string) string {
	var out []string
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if i := slices.Index(set, name); pair != "" && i%2 != 0 {
			out = append(out, pair)
		}
	}
	for i := 0; i < len(set); i += 2 {
		out = append(out, set[i]+"="+url.QueryEscape(set[i+1]))
	}
	return strings.Join(out, "&")
}

// bodiless returns a copy of a request's headers without those of its body. Its
// answer is an event stream, which net/http decodes.
func bodiless(h http.Header) http.Header {
	out := make(http.Header, len(h)+1)
	for name, values := range h {
		switch k := strings.ToLower(name); {
		case strings.HasPrefix(k, "content-"):
		case slices.Contains([]string{"accept", "accept-encoding", "digest", "repr-digest", "expect", "idempotency-key", "te", "trailer", "transfer-encoding"}, k):
		default:
			out[name] = values
		}
	}
	out["Accept"] = []string{"text/event-stream"}
	return out
}
