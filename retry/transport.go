package retry

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// Advice is what a look at an answer's body adds to its status and headers.
type Advice struct {
	// Stop: a retry is of no use, a quota is exhausted for instance.
	Stop bool
	// Wait is how long the upstream asks to be left alone; 0 is no wish.
	Wait time.Duration
}

// Transport is an [http.RoundTripper] that retries. Its fields must not be
// changed, nor the Transport be copied, once it is in use; any number of
// goroutines may use it.
//
// The first attempt sends the request's own Body. A later one needs a GetBody,
// without which the request is sent once. It sends what Body held, if that reads
// from memory, whatever GetBody would give; else a fresh copy from GetBody,
// which is asked for only when the copy before is closed and no longer being
// read. Where it gives none, the answer in hand goes back. Retries never follow a local timeout or the
// caller's cancellation, and no wait is begun that the deadline would cut.
//
// net/http itself re-sends a request on a connection that turned out to be
// dead, if it is of a safe method or carries an Idempotency-Key; such attempts
// cannot be seen from here.
type Transport struct {
	// Base makes the attempts. Nil is a clone of [http.DefaultTransport] that
	// waits up to 600 s for response headers.
	Base http.RoundTripper
	// Policy says how often and how patiently. A Policy that is not valid makes
	// every RoundTrip fail; nothing is sent.
	Policy Policy
	// KeepShouldRetry leaves the last answer's headers alone. By default
	// "x-should-retry: false" is set where there was a retry, so that an SDK
	// above does not multiply the attempts.
	KeepShouldRetry bool
	// Replayable says whether a request may be sent again; it is asked when an
	// attempt has failed. Nil allows what [Safe] reports to be safe, and holds
	// requests that accept text/event-stream to Policy.Streams; Policy.Replay is
	// for a func that knows wire formats.
	Replayable func(*http.Request) Replay
	// Judge looks at an answer that would be retried, with up to 64 KiB of its
	// body as far as they come within half a second; it must not change or keep
	// them. Nil has nothing to add.
	Judge func(*http.Request, *http.Response, []byte) Advice
	// OnAttempt is called after each attempt. A panic in it is dropped.
	OnAttempt func(*http.Request, Attempt)
	// OnRetry is called before each wait, with the attempt that failed and the
	// wait. A panic in it is dropped.
	OnRetry func(*http.Request, Attempt, time.Duration)
	// Call finds what stands above and knows the call of a request; the funcs
	// above are not called then. Nil, or a nil result: nothing does.
	Call func(*http.Request) Call

	once sync.Once
	base http.RoundTripper
	set  settings
	err  error
}

func (t *Transport) init() error {
	t.once.Do(func() {
		t.base = t.Base
		if t.base == nil {
			t.base = layer.DefaultBase()
		}
		if t.err = t.Policy.Validate(); t.err == nil {
			t.set = t.Policy.settings()
		}
	})
	return t.err
}

// CloseIdleConnections forwards to the base transport.
func (t *Transport) CloseIdleConnections() {
	_ = t.init() // an invalid policy does not matter here
	layer.CloseIdle(t.base)
}

// RoundTrip makes as many attempts as it takes and is allowed, and returns the
// last one's answer or error.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.init(); err != nil {
		closeBody(req)
		return nil, err
	}
	if n := layer.Unread(req.Body); n >= 0 {
		if err := layer.CheckLength(req, int64(n)); err != nil {
			closeBody(req)
			return nil, err
		}
	}
	c := newCall(t, req)
	done := false
	defer func() {
		if !done { // a panic of a user's func passes on, but nothing stays open behind it
			c.abandon()
		}
	}()
	resp, err := c.run()
	done = true
	return resp, err
}

// run makes the attempts.
func (c *call) run() (*http.Response, error) {
	var wait time.Duration
	for n := 1; ; n++ {
		body := c.next
		c.next = nil
		o := c.attempt(n, wait, body)
		var again bool
		if wait, again = c.decide(&o); !again || !c.mayRetry() {
			return c.last(&o)
		}
		var err error
		if c.next, err = c.another(); err != nil && c.ending(nil).By == ending.Upstream {
			return c.last(&o)
		}
		// Replay: decide saw that the request may be sent twice, and that
		// neither the caller nor a local timeout has ended the call.
		err = c.pause(&o, wait)
		refused := err == nil && !c.mayRetry()
		if c.next != nil && (err != nil || refused) {
			_ = c.next.Close() // nothing is sent any more
		}
		if refused {
			return c.last(&o)
		}
		c.hand = nil
		o.discard()
		if err != nil {
			return nil, err
		}
	}
}

// abandon closes what a call holds that will not end: the answer in hand and
// the body of the next attempt.
func (c *call) abandon() {
	if c.hand != nil && c.hand.Body != nil {
		layer.Abandon(c.hand.Body.Close)
	}
	if c.next != nil {
		layer.Abandon(c.next.Close)
	}
}

// discard drops an answer that nobody will see.
func (o *outcome) discard() {
	if o.resp != nil {
		layer.Drain(o.resp, layer.DrainTime)
	}
}

// last finishes what goes back to the caller.
func (c *call) last(o *outcome) (*http.Response, error) {
	if o.resp == nil {
		return nil, o.Err
	}
	if o.Number > 1 && !c.t.KeepShouldRetry {
		// A base may share one header map among its responses.
		h := o.resp.Header.Clone()
		if h == nil {
			h = make(http.Header)
		}
		h.Set(shouldRetryHeader, "false")
		o.resp.Header = h
	}
	return o.resp, nil
}

const shouldRetryHeader = "X-Should-Retry"

// shouldRetry is what the upstream says on its own behalf: yes, no or nothing.
func shouldRetry(h http.Header) (yes, no bool) {
	v := strings.TrimSpace(h.Get(shouldRetryHeader))
	return strings.EqualFold(v, "true"), strings.EqualFold(v, "false")
}
