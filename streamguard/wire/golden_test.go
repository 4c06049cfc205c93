package wire_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// goldens names for each recorded stream the text with which it is complete:
// no prefix that ends before it may pass, and each that ends behind it must.
var goldens = map[string]struct {
	format *wire.Format
	end    string
	status int // of a failed stream
}{
	"chat/openai.sse":          {wire.Chat, `"finish_reason":"stop"}],"obfuscation":"w9"}`, 0},
	"chat/azure.sse":           {wire.Chat, `"delta":{},"logprobs":null,"finish_reason":"stop"}]}`, 0},
	"chat/two_choices.sse":     {wire.Chat, `"finish_reason":"length"}]}`, 0},
	"chat/tool.sse":            {wire.Chat, `"finish_reason":"tool_calls"}]}`, 0},
	"chat/openrouter_crlf.sse": {wire.Chat, `[DONE]`, 0},
	"chat/bom_cr.sse":          {wire.Chat, `[DONE]`, 0},
	"completions/text.sse":     {wire.Completions, `"finish_reason":"stop"}]}`, 0},
	"responses/completed.sse":  {wire.Responses, `"total_tokens":5}}}`, 0},
	"responses/incomplete.sse": {wire.Responses, `"usage":null}}` + "\n\n$", 0},
	"responses/failed.sse":     {wire.Responses, `"usage":null}}` + "\n\n$", 502},
	"responses/overloaded.sse": {wire.Responses, `"sequence_number":2}`, 503},
	"messages/text.sse":        {wire.Messages, `"usage":{"output_tokens":5}}`, 0},
	"messages/tool.sse":        {wire.Messages, `"usage":{"output_tokens":5}}`, 0},
	"messages/error.sse":       {wire.Messages, `"message":"Overloaded"}}`, 503},

	"gemini/text_crlf.sse":         {wire.Gemini, "$", 0},
	"gemini/vertex.sse":            {wire.Gemini, "$", 0},
	"gemini/tool.sse":              {wire.Gemini, "$", 0},
	"gemini/two_candidates.sse":    {wire.Gemini, `"finishReason": "MAX_TOKENS", "index": 0}], "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 2, "totalTokenCount": 6, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 4}]}, "modelVersion": "gemini-2.5-flash", "responseId": "kYx1aIq2"}`, 0},
	"gemini/blocked.sse":           {wire.Gemini, "$", 0},
	"gemini/error.sse":             {wire.Gemini, "$", 503},
	"gemini/bare_error.sse":        {wire.Gemini, "$", 429},
	"gemini/early_finish.sse":      {wire.Gemini, `"finishReason": "STOP", "index": 0}], "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 2, "totalTokenCount": 6, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 4}]}, "modelVersion": "gemini-2.5-flash", "responseId": "kYx1aIq2"}`, 0},
	"gemini/finish_everywhere.sse": {wire.Gemini, `"responseId": "kYx1aIq2"}`, 0},
	"gemini/array.json":            {wire.Gemini, "]\n$", 0},
	"gemini/array_compact.json":    {wire.Gemini, "$", 0},
	"gemini/array_error.json":      {wire.Gemini, `"UNAVAILABLE"` + "\n  }\n}", 503},

	"interactions/text.sse":       {wire.Interactions, `"usage":{"total_tokens":9}},"event_id":"e9"}`, 0},
	"interactions/failed.sse":     {wire.Interactions, `"message":"x"}},"event_id":"e9"}`, 429},
	"interactions/error.sse":      {wire.Interactions, "$", 504},
	"interactions/bare_error.sse": {wire.Interactions, "$", 429},

	"cohere/text.sse":                {wire.Cohere, `"tokens":{"input_tokens":60,"output_tokens":2}}}}`, 0},
	"cohere/tool.sse":                {wire.Cohere, "$", 0},
	"cohere/citation_max_tokens.sse": {wire.Cohere, "$", 0},
	"cohere/timeout.sse":             {wire.Cohere, "$", 504},
	"cohere/error.sse":               {wire.Cohere, `"error":"generation failed"}}`, 502},

	"bedrock/converse.bin":               {wire.Bedrock, `"stopReason":"end_turn"}`, 0},
	"bedrock/converse_throttled.bin":     {wire.Bedrock, "$", 429},
	"bedrock/error.bin":                  {wire.Bedrock, "$", 500},
	"bedrock/invoke_anthropic.bin":       {wire.Bedrock, "eyJ0eXBlIjoibWVzc2FnZV9kZWx0YSIsImRlbHRhIjp7InN0b3BfcmVhc29uIjoiZW5kX3R1cm4iLCJzdG9wX3NlcXVlbmNlIjpudWxsfSwidXNhZ2UiOnsib3V0cHV0X3Rva2VucyI6Mn19\",\"p\":\"abcdefgh\"}", 0},
	"bedrock/invoke_anthropic_error.bin": {wire.Bedrock, "$", 424},
	"bedrock/invoke_titan.bin":           {wire.Bedrock, "$", 0},
	"bedrock/invoke_llama.bin":           {wire.Bedrock, "$", 0},
	"bedrock/invoke_mistral.bin":         {wire.Bedrock, "$", 0},
	"bedrock/invoke_nova.bin":            {wire.Bedrock, "eyJtZXNzYWdlU3RvcCI6eyJzdG9wUmVhc29uIjoiZW5kX3R1cm4ifX0=\",\"p\":\"abcdefgh\"}", 0},
	"bedrock/invoke_cohere.bin":          {wire.Bedrock, "$", 0},

	"conversations/text.sse":     {wire.Conversations, `"total_tokens":12}}`, 0},
	"conversations/search.sse":   {wire.Conversations, `"total_tokens":12}}`, 0},
	"conversations/function.sse": {wire.Conversations, `"total_tokens":12}}`, 0},
	"conversations/error.sse":    {wire.Conversations, `"code":3505}`, 502},
	"conversations/limited.sse":  {wire.Conversations, "$", 429},

	"dashscope/text.sse":    {wire.DashScope, `"finish_reason":"stop","text":""},"usage":{"total_tokens":5,"output_tokens":2,"input_tokens":3},"request_id":"r"}`, 0},
	"dashscope/message.sse": {wire.DashScope, "$", 0},
	"dashscope/error.sse":   {wire.DashScope, "$", 429},

	"ollama/chat.ndjson":          {wire.Ollama, "$", 0},
	"ollama/generate_crlf.ndjson": {wire.Ollama, "$", 0},
	"ollama/tool.ndjson":          {wire.Ollama, "$", 0},
	"ollama/load.ndjson":          {wire.Ollama, "$", 0},
	"ollama/no_reason.ndjson":     {wire.Ollama, "$", 0},
	"ollama/error.ndjson":         {wire.Ollama, "$", 502},
	"ollama/blank_lines.ndjson":   {wire.Ollama, "$", 0},
}

// answersWithoutText are goldens that are whole and say nothing.
var answersWithoutText = map[string]bool{"gemini/blocked.sse": true, "ollama/load.ndjson": true}

// mayGoOn reports whether the event that body stops in has candidates, or may
// yet have: only Gemini goes on behind a finish.
func mayGoOn(body string) bool {
	last := body[max(strings.LastIndex(body, "\n\n"), strings.LastIndex(body, "\r\n\r\n"), 0):]
	_, object, ok := strings.Cut(last, "{")
	if json.Valid([]byte("{"+object)) || !ok {
		return false
	}
	const key = `"candidates"`
	return strings.Contains(object, key) || strings.HasPrefix(key, object)
}

// ending returns how long the prefix is that ends with end; a "$" stands for
// the end of the body.
func ending(t *testing.T, body, end string) int {
	t.Helper()
	if bare, ok := strings.CutSuffix(end, "$"); ok {
		require.True(t, strings.HasSuffix(body, bare))
		return len(strings.TrimRight(body, "\r\n"))
	}
	i := strings.Index(body, end)
	require.GreaterOrEqual(t, i, 0, "end mark %s", end)
	return i + len(end)
}

func TestGoldensCutAtEveryByte(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.*")
	require.NoError(t, err)
	files = slices.DeleteFunc(files, func(f string) bool { return strings.Contains(f, "quirks") })
	require.Len(t, files, len(goldens))
	for name, g := range goldens {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("testdata", name))
			require.NoError(t, err)
			body := string(raw)
			end := ending(t, body, g.end)
			if g.format == wire.Bedrock && g.end != "$" {
				end += 4 // the frame's checksum
			}
			for n := range len(body) + 1 {
				s, ms := play(t, g.format, body[:n])
				early := g.format == wire.Gemini && strings.HasSuffix(name, ".sse") && mayGoOn(body[:n])
				want := n >= end && !early
				require.Equal(t, want, s.CompleteAtEOF(), "cut at %d of %d, complete at %d", n, len(body), end)
				require.NotContains(t, ms, wire.MarkMalformed)
			}
			s, _ := play(t, g.format, body)
			if g.status == 0 {
				assert.Nil(t, s.Failure())
				assert.Equal(t, !answersWithoutText[name], s.Content())
				return
			}
			require.NotNil(t, s.Failure())
			assert.Equal(t, g.status, s.Failure().Status)
		})
	}
}

func TestGoldensByteByByte(t *testing.T) {
	for name, g := range goldens {
		raw, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		whole, want := play(t, g.format, string(raw))
		s, got, out := feed(g.format, raw, func(int) int { return 1 })
		assert.Equal(t, want, got, name)
		assert.Equal(t, raw, out, name)
		assert.Equal(t, whole.Events(), s.Events(), name)
		assert.Equal(t, whole.Complete(), s.Complete(), name)
		assert.Equal(t, whole.Failure(), s.Failure(), name)
	}
}

// Whatever the goldens say piece by piece, an event that is read as a large
// one has the same marks.
func TestGoldensAsLargeEvents(t *testing.T) {
	for name, g := range goldens {
		raw, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		if strings.HasSuffix(name, "/bare_error.sse") {
			continue // what has no field at all is not looked at there
		}
		for _, step := range []int{1, 7, 1 << 20} {
			whole, want := play(t, g.format, string(raw))
			s := g.format.NewStream(wire.StreamOptions{})
			var got []wire.Mark
			for b := raw; len(b) > 0; {
				n, over, m := s.Large(b[:min(step, len(b))])
				b = b[n:]
				if over {
					got = append(got, m)
					if step == 1 && bytes.HasPrefix(b, []byte("\n")) && s.Next(b) == 1 && s.Event(b[:1]) == 0 {
						b = b[1:]
					}
				}
			}
			// Of an array, the white space between events is none.
			want = slices.DeleteFunc(want, isComment)
			got = slices.DeleteFunc(got, isComment)
			for i := range want {
				// A chat event that is large has content, whatever it is.
				want[i] &^= wire.MarkContent
			}
			for i := range got {
				got[i] &^= wire.MarkContent
			}
			assert.Equal(t, want, got, "%s in steps of %d", name, step)
			assert.Equal(t, whole.CompleteAtEOF(), s.CompleteAtEOF(), name)
			assert.Equal(t, whole.Failure(), s.Failure(), name)
		}
	}
}

func isComment(m wire.Mark) bool { return m == wire.MarkComment }

// feed gives b in pieces to a stream as a reader with a buffer would and
// returns the marks and all bytes handed out. Marks of the LF of a split CR LF
// are left out.
func feed(f *wire.Format, b []byte, step func(int) int) (*wire.Stream, []wire.Mark, []byte) {
	s := f.NewStream(wire.StreamOptions{})
	var ms []wire.Mark
	var buf, out []byte
	for i := 0; len(b) > 0; i++ {
		n := min(max(1, step(i)), len(b))
		buf = append(buf, b[:n]...)
		b = b[n:]
		for {
			n := s.Next(buf)
			if n == 0 {
				break
			}
			if m := s.Event(buf[:n]); m != 0 || string(buf[:n]) != "\n" {
				ms = append(ms, m)
			}
			out = append(out, buf[:n]...)
			buf = append([]byte(nil), buf[n:]...)
		}
	}
	if m, whole := s.Rest(buf); whole {
		ms = append(ms, m)
	}
	return s, ms, append(out, buf...)
}
