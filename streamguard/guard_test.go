package streamguard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience/ending"
	sg "github.com/surefoot-go/surefoot/streamguard"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

func TestLenient(t *testing.T) {
	run := func(parts ...part) (string, *rig, error) {
		r := stack(sse(parts...), sg.Policy{})
		r.guard.Lenient = func(*http.Request) bool { return true }
		_, got, err := r.readAll(t, streamCall(t, chatPath))
		return got, r, err
	}
	got, r, err := run(part{data: C("a")})
	require.NoError(t, err)
	assert.Equal(t, C("a"), got)
	assert.True(t, r.end(t).Complete)
	_, _, err = run(part{data: role})
	require.ErrorIs(t, err, sg.ErrIncomplete)
	_, _, err = run(part{data: C("a"), err: io.ErrUnexpectedEOF})
	require.ErrorIs(t, err, sg.ErrIncomplete)
}

func TestCancelledCalls(t *testing.T) {
	why := errors.New("caller's reason")
	start := func(t *testing.T, parts ...part) (*rig, *http.Response, context.CancelCauseFunc, error) {
		ctx, cancel := context.WithCancelCause(t.Context())
		r := stack(sse(parts...), idle200)
		resp, err := r.guard.RoundTrip(request(t, ctx, chatPath, `{"stream":true}`))
		return r, resp, cancel, err
	}
	t.Run("in the stream", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, resp, cancel, err := start(t, part{data: C("a") + "data: {"}, part{hang: true})
			require.NoError(t, err)
			time.AfterFunc(time.Millisecond, func() { cancel(why) })
			got, err := io.ReadAll(resp.Body)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, why)
			require.NotErrorIs(t, err, sg.ErrIncomplete)
			assert.Equal(t, C("a"), string(got))
			require.NoError(t, resp.Body.Close())
			assert.True(t, r.end(t).Closed)
		})
	})
	t.Run("ends as a clean EOF", func(t *testing.T) {
		r, resp, cancel, err := start(t, part{data: C("a")})
		require.NoError(t, err)
		cancel(why)
		pr := resp.Body
		_, err = io.ReadAll(pr)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, resp.Body.Close())
		assert.True(t, r.end(t).Closed)
	})
	t.Run("a deadline is not the caller's will", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			r := stack(sse(part{data: C("a")}, part{hang: true}), idle200)
			_, got, err := r.readAll(t, request(t, ctx, chatPath, `{"stream":true}`))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, sg.ErrIncomplete)
			assert.Equal(t, C("a"), got)
			assert.False(t, r.end(t).Closed)
			require.ErrorIs(t, r.end(t).Err, context.DeadlineExceeded)
		})
	})
	t.Run("while held back, or read whole", func(t *testing.T) {
		for _, label := range []string{"text/event-stream", "application/json"} {
			for _, body := range []string{": x\n\n", `{"choices":`} {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancelCause(t.Context())
					r := stack(answer(label, script(part{data: body}, part{hang: true})), sg.Policy{})
					time.AfterFunc(time.Millisecond, func() { cancel(why) })
					_, _, err := r.readAll(t, request(t, ctx, chatPath, `{"stream":true}`))
					require.ErrorIs(t, err, context.Canceled)
					require.ErrorIs(t, err, why)
					assert.Empty(t, r.ends)
					assert.Empty(t, r.reports)
				})
			}
		}
	})
}

func TestCloseBesideRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := script(part{data: C("a")}, part{hang: true})
		r := stack(answer("text/event-stream", body), sg.DefaultPolicy())
		resp, err := r.guard.RoundTrip(streamCall(t, chatPath))
		require.NoError(t, err)
		done := make(chan error)
		go func() {
			_, err := io.ReadAll(resp.Body)
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, resp.Body.Close())
		require.ErrorIs(t, <-done, http.ErrBodyReadAfterClose)
		assert.True(t, r.end(t).Closed)
	})
}

func TestPanics(t *testing.T) {
	t.Run("hooks", func(t *testing.T) {
		bad := func() { panic("hook") }
		g := &sg.Guard{
			Base:    &sg.Unmasker{Base: &sg.Idle{Base: sse(whole(C("a"), DONE)...)}, KeepStreams: true},
			OnFirst: func(*http.Request) { bad() }, OnEnd: func(*http.Request, sg.End) { bad() },
		}
		resp, err := g.RoundTrip(streamCall(t, chatPath))
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		u := &sg.Unmasker{Base: answer("", pieces(OKJSON)), OnVerdict: func(*http.Request, *http.Response, sg.Report) { bad() }}
		resp, err = u.RoundTrip(plainCall(t, chatPath))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	})
	t.Run("read", func(t *testing.T) {
		r := stack(answer("text/event-stream", &panicky{data: C("a")}), sg.Policy{})
		resp, err := r.guard.RoundTrip(streamCall(t, chatPath))
		require.NoError(t, err)
		require.PanicsWithValue(t, "read", func() { _, _ = io.ReadAll(resp.Body) })
		require.Error(t, r.end(t).Err)
		assert.False(t, r.end(t).Closed)
		_, err = resp.Body.Read(make([]byte, 10))
		require.Error(t, err)
		require.PanicsWithValue(t, "close", func() { _ = resp.Body.Close() })
		require.Len(t, r.ends, 1)
	})
	t.Run("close", func(t *testing.T) {
		r := stack(answer("text/event-stream", &panicky{data: C("a")}), sg.Policy{})
		resp, err := r.guard.RoundTrip(streamCall(t, chatPath))
		require.NoError(t, err)
		require.PanicsWithValue(t, "close", func() { _ = resp.Body.Close() })
		require.Error(t, r.end(t).Err)
	})
	t.Run("held back", func(t *testing.T) {
		p := &panicky{data: ": x\n\n", quiet: true}
		r := stack(answer("text/event-stream", p), sg.Policy{FirstEventTimeout: time.Hour})
		require.PanicsWithValue(t, "read", func() { _, _ = r.guard.RoundTrip(streamCall(t, chatPath)) }) //nolint:bodyclose // none
		assert.True(t, p.closed)
		assert.Empty(t, r.ends)
	})
}

// panicky sends its data and then panics.
type panicky struct {
	data          string
	quiet, closed bool
}

func (p *panicky) Read(b []byte) (int, error) {
	if p.data == "" {
		panic("read")
	}
	n := copy(b, p.data)
	p.data = p.data[n:]
	return n, nil
}

func (p *panicky) Close() error {
	if p.closed = true; !p.quiet {
		panic("close")
	}
	return nil
}

func TestGuardAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // with its own idle timeout
		g := &sg.Guard{Base: sse(part{data: C("a")}, part{hang: true}), Policy: idle200}
		resp, err := g.RoundTrip(streamCall(t, chatPath))
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		var timeout *ending.TimeoutError
		require.ErrorAs(t, err, &timeout)
		require.NoError(t, resp.Body.Close())
	})
	// What is no stream and was not asked to be is the unmasker's business.
	g := &sg.Guard{Base: answer("application/json", pieces(`{"error":`, `{"code":429}}`)), Call: above{Request: wire.Request{Format: wire.Chat}}.call}
	resp, err := g.RoundTrip(plainCall(t, chatPath))
	require.NoError(t, err)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 200, resp.StatusCode)
	assert.JSONEq(t, `{"error":{"code":429}}`, string(got))
}

func TestContentLengthOfAStream(t *testing.T) {
	data := C("a")
	r := stack(&fixedBody{"text/event-stream", []byte(data), false}, sg.Policy{})
	resp, err := r.guard.RoundTrip(streamCall(t, chatPath))
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.EqualValues(t, -1, resp.ContentLength)
	assert.Empty(t, resp.Header.Get("Content-Length"))
}

func TestFormatWithoutAnEndMark(t *testing.T) {
	const url = "http://up/v1/embeddings"
	data := "data: {\"object\":\"embedding\",\"index\":0}\n\n"
	complete(t, url, data+data)
	got, r, err := stream(t, url, sg.Policy{}, part{data: data, err: errReset})
	require.True(t, strings.HasPrefix(got, data))
	incomplete(t, r, err, errReset, 1)
	r = stack(sse(part{data: data}, part{hang: true}), sg.Policy{})
	resp, err := r.guard.RoundTrip(streamCall(t, url))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.True(t, r.end(t).Closed)
}

func TestAppendedEventStandsAlone(t *testing.T) {
	big := `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("A", 100<<10) + `"}}]`
	for name, tail := range map[string]string{
		"whole line": "}", "LF": "}\n", "CR": "}\r", "CR LF": "}\r\n", "in the value": "", "next line": "}\ndata: 1", "next line CR": "}\ndata: 1\r",
	} {
		for _, head := range []string{"", C("a"), strings.ReplaceAll(C("a"), "\n", "\r\n"), strings.ReplaceAll(C("a"), "\n", "\r")} {
			data := head + big + tail
			for _, rd := range []io.Reader{strings.NewReader(data), &sized{data: []byte(data), n: 1000, end: io.EOF}} {
				r := stack(answer("text/event-stream", io.NopCloser(rd)), sg.Policy{})
				_, got, err := r.readAll(t, streamCall(t, chatPath))
				require.ErrorIs(t, err, sg.ErrIncomplete, name)
				require.True(t, strings.HasPrefix(got, data), name)
				lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(got), "\n")
				require.Empty(t, lines[len(lines)-4], "%s: %q", name, got[len(got)-300:])
				require.Contains(t, lines[len(lines)-3], "stream_incomplete")
			}
		}
	}
}

func TestMalformedChunks(t *testing.T) {
	for _, bad := range []string{"data: {\"choices\":[}\n\n", "data: {\n\n", "data: [1,\n\n", "data: {}{}\n\n"} {
		for _, parts := range [][]part{whole(C("a") + C("b") + bad + C("c") + DONE), whole(C("a"), C("b"), bad, C("c"), DONE)} {
			body := script(append(parts, part{hang: true})...)
			r := stack(answer("text/event-stream", body), sg.Policy{})
			_, got, err := r.readAll(t, streamCall(t, chatPath))
			aborted(t, got, C("a")+C("b"))
			var inc *sg.IncompleteError
			require.ErrorAs(t, err, &inc)
			assert.Equal(t, sg.ReasonMalformed, inc.Reason)
			assert.Equal(t, 2, inc.Events)
			assert.True(t, body.isClosed())
			require.ErrorIs(t, r.end(t).Err, sg.ErrIncomplete)
		}
		got, r, err := stream(t, chatPath, sg.Policy{}, part{data: C("a") + F("stop") + bad + DONE})
		require.NoError(t, err, "after its end")
		assert.Equal(t, C("a")+F("stop"), got)
		assert.True(t, r.end(t).Complete)
	}
}

func TestLargeStreamTakesLittleMemory(t *testing.T) {
	data := `data: {"x":"` + strings.Repeat("A", 16<<20) + `"}` + "\n\n" + C("a") + DONE
	var peak uint64
	for _, size := range []int{1, 32 << 10} {
		r := stack(sse(part{data: data}), sg.Policy{})
		resp, err := r.guard.RoundTrip(streamCall(t, chatPath))
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p := make([]byte, size)
		for n := 0; n < 3<<20; {
			k, err := resp.Body.Read(p)
			require.NoError(t, err)
			if n += k; size == 1 && n > 100<<10 {
				break
			}
		}
		runtime.ReadMemStats(&after)
		peak = max(peak, after.TotalAlloc-before.TotalAlloc)
		require.NoError(t, resp.Body.Close())
	}
	assert.Less(t, peak, uint64(2<<20))
}
