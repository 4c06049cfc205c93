package resilience

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"

	"github.com/surefoot-go/surefoot/breaker"
)

// body is the outermost wrapper of a response body: the call ends with it.
// Close may be called while a Read is under way.
type body struct {
	io.ReadCloser
	c      *call
	stream bool
	begun  bool // touched by Read alone
	ended  atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	settled := false
	defer func() {
		if !settled { // a panic below passes on unchanged
			b.panicked()
		}
	}()
	n, err := b.ReadCloser.Read(p)
	settled = true
	if n > 0 && !b.begun {
		b.begun = true
		b.c.firstByte()
	}
	switch {
	case err == io.EOF: // plain; one that is wrapped is an error
		b.end(nil, false)
	case err != nil:
		b.end(err, false)
	}
	return n, err
}

func (b *body) Close() error {
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
	// A body of no stream that the caller leaves unread was answered all the same.
	b.c.bodyEnded(err, closed && b.stream)
}

func (b *body) panicked() {
	if !b.ended.Swap(true) {
		b.c.panicked()
	}
}

// panicked ends a call that a panic tore down.
func (c *call) panicked() {
	c.permit.Settle(breaker.Failure)
	c.conclude(OutcomeStreamError, c.status(), "panic", errPanic)
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
