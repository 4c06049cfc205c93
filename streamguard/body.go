package streamguard

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// lingerTime is how long a connection may stay open after the stream's final
// mark before the body is ended.
const lingerTime = time.Second

// detailTime is how long a failure that says nothing of itself waits, while the
// stream is held back, for an event that says more.
const detailTime = 250 * time.Millisecond

// limit is what bounds the waits on the upstream now.
type limit uint8

const (
	limitNone   limit = iota
	limitEvent        // Policy.EventTimeout, since the last data event
	limitLinger       // lingerTime, since the final mark
	limitDetail       // detailTime, since a failure that says nothing of itself
)

// A guardBody is one stream: held back by hold, then relayed by Read.
type guardBody struct {
	g      *Guard
	call   Call // nil: the layer is used alone
	req    *http.Request
	format *wire.Format
	st     *wire.Stream
	first  *firstEvent // nil without a limit
	src    watch       // the upstream's body, and the timer of limit

	// Of the goroutine that reads (RoundTrip first, Read later).
	c        *chunk
	left     time.Duration // of limit; only waits for the upstream count
	srcErr   error         // what the upstream's body ended with
	err      error         // what Read returns once the chunk is empty
	limit    limit
	more     bool // the tail may hold whole events
	large    bool // within an event that is too large to hold
	seen     bool // a data event came
	holding  bool // not handed out yet
	endless  bool // the format has no end mark: a clean end of the body is one
	stripped bool // the event before was left out
	part     bool // step's last bytes are of an event that is too large to hold
	behind   bool // a failure, so that all of it is left out
	dropping bool // of which the comment lines are left out, by filter
	filter   commentFilter
	comments int   // bytes of comments that HoldComplete holds
	empty    uint8 // Reads in a row that returned nothing

	mu      sync.Mutex // guards what follows
	reading bool
	closed  bool
	told    bool
	over    bool // end is decided
	end     End
}

func newGuardBody(g *Guard, call Call, req *http.Request, resp *http.Response, f *wire.Format) *guardBody {
	b := &guardBody{g: g, call: call, req: req, format: f}
	b.src.body = withIdle(resp, g.Policy.IdleTimeout)
	return b
}

// load starts the stream with what was read of it.
func (b *guardBody) load(o opening) {
	b.st = b.format.NewStream(wire.StreamOptions{Lenient: b.lenient(), Words: b.g.Words})
	b.endless = b.st.Complete()
	b.chunk().b = o.head
	b.srcErr = o.err
	b.end.Stream = true
	if b.g.Policy.EventTimeout > 0 {
		b.limit, b.left = limitEvent, b.g.Policy.EventTimeout
	}
}

// fetch reads from the upstream, under the limit that holds now.
func (b *guardBody) fetch(p []byte) (n int, err error) {
	if b.srcErr != nil {
		return 0, b.srcErr
	}
	if b.limit == limitNone {
		n, err = b.src.body.Read(p)
	} else {
		n, err = b.fetchWithin(p)
	}
	if n > 0 {
		b.empty = 0
	} else if err == nil {
		if b.empty++; b.empty > maxEmptyReads {
			err = io.ErrNoProgress
		}
	}
	b.srcErr = err
	return n, err
}

func (b *guardBody) fetchWithin(p []byte) (int, error) {
	start := time.Now()
	b.src.arm(b.left)
	n, err := b.src.body.Read(p)
	if b.src.disarm() {
		if b.limit >= limitLinger {
			return n, io.EOF
		}
		return n, &ending.TimeoutError{What: limitEventTimeout, After: b.g.Policy.EventTimeout}
	}
	b.left = max(1, b.left-time.Since(start))
	return n, err
}

// refill reads more into the chunk.
func (b *guardBody) refill() (int, error) {
	c := b.chunk()
	n, err := b.fetch(c.room(chunkSize / 4))
	c.b = c.b[:len(c.b)+n]
	return n, err
}

// markBlank is a mark of ours: the LF of a blank line whose CR came before.
const markBlank = wire.Mark(1 << 15)

// step judges the next event at the start of data: n bytes long, or 0 if it is
// not whole yet. Of an event too large to hold, n bytes belong to it, and it has
// been judged if whole.
func (b *guardBody) step(data []byte) (n int, m wire.Mark, whole bool) {
	if len(data) == 0 {
		return 0, 0, false
	}
	b.part = b.large
	if !b.large {
		if n = b.st.Next(data); n > 0 {
			if m = b.st.Event(data[:n]); m == 0 && n == 1 {
				m = markBlank
			}
			return n, m, true
		}
		if len(data) <= maxEvent || !b.flows(data) {
			return 0, 0, false
		}
		b.large, b.part = true, true
	}
	n, whole, m = b.st.Large(data)
	b.large = !whole
	if b.limit == limitEvent && b.st.LargeData() {
		b.left = b.g.Policy.EventTimeout // it is under way
	}
	return n, m, whole
}

// note takes up what an event means for what follows it.
func (b *guardBody) note(m wire.Mark) {
	if m&(wire.MarkComment|markBlank) != 0 {
		return
	}
	if m&wire.MarkData != 0 && !b.seen {
		b.seen = true
		b.first.stop()
		b.onFirst()
	}
	switch {
	case b.limit >= limitLinger:
	case m&(wire.MarkFinal|wire.MarkFailed) != 0:
		b.limit, b.left = limitLinger, lingerTime
	case b.limit == limitEvent && m&(wire.MarkData|wire.MarkAside) != 0:
		b.left = b.g.Policy.EventTimeout
	}
}

// fate says what the end of the upstream's body means: nil for a stream that
// had ended; the caller's own reason; or an *IncompleteError.
func (b *guardBody) fate(err error) error {
	if f := b.st.Failure(); f != nil {
		return b.inBand(f)
	}
	if b.complete() || err == io.EOF && b.st.CompleteAtEOF() {
		return nil
	}
	if b.isClosed() {
		return http.ErrBodyReadAfterClose
	}
	// A read that the caller cancelled can end as a clean EOF.
	if done := callerDone(b.req, err); done != nil {
		return done
	}
	e := &IncompleteError{
		Provider: b.g.Provider, Format: b.format.String(), Events: b.st.Events(),
		Reason: ReasonTransport, Status: http.StatusBadGateway, Err: err,
	}
	var timeout *ending.TimeoutError
	switch {
	case err == io.EOF:
		e.Reason, e.Err = ReasonClosed, io.ErrUnexpectedEOF
	case errors.Is(err, errMalformed):
		e.Reason = ReasonMalformed
	case errors.As(err, &timeout) && timeout.What == limitEventTimeout:
		e.Reason, e.Status = ReasonEventTimeout, http.StatusGatewayTimeout
	case errors.As(err, &timeout):
		e.Reason, e.Status = ReasonIdleTimeout, http.StatusGatewayTimeout
	}
	return e
}

// inBand is the error of a stream that reported the failure f itself. Clients
// exist that read past its event and take a clean end for a whole answer.
func (b *guardBody) inBand(f *wire.Failure) *IncompleteError {
	return &IncompleteError{
		Provider: b.g.Provider, Format: b.format.String(), Events: b.st.Events(),
		Reason: ReasonInBandError, Status: f.Status, Err: io.ErrUnexpectedEOF,
	}
}

// complete reports whether the stream has ended by what it said itself.
func (b *guardBody) complete() bool {
	return b.st.Complete() && (!b.endless || b.st.Failure() != nil)
}

func (b *guardBody) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}
