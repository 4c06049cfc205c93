package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// chatEvents is a stream of n events of about 250 bytes; extra is put behind
// the choices of each and can differ from event to event.
func chatEvents(n int, extra func(int) string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `data: {"id":"chatcmpl-AbCdEfGhIjKlMnOpQrStUvWxYz012","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-mini-2024-07-18","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":" word%d"},"logprobs":null,"finish_reason":null}]%s}`+"\n\n", i%10, extra(i))
	}
	return b.String() + fStop + done
}

func plainExtra(int) string { return "" }

func responsesEvents(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "event: response.output_text.delta\n"+`data: {"type":"response.output_text.delta","item_id":"msg_0123456789abcdef0123456789abcdef","output_index":0,"content_index":0,"delta":" word","logprobs":[],"obfuscation":"a%db","sequence_number":%d}`+"\n\n", i*7919, i)
	}
	return b.String() + "event: response.completed\n" + `data: {"type":"response.completed","response":{"status":"completed"}}` + "\n\n"
}

func messagesEvents(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "event: content_block_delta\n"+`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word%d"}}`+"\n\n", i)
	}
	return b.String() + "event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n"
}

func benchStream(b *testing.B, f *wire.Format, body string) {
	b.Helper()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	raw := []byte(body)
	for b.Loop() {
		s := f.NewStream(wire.StreamOptions{})
		for rest := raw; ; {
			n := s.Next(rest)
			if n == 0 {
				break
			}
			s.Event(rest[:n])
			rest = rest[n:]
		}
		if !s.Complete() {
			b.Fatal("not complete")
		}
	}
}

func BenchmarkChatStream(b *testing.B) {
	benchStream(b, wire.Chat, chatEvents(10000, plainExtra))
}

// Each event differs behind the content, so that each is parsed.
func BenchmarkChatStreamObfuscated(b *testing.B) {
	benchStream(b, wire.Chat, chatEvents(10000, func(i int) string { return fmt.Sprintf(`,"obfuscation":"%d"`, i*104729) }))
}

// What encoding/json takes for the validity of the same events alone.
func BenchmarkChatStreamObfuscatedJSONValid(b *testing.B) {
	body := []byte(chatEvents(10000, func(i int) string { return fmt.Sprintf(`,"obfuscation":"%d"`, i*104729) }))
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		for line := range bytes.Lines(body) {
			if data, ok := bytes.CutPrefix(line, []byte("data: {")); ok && !json.Valid(line[len("data: "):]) {
				b.Fatal(string(data))
			}
		}
	}
}

func BenchmarkResponsesStream(b *testing.B) {
	benchStream(b, wire.Responses, responsesEvents(10000))
}

func BenchmarkMessagesStream(b *testing.B) {
	benchStream(b, wire.Messages, messagesEvents(10000))
}

// chatAnswer is an answer of about size bytes.
func chatAnswer(size int) string {
	return `{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat(`some words of an answer, \"quoted\" at times.\n`, size/48) +
		`","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":300,"total_tokens":305}}`
}

func BenchmarkJudge(b *testing.B) {
	for _, size := range []int{1500, 64 << 10} {
		body := []byte(chatAnswer(size))
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if wire.Chat.Judge("p", "application/json", body).Failure != nil {
					b.Fatal("failure")
				}
			}
		})
		b.Run(fmt.Sprint("json.Valid/", size), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if !json.Valid(body) {
					b.Fatal("not valid")
				}
			}
		})
	}
}

func BenchmarkReadBody(b *testing.B) {
	body := `{"model":"gpt-4o-mini","stream":true,"messages":[{"role":"system","content":"` +
		strings.Repeat("You are a helpful assistant. ", 65) + `"},{"role":"user","content":"hi"}]}`
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var r wire.Request
		if err := r.ReadBody("application/json", strings.NewReader(body)); err != nil || !r.Stream {
			b.Fatal(err)
		}
	}
}
