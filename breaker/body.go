package breaker

import (
	"io"
	"net/http"
	"sync/atomic"

	"github.com/surefoot-go/surefoot/resilience/ending"
)

// A body watches a streamed answer whose verdict comes with its end. The caller
// closes it, and may do so while a Read is under way.
type body struct {
	io.ReadCloser
	permit *Permit
	req    *http.Request
	closed atomic.Bool // the caller has begun to close
}

// Read settles a probe at the first byte, and any call at the end.
func (b *body) Read(p []byte) (n int, err error) {
	exit := Failure // a panic or Goexit below, which passes on
	defer func() { b.permit.Settle(exit) }()
	n, err = b.ReadCloser.Read(p)
	exit = Pending
	ended := err == io.EOF // the end is io.EOF itself: a wrapped one is a broken connection
	if n > 0 && (err == nil || ended) {
		b.permit.FirstEvent()
	}
	switch {
	case ended:
		exit = Success
	case err == nil:
	case b.closed.Load(), ending.Of(b.req, nil).By == ending.Caller:
		exit = Neutral
	default:
		exit = Failure
	}
	return n, err
}

// Close before the end is neutral.
func (b *body) Close() error {
	b.closed.Store(true)
	exit := Failure
	defer func() { b.permit.Settle(exit) }()
	err := b.ReadCloser.Close()
	exit = Neutral
	return err
}
