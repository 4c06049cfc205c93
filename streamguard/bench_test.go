package streamguard_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	sg "github.com/surefoot-go/surefoot/streamguard"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

func chatStream(events int) []byte {
	var b bytes.Buffer
	for i := range events {
		fmt.Fprintf(&b, `data: {"id":"chatcmpl-9f8e7d6c5b4a","object":"chat.completion.chunk","created":1764460800,"model":"gpt-test-2026",`+
			`"system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":" token%05d of it"},"logprobs":null,"finish_reason":null}]}`+"\n\n", i)
	}
	b.WriteString(F("stop") + DONE)
	return b.Bytes()
}

// fixedBody answers with one body again and again.
type fixedBody struct {
	label string
	body  []byte
	one   bool // an event in each Read
}

func (f *fixedBody) RoundTrip(req *http.Request) (*http.Response, error) {
	var r io.Reader = bytes.NewReader(f.body)
	if f.one {
		r = &eventReader{b: f.body}
	}
	return &http.Response{
		Status: "200 OK", StatusCode: 200, Header: http.Header{"Content-Type": {f.label}},
		Body: io.NopCloser(r), ContentLength: int64(len(f.body)), Request: req,
	}, nil
}

type eventReader struct{ b []byte }

func (e *eventReader) Read(p []byte) (int, error) {
	if len(e.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, e.b[:bytes.Index(e.b, []byte("\n\n"))+2])
	e.b = e.b[n:]
	return n, nil
}

func benchRig(base http.RoundTripper, stream bool) *sg.Guard {
	var chat sg.Call = above{Request: wire.Request{Format: wire.Chat, Model: "m", Stream: stream}}
	call := func(*http.Request) sg.Call { return chat }
	return &sg.Guard{
		Base: &sg.Unmasker{
			Base: &sg.Idle{Base: base, Timeout: 300 * time.Second}, KeepStreams: true, Call: call,
		},
		Policy: sg.DefaultPolicy(), Call: call,
	}
}

// BenchmarkGuard relays a stream of 10,000 chat events, 2.5 MB, through guard,
// unmasker and idle timeout.
func BenchmarkGuard(b *testing.B) {
	data := chatStream(10_000)
	for _, c := range []struct {
		name string
		one  bool
		size int
	}{{"32KiB", false, 32 << 10}, {"4KiB", false, 4 << 10}, {"event_a_read", true, 32 << 10}} {
		b.Run(c.name, func(b *testing.B) {
			g := benchRig(&fixedBody{"text/event-stream", data, c.one}, true)
			req := request(b, context.Background(), chatPath, "{}")
			p := make([]byte, c.size)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				resp, err := g.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				for err == nil {
					var k int
					k, err = resp.Body.Read(p)
					n += k
				}
				if n != len(data) || err != io.EOF || resp.Body.Close() != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkUnmasker judges an answer of 1.5 KB.
func BenchmarkUnmasker(b *testing.B) {
	body := []byte(strings.Replace(OKJSON, `"hi"`, `"`+strings.Repeat("word ", 270)+`"`, 1))
	run := func(b *testing.B, rt http.RoundTripper) {
		req := request(b, context.Background(), chatPath, "{}")
		b.ReportAllocs()
		for b.Loop() {
			resp, err := rt.RoundTrip(req)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
				b.Fatal(err)
			}
			_ = resp.Body.Close()
		}
	}
	base := &fixedBody{"application/json", body, false}
	b.Run("base", func(b *testing.B) { run(b, base) })
	b.Run("layers", func(b *testing.B) { run(b, benchRig(base, false)) })
}

// idleStreams opens n streams that have sent one event and wait, and returns
// the heap they take.
func idleStreams(tb testing.TB, n int, guarded bool) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	open := make([]*http.Response, n) // with their requests, as a caller holds them
	buf := make([]byte, 32<<10)
	event := C("a")
	var rt http.RoundTripper = roundTripper(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: &stuck{data: event}, ContentLength: -1, Request: req}, nil
	})
	if guarded {
		rt = benchRig(rt, true)
	}
	for i := range open {
		resp, err := rt.RoundTrip(request(tb, context.Background(), chatPath, "{}"))
		require.NoError(tb, err)
		_, err = io.ReadFull(resp.Body, buf[:len(event)])
		require.NoError(tb, err)
		// As a Read leaves it that waits: the timer exists, no byte is there.
		_, err = resp.Body.Read(buf)
		require.NoError(tb, err)
		open[i] = resp
	}
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	for _, resp := range open {
		_ = resp.Body.Close()
	}
	return float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)) / float64(n)
}

// stuck sends one event twice.
type stuck struct{ data string }

func (s *stuck) Read(p []byte) (int, error) { return copy(p, s.data), nil }
func (s *stuck) Close() error               { return nil }

// BenchmarkIdleStreams reports what an open stream that waits costs above the
// bare body, both layers.
func BenchmarkIdleStreams(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(idleStreams(b, 10_000, true)-idleStreams(b, 10_000, false), "B/stream")
	}
}

func TestIdleStreamMemory(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	cost := idleStreams(t, 2000, true) - idleStreams(t, 2000, false)
	require.Less(t, cost, 1500.0)
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
}

func TestGuardAllocations(t *testing.T) {
	data := chatStream(10_000)
	g := benchRig(&fixedBody{"text/event-stream", data, false}, true)
	req := request(t, context.Background(), chatPath, "{}")
	p := make([]byte, 256<<10) // the race detector has pools forget: few Reads
	n := testing.AllocsPerRun(10, func() {
		resp, _ := g.RoundTrip(req)
		for err := error(nil); err == nil; {
			_, err = resp.Body.Read(p)
		}
		_ = resp.Body.Close()
	})
	require.Less(t, n, 50.0)
}
