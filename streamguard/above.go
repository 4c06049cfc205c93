package streamguard

import (
	"net/http"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// A Call is what stands above a [Guard] or an [Unmasker] and knows one of its
// calls: it has looked at the request already, and is told what the answer is.
// OnFirst and OnEnd may be called from any goroutine that reads the body; a
// panic in any of the methods that tell is contained.
type Call interface {
	// Inspect returns what the request is.
	Inspect() wire.Request
	// Lenient reports whether a clean end after content ends a stream, see
	// [Guard.Lenient].
	Lenient() bool
	// Resume has req, which asks the vendor for the rest of a stream that broke
	// off, sent by base, as often as the policy above allows, and returns what came
	// of it: base fails where an answer does not go on with the next event. It is
	// called on the goroutine that reads the stream, or of RoundTrip; req's context
	// ends when the body is closed.
	Resume(req *http.Request, base http.RoundTripper) (*http.Response, error)
	// OnStream is called for an answer that is a stream, asked for or not, before
	// it is held back.
	OnStream()
	// Chunks reports whether OnChunk is to be called, for each data event behind
	// a stream's first, where it is judged. It must be quick.
	Chunks() bool
	OnChunk()
	// OnFirst, OnEnd and OnVerdict are called as those of [Guard].
	OnFirst()
	OnEnd(End)
	OnVerdict(Report)
}

// callOf returns the call of req, nil where a layer is used alone.
func callOf(find func(*http.Request) Call, req *http.Request) Call {
	if find == nil {
		return nil
	}
	return find(req)
}

func (h *holder) lenient() bool {
	if h.call != nil {
		return h.call.Lenient()
	}
	return h.g.Lenient != nil && h.g.Lenient(h.req)
}

func (h *holder) onStream() {
	if h.call != nil {
		layer.Hook(h.g.Logger, "OnStream", h.call.OnStream)
	}
}

func (h *holder) onFirst() {
	switch {
	case h.call != nil:
		layer.Hook(h.g.Logger, "OnFirst", h.call.OnFirst)
	case h.g.OnFirst != nil:
		layer.Hook(h.g.Logger, "OnFirst", func() { h.g.OnFirst(h.req) })
	}
}

func (h *holder) onChunk() { layer.Hook(h.g.Logger, "OnChunk", h.call.OnChunk) }

func (h *holder) onEnd(end End) {
	switch {
	case h.call != nil:
		layer.Hook(h.g.Logger, "OnEnd", func() { h.call.OnEnd(end) })
	case h.g.OnEnd != nil:
		layer.Hook(h.g.Logger, "OnEnd", func() { h.g.OnEnd(h.req, end) })
	}
}

func (j *judge) report(req *http.Request, resp *http.Response, r Report) {
	switch {
	case j.call != nil:
		layer.Hook(j.logger, "OnVerdict", func() { j.call.OnVerdict(r) })
	case j.onVerdict != nil:
		layer.Hook(j.logger, "OnVerdict", func() { j.onVerdict(req, resp, r) })
	}
}
