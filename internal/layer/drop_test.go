package layer_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/internal/layer"
)

// badClose is a body whose Close works and then panics.
type badClose struct{ *wire }

func (b badClose) Close() error {
	_ = b.wire.Close()
	panic("close")
}

// A timer's goroutine has nobody above it who could recover: a Close that
// panics there would end the process.
func TestACloseThatPanicsOnATimer(t *testing.T) {
	t.Parallel()
	for name, drop := range map[string]func(*http.Response){
		"Drain": func(resp *http.Response) { layer.Drain(resp, time.Second) },
		"Keep":  func(resp *http.Response) { layer.Keep(resp, time.Second) },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(step{0, "a"}, step{time.Hour, "b"})
			drop(answer(badClose{w}, -1))
			synctest.Wait()
			assert.Equal(t, 1, w.closes(), name)
		})
	}
}

// Who abandons a body passes on what its Read panicked with.
func TestAbandonHidesWhatCloseDoes(t *testing.T) {
	t.Parallel()
	require.NotPanics(t, func() { layer.Abandon(func() error { panic("close") }) })
}

// A look whose time was over ends with the Read that was under way: what comes
// later goes to the reader as it comes.
func TestALookThatWasTooLongHoldsNothingBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(step{time.Second, "a"}, step{time.Second, "b"}, step{time.Hour, "c"})
		resp := answer(w, -1)
		start := time.Now()
		layer.Peek(resp, layer.PeekBytes, layer.PeekTime)
		require.Equal(t, layer.PeekTime, time.Since(start))
		buf := make([]byte, 8)
		for i, want := range []string{"a", "b"} {
			n, err := resp.Body.Read(buf)
			require.NoError(t, err)
			assert.Equal(t, want, string(buf[:n]))
			assert.Equal(t, time.Duration(i+1)*time.Second, time.Since(start))
		}
		require.NoError(t, resp.Body.Close())
	})
}

// A body of more than is kept, and not much more, is still read to its end: its
// connection stays in use. One that is longer is not worth it.
func TestKeepReadsALittleMoreThanItKeeps(t *testing.T) {
	t.Parallel()
	for size, left := range map[int]bool{
		layer.PeekBytes + layer.DrainBytes:     false,
		layer.PeekBytes + layer.DrainBytes + 1: true,
	} {
		w := newWire(step{0, string(make([]byte, size))})
		resp := answer(w, int64(size))
		layer.Keep(resp, time.Hour)
		assert.Equal(t, left, len(w.steps) > 0, size)
		assert.EqualValues(t, layer.PeekBytes, resp.ContentLength)
		require.NoError(t, resp.Body.Close())
	}
}
