package breaker_test

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
)

func hooked(t *testing.T, p breaker.Policy, log *slog.Logger, hook func(b *breaker.Breaker, from, to breaker.State)) *breaker.Breaker {
	t.Helper()
	var b *breaker.Breaker
	b, err := breaker.New(breaker.Config{
		Policy: p, Provider: "acme", Logger: log,
		OnStateChange: func(_ string, from, to breaker.State) { hook(b, from, to) },
	})
	require.NoError(t, err)
	return b
}

// A hook may use the breaker; the changes it makes are told after its own.
func TestHookIsReentrant(t *testing.T) {
	var got []breaker.State
	depth := 0
	b := hooked(t, smallPolicy(), nil, func(b *breaker.Breaker, from, to breaker.State) {
		depth++
		defer func() { depth-- }()
		assert.Equal(t, 1, depth, "never within itself")
		got = append(got, from, to)
		_ = b.Snapshot()
		var p breaker.Permit
		_ = b.Admit(&p)
		p.Settle(breaker.Neutral)
		switch len(got) {
		case 2:
			b.Reset()
			b.ForceOpen(time.Hour)
		case 6:
			b.Reset()
		}
	})
	settle(t, b, f, f, f)
	assert.Equal(t, []breaker.State{
		breaker.Closed, breaker.Open,
		breaker.Open, breaker.Closed,
		breaker.Closed, breaker.Open,
		breaker.Open, breaker.Closed,
	}, got)
}

// From any number of goroutines the changes arrive one at a time and in order:
// each begins where the one before ended.
func TestHookOrder(t *testing.T) {
	var inside atomic.Int32
	var got []breaker.State // guarded by the promise under test, see -race
	policy := smallPolicy()
	policy.FailureThreshold, policy.Timeout = 1, time.Nanosecond
	b := hooked(t, policy, nil, func(_ *breaker.Breaker, from, to breaker.State) {
		if inside.Add(1) != 1 {
			t.Error("two hooks at a time")
		}
		got = append(got, from, to)
		inside.Add(-1)
	})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 3))
			for range 250 { // fewer changes in all than may wait for a hook
				var p breaker.Permit
				if b.Admit(&p) == nil {
					p.Settle(breaker.Verdict(r.IntN(3)))
				}
			}
		})
	}
	wg.Wait()
	require.Greater(t, len(got), 100)
	require.Equal(t, breaker.Closed, got[0])
	require.Equal(t, b.State(), got[len(got)-1])
	for i := 2; i < len(got); i += 2 {
		require.Equal(t, got[i-1], got[i], "change %d", i/2)
	}
}

func TestHookPanics(t *testing.T) {
	var log bytes.Buffer
	calls := 0
	b := hooked(t, smallPolicy(), slog.New(slog.NewTextHandler(&log, nil)), func(*breaker.Breaker, breaker.State, breaker.State) {
		calls++
		panic("boom")
	})
	settle(t, b, f, f, f)
	assert.Equal(t, breaker.Open, b.State())
	b.Reset()
	assert.Equal(t, 2, calls, "the next change is told again")
	assert.Contains(t, log.String(), `level=ERROR msg="surefoot: panic in a hook" provider=acme key="" from=closed to=open hook=OnStateChange panic=string`)
	assert.Contains(t, log.String(), `level=WARN msg="surefoot: circuit breaker state changed" provider=acme key="" from=closed to=open`)
	assert.Contains(t, log.String(), `level=INFO msg="surefoot: circuit breaker state changed" provider=acme key="" from=open to=closed`)
}

// A panic of the hook while another passes through is not taken for it.
func TestHookPanicsWithinPanic(t *testing.T) {
	b := hooked(t, smallPolicy(), nil, func(*breaker.Breaker, breaker.State, breaker.State) { panic("hook") })
	settle(t, b, f, f)
	p := admit(t, b)
	require.PanicsWithValue(t, "call", func() {
		defer p.Settle(f)
		panic("call")
	})
	assert.Equal(t, breaker.Open, b.State())
}

// A hook that ends its goroutine neither stops the deliveries nor keeps a
// probe's place when the caller settles in a defer.
func TestHookGoexit(t *testing.T) {
	var got []breaker.State
	b := hooked(t, smallPolicy(), nil, func(b *breaker.Breaker, _, to breaker.State) {
		got = append(got, to)
		if len(got) == 1 {
			b.Reset() // queued behind, by the goroutine that ends
		}
		runtime.Goexit()
	})
	apart := func(f func()) {
		var wg sync.WaitGroup
		wg.Go(f)
		wg.Wait()
	}
	apart(func() { b.ForceOpen(time.Nanosecond) })
	apart(func() { b.ForceOpen(time.Nanosecond) })
	time.Sleep(time.Millisecond)
	apart(func() {
		var p breaker.Permit
		defer p.Settle(n)
		_ = b.Admit(&p)
		t.Error("the hook has ended this goroutine")
	})
	assert.Equal(t, []breaker.State{breaker.Open, breaker.Closed, breaker.Open, breaker.HalfOpen}, got)
	assert.False(t, b.Snapshot().Probing)
}

type panicHandler struct{ slog.Handler }

func (panicHandler) Enabled(_ context.Context, _ slog.Level) bool  { return true }
func (panicHandler) Handle(_ context.Context, _ slog.Record) error { panic("handler") }

func TestLogHandlerPanics(t *testing.T) {
	var got []breaker.State
	b := hooked(t, smallPolicy(), slog.New(panicHandler{}), func(_ *breaker.Breaker, _, to breaker.State) { got = append(got, to) })
	b.ForceOpen(0)
	b.Reset()
	assert.Equal(t, []breaker.State{breaker.Open, breaker.Closed}, got)
}

// Memory stays bounded while a hook hangs: what is dropped is the oldest, and
// the log says how much.
func TestHookHangs(t *testing.T) {
	var log bytes.Buffer
	block, entered := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var got []breaker.State
	b := hooked(t, smallPolicy(), slog.New(slog.NewTextHandler(&log, nil)), func(_ *breaker.Breaker, _, to breaker.State) {
		got = append(got, to)
		once.Do(func() {
			close(entered)
			<-block
		})
	})
	var wg sync.WaitGroup
	wg.Go(func() { b.ForceOpen(0) })
	<-entered
	for range 3000 {
		b.Reset()
		b.ForceOpen(0)
	}
	close(block)
	wg.Wait()
	assert.Len(t, got, 1+4096)
	assert.Equal(t, breaker.Open, got[len(got)-1])
	assert.Equal(t, 1, strings.Count(log.String(), "dropped=1904"))
	pairs := slices.Collect(slices.Chunk(got[1:], 2))
	for _, p := range pairs {
		require.Equal(t, []breaker.State{breaker.Closed, breaker.Open}, p)
	}
}
