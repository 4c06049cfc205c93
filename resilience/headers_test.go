package resilience_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// A base of one's own, wrapped for tracing for example, still has the header
// timeout that a nil base has.
func TestABaseOfOnesOwnWaitsForHeadersWithABound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		tr, rec := build(t, base, resilience.DefaultPolicy())
		start := time.Now()
		_, _, err := do(t, tr, chat(t, t.Context(), plainBody))
		var limit *ending.TimeoutError
		require.ErrorAs(t, err, &limit)
		require.NotErrorIs(t, err, context.Canceled)
		assert.Equal(t, 504, resilience.StatusOf(err))
		assert.Equal(t, 600*time.Second, time.Since(start))
		assert.Equal(t, resilience.OutcomeTimeout, rec.last(t).Outcome)

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // a deadline decides instead
		defer cancel()
		start = time.Now()
		_, _, err = do(t, tr, chat(t, ctx, plainBody))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Hour, time.Since(start))
	})
}

// The bound is for the headers: a body may take longer, and its context lives
// until it has ended.
func TestABodyMayTakeLongerThanItsHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sent context.Context
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			sent = req.Context()
			return play(reply{status: 200, body: okJSON}).RoundTrip(req)
		})
		tr, _ := build(t, base, resilience.DefaultPolicy())
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://upstream.invalid/file", nil)
		require.NoError(t, err)
		resp, err := tr.RoundTrip(req)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.NoError(t, sent.Err())
		require.NoError(t, resp.Body.Close())
		require.Error(t, sent.Err(), "given back with the body")
	})
}

// Each attempt waits for its headers anew: retries take as long as they take.
func TestEachAttemptWaitsForItsHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		upstream := play(reply{status: 503}, reply{status: 503}, reply{status: 200, body: okJSON})
		slow := roundTrip(func(req *http.Request) (*http.Response, error) {
			select {
			case <-time.After(599 * time.Second):
				return upstream.RoundTrip(req)
			case <-req.Context().Done():
				return nil, req.Context().Err()
			}
		})
		tr, _ := build(t, slow, resilience.DefaultPolicy())
		start := time.Now()
		status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		assert.Equal(t, 200, status)
		assert.Greater(t, time.Since(start), 3*599*time.Second)
	})
}

// A base that does not look at its context is given up all the same, once it
// returns.
func TestABaseThatIgnoresTheHeaderBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		upstream := play(reply{status: 200, body: okJSON})
		tr, rec := build(t, roundTrip(func(req *http.Request) (*http.Response, error) {
			time.Sleep(601 * time.Second)
			return upstream.RoundTrip(req)
		}), resilience.DefaultPolicy())
		_, _, err := do(t, tr, chat(t, t.Context(), plainBody))
		var limit *ending.TimeoutError
		require.ErrorAs(t, err, &limit)
		assert.Equal(t, resilience.OutcomeTimeout, rec.last(t).Outcome)
		require.Len(t, rec.last(t).Attempts, 1, "no attempt follows a local timeout")
	})
}

// The request that an answer carries may be used for further calls, as one that
// net/http returns may: the limits of the call are not in its context.
func TestTheContextOfAnAnswerOutlivesItsCall(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{"no timeout": 0, "a timeout": time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := resilience.DefaultPolicy()
			p.Timeout = timeout
			tr, rec := build(t, play(reply{status: 200, body: okJSON}), p)
			ctx := t.Context()
			for range 3 {
				req := chat(t, ctx, plainBody)
				resp, err := tr.RoundTrip(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				ctx = resp.Request.Context()
				require.NoError(t, ctx.Err())
			}
			assert.Equal(t, resilience.OutcomeSuccess, rec.last(t).Outcome)
		})
	}
}

// A connection that was upgraded has the context of its attempt, which lives as
// long as it does.
func TestAnUpgradedConnectionOutlivesItsCall(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{"no timeout": 0, "a timeout": time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := resilience.DefaultPolicy()
			p.Timeout = timeout
			var sent context.Context
			tr, rec := build(t, roundTrip(func(req *http.Request) (*http.Response, error) {
				sent = req.Context()
				return &http.Response{StatusCode: http.StatusSwitchingProtocols, Request: req, Body: duplex{}}, nil
			}), p)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://upstream.invalid/ws", nil)
			require.NoError(t, err)
			resp, err := tr.RoundTrip(req)
			require.NoError(t, err)
			assert.Implements(t, (*io.Writer)(nil), resp.Body)
			assert.Equal(t, resilience.OutcomeSuccess, rec.last(t).Outcome)
			require.NoError(t, sent.Err())
			require.NoError(t, resp.Body.Close())
			require.Error(t, sent.Err())
		})
	}
}

// duplex is the body of an upgraded connection.
type duplex struct{ io.Writer }

func (duplex) Read([]byte) (int, error) { return 0, io.EOF }
func (duplex) Close() error             { return nil }
