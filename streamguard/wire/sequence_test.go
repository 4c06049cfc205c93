package wire_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// follow plays body; shortcut says whether an event that equals the one before
// but for its text may be told by that alone. It returns all that can be asked
// of the stream, after each event and at the end.
func follow(f *wire.Format, body string, shortcut bool) string {
	s := f.NewStream(wire.StreamOptions{})
	var log strings.Builder
	state := func(m wire.Mark) {
		fmt.Fprint(&log, m, s.Complete(), s.CompleteAtEOF(), s.Content(), s.Events(), s.Vague(), ";")
	}
	b := []byte(body)
	for n := s.Next(b); n > 0; n = s.Next(b) {
		if !shortcut {
			s.Forget()
		}
		state(s.Event(b[:n]))
		b = b[n:]
	}
	m, whole := s.Rest(b)
	state(m)
	if v := s.Failure(); v != nil {
		fmt.Fprintf(&log, "%d %s %s", v.Status, v.Code, v.Body)
	}
	fmt.Fprintf(&log, "%t %s", whole, s.Abort(502, "", "m"))
	return log.String()
}

// sequences are, by format, events that follow each other in any order.
var sequences = map[*wire.Format][]string{
	wire.Chat: {
		cHe, cLlo, cOne, fStop, fOne, uFrame, done, ": ping\n\n", event("", `{"choices":[{"index":0,"delta":{"content":"he"},"finish_reason":"stop"}]}`),
		event("", `{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`),
		event("", `{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"},"finish_reason":"stop"}]}`),
		event("", `{"error":{"code":429}}`), event("", "text"), event("ping", `{}`),
	},
	wire.Gemini: {
		event("", gText), event("", gStop), event("", strings.Replace(gText, `"index":0`, `"index":1`, 1)), event("", gUsage),
		event("", geminiBoth), event("", geminiOther), event("", strings.Replace(gText, `}],"role"`, `}],"role":"x","y"`, 1)),
		event("", `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP","index":1}]}`), event("", gBusy), done,
	},
	wire.Messages: {
		msStart, msText, msTool, strings.Replace(msText, `"a"`, `""`, 1), event("ping", `{"type":"ping"}`),
		event("message_stop", `{"type":"message_stop"}`), event("error", `{"type":"error","error":{"type":"overloaded_error"}}`), cHe,
	},
	wire.Responses: {
		rsStart, rsText, strings.Replace(rsText, `"a"`, `""`, 1), event("", `{"type":"response.done","response":{"status":"completed"}}`),
		event("", `{"type":"response.failed","response":{"error":null}}`), event("", `{"type":"error","code":"slow_down"}`), done, msText,
		rsNumbered(1), rsNumbered(2), rsNumbered(41), strings.Replace(rsNumbered(7), "7", `"7"`, 1), strings.Replace(rsNumbered(3), "3", "1e3", 1),
	},
	wire.Bedrock: {
		string(frame("messageStart", `{"role":"assistant"}`)), converse("a", "x"), converse("bc", "xyz"), converse("", "x"), invoked("a"), invoked("b"), invoked(""),
		string(frame("contentBlockStop", `{"contentBlockIndex":0}`)), string(frame("messageStop", `{"stopReason":"end_turn"}`)), string(frame("metadata", `{"usage":{}}`)),
		string(frame("other", `{"delta":{"text":"a"},"p":"x"}`)), string(frame("chunk", `{"bytes":"eyJ0eXBlIjoibWVzc2FnZV9zdG9wIn0="}`)), string(frame("chunk", `{"bytes":"e30=","p":"x"}`)),
	},
	wire.Ollama: {oText, oDone, `{"done_reason":"stop"}` + "\n", `{"status":"loading"}` + "\n", `{"error":"x"}` + "\n", "\n", strings.Replace(oText, `"a"`, `""`, 1)},
	wire.Cohere: {
		event("content-delta", cmDelta), event("", strings.Replace(cmDelta, `"a"`, `""`, 1)), event("", `{"type":"message-start"}`),
		event("", `{"type":"message-end","delta":{"finish_reason":"COMPLETE"}}`), event("", `{"type":"message-end","delta":{"finish_reason":"ERROR"}}`), done,
	},
	wire.Interactions: {
		event("", `{"event_type":"content.delta","delta":{"type":"text","text":"a"},"event_id":"1"}`), event("", `{"event_type":"content.delta","delta":{"type":"text","text":""}}`),
		event("", `{"event_type":"interaction.completed"}`), event("", `{"event_type":"interaction.failed"}`), event("", `{"event_type":"error","error":{"code":"x"}}`),
	},
	wire.DashScope: {
		"id:2\nevent:result\n:HTTP_STATUS/200\ndata:{\"output\":{\"text\":\"a\",\"finish_reason\":\"null\"}}\n\n", "id:3\nevent:result\n:HTTP_STATUS/200\ndata:{\"output\":{\"text\":\"b\",\"finish_reason\":\"null\"}}\n\n",
		"id:4\nevent:result\n:HTTP_STATUS/500\ndata:{\"output\":{\"text\":\"b\",\"finish_reason\":\"null\"}}\n\n", "id:x\nid:4\ndata:{\"output\":{\"text\":\"b\"}}\nid:3\n\n",
		"id:1\n:HTTP_STATUS/200\n" + event("result", `{"output":{"text":"a","finish_reason":"null"}}`), ":HTTP_STATUS/429\n\n",
		event("result", `{"output":{"text":"a","finish_reason":"null"}}`), event("", `{"output":{"text":"","finish_reason":"stop"}}`),
		event("error", `{"code":"Odd","message":"x"}`), event("", `{"output":{"choices":[{"index":1,"message":{"content":"b"}}]}}`),
	},
}

// rsNumbered is a piece of a response with the numbers that real ones have.
func rsNumbered(n int) string {
	return event("response.output_text.delta", fmt.Sprintf(`{"type":"response.output_text.delta","delta":"a","sequence_number":%d,"obfuscation":"%s"}`, n, strings.Repeat("x", n%5)))
}

// converse and invoked are frames with a piece of an answer.
func converse(text, padding string) string {
	return string(frame("contentBlockDelta", fmt.Sprintf(`{"contentBlockIndex":0,"delta":{"text":%q},"p":%q}`, text, padding)))
}

func invoked(text string) string {
	inner := fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}`, text)
	return string(frame("chunk", `{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(inner))+`","p":"ab"}`))
}

const (
	geminiBoth  = `{"candidates":[{"content":{"parts":[{"text":"a"}]},"index":0},{"content":{"parts":[{"text":"b"}]},"index":1}]}`
	geminiOther = `{"candidates":[{"finishReason":"STOP","index":1}]}`
)

// A candidate that had finished goes on with an event that is equal to one from
// before: the stream that breaks then is not whole.
func TestCandidateGoesOnWithAnEqualEvent(t *testing.T) {
	body := event("", geminiBoth) + event("", geminiOther) + event("", geminiBoth) +
		event("", `{"candidates":[{"content":{"parts":[{"text":"c"}]},"finishReason":"STOP","index":0}]}`)
	s, _ := play(t, wire.Gemini, body)
	assert.False(t, s.Complete())
	assert.Equal(t, follow(wire.Gemini, body, false), follow(wire.Gemini, body, true))
}

// FuzzSequence compares whole streams: the shortcut for equal events leaves the
// same marks, state and verdict as parsing every event does.
func FuzzSequence(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range allFormats {
		for range 30 {
			picks := make([]byte, 1+r.IntN(12))
			for k := range picks {
				picks[k] = byte(r.IntN(256)) & 0x3f
			}
			f.Add(uint8(i), picks, "")
		}
	}
	files, err := filepath.Glob("testdata/*/*")
	require.NoError(f, err)
	for _, name := range files {
		if raw, err := os.ReadFile(name); err == nil {
			for i := range allFormats {
				f.Add(uint8(i), []byte{}, string(raw))
			}
		}
	}
	for i, format := range allFormats {
		for _, v := range vendorStreams(3) {
			if v.format == format {
				f.Add(uint8(i), []byte{0, 0, 1, 0}, v.body)
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, picks []byte, body string) {
		format := allFormats[int(kind)%len(allFormats)]
		if pool := sequences[format]; len(pool) > 0 {
			var b strings.Builder // picks can be many
			b.WriteString(body)
			for _, p := range picks {
				b.WriteString(pool[int(p&0x1f)%len(pool)])
				if p >= 0x40 { // an event twice is what the shortcut is for
					b.WriteString(pool[int(p&0x1f)%len(pool)])
				}
			}
			body = b.String()
		}
		if got, want := follow(format, body, true), follow(format, body, false); got != want {
			t.Fatalf("%s: %q\nby the shortcut %s\nparsed          %s", format, body, got, want)
		}
	})
}

// The same over many random orders, so that a plain test run sees them.
func TestSequencesByTheShortcut(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 5))
	for format, pool := range sequences {
		for range 1500 {
			var body strings.Builder
			for range 2 + r.IntN(7) {
				ev := pool[r.IntN(len(pool))]
				body.WriteString(strings.Repeat(ev, 1+r.IntN(2)))
			}
			require.Equal(t, follow(format, body.String(), false), follow(format, body.String(), true), "seed %d, %s: %q", seed, format, body.String())
		}
	}
}
