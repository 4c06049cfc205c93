package layer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience/layer"
)

func TestLimitEndsItsContextUnlessStopped(t *testing.T) {
	t.Parallel()
	late := errors.New("too late")
	synctest.Test(t, func(t *testing.T) {
		fired := layer.NewLimit(t.Context(), time.Second, late)
		stopped := layer.NewLimit(t.Context(), time.Second, late)
		time.Sleep(time.Second - 1)
		require.NoError(t, fired.Err())
		assert.False(t, fired.Fired())
		assert.True(t, stopped.Stop())
		<-fired.Done()
		assert.Equal(t, late, context.Cause(fired))
		assert.True(t, fired.Fired())
		assert.False(t, fired.Stop())

		time.Sleep(time.Hour)
		require.NoError(t, stopped.Err(), "it lives as long as the body")
		assert.True(t, stopped.Stop())
		stopped.Release()
		require.ErrorIs(t, stopped.Err(), context.Canceled)
		assert.True(t, stopped.Stop())
		fired.Release()
		assert.Equal(t, late, context.Cause(fired))
	})
}

// Whoever comes first is who ended the call.
func TestLimitAfterTheCallersCancellation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := layer.NewLimit(ctx, time.Second, errors.New("too late"))
		cancel()
		time.Sleep(time.Minute)
		assert.False(t, l.Fired())
		assert.True(t, l.Stop())
		l.Release()
	})
}

func TestLimitThatIsOverBeforeItBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := layer.NewLimit(t.Context(), -time.Second, errors.New("too late"))
		synctest.Wait()
		assert.True(t, l.Fired())
		l.Release()
	})
}
