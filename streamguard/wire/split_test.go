package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// TestCaseB11_Framing has one logical stream in every legal form.
func TestCaseB11_Framing(t *testing.T) {
	plain := cHe + fStop + done
	forms := map[string]string{
		"LF":             plain,
		"CRLF":           strings.ReplaceAll(plain, "\n", "\r\n"),
		"CR":             strings.ReplaceAll(plain, "\n", "\r"),
		"LF CRLF":        strings.ReplaceAll(plain, "\n\n", "\n\r\n"),
		"CRLF LF":        strings.ReplaceAll(plain, "\n\n", "\r\n\n"),
		"CR CRLF":        strings.ReplaceAll(plain, "\n\n", "\r\r\n"),
		"LF CR":          strings.ReplaceAll(plain, "\n\n", "\n\r"),
		"no space":       strings.ReplaceAll(plain, "data: ", "data:"),
		"other fields":   strings.ReplaceAll(plain, "data: ", "id: 1\nretry: 10\nevent: x\n: c\nnonsense\ndata: "),
		"fields behind":  strings.ReplaceAll(plain, "\n\n", "\nid:1\nevent\n\n"),
		"BOM":            "\xef\xbb\xbf" + plain,
		"UTF-8":          strings.ReplaceAll(plain, `"he"`, `"那🦀"`),
		"several lines":  strings.ReplaceAll(plain, `"delta"`, "\ndata: \"delta\""),
		"several, CRLF":  strings.ReplaceAll(strings.ReplaceAll(plain, `"delta"`, "\ndata: \"delta\""), "\n", "\r\n"),
		"space in front": strings.ReplaceAll(plain, "data: {", "data:   {"),
	}
	for name, body := range forms {
		t.Run(name, func(t *testing.T) {
			for _, step := range []int{1, 2, 3, 5, 1 << 20} {
				s, ms, out := feed(wire.Chat, []byte(body), func(int) int { return step })
				assert.Equal(t, []wire.Mark{marks, wire.MarkData | wire.MarkEnd, wire.MarkEnd | wire.MarkFinal}, ms, "steps of %d", step)
				assert.Equal(t, body, string(out))
				assert.True(t, s.Complete())
				assert.Equal(t, 2, s.Events())
			}
			for cut := range len(body) {
				_, ms, out := feed(wire.Chat, []byte(body), func(i int) int { return []int{cut, 1 << 20}[min(i, 1)] })
				assert.Len(t, ms, 3, "cut at %d", cut)
				assert.Equal(t, body, string(out))
			}
		})
	}
}

// An event is out with the byte that shows its blank line, also where an LF
// may still follow; that LF then goes on by itself and is no comment.
func TestNextDoesNotDelayAnEvent(t *testing.T) {
	s := wire.Chat.NewStream(wire.StreamOptions{})
	assert.Equal(t, 0, s.Next([]byte("data: 1\r")))
	assert.Equal(t, 9, s.Next([]byte("data: 1\r\r")))
	assert.Equal(t, 1, s.Next([]byte("\ndata: 2\n\n")))
	assert.Equal(t, wire.Mark(0), s.Event([]byte("\n")))
	assert.Equal(t, 9, s.Next([]byte("data: 2\n\n")))
	assert.Equal(t, 1, s.Next([]byte("\n\n")), "a blank line is an event of its own")
	assert.Equal(t, wire.MarkComment, s.Event([]byte("\n")))
	assert.Equal(t, 0, s.Next(nil))
}

func TestBlankLineAfterByteOrderMark(t *testing.T) {
	s := wire.Chat.NewStream(wire.StreamOptions{})
	assert.Equal(t, 0, s.Next([]byte("\xef")))
	assert.Equal(t, 0, s.Next([]byte("\xef\xbb")))
	assert.Equal(t, 4, s.Next([]byte("\xef\xbb\xbf\n"+cHe)))
}

// What comes byte by byte before a shape shows is looked at once.
func TestShapeOfSlowBytes(t *testing.T) {
	for name, start := range map[string]string{
		"white space": strings.Repeat(" \n\t\r", 4<<10), "behind a byte order mark": "\xef\xbb\xbf" + strings.Repeat(" ", 16<<10),
		"one line": `{"x":"` + strings.Repeat("y", 16<<10),
	} {
		for _, f := range allFormats { // as it is shown as a whole
			for _, end := range []string{`{"a":1}` + "\n", "data: 1\n", "<html>", "true ", ""} {
				s := f.Sniffer("", true)
				body := start[:100] + end
				got := wire.ShapeUnknown
				for i := 1; i <= len(body) && got == wire.ShapeUnknown; i++ {
					got = s.Shape([]byte(body[:i]))
				}
				if f == wire.Bedrock && got == wire.ShapeUnknown {
					continue
				}
				assert.Equal(t, f.Shape([]byte(body), "", true), got, "%s: %s: %q", f, name, end)
			}
		}
		looked := 0
		s := wire.CountingFormat(&looked).Sniffer("", true)
		for i := 1; i <= len(start); i++ {
			assert.Equal(t, wire.ShapeUnknown, s.Shape([]byte(start[:i])))
		}
		assert.Less(t, looked, 100, name)
	}
	for _, f := range []*wire.Format{wire.Gemini, wire.Ollama} {
		s := f.NewStream(wire.StreamOptions{})
		for i := range 100 {
			assert.Zero(t, s.Next([]byte(strings.Repeat(" ", i))))
		}
		assert.NotZero(t, s.Next([]byte(strings.Repeat(" ", 99)+"data: 1\n\n")), f.String())
	}
}

func TestCaseB12_LargeEvents(t *testing.T) {
	pad := func(n int) string { return strings.Repeat("A", n) }
	for _, n := range []int{64<<10 - 1, 64 << 10, 64<<10 + 1, 2 << 20} {
		for name, c := range map[string]struct {
			format *wire.Format
			event  string
			want   wire.Mark
		}{
			"unknown":  {wire.Chat, `data: {"type":"x","b64":"` + pad(n) + `"}` + "\n\n", marks},
			"content":  {wire.Chat, `data: {"choices":[{"index":0,"delta":{"content":"` + pad(n) + `\"error\""},"finish_reason":""}]}` + "\n\n", marks},
			"finish":   {wire.Chat, `data: {"choices":[{"index":0,"delta":{"content":"` + pad(n) + `"},"finish_reason":"stop"}]}` + "\r\n\r\n", marks | wire.MarkEnd},
			"error":    {wire.Chat, `data: {"x":"` + pad(n) + `","error":{"code":429,"message":"m"}}` + "\n\n", wire.MarkFailed | wire.MarkEnd | wire.MarkFinal},
			"sentinel": {wire.Chat, ":" + pad(n) + "\ndata: [DONE]\n\n", wire.MarkFinal},
			"comment":  {wire.Chat, ":" + pad(n) + "\n\n", wire.MarkComment},
			"response": {wire.Responses, "event: response.completed\rdata: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"text\":\"" + pad(n) + "\"}],\"status\":\"completed\"}}\r\r", wire.MarkData | wire.MarkEnd | wire.MarkFinal},
			"failed":   {wire.Responses, `data: {"response":{"x":"` + pad(n) + `","error":{"code":"rate_limit_exceeded"}},"type":"response.failed"}` + "\n\n", wire.MarkFailed | wire.MarkEnd | wire.MarkFinal},
			"messages": {wire.Messages, "event: message_delta\ndata: {\"type\":\"message_delta\",\"x\":\"" + pad(n) + "\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n", wire.MarkData | wire.MarkEnd},
		} {
			s := c.format.NewStream(wire.StreamOptions{})
			rest := []byte(c.event + cHe)
			for over := false; !over; {
				var k int
				var m wire.Mark
				k, over, m = s.Large(rest[:min(len(rest), 4000)])
				rest = rest[k:]
				require.Equal(t, over, m != 0 || over, name)
				if over {
					assert.Equal(t, c.want, m, name)
				}
			}
			assert.Equal(t, cHe, string(rest), name)
			assert.Equal(t, len(cHe), s.Next(rest), name)
			if c.want&wire.MarkFailed != 0 {
				assert.Equal(t, 429, s.Failure().Status, name)
			}
		}
	}
}

func TestLargeEventThatTheBodyEnds(t *testing.T) {
	event := `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 1000) + `"},"finish_reason":"stop"}]}`
	for n := 1; n <= len(event); n++ {
		s := wire.Chat.NewStream(wire.StreamOptions{})
		_, over, _ := s.Large([]byte(event[:n/2]))
		require.False(t, over)
		m, whole := s.Rest([]byte(event[n/2 : n]))
		assert.Equal(t, n == len(event), whole, "cut at %d", n)
		assert.Equal(t, n == len(event), m&wire.MarkEnd != 0)
		assert.Equal(t, n == len(event), s.Complete())
	}
}

func TestCloseLarge(t *testing.T) {
	for sent, want := range map[string]string{
		"data: {":                 "\n\n",
		"data: 1\n":               "\n",
		"data: 1\r\ndata: {":      "\r\n\r\n",
		"data: 1\rdata: 2":        "\r\r",
		"event: x\r\ndata: 1\r\n": "\r\n",
	} {
		s := wire.Chat.NewStream(wire.StreamOptions{})
		_, over, _ := s.Large([]byte(sent))
		require.False(t, over)
		assert.Equal(t, want, string(s.CloseLarge()), "%q", sent)
	}
}

// The template must never give an event marks that parsing it would not.
func TestRepeatedEventsAreStillJudged(t *testing.T) {
	for name, last := range map[string]struct {
		event string
		want  wire.Mark
	}{
		"same":          {cHe, marks},
		"empty content": {strings.Replace(cHe, `"he"`, `""`, 1), wire.MarkData},
		"escapes":       {strings.Replace(cHe, `"he"`, `"\"\u00e9"`, 1), marks},
		"bad escape":    {strings.Replace(cHe, `"he"`, `"\x"`, 1), wire.MarkMalformed},
		"control":       {strings.Replace(cHe, `"he"`, "\"\x01\"", 1), wire.MarkMalformed},
		"two members":   {strings.Replace(cHe, `"he"`, `"he","a":"b"`, 1), marks},
		"finish":        {strings.Replace(cHe, `null`, `"stop"`, 1), marks | wire.MarkEnd},
		"open string":   {strings.Replace(cHe, `"he"`, `"he`, 1), wire.MarkMalformed},
		"other index":   {strings.Replace(cHe, `"index":0`, `"index":1`, 1), marks},
		"inside":        {strings.Replace(cHe, `"he"`, `"he\"},\"finish_reason\":\"stop\"}]}"`, 1), marks},
	} {
		_, ms := play(t, wire.Chat, cHe+cLlo+last.event)
		require.Len(t, ms, 3, name)
		assert.Equal(t, last.want, ms[2], name)
	}
}

// The same where values that say nothing change beside the content.
func TestRepeatedEventsWithChangingValues(t *testing.T) {
	first := strings.Replace(cHe, `]}`, `],"usage":{"a":1},"obfuscation":"x"}`, 1)
	for name, c := range map[string]struct {
		from, to string
		want     wire.Mark
	}{
		"both":          {`{"a":1},"obfuscation":"x"`, `null,"obfuscation":"abcdef"`, marks},
		"not valid":     {`{"a":1}`, `{"a":01}`, wire.MarkMalformed},
		"not there":     {`{"a":1}`, ``, wire.MarkMalformed},
		"a line end":    {`{"a":1}`, "{\n\"a\":1}", wire.MarkMalformed},
		"two data":      {`{"a":1}`, "{\ndata: \"a\":1}", marks},
		"another":       {`{"a":1}`, `{"a":1},"error":{"code":429}`, failing},
		"error in it":   {`{"a":1}`, `{"error":{"code":429}}`, marks},
		"finish, too":   {`null}]`, `"stop"}]`, marks | wire.MarkEnd},
		"empty content": {`"he"`, `""`, wire.MarkData},
	} {
		last := strings.Replace(first, c.from, c.to, 1)
		_, ms := play(t, wire.Chat, first+first+last)
		require.Len(t, ms, 3, name)
		assert.Equal(t, c.want, ms[2], name)
	}
}

// FuzzTemplate compares an event's marks behind one like it with those that it
// has when it is parsed.
func FuzzTemplate(f *testing.F) {
	first := map[*wire.Format]string{
		wire.Chat:         strings.Replace(cHe, `]}`, `],"usage":{"a":1},"obfuscation":"x"}`, 1),
		wire.Gemini:       "data: " + strings.Replace(gText, `]}]}`, `]}],"usageMetadata":{"a":[1]}}`, 1) + "\n\n",
		wire.Ollama:       strings.Replace(oText, `{`, `{"created_at":"x",`, 1),
		wire.Interactions: event("", `{"event_id":"1","event_type":"content.delta","delta":{"text":"a"},"event_id":"2"}`),
		wire.DashScope:    event("", `{"output":{"text":"a","finish_reason":"null"},"usage":{"a":1}}`),
		wire.Messages:     msText,
		wire.Responses:    rsNumbered(12),
	}
	f.Add(uint8(0), uint16(30), uint16(2), "x")
	f.Add(uint8(1), uint16(100), uint16(9), "{\n\"a\":1}")
	f.Add(uint8(2), uint16(15), uint16(3), `"y"`)
	f.Fuzz(func(t *testing.T, kind uint8, at, cut uint16, with string) {
		format := allFormats[int(kind)%len(allFormats)]
		ev, ok := first[format]
		if !ok {
			return
		}
		i := int(at) % len(ev)
		changed := ev[:i] + with + ev[min(len(ev), i+int(cut)%16):]
		_, got := play(t, format, ev+ev+changed)
		s, want := play(t, format, ev+ev)
		for b := []byte(changed); len(b) > 0; {
			n := s.Next(b)
			if n == 0 {
				if m, whole := s.Rest(b); whole {
					want = append(want, m)
				}
				break
			}
			s.Forget()
			want = append(want, s.Event(b[:n]))
			b = b[n:]
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%s: %q behind %q: marks %v, parsed %v", format, changed, ev, got, want)
		}
	})
}

func TestContentEventsDoNotAllocate(t *testing.T) {
	type stream = struct {
		format *wire.Format
		body   string
	}
	streams := vendorStreams(100)
	maps.Copy(streams, map[string]stream{
		"chat":            {wire.Chat, chatEvents(100, plainExtra)},
		"chat, all other": {wire.Chat, chatEvents(100, func(i int) string { return fmt.Sprintf(`,"x":%d`, i) })},
		"responses":       {wire.Responses, responsesEvents(100)},
		"messages":        {wire.Messages, messagesEvents(100)},
	})
	for name, c := range streams {
		body := []byte(c.body)
		allocs := testing.AllocsPerRun(10, func() {
			s := c.format.NewStream(wire.StreamOptions{})
			for b := body; ; {
				n := s.Next(b)
				if n == 0 {
					return
				}
				s.Event(b[:n])
				b = b[n:]
			}
		})
		assert.LessOrEqual(t, allocs, 8.0, name)
	}
}

func streamSeeds() []string {
	seeds := []string{
		cHe + fStop + done, strings.ReplaceAll(cHe+fStop+done, "\n", "\r\n"), strings.ReplaceAll(cHe+done, "\n", "\r"),
		"\xef\xbb\xbf" + cHe, ": c\n\n\n\r\r\n" + cHe, "data\n\ndata:\n\nevent: error\ndata: x\n\n", "error: {\"code\":500}\n\n",
		":HTTP_STATUS/429\nevent:error\ndata:{\"code\":\"Throttling\"}\n\n", "data: [1]\n\ndata: [{\"error\":{\"code\":400}}]\n\n",
		"data: {\"choices\":[{\"index\":900,\"finish_reason\":\"error\"}]}\n\n", "data: {\ndata: }\n\n" + uFrame,
	}
	for _, v := range vendorStreams(2) {
		seeds = append(seeds, v.body)
	}
	seeds = append(seeds, "[{\"a\":[]} , {}\n]", "["+gText+",\r\n"+gBusy+"]", oText+"\n{\"error\":\"x\"}", "data: "+gText+"\r\n\r\n"+gBusy)
	return append(seeds, responsesEvents(2), messagesEvents(3))
}

// allFormats are the formats whose streams have an end.
var allFormats = []*wire.Format{
	wire.Chat, wire.Responses, wire.Messages, wire.Gemini, wire.Ollama, wire.Cohere, wire.Interactions, wire.Bedrock, wire.DashScope, wire.Conversations,
}

// Where the bytes are cut changes nothing.
func FuzzSplit(f *testing.F) {
	for i, s := range streamSeeds() {
		f.Add([]byte(s), uint64(i))
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		for _, format := range allFormats {
			whole, want, out := feed(format, b, func(int) int { return len(b) })
			if !bytes.Equal(out, b) {
				t.Fatalf("bytes changed: %q to %q", b, out)
			}
			r := rand.New(rand.NewPCG(seed, 1))
			s, got, out := feed(format, b, func(int) int { return 1 + r.IntN(9) })
			if !bytes.Equal(out, b) {
				t.Fatalf("bytes changed: %q to %q", b, out)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) || s.Complete() != whole.Complete() || s.Events() != whole.Events() || s.Content() != whole.Content() {
				t.Fatalf("%s: %q: marks %v, in pieces %v", format, b, want, got)
			}
		}
	})
}

// An event that is read as a large one has the marks that it has as a whole.
func FuzzLarge(f *testing.F) {
	for i, s := range streamSeeds() {
		for e := range strings.SplitSeq(s, "\n\n") {
			if _, data, ok := strings.Cut(e, "data: "); ok {
				f.Add("", data, uint64(i))
			}
		}
	}
	f.Add("response.failed", `{"response":{"status":"failed","error":{"code":"slow_down"}}}`, uint64(3))
	f.Add("error", `{"code":"x"}`, uint64(3))
	f.Add("0", `{"choices":[{"error":{"":""}}]}`, uint64(3))
	f.Add("", `{"choices":[{"error":{"code":"429"},"finish_reason":"stop"},{"index":3}]}`, uint64(3))
	f.Add("", `{"base_resp":{"status_code":1002}}`, uint64(3))
	f.Fuzz(func(t *testing.T, name, data string, seed uint64) {
		var members map[string]json.RawMessage
		if json.Unmarshal([]byte(data), &members) != nil || members == nil || strings.ContainsAny(name+data, "\r\n") {
			return
		}
		ev := event(name, data)
		for _, format := range []*wire.Format{wire.Chat, wire.Responses, wire.Messages, wire.Gemini, wire.Cohere, wire.Interactions, wire.Ollama, wire.DashScope} {
			whole, want := play(t, format, ev)
			s := format.NewStream(wire.StreamOptions{})
			r := rand.New(rand.NewPCG(seed, 3))
			var got wire.Mark
			for b, over := []byte(ev), false; !over; {
				var n int
				n, over, got = s.Large(b[:min(len(b), 1+r.IntN(20))])
				b = b[n:]
			}
			if whole.Stray() || s.Stray() {
				continue // what is too large for a notice is never taken for one
			}
			if want[0]&^wire.MarkContent != got&^wire.MarkContent || whole.Complete() != s.Complete() {
				t.Fatalf("%s: %q: marks %b, as a large event %b", format, ev, want[0], got)
			}
			if a, b := whole.Failure(), s.Failure(); a != nil && (a.Status != b.Status || a.Code != b.Code) {
				t.Fatalf("%s: %q: failure %+v, as a large event %+v", format, ev, a, b)
			}
		}
	})
}
