package layer_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/internal/layer"
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

// A limit may bound one wait after the other under one context.
func TestLimitThatIsStartedAgain(t *testing.T) {
	t.Parallel()
	late, later := errors.New("too late"), errors.New("later")
	synctest.Test(t, func(t *testing.T) {
		var l layer.Limit
		l.Open(t.Context())
		assert.True(t, l.Stop(), "it was not started")
		l.Start(time.Second, late)
		time.Sleep(time.Second - 1)
		require.True(t, l.Stop())
		l.Start(time.Minute, later)
		time.Sleep(time.Minute - 1)
		require.NoError(t, l.Err(), "each start has its own time")
		<-l.Done()
		assert.Equal(t, later, context.Cause(&l))
		assert.False(t, l.Stop())
		l.Release()
	})
}

// However often it is stopped and started while its timer fires, it ends nothing
// before its time.
func TestLimitThatIsStartedAgainWhileItsTimerFires(t *testing.T) {
	t.Parallel()
	var l layer.Limit
	l.Open(t.Context())
	defer l.Release()
	for range 2000 {
		l.Start(time.Microsecond, errors.New("too late"))
		if !l.Stop() {
			l.Release()
			l = layer.Limit{}
			l.Open(t.Context())
			continue
		}
		l.Start(time.Hour, errors.New("an hour"))
		require.True(t, l.Stop())
		require.NoError(t, l.Err())
	}
}

func TestUntilIsTheFirstEndAbove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		assert.Equal(t, time.Duration(math.MaxInt64), layer.Until(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		assert.Equal(t, time.Hour, layer.Until(ctx))
		outer := layer.NewLimit(ctx, time.Minute, errors.New("outer"))
		defer outer.Release()
		inner := layer.NewLimit(context.WithValue(outer, t, 1), 2*time.Minute, errors.New("inner"))
		defer inner.Release()
		assert.Equal(t, time.Minute, layer.Until(inner))
		assert.Equal(t, time.Duration(math.MaxInt64), layer.Until(context.WithoutCancel(inner)))
		time.Sleep(time.Second)
		assert.Equal(t, 59*time.Second, layer.Until(inner))
		require.True(t, outer.Stop())
		assert.Equal(t, 119*time.Second, layer.Until(inner))
		require.True(t, inner.Stop())
		assert.Equal(t, time.Hour-time.Second, layer.Until(inner))
	})
}
