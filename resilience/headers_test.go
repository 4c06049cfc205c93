package resilience_test

import (
	"context"
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
