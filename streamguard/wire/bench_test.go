package wire_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"net/http"
	"slices"
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

// vendorStreams are streams of n content events in the formats beside OpenAI's
// and Anthropic's; events differ in more than their text, where real ones do.
func vendorStreams(n int) map[string]struct {
	format *wire.Format
	body   string
} {
	var gemini, array, ollama, cohere, interactions, converse, invoke, dashscope strings.Builder
	for i := range n {
		g := fmt.Sprintf(`{"candidates": [{"content": {"parts": [{"text": " word%d"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 4,"candidatesTokenCount": %d,"totalTokenCount": %d},"modelVersion": "gemini-2.5-flash","responseId": "kYx1aIq2"}`, i%10, i, i+4)
		gemini.WriteString("data: " + g + "\r\n\r\n")
		array.WriteString(map[bool]string{true: "[", false: ",\r\n"}[i == 0] + g + "\n")
		fmt.Fprintf(&ollama, `{"model":"llama3.2","created_at":"2026-01-02T03:04:05.%06dZ","message":{"role":"assistant","content":" word%d"},"done":false}`+"\n", i, i%10)
		fmt.Fprintf(&cohere, "event: content-delta\ndata: "+`{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":" word%d"}}}}`+"\n\n", i%10)
		fmt.Fprintf(&interactions, "event: content.delta\ndata: "+`{"event_type":"content.delta","index":0,"delta":{"type":"text","text":" word%d"},"event_id":"e%d"}`+"\n\n", i%10, i)
		fmt.Fprintf(&dashscope, "id:%d\nevent:result\n:HTTP_STATUS/200\ndata:"+`{"output":{"finish_reason":"null","text":" word%d"},"usage":{"total_tokens":%d},"request_id":"r"}`+"\n\n", i, i%10, i)
		converse.Write(frame("contentBlockDelta", fmt.Sprintf(`{"contentBlockIndex":0,"delta":{"text":" word%d"},"p":"abcdefghijkl"}`, i%10)))
		inner := fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word%d"}}`, i%10)
		invoke.Write(frame("chunk", `{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(inner))+`","p":"abcdefghijkl"}`))
	}
	stop := `{"candidates":[{"finishReason":"STOP","index":0}]}`
	return map[string]struct {
		format *wire.Format
		body   string
	}{
		"gemini":           {wire.Gemini, gemini.String() + "data: " + stop + "\r\n\r\n"},
		"gemini array":     {wire.Gemini, array.String() + "," + stop + "]"},
		"ollama":           {wire.Ollama, ollama.String() + oDone},
		"cohere":           {wire.Cohere, cohere.String() + event("message-end", `{"type":"message-end","delta":{"finish_reason":"COMPLETE"}}`)},
		"interactions":     {wire.Interactions, interactions.String() + event("", `{"event_type":"interaction.completed"}`)},
		"bedrock converse": {wire.Bedrock, converse.String() + string(frame("messageStop", `{"stopReason":"end_turn"}`))},
		"bedrock invoke":   {wire.Bedrock, invoke.String() + string(frame("messageStop", `{"stopReason":"end_turn"}`))},
		"dashscope":        {wire.DashScope, dashscope.String() + event("", `{"output":{"text":"","finish_reason":"stop"}}`)},
	}
}

// frame is an event in a binary frame of Bedrock.
func frame(eventType, payload string) []byte {
	var head []byte
	for _, h := range [][2]string{{":event-type", eventType}, {":content-type", "application/json"}, {":message-type", "event"}} {
		head = append(append(head, byte(len(h[0]))), h[0]...)
		head = append(binary.BigEndian.AppendUint16(append(head, 7), uint16(len(h[1]))), h[1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(head)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(head)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, head...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func BenchmarkVendorStreams(b *testing.B) {
	streams := vendorStreams(10000)
	for _, name := range slices.Sorted(maps.Keys(streams)) {
		b.Run(name, func(b *testing.B) { benchStream(b, streams[name].format, streams[name].body) })
	}
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
				if wire.Chat.Judge(wire.Answer{Provider: "p", ContentType: "application/json"}, body).Failure != nil {
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

func BenchmarkReadContent(b *testing.B) {
	body := `{"model":"gpt-4o-mini","stream":true,"messages":[{"role":"system","content":"` +
		strings.Repeat("You are a helpful assistant. ", 65) + `"},{"role":"user","content":"hi"}]}`
	h, data := http.Header{"Content-Type": {"application/json"}}, []byte(body)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var r wire.Request
		c := wire.ReadContent(h, data)
		if r.Add(&c); !r.Stream {
			b.Fatal("no stream")
		}
	}
}
