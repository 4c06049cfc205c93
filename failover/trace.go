package failover

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// maxTraced bounds a Trace that outlives many calls.
const maxTraced = 1024

// Trace collects the attempts of every call made under its context, for code
// that sees neither response nor error. It is safe for concurrent use.
type Trace struct {
	mu       sync.Mutex
	attempts []Attempt // guarded by mu
	dropped  int       // guarded by mu: how many came before them
}

type traceKey struct{}

// WithTrace returns a context whose calls record their attempts in the Trace:
// an SDK's own retries are calls of their own and follow in order, and so are
// the requests of a function in [Call]. It holds the last 1,024 attempts.
func WithTrace(ctx context.Context) (context.Context, *Trace) {
	t := &Trace{}
	return context.WithValue(ctx, traceKey{}, t), t
}

// Attempts returns a copy of what was recorded so far. An answer that broke
// off after it had begun is a success until its body has ended; then it has
// its Status still, and an Err and a Reason.
func (t *Trace) Attempts() []Attempt {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.attempts)
}

// add appends a. It returns the number by which end knows it.
func (t *Trace) add(a Attempt) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.attempts) == maxTraced {
		t.attempts = append(t.attempts[:0], t.attempts[1:]...)
		t.dropped++
	}
	t.attempts = append(t.attempts, a)
	return t.dropped + len(t.attempts) - 1
}

// broke records what the answer of an attempt ended with.
func (t *Trace) broke(number int, reason string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := number - t.dropped; i >= 0 {
		t.attempts[i].Reason, t.attempts[i].Err = reason, err
	}
}

// watch makes the trace, and the pins of the call's key, hear how the call's good
// answer ends.
func (c *call) watch(req *http.Request, resp *http.Response) {
	if c.trace == nil && len(c.attached) == 0 || resp.Body == nil || resp.Body == http.NoBody {
		return
	}
	if _, ok := resp.Body.(io.Writer); ok { // 101 Switching Protocols
		return
	}
	resp.Body = &tracedBody{ReadCloser: resp.Body, req: req, resp: resp, trace: c.trace, number: c.traced, attached: c.attached}
}

// tracedBody is the body of an answer that was recorded as a success.
type tracedBody struct {
	io.ReadCloser
	req      *http.Request // the caller's
	resp     *http.Response
	trace    *Trace
	number   int
	attached []attachment
	closed   atomic.Bool // the caller has begun to close it
	ended    atomic.Bool
}

func (b *tracedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !b.closed.Load() {
		b.end(err)
	}
	return n, err
}

func (b *tracedBody) Close() error {
	b.closed.Store(true)
	err := b.ReadCloser.Close()
	b.end(io.EOF)
	return err
}

// end records what err, the end of the body, and the stack's record say. A
// caller who leaves is no fault of the answer.
func (b *tracedBody) end(err error) {
	if b.ended.Swap(true) {
		return
	}
	rec, _ := resilience.CallOf(b.resp)
	if err == io.EOF { //nolint:errorlint // one that is wrapped is an error
		if rec.Outcome != resilience.OutcomeStreamError {
			return
		}
		err = rec.Err // reported in the stream itself
	}
	reason := rec.Reason
	switch by := ending.Of(b.req, err).By; {
	case by == ending.Caller:
		return
	case reason != "":
	case by.Timeout(), ending.SaysTimeout(err):
		reason = ReasonTimeout
	default:
		reason = ReasonIncomplete
	}
	for _, a := range b.attached {
		a.pins.drop(a.hash, a.target)
	}
	if b.trace != nil {
		b.trace.broke(b.number, reason, err)
	}
}
