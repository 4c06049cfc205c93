package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	anthropicsse "github.com/anthropics/anthropic-sdk-go/packages/ssestream"
	openaisse "github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/surefoot-go/surefoot/streamguard"
)

const streamEvents = 10_000

// chatStream is 2.5 MB.
func chatStream(events int) []byte {
	var b bytes.Buffer
	for i := range events {
		fmt.Fprintf(&b, `data: {"id":"chatcmpl-9f8e7d6c5b4a","object":"chat.completion.chunk","created":1764460800,"model":"gpt-test-2026",`+
			`"system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":" token%05d of it"},"logprobs":null,"finish_reason":null}]}`+"\n\n", i)
	}
	b.WriteString(`data: {"id":"chatcmpl-9f8e7d6c5b4a","object":"chat.completion.chunk","created":1764460800,"model":"gpt-test-2026",` +
		`"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
	return b.Bytes()
}

// variedStream is a chat stream of the same length in which no event has much
// in common with the one before: identifiers, times and padding differ, and the
// texts have escapes. Nothing that is remembered of one event helps with the
// next.
func variedStream(events int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for i := range events {
		fmt.Fprintf(&b, `data: {"id":"chatcmpl-%012x","object":"chat.completion.chunk","created":%d,"model":"gpt-test-2026","system_fingerprint":"fp_%010x",`+
			`"choices":[{"index":0,"delta":{"content":" token\n\u00e9%05d"},"logprobs":null,"finish_reason":null}],"obfuscation":"%s"}`+"\n\n",
			r.Uint64()>>16, r.Uint32(), r.Uint64()>>24, i, strings.Repeat("x", r.IntN(16)))
	}
	b.WriteString(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
	return b.Bytes()
}

// messagesStream is as long, in the other format: its events are smaller, so
// that each says more.
func messagesStream(events int) []byte {
	var b bytes.Buffer
	event := func(name, data string) { fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", name, data) }
	event("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"claude-test",`+
		`"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}`)
	event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	for i := range events {
		event("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" token%05d of it%0107d"}}`, i, i))
	}
	event("content_block_stop", `{"type":"content_block_stop","index":0}`)
	event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":10000}}`)
	event("message_stop", `{"type":"message_stop"}`)
	return b.Bytes()
}

func eventStream(req *http.Request, body io.Reader) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(body), ContentLength: -1, Request: req,
	}
}

// streaming answers every request with data.
func streaming(data []byte) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		_ = req.Body.Close()
		return eventStream(req, bytes.NewReader(data)), nil
	})
}

// newGuard is the guard and the idle timeout, without the rest of the stack.
func newGuard(base http.RoundTripper) http.RoundTripper {
	p := streamguard.DefaultPolicy()
	return &streamguard.Guard{
		Base:   &streamguard.Idle{Base: base, Timeout: p.IdleTimeout},
		Policy: p, Provider: "acme", OnEnd: func(*http.Request, streamguard.End) {},
	}
}

func streamRequest() *http.Request {
	const body = `{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	req := must(http.NewRequestWithContext(context.Background(), http.MethodPost, chatURL, bytes.NewReader([]byte(body))))
	req.Header.Set("Content-Type", "application/json")
	return req
}

// relayed reads a whole stream through rt as a proxy or an SDK does, 32 KiB at
// a time.
func relayed(rt http.RoundTripper, size int) func(b *testing.B) {
	return func(b *testing.B) {
		buf := make([]byte, 32<<10)
		for b.Loop() {
			resp, err := rt.RoundTrip(streamRequest())
			if err != nil {
				b.Fatal(err)
			}
			n, err := drain(resp.Body, buf)
			if cerr := resp.Body.Close(); n != size || err != io.EOF || cerr != nil {
				b.Fatal(n, err, cerr)
			}
		}
	}
}

// lookAtLines copies the stream and finds every line: a floor.
func lookAtLines(data []byte) func(b *testing.B) {
	return func(b *testing.B) {
		buf := make([]byte, 32<<10)
		for b.Loop() {
			r, lines := bytes.NewReader(data), 0
			for {
				n, err := r.Read(buf)
				lines += bytes.Count(buf[:n], []byte("\n"))
				if err == io.EOF {
					break
				}
			}
			if lines < streamEvents {
				b.Fatal(lines)
			}
		}
	}
}

// drain reads body up to its error, the good one being io.EOF; n is how much
// there was.
func drain(body io.Reader, buf []byte) (n int, err error) {
	for err == nil {
		var k int
		k, err = body.Read(buf)
		n += k
	}
	return n, err
}

func streamSection() *section {
	chat, varied, messages := chatStream(streamEvents), variedStream(streamEvents), messagesStream(streamEvents)
	guard, stack := newGuard(streaming(chat)), newStack(streaming(chat))
	const typed, ours = "openai-go, typed", "surefoot, guard and idle timeout"
	const typedVaried, oursVaried = typed + ", every event different", ours + ", every event different"
	return &section{
		title: "A stream of 10,000 chat events from memory",
		note: fmt.Sprintf("%.2f MB; for anthropic-sdk-go typed, %.2f MB of as many messages events. The guard checks every event for validity, content, end and error. "+
			"It is much faster where events differ in their text alone; where each differs all over (%.2f MB), all of it is parsed. "+
			"Allocations are those of a whole call, the request's included.", float64(len(chat))/1e6, float64(len(messages))/1e6, float64(len(varied))/1e6),
		base: typed,
		rows: []*row{
			timed("copy and look at every line", lookAtLines(chat)),
			timed("bufio.Scanner, lines", scannedLines(chat)),
			timed("openai-go, decoder, nothing parsed", counted(func() events {
				return openaisse.NewDecoder(eventStream(nil, bytes.NewReader(chat))) //nolint:bodyclose // from memory
			})),
			timed("anthropic-sdk-go, decoder, nothing parsed", counted(func() events {
				return anthropicsse.NewDecoder(eventStream(nil, bytes.NewReader(chat))) //nolint:bodyclose // from memory
			})),
			timed("go-sse", goSSE(chat)),
			timed("anthropic-sdk-go, typed", anthropicStream(messages)),
			timed(typed, openAIStream(chat)),
			timed(typedVaried, openAIStream(varied)),
			timed(ours, relayed(guard, len(chat))),
			timed(oursVaried, relayed(newGuard(streaming(varied)), len(varied))),
			timed("surefoot, whole stack", relayed(stack, len(chat))),
		},
		targets: []target{
			ratio(ours, typed, 0.05, 0.025),
			ratio(oursVaried, typedVaried, 0.05, 0.025),
			ratio("surefoot, whole stack", typed, 0.05, 0.025),
			allocs(ours, 50),
			allocs(oursVaried, 50),
			allocs("surefoot, whole stack", 50),
			{
				what: "events that are not handed out with their last byte", limit: 0,
				of: func(round) float64 { return float64(late(chat)) },
			},
		},
	}
}

// late counts the events of a stream that the stack does not hand out as soon
// as their last byte has arrived, however they arrive: in two halves each.
func late(data []byte) int {
	src := &halves{data: data}
	resp, err := newStack(roundTrip(func(req *http.Request) (*http.Response, error) {
		_ = req.Body.Close()
		return eventStream(req, src), nil
	})).RoundTrip(streamRequest())
	if err != nil {
		return streamEvents
	}
	defer func() { _ = resp.Body.Close() }()
	buf, n, count := make([]byte, 32<<10), 0, 0
	for {
		k, err := resp.Body.Read(buf)
		n += k
		if k > 0 && n != src.whole {
			count++
		}
		if err != nil {
			if n != len(data) || !errors.Is(err, io.EOF) {
				return streamEvents
			}
			return count
		}
	}
}

// halves hands out a stream half an event a Read; whole is how many bytes of
// whole events are out.
type halves struct {
	data       []byte
	off, whole int
	second     bool
}

func (h *halves) Read(p []byte) (int, error) {
	if h.whole == len(h.data) {
		return 0, io.EOF
	}
	end := h.whole + bytes.Index(h.data[h.whole:], []byte("\n\n")) + 2
	to := h.whole + (end-h.whole)/2
	if h.second {
		to, h.whole = end, end
	}
	h.second = !h.second
	n := copy(p, h.data[h.off:to])
	h.off += n
	return n, nil
}
