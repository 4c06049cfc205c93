package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"time"
)

const (
	idleStreams = 10_000
	idleTimeout = 300 * time.Second
)

// waiting is a body that has delivered an event and waits for the next one.
type waiting struct {
	event []byte
	next  chan struct{} // closed when the stream is given up
	begun bool
	in    chan<- struct{} // told when a Read waits
}

func (w *waiting) Read(p []byte) (int, error) {
	if !w.begun {
		w.begun = true
		return copy(p, w.event), nil
	}
	w.in <- struct{}{}
	<-w.next
	return 0, io.ErrClosedPipe
}

func (w *waiting) Close() error { return nil }

// idle is what an open stream costs: bytes of heap and of stacks, and
// goroutines beside the reader's own.
type idle struct{ heap, stacks, goroutines float64 }

// measureIdle opens streams over wrap's transport and has each wait in a Read.
func measureIdle(wrap func(http.RoundTripper) http.RoundTripper) (idle, error) {
	event, _, _ := bytes.Cut(chatStream(1), []byte("data: [DONE]"))
	in, next := make(chan struct{}, idleStreams), make(chan struct{})
	rt := wrap(roundTrip(func(req *http.Request) (*http.Response, error) {
		_ = req.Body.Close()
		resp := eventStream(req, nil)
		resp.Body = &waiting{event: event, next: next, in: in}
		return resp, nil
	}))
	begin := runtime.NumGoroutine()
	requests := make([]*http.Request, idleStreams)
	for i := range requests {
		requests[i] = streamRequest()
	}
	before := memory()
	done := make(chan error, idleStreams)
	for _, req := range requests {
		go func() {
			resp, err := rt.RoundTrip(req)
			if err != nil {
				in <- struct{}{}
				done <- err
				return
			}
			buf := make([]byte, 1<<10) // the caller's
			n := 0
			for err == nil {
				var k int
				k, err = resp.Body.Read(buf)
				n += k
			}
			_ = resp.Body.Close() // the wait has ended it
			if n < len(event) {
				done <- fmt.Errorf("%d bytes, then %w", n, err)
				return
			}
			done <- nil
		}()
	}
	for range idleStreams {
		<-in
	}
	after := memory()
	got := idle{
		heap:       (after.heap - before.heap) / idleStreams,
		stacks:     (after.stacks - before.stacks) / idleStreams,
		goroutines: float64(runtime.NumGoroutine()-begin)/idleStreams - 1,
	}
	runtime.KeepAlive(requests)
	close(next)
	for range idleStreams {
		if err := <-done; err != nil {
			return got, err
		}
	}
	return got, nil
}

type memoryUse struct{ heap, stacks float64 }

func memory() memoryUse {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memoryUse{heap: float64(m.HeapAlloc), stacks: float64(m.StackInuse)}
}

// wrapped puts a body around every answer's.
func wrapped(body func(io.ReadCloser, time.Duration) io.ReadCloser) func(http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			resp, err := base.RoundTrip(req)
			if err == nil {
				resp.Body = body(resp.Body, idleTimeout)
			}
			return resp, err
		})
	}
}

func idleSection() *section {
	var bare idle
	above := func(name string, wrap func(http.RoundTripper) http.RoundTripper) *row {
		return &row{name: name, weigh: func() (sample, error) {
			got, err := measureIdle(wrap)
			return sample{bytes: got.heap - bare.heap, stacks: got.stacks - bare.stacks, goroutines: got.goroutines}, err
		}}
	}
	const guard, stack = "surefoot, guard and idle timeout", "surefoot, whole stack"
	s := &section{
		title: "10,000 open, idle streams",
		note: "What a stream that waits in a Read costs above the bare body, which is read by a goroutine of the caller's, too. " +
			"Stacks are the caller's: deeper calls need larger ones. The whole stack also holds the call's record and two copies of the request.",
		columns: []string{"bytes of heap", "bytes of stack", "goroutines"},
		rows: []*row{
			{name: "bare body (total)", weigh: func() (sample, error) {
				var err error
				bare, err = measureIdle(func(base http.RoundTripper) http.RoundTripper { return base })
				return sample{bytes: bare.heap, stacks: bare.stacks, goroutines: bare.goroutines}, err
			}},
			above("a goroutine and a timer a stream", wrapped(newPerStream)),
			above("time.AfterFunc, reset by every Read", wrapped(newAfterFunc)),
			above(guard, newGuard),
			above(stack, func(base http.RoundTripper) http.RoundTripper { return newStack(base) }),
		},
	}
	s.targets = []target{
		{what: guard + ": heap a stream", unit: " B", limit: 1500, of: func(r round) float64 { return r[guard].bytes }},
		{what: guard + ": goroutines", limit: 0, of: func(r round) float64 { return math.Round(r[guard].goroutines) }},
		{what: stack + ": goroutines", limit: 0, of: func(r round) float64 { return math.Round(r[stack].goroutines) }},
	}
	return s
}

// perStream is a goroutine and a timer a stream, a way to write an idle
// timeout.
type perStream struct {
	io.ReadCloser
	beat chan struct{}
	stop context.CancelFunc
}

func newPerStream(body io.ReadCloser, d time.Duration) io.ReadCloser {
	ctx, stop := context.WithCancel(context.Background())
	p := &perStream{ReadCloser: body, beat: make(chan struct{}, 1), stop: stop}
	go func() {
		t := time.NewTimer(d)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.beat:
				t.Reset(d)
			case <-t.C:
				_ = p.ReadCloser.Close() // ends a blocked Read
				return
			}
		}
	}()
	return p
}

func (p *perStream) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	select {
	case p.beat <- struct{}{}:
	default:
	}
	return n, err
}

func (p *perStream) Close() error {
	p.stop()
	return p.ReadCloser.Close()
}

// afterFunc is one timer a stream, reset by every Read.
type afterFunc struct {
	io.ReadCloser
	t *time.Timer
	d time.Duration
}

func newAfterFunc(body io.ReadCloser, d time.Duration) io.ReadCloser {
	return &afterFunc{ReadCloser: body, d: d, t: time.AfterFunc(d, func() { _ = body.Close() })}
}

func (a *afterFunc) Read(b []byte) (int, error) {
	a.t.Reset(a.d)
	return a.ReadCloser.Read(b)
}

func (a *afterFunc) Close() error {
	a.t.Stop()
	return a.ReadCloser.Close()
}
