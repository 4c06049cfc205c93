package resilience_test

import (
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
)

// Three series a provider, however many models are held: rate, quota and
// billing (contract 9 and 11).
func TestMetricsHeldKeysByKind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := holding()
		p.CircuitBreaker.Disabled = true
		slow := reply{status: 429, header: http.Header{"Retry-After": {"60"}}}
		replies := []reply{}
		for range 50 {
			replies = append(replies, slow)
		}
		replies = append(replies, reply{status: 402}) // no time: a guess of ours
		tr, m := metered(t, resilience.Builder{Base: play(replies...)}, p)
		assert.Equal(t, []int64{0, 0, 0}, m.observe(t))
		for i := range 51 {
			ctx := resilience.WithModel(t.Context(), fmt.Sprintf("invented-%d", i))
			_, _, err := do(t, tr, chat(t, ctx, plainBody))
			require.NoError(t, err)
		}
		assert.Equal(t, []int64{50, 0, 1}, m.observe(t))
		time.Sleep(time.Minute)
		assert.Equal(t, []int64{0, 0, 1}, m.observe(t), "a hold that is over")
		tr.ReleaseHold("")
		assert.Equal(t, []int64{0, 0, 0}, m.observe(t))
		runtime.KeepAlive(tr)
	})
}

func TestMetricsHeldKeysOfAStackThatHoldsNothing(t *testing.T) {
	t.Parallel()
	p := holding()
	p.CircuitBreaker.Disabled = true
	p.Limits = resilience.Limits{MaxConcurrent: 1}
	_, m := metered(t, resilience.Builder{Base: play(reply{status: 200})}, p)
	assert.Zero(t, m.callbacks())
}

// A MeterProvider keeps neither the stack nor the callbacks of its gauges.
func TestMetricsHeldKeysLetADroppedStackGo(t *testing.T) {
	t.Parallel()
	tr, m := metered(t, resilience.Builder{Base: play(reply{status: 200})}, holding())
	assert.Equal(t, 2, m.callbacks(), "the state and the held keys")
	runtime.KeepAlive(tr)
	require.Eventually(t, func() bool {
		runtime.GC()
		return m.callbacks() == 0
	}, time.Minute, time.Millisecond)
}

func TestMetricsOfARejectionByALimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := holding()
		p.Limits.MaxConcurrent = 1
		tr, m := metered(t, resilience.Builder{Base: play(
			reply{status: 200, body: okJSON, delay: time.Minute},
			reply{status: 429, header: http.Header{"Retry-After": {"60"}}},
		)}, p)
		first := make(chan struct{})
		go func() {
			defer close(first)
			_, _, _ = do(t, tr, chat(t, t.Context(), plainBody))
		}()
		synctest.Wait()
		impatient := resilience.WithPatience(t.Context(), hasty{})
		_, _, err := do(t, tr, chat(t, impatient, plainBody))
		require.NoError(t, err)
		assert.Contains(t, m.take(), "surefoot.client.rejections{error.type=concurrency gen_ai.request.model=m1 surefoot.provider.name=eu}")
		<-first
		for range 2 {
			_, _, err := do(t, tr, chat(t, t.Context(), plainBody))
			require.NoError(t, err)
		}
		assert.Contains(t, m.take(), "surefoot.client.rejections{error.type=rate_limited gen_ai.request.model=m1 surefoot.provider.name=eu}")
	})
}

// hasty has something better to do than to wait.
type hasty struct{}

func (hasty) MayWait(*http.Request, *http.Response, time.Duration) (time.Duration, bool) {
	return 0, false
}
func (hasty) Waits(*http.Request, time.Duration) {}
