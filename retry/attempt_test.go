package retry_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/retry"
)

// numbered records the number of every attempt that reaches it, and answers
// 503 to all of them.
type numbered struct{ seen []int }

func (n *numbered) RoundTrip(req *http.Request) (*http.Response, error) {
	n.seen = append(n.seen, retry.AttemptNumber(req.Context()))
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	rec := httptest.NewRecorder()
	rec.WriteHeader(http.StatusServiceUnavailable)
	return rec.Result(), nil
}

func TestAttemptNumber(t *testing.T) {
	t.Parallel()
	quick := func(retries int) retry.Policy {
		p := retry.DefaultPolicy()
		p.MaxRetries, p.InitialBackoff, p.MaxBackoff = retries, time.Nanosecond, time.Nanosecond
		return p
	}
	limited := quick(2)
	limited.AttemptTimeout = time.Minute
	hook := func(*http.Request, retry.Attempt) {}
	for _, c := range []struct {
		name string
		rt   *retry.Transport
		body string
		want []int
	}{
		{"retries", &retry.Transport{Policy: quick(2)}, "", []int{1, 2, 3}},
		{"with a body", &retry.Transport{Policy: quick(1)}, "x", []int{1, 2}},
		{"with an attempt timeout", &retry.Transport{Policy: limited}, "", []int{1, 2, 3}},
		{"one attempt, observed", &retry.Transport{Policy: quick(0), OnAttempt: hook}, "", []int{1}},
		{"one attempt, uncounted", &retry.Transport{Policy: quick(0)}, "", []int{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			base := &numbered{}
			c.rt.Base = base
			var body io.Reader
			if c.body != "" {
				body = strings.NewReader(c.body)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://upstream.invalid/", body)
			require.NoError(t, err)
			resp, err := c.rt.RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, c.want, base.seen)
		})
	}
}

func TestAttemptNumberOutsideOfAnAttempt(t *testing.T) {
	t.Parallel()
	assert.Zero(t, retry.AttemptNumber(context.Background()))
}

// The inner layer is the one that sends.
func TestAttemptNumberOfTheInnermostLayer(t *testing.T) {
	t.Parallel()
	p := retry.DefaultPolicy()
	p.MaxRetries, p.InitialBackoff, p.MaxBackoff = 1, time.Nanosecond, time.Nanosecond
	base := &numbered{}
	rt := &retry.Transport{Policy: p, Base: &retry.Transport{Policy: p, Base: base, KeepShouldRetry: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://upstream.invalid/", nil)
	require.NoError(t, err)
	resp, err := rt.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, []int{1, 2, 1, 2}, base.seen)
}
