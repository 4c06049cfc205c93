package main_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/faults"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

const sdkDefault = -1 // retries, as the SDK makes them by itself

// Four attempts times three is not what one call may cost.
func TestCaseC14_AttemptsDoNotMultiply(t *testing.T) {
	each(t, func(t *testing.T, o official) {
		t.Run("the stack's three attempts are all", func(t *testing.T) {
			t.Parallel()
			for _, step := range []upstreamtest.Step{upstreamtest.Status(http.StatusTooManyRequests),
				upstreamtest.Hidden(upstreamtest.HiddenWord, http.StatusTooManyRequests)} {
				p := faults.Policy()
				p.Retry.MaxRetries = 2
				r := newRig(t, p, resilience.Builder{})
				r.up.Default(step)
				_, err := o.call(t.Context(), r.client, r.up.URL, sdkDefault, false)
				assert.Equal(t, http.StatusTooManyRequests, o.status(err), "%v", err)
				assert.Equal(t, 3, r.up.Count())
				assert.Equal(t, 1, r.above.Calls(), "the SDK is told not to retry")
			}
		})
		t.Run("one attempt leaves the SDK its own", func(t *testing.T) {
			t.Parallel()
			p := faults.Policy()
			p.Retry.MaxRetries = 0
			r := newRig(t, p, resilience.Builder{})
			r.up.Default(upstreamtest.Status(http.StatusTooManyRequests))
			_, err := o.call(t.Context(), r.client, r.up.URL, sdkDefault, false)
			assert.Equal(t, http.StatusTooManyRequests, o.status(err), "%v", err)
			assert.Equal(t, 3, r.above.Calls())
			assert.Equal(t, r.above.Calls(), r.up.Count(), "one request for each try of the SDK")
		})
		t.Run("the upstream says no", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, faults.Policy(), resilience.Builder{})
			r.up.Default(upstreamtest.Status(http.StatusInternalServerError).Header("x-should-retry", "false"))
			_, err := o.call(t.Context(), r.client, r.up.URL, sdkDefault, false)
			assert.Equal(t, http.StatusInternalServerError, o.status(err), "%v", err)
			assert.Equal(t, 1, r.up.Count())
		})
		t.Run("the SDK's retries off", func(t *testing.T) {
			t.Parallel()
			p := faults.Policy()
			r := newRig(t, p, resilience.Builder{})
			r.up.Default(upstreamtest.Status(http.StatusServiceUnavailable).Times(p.Retry.MaxRetries), answer)
			text, err := o.call(t.Context(), r.client, r.up.URL, 0, false)
			require.NoError(t, err)
			assert.Equal(t, said, text)
			assert.Equal(t, 1+p.Retry.MaxRetries, r.up.Count())
		})
	})
}

// A rejection is one answer to the SDK, at once: it neither retries nor waits.
func TestOpenBreakerIsAnAnswer(t *testing.T) {
	each(t, func(t *testing.T, o official) {
		for _, stream := range []bool{false, true} {
			p := faults.Policy()
			p.CircuitBreaker.FailureThreshold = 5
			r := newRig(t, p, resilience.Builder{})
			r.stack.ForceOpen("", time.Hour)
			begin := time.Now()
			_, err := o.call(t.Context(), r.client, r.up.URL, sdkDefault, stream)
			assert.Equal(t, http.StatusServiceUnavailable, o.status(err), "%v", err)
			assert.Contains(t, o.code(err), "circuit_open")
			assert.Equal(t, 1, r.above.Calls())
			assert.Zero(t, r.below.Calls())
			assert.Less(t, time.Since(begin), 5*time.Second, "Retry-After says an hour")
		}
	})
}

// An error from the transport cannot be marked: the SDK retries it, and each of
// its retries is a whole call. As a response it is marked.
func TestTransportFailures(t *testing.T) {
	each(t, func(t *testing.T, o official) {
		t.Run("as errors they multiply", func(t *testing.T) {
			t.Parallel()
			p := faults.Policy()
			p.Retry.MaxRetries = 1
			r := newRig(t, p, resilience.Builder{})
			_, err := o.call(t.Context(), r.client, deadURL(), sdkDefault, false)
			var e *resilience.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, http.StatusBadGateway, resilience.StatusOf(err))
			assert.Equal(t, 3*2, r.below.Calls())
		})
		t.Run("with the SDK's retries off they do not", func(t *testing.T) {
			t.Parallel()
			p := faults.Policy()
			r := newRig(t, p, resilience.Builder{})
			_, err := o.call(t.Context(), r.client, deadURL(), 0, false)
			assert.Equal(t, http.StatusBadGateway, resilience.StatusOf(err))
			assert.Equal(t, 1+p.Retry.MaxRetries, r.below.Calls())
		})
		t.Run("as responses they do not", func(t *testing.T) {
			t.Parallel()
			p := faults.Policy()
			p.ErrorsAsResponses = resilience.RenderAll
			for _, stream := range []bool{false, true} {
				r := newRig(t, p, resilience.Builder{})
				_, err := o.call(t.Context(), r.client, deadURL(), sdkDefault, stream)
				assert.Equal(t, http.StatusBadGateway, o.status(err), "%v", err)
				assert.Equal(t, 1, r.above.Calls())
				assert.Equal(t, 1+p.Retry.MaxRetries, r.below.Calls())
			}
		})
		t.Run("a timeout as a response", func(t *testing.T) {
			t.Parallel()
			p := faults.Policy()
			p.ErrorsAsResponses = resilience.RenderAll
			p.Timeout = 200 * time.Millisecond
			r := newRig(t, p, resilience.Builder{})
			r.up.Default(upstreamtest.Silence())
			_, err := o.call(t.Context(), r.client, r.up.URL, sdkDefault, false)
			assert.Equal(t, http.StatusGatewayTimeout, o.status(err), "%v", err)
			assert.Equal(t, 1, r.up.Count(), "nothing is retried after a timeout")
		})
	})
}

// A caller that cancels is told so, and nothing is sent for it any more.
func TestCancelledCall(t *testing.T) {
	each(t, func(t *testing.T, o official) {
		r := newRig(t, faults.Policy(), resilience.Builder{})
		r.up.Default(upstreamtest.Silence())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := o.call(ctx, r.client, r.up.URL, sdkDefault, true)
			done <- err
		}()
		require.NoError(t, r.up.Wait(t.Context(), func() bool { return r.up.Count() == 1 }))
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, r.up.Wait(t.Context(), func() bool { return r.up.Aborted() == 1 }))
		assert.Equal(t, 1, r.up.Count())
	})
}

// With the SDK's own retries off, one refusal before a stream is an error under
// the default profile, which sends no stream twice, and none under live and
// whole (contract 12). With them on, as its advice is, the default loses nothing
// either, and no profile multiplies the attempts.
func TestStreamRefusedOnce(t *testing.T) {
	for _, row := range []struct {
		profile    string
		sdkRetries int
		answered   bool
	}{
		{resilience.ProfileDefault, 0, false},
		{resilience.ProfileDefault, sdkDefault, true},
		{resilience.ProfileLive, 0, true},
		{resilience.ProfileLive, sdkDefault, true},
		{resilience.ProfileWhole, 0, true},
		{resilience.ProfileWhole, sdkDefault, true},
	} {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			t.Run(fmt.Sprintf("%s, %d, SDK retries %d", row.profile, status, row.sdkRetries), func(t *testing.T) {
				each(t, func(t *testing.T, o official) {
					p, err := resilience.Profile(row.profile)
					require.NoError(t, err)
					r := newRig(t, p, resilience.Builder{})
					r.up.Default(upstreamtest.Status(status), answer)
					text, err := o.call(t.Context(), r.client, r.up.URL, row.sdkRetries, true)
					if !row.answered {
						assert.Equal(t, status, o.status(err), "%v", err)
						assert.Equal(t, 1, r.up.Count())
						return
					}
					require.NoError(t, err)
					assert.Equal(t, said, text)
					assert.Equal(t, 2, r.up.Count())
				})
			})
		}
	}
}

// A refusal that stays costs what the profile's budget is, whatever the SDK
// above would do by itself.
func TestStreamRefusedForEver(t *testing.T) {
	each(t, func(t *testing.T, o official) {
		for _, profile := range []string{resilience.ProfileLive, resilience.ProfileWhole} {
			p, err := resilience.Profile(profile)
			require.NoError(t, err)
			r := newRig(t, p, resilience.Builder{})
			r.up.Default(upstreamtest.Status(http.StatusServiceUnavailable))
			_, err = o.call(t.Context(), r.client, r.up.URL, sdkDefault, true)
			assert.Equal(t, http.StatusServiceUnavailable, o.status(err), "%v", err)
			assert.Equal(t, 1+p.Retry.MaxRetries, r.up.Count())
			assert.Equal(t, 1, r.above.Calls(), "the SDK is told not to retry")
		}
	})
}
