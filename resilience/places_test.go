package resilience_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
)

// fullStack returns a stack whose only place is taken until free is called.
func fullStack(t *testing.T, p resilience.Policy, replies ...reply) (tr *resilience.Transport, up *counted, free func()) {
	t.Helper()
	p.Limits.MaxConcurrent = 1
	p.Stream.IdleTimeout = time.Hour
	up = &counted{base: play(append([]reply{{status: 200, body: okJSON}}, replies...)...)}
	tr, _ = build(t, up, p)
	resp, err := tr.RoundTrip(chat(t, t.Context(), plainBody))
	require.NoError(t, err)
	return tr, up, func() { assert.NoError(t, resp.Body.Close()) }
}

// The wait for a place is part of the call that Policy.Timeout bounds, and
// running out of time in the queue is no fault of the upstream.
func TestTheWaitForAPlaceIsInTheTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quick()
		p.Timeout = 2 * time.Second
		tr, up, free := fullStack(t, p, reply{status: 200, body: okJSON})
		defer free()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		resp, err := tr.RoundTrip(chat(t, ctx, plainBody))
		require.NoError(t, err)
		defer func() { assert.NoError(t, resp.Body.Close()) }()
		assert.Equal(t, 2*time.Second, time.Since(start))
		open, ok := resilience.Rejection(resp, nil)
		require.True(t, ok)
		assert.Equal(t, "concurrency", open.Limit)
		assert.Equal(t, 1, up.count())
		assert.Zero(t, tr.Breakers()[0].Failures)
	})
}

func TestRequestCancelEndsTheWaitForAPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr, _, free := fullStack(t, quick())
		defer free()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req := chat(t, ctx, plainBody)
		gone := make(chan struct{})
		req.Cancel = gone //nolint:staticcheck // deprecated, but net/http still obeys it
		time.AfterFunc(time.Second, func() { close(gone) })
		start := time.Now()
		resp, err := tr.RoundTrip(req)
		if err == nil {
			require.NoError(t, resp.Body.Close())
		}
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, time.Second, time.Since(start))
		assert.Equal(t, 1, tr.InUse())
	})
}

// Contract 4: an open breaker rejects every call at once, also where no place
// is free.
func TestAnOpenBreakerRejectsBeforeTheWaitForAPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr, _, free := fullStack(t, quick())
		defer free()
		tr.ForceOpen("", time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		resp, err := tr.RoundTrip(chat(t, ctx, plainBody))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Zero(t, time.Since(start))
		assert.Equal(t, 503, resp.StatusCode)
		assert.Equal(t, 1, tr.InUse())
	})
}

// A call that waited for its place is not sent to a key that was held meanwhile.
func TestAKeyHeldDuringTheWaitForAPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := holding()
		p.Limits.MaxConcurrent = 1
		up := &counted{base: play(reply{status: 429, header: http.Header{"Retry-After": {"600"}}, delay: time.Second})}
		tr, _ := build(t, up, p)
		done := make(chan struct{})
		for range 3 {
			go func() {
				defer func() { done <- struct{}{} }()
				status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
				assert.NoError(t, err)
				assert.Equal(t, 429, status)
			}()
		}
		for range 3 {
			<-done
		}
		assert.Equal(t, 1, up.count())
		assert.Zero(t, tr.InUse())
	})
}

// The account's key is for what the account lacks: a rate limit of a call that
// names no model keeps no other model away.
func TestARateLimitWithoutAModelHoldsNoAccount(t *testing.T) {
	t.Parallel()
	for _, status := range []int{429, 503} {
		synctest.Test(t, func(t *testing.T) {
			tr, _ := build(t, play(reply{status: status, header: http.Header{"Retry-After": {"600"}}}), holding())
			got, _, err := do(t, tr, chat(t, t.Context(), `{"messages":[]}`))
			require.NoError(t, err)
			require.Equal(t, status, got)
			assert.Empty(t, tr.Holds())
			assert.Nil(t, tr.Peek("m1"))
		})
	}
}

// late is a body whose first byte takes a while.
type late struct {
	wait time.Duration
	io.ReadCloser
}

func (l *late) Read(p []byte) (int, error) {
	time.Sleep(l.wait)
	l.wait = 0
	return l.ReadCloser.Read(p)
}

// The wait for a first byte never counts as silence (contract 6): who waits in a
// Read has not left the body lying, and keeps the place.
func TestAPlaceIsKeptWhileAReadWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quick()
		p.Limits.MaxConcurrent = 1
		p.Stream.IdleTimeout = time.Minute
		slow := &late{wait: 5 * time.Minute, ReadCloser: io.NopCloser(strings.NewReader("x"))}
		tr, _ := build(t, play(reply{status: 200, rest: slow}), p)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com/v1/files/f/content", nil)
		require.NoError(t, err)
		resp, err := tr.RoundTrip(req)
		require.NoError(t, err)
		time.AfterFunc(4*time.Minute, func() { assert.Equal(t, 1, tr.InUse()) })
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "x", string(body))
		require.NoError(t, resp.Body.Close())
		assert.Zero(t, tr.InUse())
	})
}

// explosive is a body whose Read panics.
type explosive struct{ closed bool }

func (*explosive) Read([]byte) (int, error) { panic("boom") }
func (b *explosive) Close() error           { b.closed = true; return nil }

// What is read of an answer to learn of a limit may panic, and is closed then.
func TestABodyThatPanicsWhileItsLimitIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := new(explosive)
		p := holding()
		p.Limits.MaxConcurrent = 1
		tr, _ := build(t, play(reply{status: 429, rest: b}), p)
		req := chat(t, resilience.WithPassthrough(t.Context()), plainBody)
		func() {
			defer func() { _ = recover() }()
			if resp, err := tr.RoundTrip(req); err == nil {
				defer func() { _ = resp.Body.Close() }()
				_, _ = resp.Body.Read(make([]byte, 1))
			}
		}()
		assert.True(t, b.closed)
		assert.Zero(t, tr.InUse())
	})
}
