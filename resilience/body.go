package resilience

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/streamguard"
)

// body is the outermost wrapper of a response body: the call ends with it.
// Close may be called while a Read is under way.
type body struct {
	io.ReadCloser
	c      *call
	stream bool
	begun  bool        // touched by Read alone
	closed atomic.Bool // the caller has begun to close it
	ended  atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	settled := false
	defer func() {
		if !settled { // a panic below passes on unchanged
			b.panicked()
		}
	}()
	b.c.place.busy()
	n, err := b.ReadCloser.Read(p)
	settled = true
	b.c.place.touch()
	if n > 0 && !b.begun {
		b.begun = true
		b.c.firstByte()
	}
	switch {
	case err == io.EOF: // plain; one that is wrapped is an error
		b.end(nil, false)
	case err != nil && b.closed.Load():
		// What Close makes of a Read under way: Close ends the call, too.
	case err != nil:
		if !errors.Is(err, streamguard.ErrIncomplete) { // the guard has explained its own
			err = b.c.ending(err).Explain(err)
		}
		b.end(err, false)
	}
	return n, err
}

func (b *body) Close() error {
	b.closed.Store(true)
	settled := false
	defer func() {
		if !settled {
			b.panicked()
		}
	}()
	err := b.ReadCloser.Close()
	settled = true
	b.end(nil, true)
	return err
}

func (b *body) end(err error, closed bool) {
	if b.ended.Swap(true) {
		return
	}
	// A body of no stream that the caller leaves unread was answered all the
	// same, unless the caller has gone.
	b.c.bodyEnded(err, closed && (b.stream || b.c.callerGone()), b.stream)
}

func (b *body) panicked() {
	if !b.ended.Swap(true) {
		b.c.panicked()
	}
}

// panicked ends a call that a panic tore down.
func (c *call) panicked() {
	c.permit.Settle(breaker.Failure)
	if status := c.status(); status != 0 {
		c.conclude(OutcomeStreamError, status, ending.ReasonPanic, errPanic)
	} else { // RoundTrip itself
		c.conclude(OutcomeTransportError, StatusOf(errPanic), ending.ReasonPanic, errPanic)
	}
	c.complete()
}

var errPanic = errors.New("panic below the stack")

// firstByte settles a probe whose body nobody judges, so that one long
// download keeps nobody out.
func (c *call) firstByte() {
	if !c.inference() && c.permit.Probe() {
		c.permit.FirstEvent()
	}
}

// eventStream tells whether a media type is one of event streams.
func eventStream(contentType string) bool {
	mt, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(mt)) {
	case "text/event-stream", "application/x-ndjson", "application/vnd.amazon.eventstream":
		return true
	}
	return false
}
