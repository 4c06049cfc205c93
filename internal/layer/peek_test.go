package layer_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/internal/layer"
)

// wire is a body as a connection gives it: pieces with waits before them, then
// end. Close ends a Read that waits, as in net/http.
type wire struct {
	steps []step
	end   error // nil: io.EOF
	hang  bool  // it never ends

	once   sync.Once
	closed chan struct{}
	mu     sync.Mutex
	busy   bool
	n      int // closes
}

type step struct {
	after time.Duration
	data  string
}

func newWire(steps ...step) *wire { return &wire{steps: steps, closed: make(chan struct{})} }

func (w *wire) enter(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if on && w.busy {
		panic("two Reads at a time")
	}
	w.busy = on
}

func (w *wire) Read(p []byte) (int, error) {
	w.enter(true)
	defer w.enter(false)
	for {
		if len(w.steps) == 0 {
			if w.hang {
				<-w.closed
				return 0, errClosed
			}
			if w.end != nil {
				return 0, w.end
			}
			return 0, io.EOF
		}
		s := &w.steps[0]
		if s.after > 0 {
			timer := time.NewTimer(s.after)
			defer timer.Stop()
			select {
			case <-timer.C:
				s.after = 0
			case <-w.closed:
				return 0, errClosed
			}
		}
		select {
		case <-w.closed:
			return 0, errClosed
		default:
		}
		n := copy(p, s.data)
		if s.data = s.data[n:]; s.data == "" {
			w.steps = w.steps[1:]
		}
		if n > 0 {
			return n, nil
		}
	}
}

func (w *wire) Close() error {
	w.mu.Lock()
	w.n++
	w.mu.Unlock()
	w.once.Do(func() { close(w.closed) })
	return nil
}

func (w *wire) closes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

var errClosed = errors.New("use of closed network connection")

func answer(body io.ReadCloser, length int64) *http.Response {
	return &http.Response{StatusCode: 503, Body: body, ContentLength: length, Header: http.Header{}}
}

const text = `{"error":{"message":"the model is not available"}}`

// A body that comes back is the one that came, however it was cut and wherever
// it was slow, and no timer of ours ends it.
func TestPeekLeavesTheAnswerWhole(t *testing.T) {
	t.Parallel()
	for _, length := range []int64{-1, 0, int64(len(text))} {
		for cut := range len(text) + 1 {
			for _, slow := range []time.Duration{0, time.Millisecond, 99 * time.Millisecond, 100 * time.Millisecond, 101 * time.Millisecond, time.Hour} {
				synctest.Test(t, func(t *testing.T) {
					w := newWire(step{0, text[:cut]}, step{slow, text[cut:]})
					resp := answer(w, length)
					start := time.Now()
					p := layer.Peek(resp, layer.PeekBytes, 100*time.Millisecond)
					assert.LessOrEqual(t, time.Since(start), 100*time.Millisecond)
					head := string(p.Head())
					assert.True(t, strings.HasPrefix(text, head))
					assert.GreaterOrEqual(t, len(head), cut)
					if slow < 100*time.Millisecond {
						assert.Equal(t, text, head)
						assert.True(t, p.Whole())
					}
					got, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.Equal(t, text, string(got))
					assert.Zero(t, w.closes())
					require.NoError(t, resp.Body.Close())
					require.NoError(t, resp.Body.Close())
					assert.Equal(t, 1, w.closes())
				})
			}
		}
	}
}

func TestPeekOneByteAtATime(t *testing.T) {
	t.Parallel()
	for _, pace := range []time.Duration{time.Millisecond, 10 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var steps []step
			for i := range len(text) {
				steps = append(steps, step{pace, text[i : i+1]})
			}
			resp := answer(newWire(steps...), -1)
			layer.Peek(resp, layer.PeekBytes, 100*time.Millisecond)
			got, err := io.ReadAll(iotest.OneByteReader(resp.Body))
			require.NoError(t, err)
			assert.Equal(t, text, string(got))
			assert.Equal(t, pace*time.Duration(len(text)), time.Since(start(t)).Round(time.Millisecond))
			require.NoError(t, resp.Body.Close())
		})
	}
}

// start is when a bubble's clock begins.
func start(t *testing.T) time.Time {
	t.Helper()
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
}

func TestPeekIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 10_000)
	for _, length := range []int64{-1, int64(len(long))} {
		for _, limit := range []int{0, 1, 511, 512, 513, 4096, layer.PeekBytes} {
			synctest.Test(t, func(t *testing.T) {
				resp := answer(newWire(step{0, long}), length)
				p := layer.Peek(resp, limit, time.Second)
				assert.Equal(t, long[:limit], string(p.Head()))
				assert.False(t, p.Whole())
				got, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.Equal(t, long, string(got))
				require.NoError(t, resp.Body.Close())
			})
		}
	}
}

func TestPeekGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		resp := answer(newWire(step{0, "ab"}, step{300 * time.Millisecond, "cd"}, step{300 * time.Millisecond, "ef"}, step{0, "gh"}), -1)
		first := layer.Peek(resp, 100, 100*time.Millisecond)
		assert.Equal(t, "ab", string(first.Head()))
		second := layer.Peek(resp, 100, 100*time.Millisecond)
		assert.Same(t, first, second)
		assert.Equal(t, "ab", string(second.Head()), "the Read of the first look is still under way")
		assert.Equal(t, "abcd", string(layer.Peek(resp, 100, 200*time.Millisecond).Head()))
		assert.Equal(t, "abcd", string(layer.Peek(resp, 3, time.Hour).Head()), "enough is there")
		third := layer.Peek(resp, 100, time.Second)
		assert.Equal(t, "abcdefgh", string(third.Head()))
		assert.True(t, third.Whole())
		assert.True(t, third.InMemory())
		assert.Equal(t, 600*time.Millisecond, time.Since(start(t)))
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "abcdefgh", string(got))
		require.NoError(t, resp.Body.Close())
	})
}

func TestPeekPassesTheEndOn(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset")
	for name, late := range map[string]time.Duration{"within the look": 0, "after it": time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWire(step{0, text}, step{late, "!"})
				w.end = reset
				resp := answer(w, -1)
				p := layer.Peek(resp, layer.PeekBytes, time.Second)
				assert.False(t, p.Whole())
				got, err := io.ReadAll(resp.Body)
				require.ErrorIs(t, err, reset)
				assert.Equal(t, text+"!", string(got))
				require.NoError(t, resp.Body.Close())
			})
		})
	}
}

// Close may come at any time, also beside a Read, which then returns.
func TestCloseOfAPeekedBody(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Duration{0, 1, 49, 50, 51, 99, 100, 101, 149, 150, 151, 400} {
		at *= time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			w := newWire(step{50 * time.Millisecond, "a"}, step{100 * time.Millisecond, "b"})
			w.hang = true
			resp := answer(w, 100)
			layer.Peek(resp, layer.PeekBytes, 20*time.Millisecond)
			var wg sync.WaitGroup
			wg.Go(func() {
				_, err := io.ReadAll(resp.Body)
				assert.Error(t, err)
			})
			time.Sleep(at)
			require.NoError(t, resp.Body.Close())
			wg.Wait()
			synctest.Wait() // the goroutine of the look is gone
			_, err := resp.Body.Read(make([]byte, 1))
			require.ErrorIs(t, err, http.ErrBodyReadAfterClose)
			assert.Equal(t, 1, w.closes())
		})
	}
}

func TestPeekOfABodyThatIsNeverRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(step{time.Minute, "late"})
		resp := answer(w, -1)
		assert.Empty(t, layer.Peek(resp, layer.PeekBytes, time.Second).Head())
		require.NoError(t, resp.Body.Close())
		synctest.Wait()
		assert.Equal(t, time.Second, time.Since(start(t)))
	})
}

func TestPeekOfNothing(t *testing.T) {
	t.Parallel()
	for _, body := range []io.ReadCloser{nil, http.NoBody} {
		resp := answer(body, 100) // as the answer to a HEAD
		p := layer.Peek(resp, layer.PeekBytes, time.Second)
		assert.Empty(t, p.Head())
		assert.True(t, p.Whole())
		assert.Equal(t, body, resp.Body)
		layer.Keep(resp, time.Second)
		assert.Equal(t, body, resp.Body)
		layer.Drain(resp, time.Second)
	}
}

// memory is a body that says that no Read of it waits.
type memory struct {
	io.Reader
	closing
}

func (*memory) InMemory() bool               { return true }
func (m *memory) Read(p []byte) (int, error) { return m.Reader.Read(p) }

func TestPeekOfMemoryStartsNoGoroutine(t *testing.T) {
	t.Parallel()
	id := func() string {
		b := make([]byte, 64)
		return strings.Fields(string(b[:runtime.Stack(b, false)]))[1]
	}
	var reader string
	m := &memory{Reader: readFunc(func(p []byte) (int, error) {
		reader = id()
		return copy(p, "x"), io.EOF
	})}
	resp := answer(m, -1)
	p := layer.Peek(resp, 10, time.Second)
	assert.Equal(t, "x", string(p.Head()))
	assert.Equal(t, id(), reader)
	require.NoError(t, resp.Body.Close())
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestPeekOfAReaderThatReturnsNothing(t *testing.T) {
	t.Parallel()
	body := &closing{Reader: readFunc(func([]byte) (int, error) { return 0, nil })}
	resp := answer(body, -1)
	layer.Peek(resp, 10, time.Hour)
	_, err := io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrNoProgress)
	layer.Drain(resp, time.Hour)
	assert.Equal(t, 1, body.closes())

	body = &closing{Reader: readFunc(func([]byte) (int, error) { return 0, nil })}
	layer.Drain(answer(body, -1), time.Hour)
	assert.Equal(t, 1, body.closes())
}

// A panic of a body reaches who reads it, though another goroutine met it, and
// leaves nothing open.
func TestPeekPassesAPanicOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		body := &closing{Reader: panicking{}}
		resp := answer(body, -1)
		assert.PanicsWithValue(t, "oops", func() { layer.Peek(resp, 10, time.Second) })
		assert.Equal(t, 1, body.closes())

		body = &closing{Reader: readFunc(func([]byte) (int, error) { time.Sleep(time.Minute); panic("late") })}
		resp = answer(body, -1)
		layer.Peek(resp, 10, time.Second)
		assert.PanicsWithValue(t, "late", func() { _, _ = resp.Body.Read(make([]byte, 1)) })
		assert.Equal(t, 1, body.closes())
		_, err := resp.Body.Read(make([]byte, 1))
		require.Error(t, err)

		body = &closing{Reader: readFunc(func([]byte) (int, error) { runtime.Goexit(); return 0, nil })}
		returned, deferred := false, false
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { deferred = true }()
			layer.Peek(answer(body, -1), 10, time.Second)
			returned = true
		}()
		<-done
		assert.False(t, returned)
		assert.True(t, deferred)
		assert.Equal(t, 1, body.closes())

		body = &closing{Reader: panicking{}}
		assert.PanicsWithValue(t, "oops", func() { layer.Drain(answer(body, -1), time.Second) })
		assert.Equal(t, 1, body.closes())
	})
}

func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 1<<20)
	for name, tc := range map[string]struct {
		body   *wire
		length int64
		wait   time.Duration
		took   time.Duration
		left   bool // not read to its end
	}{
		"a small body":       {newWire(step{0, text}), -1, time.Second, 0, false},
		"exactly the limit":  {newWire(step{0, huge[:layer.DrainBytes]}), layer.DrainBytes, time.Second, 0, false},
		"a long body":        {newWire(step{0, huge}), -1, time.Second, 0, true},
		"a long declaration": {newWire(step{time.Hour, huge}), 1 << 20, time.Second, 0, true},
		"a slow body":        {newWire(step{0, "a"}, step{time.Hour, "b"}), -1, time.Second, time.Second, true},
		"no time":            {newWire(step{0, "a"}, step{time.Hour, "b"}), -1, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, peek := range []time.Duration{-1, 0, 100 * time.Millisecond} {
				synctest.Test(t, func(t *testing.T) {
					w := newWire(tc.body.steps...)
					w.steps = append([]step(nil), tc.body.steps...)
					resp := answer(w, tc.length)
					if peek >= 0 {
						layer.Peek(resp, 10, peek)
					}
					begun := time.Now()
					layer.Drain(resp, tc.wait)
					assert.Equal(t, tc.took, time.Since(begun))
					synctest.Wait()
					assert.Equal(t, 1, w.closes())
					assert.Equal(t, tc.left, len(w.steps) > 0)
				})
			}
		})
	}
}

// What is kept of a dropped answer is its status, its headers and 64 KiB, off
// the connection.
func TestKeep(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 1<<20)
	reset := errors.New("connection reset")
	for name, tc := range map[string]struct {
		steps  []step
		end    error
		length int64
		want   string
		err    error
		now    int64 // the length that the answer has then
		took   time.Duration
	}{
		"a whole body":            {[]step{{0, text}}, nil, -1, text, nil, -1, 0},
		"a declared body":         {[]step{{0, text}}, nil, int64(len(text)), text, nil, int64(len(text)), 0},
		"a body that came slowly": {[]step{{0, text[:9]}, {200 * time.Millisecond, text[9:]}}, nil, -1, text, nil, -1, 200 * time.Millisecond},
		"a body that hangs":       {[]step{{0, text[:9]}, {time.Hour, text[9:]}}, nil, int64(len(text)), text[:9], nil, 9, layer.DrainTime},
		"a long body":             {[]step{{0, huge}}, nil, int64(len(huge)), huge[:layer.PeekBytes], nil, layer.PeekBytes, 0},
		"a body that broke":       {[]step{{0, text[:9]}}, reset, int64(len(text)), text[:9], reset, int64(len(text)), 0},
		"nothing within the time": {[]step{{time.Hour, text}}, nil, -1, "", nil, 0, layer.DrainTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, peek := range []int{-1, 0, 5, layer.PeekBytes} {
				synctest.Test(t, func(t *testing.T) {
					w := newWire(append([]step(nil), tc.steps...)...)
					w.end = tc.end
					resp := answer(w, tc.length)
					resp.Header["Content-Length"] = []string{strconv.FormatInt(tc.length, 10)}
					header := resp.Header
					if peek >= 0 {
						layer.Peek(resp, peek, 0)
					}
					layer.Keep(resp, layer.DrainTime)
					assert.Equal(t, tc.took, time.Since(start(t)))
					synctest.Wait()
					assert.Equal(t, 1, w.closes(), "the connection is free")
					got, err := io.ReadAll(resp.Body)
					require.ErrorIs(t, err, tc.err)
					require.Equal(t, tc.want, string(got))
					assert.Equal(t, tc.now, resp.ContentLength)
					assert.Equal(t, strconv.FormatInt(tc.now, 10), resp.Header.Get("Content-Length"))
					assert.Equal(t, strconv.FormatInt(tc.length, 10), header.Get("Content-Length"), "the base may share its map")
					require.NoError(t, resp.Body.Close())
				})
			}
		})
	}
}

func TestDroppedBuffersAreNotShared(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				want := strings.Repeat(fmt.Sprintf("%d-%d,", g, i), 100)
				resp := answer(&closing{Reader: iotest.HalfReader(strings.NewReader(want))}, -1)
				layer.Peek(resp, layer.PeekBytes, time.Hour)
				if i%2 == 0 {
					layer.Keep(resp, time.Hour)
				}
				if i%3 == 0 {
					layer.Drain(resp, time.Hour)
					continue
				}
				got, err := io.ReadAll(resp.Body)
				assert.NoError(t, err)
				assert.True(t, bytes.Equal([]byte(want), got))
				assert.NoError(t, resp.Body.Close())
			}
		})
	}
	wg.Wait()
}
