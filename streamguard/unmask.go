package streamguard

import (
	"log/slog"
	"net/http"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// Unmasker judges a 2xx for what it is. The answer to an inference call is read
// whole, up to 8 MiB, before it is handed out; one that is a failure in truth
// (an error envelope, a page, nothing at all, a member of the wrong type)
// becomes a response with the status it stands for, which [Unmasked] tells from
// a native one. A good answer goes out byte for byte as it came. A larger one
// passes through uninspected.
//
// A stream is judged by its first data event, or left to the Guard above with
// KeepStreams. A response is a stream by what its body is, not by its label.
//
// An Unmasker must not be copied once used, and may be used by any number of
// goroutines.
type Unmasker struct {
	Base     http.RoundTripper // nil: as in Idle
	Provider string            // named in error texts

	// Call finds what stands above and knows the call of a request; OnVerdict is
	// not called then. nil, or a nil result: nothing does, and the layer looks at
	// the request itself, reading the body of an inference call into memory for
	// that, up to 4 MiB.
	Call func(*http.Request) Call
	// KeepStreams leaves answers to streaming calls, and answers labelled as
	// event streams, to a Guard above.
	KeepStreams bool
	// Words are what errors are called beside the built-in words; nil is none.
	Words *wire.Vocabulary
	// OnVerdict is told of each answer that was judged, before it is returned;
	// nil is none. The response's body must not be read by it.
	OnVerdict func(*http.Request, *http.Response, Report)
	Logger    *slog.Logger // told of a hook that panicked; nil is silent

	below layer.Base
}

// RoundTrip returns the base's answer, or what it stands for.
func (t *Unmasker) RoundTrip(req *http.Request) (*http.Response, error) {
	call := callOf(t.Call, req)
	w, out, err := look(call, req)
	if err != nil {
		return nil, err
	}
	resp, err := layer.Send(t.below.Of(t.Base), out)
	if err != nil {
		return nil, err
	}
	ownRequest(resp, out, req)
	if !judgeable(w.Format, req, resp) || isJudged(resp.Body) || t.KeepStreams && (w.Stream || labelled(resp)) {
		return resp, nil
	}
	j := &judge{
		provider: t.Provider, format: w.Format, deferred: w.Deferred, words: t.Words,
		call: call, onVerdict: t.OnVerdict, logger: t.Logger,
	}
	body, returned := resp.Body, false
	defer func() {
		if !returned { // the upstream's Read panicked, or ended its goroutine
			layer.Abandon(body.Close)
		}
	}()
	resp, err = t.judge(req, resp, w, j)
	returned = true
	return resp, err
}

// judge reads the answer, or the start of the stream that it is.
func (t *Unmasker) judge(req *http.Request, resp *http.Response, w wire.Request, j *judge) (*http.Response, error) {
	size := int64(readAhead)
	if n := resp.ContentLength; n >= 0 {
		size = min(n, trustedLength) + 1 // room for the Read that sees the end
	}
	buf := takeBuffer(size)
	o := readOpening(w, resp, *buf)
	o.buf = buf
	if !isStream(w, resp, o) {
		return j.whole(req, resp, o)
	}
	if t.KeepStreams {
		return o.putBack(resp, false), nil
	}
	// A stream is judged by its first data event; then it is let go of.
	h := &holder{}
	h.init(&Guard{Provider: t.Provider, Words: t.Words}, nil, req, resp, w.Format)
	h.load(o)
	if r := h.hold(); r.err != nil || r.failure != nil {
		return h.refuse(resp, j, r)
	}
	j.report(req, resp, Report{Format: w.Format, Status: resp.StatusCode, Stream: true})
	return opening{head: h.held(), err: h.src.err}.putBack(resp, false), nil
}

// CloseIdleConnections passes the call on to the base.
func (t *Unmasker) CloseIdleConnections() { layer.CloseIdle(t.below.Of(t.Base)) }

// ownRequest makes resp carry the call that came in, where a layer sent a copy.
func ownRequest(resp *http.Response, sent, req *http.Request) {
	if resp.Request == sent {
		resp.Request = req
	}
}

// labelled reports whether an answer says that it is an event stream.
func labelled(resp *http.Response) bool {
	return mediaType(contentType(resp)) == "text/event-stream"
}

// isStream reports whether an answer is an event stream: by what its first
// bytes are, and by label or call where these do not show it.
func isStream(w wire.Request, resp *http.Response, o opening) bool {
	switch w.Format.Shape(o.head, contentType(resp), w.Stream) {
	case wire.ShapeEvents:
		return true
	case wire.ShapeJSON, wire.ShapeHTML:
		return false
	case wire.ShapeUnknown:
		// Nothing but white space, or the start of a line: a stream if one was
		// due, unless the status says that the answer comes later.
		return (w.Stream || labelled(resp)) && resp.StatusCode != http.StatusAccepted
	default:
		return labelled(resp)
	}
}
