package streamguard

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// Guard makes every stream either whole or an honest error. It holds a stream
// back until it shows itself (Policy.HoldUntil); a failure until then is
// returned as a response with its status, or as an error. From then on it
// relays whole events as they arrive, bytes unchanged, and tells a stream that
// breaks off by one error event and by an [*IncompleteError] from Read. A
// failure that the stream reports itself is relayed, and Read fails behind it;
// what would say there that the answer is whole, such as [DONE], is left out.
//
// Only streams of inference calls are guarded, decoded ones with a 2xx; all else
// is returned untouched. A JSON body in place of the stream that was asked for
// is judged like the answer to a non-stream call.
//
// A Guard must not be copied once used, and may be used by any number of
// goroutines. A body may be closed while it is being read.
type Guard struct {
	Base     http.RoundTripper // nil: as in Idle
	Policy   Policy            // Policy.IdleTimeout applies unless an Idle below has set one
	Provider string            // named in error texts

	// Call finds what stands above and knows the call of a request; the funcs
	// below are not called then. nil, or a nil result: nothing does, and the layer
	// looks at the request itself, reading the body of an inference call into
	// memory for that, up to 4 MiB.
	Call func(*http.Request) Call
	// Lenient tells whether a clean end after content ends a stream, for
	// targets that send no end mark. nil is never.
	Lenient func(*http.Request) bool
	// Words are what errors are called beside the built-in words; nil is none.
	Words *wire.Vocabulary
	// OnFirst is called once a stream, at its first data event that is no
	// failure, when it is judged: usually before RoundTrip returns. nil is none.
	OnFirst func(*http.Request)
	// OnEnd is called once for each stream that was handed out: when Read has
	// returned its last error, at Close, or when Read panics. A stream that
	// failed while held back is told by RoundTrip's result alone. nil is none.
	OnEnd func(*http.Request, End)
	// OnVerdict is told of each answer that RoundTrip judged by itself: a
	// failure while held back, or JSON in place of a stream. nil is none.
	OnVerdict func(*http.Request, *http.Response, Report)
	Logger    *slog.Logger // told of a hook that panicked; nil is silent

	below  layer.Base
	chunks sync.Pool // of *chunk
}

// An End says how a guarded stream ended.
type End struct {
	Stream   bool          // always true: only streams are guarded
	Complete bool          // it reached its end, in good order
	Closed   bool          // the caller closed it or cancelled before the end: nobody's fault
	Failure  *wire.Failure // the failure it reported in-band; nil is none
	Err      error         // an [*IncompleteError], for a Failure too; the caller's own reason to end the call; or a panic
	Events   int           // data events that arrived whole
	Bytes    int64         // handed out
	Usage    *wire.Usage   // what it has said that it takes; nil where it says nothing, or was closed beside a Read
}

// decided reports whether e tells more than that the stream was going on.
func (e End) decided() bool { return e.Complete || e.Failure != nil || e.Err != nil }

// RoundTrip returns the base's answer; a stream once it has shown itself.
func (g *Guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := g.Policy.Validate(); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	call := callOf(g.Call, req)
	w, out, err := look(call, req)
	if err != nil {
		return nil, err
	}
	var first *firstEvent
	var start time.Time
	if d := g.Policy.FirstEventTimeout; d > 0 && w.Format != wire.Unknown {
		if start = time.Now(); w.Stream {
			first, out = startFirstEvent(out, d)
		}
	}
	resp, err := layer.Send(g.below.Of(g.Base), out)
	if err != nil {
		return nil, first.end(err)
	}
	ownRequest(resp, out, req)
	if !judgeable(w.Format, req, resp) || isJudged(resp.Body) {
		return first.leave(resp), nil
	}
	if first == nil && !start.IsZero() && labelled(resp) {
		d := g.Policy.FirstEventTimeout
		first = newFirstEvent(d, d-time.Since(start), func(error) {})
	}
	return g.receive(call, req, resp, w, first)
}

// receive looks at what the answer is.
func (g *Guard) receive(call Call, req *http.Request, resp *http.Response, w wire.Request, first *firstEvent) (*http.Response, error) {
	b := &relay{}
	b.init(g, call, req, resp, w.Format)
	b.first, b.kept = first, w.Resumable
	if rest := w.Rest(); rest != "" && g.Policy.Resume == ResumeOn {
		b.again = &again{rest: rest}
	}
	first.watch(&b.src.watch)
	resp.Body = b.src.body
	returned := false
	defer func() {
		if !returned { // the upstream's Read panicked, or ended its goroutine
			layer.Abandon(b.src.close)
			first.release()
		}
	}()
	out, err := b.start(resp, w)
	returned = true
	return out, err
}

// start reads on until it shows what the answer is.
func (b *relay) start(resp *http.Response, w wire.Request) (*http.Response, error) {
	g, req := b.g, b.req
	o := readOpening(w, resp, b.chunk().b)
	j := &judge{
		provider: g.Provider, format: w.Format, deferred: w.Deferred, words: g.Words,
		call: b.call, onVerdict: g.OnVerdict, logger: g.Logger,
	}
	switch {
	case isStream(w, resp, o):
		b.onStream()
		b.load(o)
		return b.open(resp, j)
	case w.Stream || labelled(resp):
		resp, err := j.whole(req, resp, o)
		if err != nil {
			return nil, b.first.end(err)
		}
		if b.first.stop() {
			_ = resp.Body.Close()
			return nil, b.first.end(nil)
		}
		return b.first.leave(resp), nil
	default:
		return o.putBack(resp, true), nil
	}
}

// open holds the stream back and hands it out, or what it stands for.
func (b *relay) open(resp *http.Response, j *judge) (*http.Response, error) {
	r := b.hold()
	if b.first.stop() && b.st.Failure() == nil {
		r = release{err: b.first.err}
	}
	if r.err != nil || r.failure != nil {
		return b.refuse(resp, j, r)
	}
	b.unscanned, b.end.Stream = true, true
	if r.ended != nil {
		b.finish(r.ended)
	} else {
		b.account()
	}
	resp.Body = b
	// An event may be added or left out.
	if resp.ContentLength = -1; len(resp.Header["Content-Length"]) > 0 {
		resp.Header = resp.Header.Clone()
		resp.Header.Del("Content-Length")
	}
	return resp, nil
}

// CloseIdleConnections passes the call on to the base.
func (g *Guard) CloseIdleConnections() { layer.CloseIdle(g.below.Of(g.Base)) }
