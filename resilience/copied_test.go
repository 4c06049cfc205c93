package resilience_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
)

// A built stack has lists of its own: the caller may change his while it is in
// use (run with -race).
func TestBuildCopiesThePolicysLists(t *testing.T) {
	t.Parallel()
	p := quick()
	p.Retry.MaxRetries = 0
	p.Retry.RetryOnStatuses = []string{"503"}
	p.CircuitBreaker.FailureOnStatuses = []string{"503"}
	tr, err := resilience.Builder{Base: play(reply{status: 503, body: "{}"})}.Build("eu", p)
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 100 {
			p.Retry.RetryOnStatuses[0], p.CircuitBreaker.FailureOnStatuses[0] = "nonsense", "nonsense"
		}
	})
	status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
	wg.Wait()
	require.NoError(t, err)
	assert.Equal(t, 503, status)
	assert.Equal(t, 1, tr.Breakers()[0].Failures)
}
