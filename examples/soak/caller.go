package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

type callKey struct{}

// callState collects what the stacks say about one call.
type callState struct {
	mu    sync.Mutex
	calls []resilience.Call
}

func (c *callState) add(rec resilience.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, rec)
}

func (c *callState) list() []resilience.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]resilience.Call(nil), c.calls...)
}

// sent is how many of the calls were not rejected.
func (c *callState) sent() (n int) {
	for _, rec := range c.list() {
		if rec.Outcome != resilience.OutcomeRejected {
			n++
		}
	}
	return n
}

// tried is how many targets were asked.
func tried(attempts []failover.Attempt) (n int) {
	for _, a := range attempts {
		if !a.Skipped {
			n++
		}
	}
	return n
}

// result is what the caller got.
type result struct {
	status int
	body   string
	events bool
	err    error // of the call, or of reading the body
	left   bool  // the caller closed the body early
	backup bool
	took   time.Duration
}

const idHeader = "X-Soak-Call"

// call makes one call by its plan and checks everything that can be checked at
// its end.
func (s *soak) call(worker, n int) {
	p := newPlan(s.seed, worker, n)
	for i, pr := range s.providers {
		if p.scripts[i] != nil {
			pr.up.Model(p.model, p.scripts[i]...)
		}
	}
	s.book.begin(p.id)
	state := new(callState)
	ctx, trace := failover.WithTrace(context.WithValue(context.Background(), callKey{}, state))
	watchdog := time.AfterFunc(time.Minute, func() { s.tally.violation("call %s hangs: %s", p.id, p.describe()) })
	got := s.do(ctx, p)
	watchdog.Stop()
	attempts := trace.Attempts()
	eventually(func() bool { return state.sent() >= tried(attempts) }) // a dropped answer may be closed after the call's end
	s.check(p, got, attempts, state.list())
	switch cmp.Or(got.status, resilience.StatusOf(got.err)) {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		time.Sleep(openFor / 10) // polite, and else a rejected caller would spin
	}
}

// deadline is what a service sets for its calls: between the headers of an
// answer and the first byte of its body nothing else bounds the wait.
const deadline = 15 * time.Second

func (s *soak) do(ctx context.Context, p *plan) (got result) {
	begin := time.Now()
	defer func() { got.took = time.Since(begin) }()
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(p.limit, deadline))
	defer cancel()
	if p.cancel > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer time.AfterFunc(p.cancel, cancel).Stop()
	}
	chain := s.openAI
	if p.format.anth {
		chain = s.anthropic
	}
	ask := fmt.Sprintf(p.format.ask, p.model, p.stream)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://soak.invalid"+p.format.path, strings.NewReader(ask))
	if err != nil {
		return result{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(idHeader, p.id)
	resp, err := chain.Do(req)
	if err != nil {
		return result{err: err}
	}
	defer func() {
		if err := resp.Body.Close(); err != nil && got.err == nil && !got.left {
			got.err = err
		}
	}()
	got = result{status: resp.StatusCode, backup: failover.FromBackup(resp),
		events: strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")}
	var body bytes.Buffer
	from := io.Reader(resp.Body)
	if p.slow > 0 {
		from = &sleepy{from, p.slow}
	}
	if p.leave >= 0 {
		_, got.err = io.CopyN(&body, from, int64(p.leave))
		got.left = got.err == nil
		if errors.Is(got.err, io.EOF) && !errors.Is(got.err, io.ErrUnexpectedEOF) {
			got.err = nil // it was shorter than that
		}
	} else {
		_, got.err = body.ReadFrom(from)
	}
	got.body = body.String()
	return got
}

// sleepy is a slow reader.
type sleepy struct {
	io.Reader
	d time.Duration
}

func (r *sleepy) Read(b []byte) (int, error) {
	time.Sleep(r.d)
	return r.Reader.Read(b[:min(len(b), 512)])
}

// describe is the plan in a line.
func (p *plan) describe() string {
	return fmt.Sprintf("%s, %s, stream=%t cancel=%v limit=%v leave=%d slow=%v scripts=%q",
		p.model, p.format.name, p.stream, p.cancel, p.limit, p.leave, p.slow, p.faults)
}
