package streamguard_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience/ending"
	sg "github.com/surefoot-go/surefoot/streamguard"
)

// badClose is a body whose Close works and then panics.
type badClose struct{ *scripted }

func (b badClose) Close() error {
	_ = b.scripted.Close()
	panic("close")
}

// A timer's goroutine has nobody above it who could recover.
func TestACloseThatPanicsOnTheIdleTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, err := io.ReadAll(idleOver(t, badClose{script(part{data: "a"}, part{hang: true})}))
		var timeout *ending.TimeoutError
		require.ErrorAs(t, err, &timeout)
	})
}

// The guard's own idle timeout holds over an unmasker that has none below.
func TestTheGuardsIdleTimeoutOverABareUnmasker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		guard := &sg.Guard{
			Base:   &sg.Unmasker{Base: sse(part{data: C("a")}, part{hang: true}), KeepStreams: true},
			Policy: idle200,
		}
		resp, err := guard.RoundTrip(streamCall(t, chatPath))
		require.NoError(t, err)
		start := time.Now()
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, resp.Body.Close())
		aborted(t, string(got), C("a"))
		var timeout *ending.TimeoutError
		require.ErrorAs(t, err, &timeout)
		assert.Equal(t, 200*time.Millisecond, time.Since(start))
	})
}

// A data event that is too large to be held restarts event_timeout while it is
// under way.
func TestALargeEventUnderWayIsNoSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := []part{{data: C("a")}, {data: `data: {"choices":[{"index":0,"delta":{"content":"`}}
		for range 12 {
			parts = append(parts, part{wait: 100 * time.Millisecond, data: strings.Repeat("x", 80<<10)})
		}
		parts = append(parts, part{data: `"},"finish_reason":null}]}` + "\n\n" + F("stop") + DONE})
		r := stack(sse(parts...), sg.Policy{EventTimeout: 300 * time.Millisecond})
		_, _, err := r.readAll(t, streamCall(t, chatPath))
		require.NoError(t, err)
		end := r.end(t)
		assert.True(t, end.Complete)
		assert.True(t, end.Stream)
	})
}
