package wire_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// A kind says what an event does (contract 6): 0 is an event that is none of
// the format's, which does nothing.
const (
	passesBy  = wire.Mark(0)
	aside     = wire.MarkAside                      // restarts a timer
	commits   = wire.MarkData                       // and proves an answer, and commits
	isContent = wire.MarkData | wire.MarkContent    // and is content
	facts     = isContent | aside | wire.MarkFailed // what the table is about
)

// eventKinds are events of each format and what they do.
var eventKinds = map[*wire.Format]map[string]struct {
	event string
	want  wire.Mark
}{
	wire.Chat: {
		"role":                {`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`, commits},
		"empty delta":         {`{"choices":[{"index":0,"delta":{}}]}`, commits},
		"empty tool call":     {`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"type":"function","function":{"arguments":""}}]}}]}`, commits},
		"empty parts":         {`{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":""}]}}]}`, commits},
		"text":                {`{"choices":[{"index":0,"delta":{"content":"a"}}]}`, isContent},
		"parts":               {`{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"a"}]}}]}`, isContent},
		"tool call":           {`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":""}}]}}]}`, isContent},
		"usage":               {`{"choices":[],"usage":{"total_tokens":3}}`, aside},
		"usage alone":         {`{"usage":{"total_tokens":3}}`, aside},
		"filter results":      {`{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}`, aside},
		"an error by a field": {`{"error":{"code":429}}`, wire.MarkFailed},
	},
	wire.Responses: {
		"lifecycle":   {`{"type":"response.created","response":{"status":"in_progress"}}`, commits},
		"a later one": {`{"type":"response.of_the_future"}`, commits},
		"empty delta": {`{"type":"response.output_text.delta","delta":""}`, commits},
		"no delta":    {`{"type":"response.output_text.delta"}`, commits},
		"text":        {`{"type":"response.output_text.delta","delta":"a"}`, isContent},
		"arguments":   {`{"type":"response.function_call_arguments.delta","delta":"{"}`, isContent},
		"image":       {`{"type":"response.image_generation_call.partial_image","partial_image_b64":"AA"}`, isContent},
		"keep_alive":  {`{"type":"response.keep_alive"}`, passesBy},
		"heartbeat":   {`{"type":"response.heartbeat","sequence_number":4}`, passesBy},
		"queued":      {`{"type":"response.queued","response":{"status":"queued"}}`, passesBy},
		"rate limits": {`{"type":"codex.rate_limits","remaining":3}`, passesBy},
	},
	wire.Messages: {
		"lifecycle":     {`{"type":"message_start","message":{"id":"m"}}`, commits},
		"block start":   {`{"type":"content_block_start","content_block":{"type":"text","text":""}}`, commits},
		"empty delta":   {`{"type":"content_block_delta","delta":{"type":"text_delta","text":""}}`, commits},
		"empty partial": {`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":""}}`, commits},
		"text":          {`{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}`, isContent},
		"thinking":      {`{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"a"}}`, isContent},
		"citation":      {`{"type":"content_block_delta","delta":{"type":"citations_delta","citation":{"cited_text":"a"}}}`, isContent},
	},
	wire.Gemini: {
		"empty part":   {`{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"}}]}`, commits},
		"text":         {gText, isContent},
		"call":         {`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}]}}]}`, isContent},
		"usage":        {gUsage, aside},
		"no candidate": {`{"candidates":[]}`, aside},
		"feedback":     {`{"promptFeedback":{"safetyRatings":[]}}`, aside},
	},
	wire.Ollama: {
		"empty":    {`{"message":{"role":"assistant","content":""},"done":false}`, commits},
		"text":     {strings.TrimSpace(oText), isContent},
		"generate": {`{"response":"a","done":false}`, isContent},
		"thinking": {`{"message":{"role":"assistant","content":"","thinking":"hm"},"done":false}`, isContent},
	},
	wire.Cohere: {
		"lifecycle":   {`{"type":"message-start","delta":{"message":{"role":"assistant"}}}`, commits},
		"empty delta": {`{"type":"content-delta","delta":{"message":{"content":{"text":""}}}}`, commits},
		"text":        {cmDelta, isContent},
		"thinking":    {`{"type":"content-delta","delta":{"message":{"content":{"thinking":"hm"}}}}`, isContent},
		"tool call":   {`{"type":"tool-call-start","delta":{"message":{"tool_calls":{"id":"t","function":{"name":"f","arguments":""}}}}}`, isContent},
		"debug":       {`{"type":"debug","prompt":"x"}`, isContent}, // of no known format
	},
	wire.Interactions: {
		"lifecycle":   {`{"event_type":"interaction.created","interaction":{"status":"in_progress"}}`, commits},
		"empty delta": {`{"event_type":"content.delta","delta":{"type":"text","text":""}}`, commits},
		"text":        {`{"event_type":"content.delta","delta":{"type":"text","text":"a"}}`, isContent},
	},
	wire.DashScope: {
		"empty":     {`{"output":{"text":"","finish_reason":"null"}}`, commits},
		"text":      {`{"output":{"text":"a","finish_reason":"null"}}`, isContent},
		"no output": {`{"output":{},"usage":{"total_tokens":3}}`, aside},
	},
}

// notices are data that is none in every format.
var notices = map[string]string{
	"ping":              event("ping", `{"type":"ping"}`),
	"ping, no name":     event("", `{"type":"ping"}`),
	"ping, no type":     event("ping", `{}`),
	"keepalive":         event("keepalive", `{"type":"keepalive"}`),
	"keep_alive":        event("", `{"type":"keep_alive","ts":"2026-01-02T03:04:05Z"}`),
	"event keepalive":   event("", `{"event":"keepalive"}`),
	"heartbeat":         event("", `{"event_type":"heartbeat"}`),
	"queue notice":      event("", `{"status":"queued","position":3}`),
	"queue event":       event("queue", `{"type":"queue","position":3,"eta":1.5}`),
	"waiting":           event("", `{"message":"waiting"}`),
	"a vendor's code 0": event("", `{"code":0,"msg":"ok"}`),
	"empty object":      event("", `{}`),
	"text":              event("", `hello`),
	"a text in quotes":  event("", `"hello"`),
	"number":            event("", `17`),
	"null":              event("", `null`),
	"a list":            event("", `[1,2]`),
	"text about errors": event("", `errors are rare`),
}

// blanks have no data at all.
var blanks = []string{": ping\n\n", ":\n\n", "\n", "data:\n\n", "data: \n\n", "event: ping\n\n", "id: 3\nretry: 5\n\n"}

func framed(f *wire.Format, data string) string {
	if f == wire.Ollama {
		return data + "\n"
	}
	return event("", data)
}

// What an event does is decided in one place for what commits a stream, what
// restarts a timer, what proves an answer and what is content.
func TestWhatDataIs(t *testing.T) {
	for f, kinds := range eventKinds {
		for name, c := range kinds {
			for _, before := range []string{"", framed(f, kinds["text"].event)} {
				s, ms := play(t, f, before+framed(f, c.event))
				m := ms[len(ms)-1]
				if f == wire.Cohere && name == "debug" && before != "" {
					c.want = passesBy
				}
				assert.Equal(t, c.want, m&facts, "%s: %s behind %q", f, name, before)
				if before == "" {
					assert.Equal(t, c.want&wire.MarkContent != 0, s.Content(), "%s: %s", f, name)
				}
			}
		}
		text := framed(f, kinds["text"].event)
		for name, ev := range notices {
			befores := []string{"", text}
			if f == wire.Ollama {
				if strings.HasPrefix(ev, "event") {
					continue
				}
				ev, befores = strings.TrimSpace(strings.TrimPrefix(ev, "data: "))+"\n", befores[1:]
			}
			for _, before := range befores {
				s, ms := play(t, f, before+ev)
				assert.Equal(t, passesBy, ms[len(ms)-1], "%s: %s behind %q", f, name, before)
				assert.Nil(t, s.Failure(), "%s: %s", f, name)
				assert.Equal(t, before != "", s.Content(), "%s: %s", f, name)
				assert.False(t, s.CompleteAtEOF(), "%s: %s", f, name)
			}
			if f != wire.Ollama {
				s, _ := play(t, f, ev+done)
				assert.False(t, s.CompleteAtEOF(), "%s: %s and [DONE] are no answer", f, name)
				assert.Zero(t, s.Events(), "%s: %s", f, name)
			}
		}
		if f == wire.Ollama {
			continue
		}
		for _, ev := range blanks {
			_, ms := play(t, f, text+ev)
			assert.Equal(t, wire.MarkComment, ms[len(ms)-1], "%s: %q", f, ev)
		}
	}
}

func TestWhatDataIsInFrames(t *testing.T) {
	chunk := func(s string) string { return `{"bytes":"` + base64.StdEncoding.EncodeToString([]byte(s)) + `"}` }
	for name, c := range map[string]struct {
		typ, payload string
		want         wire.Mark
	}{
		"initial":               {"initial-response", `{}`, passesBy},
		"unknown":               {"keepAlive", `{}`, passesBy},
		"start":                 {"messageStart", `{"role":"assistant"}`, commits},
		"empty delta":           {"contentBlockDelta", `{"delta":{"text":""}}`, commits},
		"text":                  {"contentBlockDelta", `{"delta":{"text":"a"}}`, isContent},
		"tool input":            {"contentBlockDelta", `{"delta":{"toolUse":{"input":"{"}}}`, isContent},
		"usage before the end":  {"metadata", `{"usage":{}}`, aside},
		"chunk, ping":           {"chunk", chunk(`{"type":"ping"}`), passesBy},
		"chunk, lifecycle":      {"chunk", chunk(`{"type":"message_start","message":{"id":"m"}}`), commits},
		"chunk, empty delta":    {"chunk", chunk(`{"type":"content_block_delta","delta":{"type":"text_delta","text":""}}`), commits},
		"chunk, text":           {"chunk", chunk(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}`), isContent},
		"chunk, Llama's":        {"chunk", chunk(`{"generation":"a","stop_reason":null}`), isContent},
		"chunk, Llama's empty":  {"chunk", chunk(`{"generation":"","stop_reason":null}`), commits},
		"chunk, an error":       {"chunk", chunk(`{"type":"error","error":{"type":"overloaded_error"}}`), wire.MarkFailed},
		"half a tool call":      {"messageStop", `{"stopReason":"malformed_tool_use"}`, wire.MarkFailed},
		"half an answer":        {"messageStop", `{"stopReason":"malformed_model_output"}`, wire.MarkFailed},
		"chunk, half an answer": {"chunk", chunk(`{"type":"message_delta","delta":{"stop_reason":"malformed_model_output"}}`), wire.MarkFailed},
	} {
		s, ms := play(t, wire.Bedrock, string(frame(c.typ, c.payload)))
		require.Len(t, ms, 1)
		assert.Equal(t, c.want, ms[0]&facts, name)
		if c.want == wire.MarkFailed && !strings.Contains(name, "error") {
			assert.Equal(t, 502, s.Failure().Status, name)
		}
	}
}

// Text such as "error: …" is a failure wherever it stands in a stream.
func TestTextThatIsAnError(t *testing.T) {
	for _, text := range []string{"error: the engine died", "Error: x", "ERROR", "[ERROR] x", "error the engine died", `"error: quoted"`} {
		for _, before := range []string{"", cHe} {
			s, _ := play(t, wire.Chat, before+event("", text)+done)
			require.NotNil(t, s.Failure(), text)
			assert.Equal(t, 502, s.Failure().Status)
		}
	}
}

// The end marks of contract 6, and those of the gateways that have their own.
func TestEndMarksOfEveryFormat(t *testing.T) {
	rs := func(typ, status string) string {
		return rsStart + rsText + event(typ, `{"type":"`+typ+`","response":{"status":"`+status+`"}}`)
	}
	for name, c := range map[string]struct {
		format   *wire.Format
		body     string
		complete bool
		status   int
	}{
		"response.done":                  {wire.Responses, rs("response.done", "completed"), true, 0},
		"response.done, incomplete":      {wire.Responses, rs("response.done", "incomplete"), true, 0},
		"response.done, cancelled":       {wire.Responses, rs("response.done", "cancelled"), true, 0},
		"response.done, no status":       {wire.Responses, rsStart + event("response.done", `{"type":"response.done"}`), true, 0},
		"response.done and [DONE]":       {wire.Responses, rs("response.done", "completed") + done, true, 0},
		"response.done, failed":          {wire.Responses, rsStart + event("", `{"type":"response.done","response":{"status":"failed","status_details":{"error":{"code":"rate_limit_exceeded"}}}}`), true, 429},
		"response.done, still at it":     {wire.Responses, rs("response.done", "in_progress"), false, 0},
		"response.canceled":              {wire.Responses, rs("response.canceled", "cancelled"), true, 0},
		"response.error":                 {wire.Responses, rsStart + event("", `{"type":"response.error","error":{"code":"server_is_overloaded"}}`), true, 503},
		"done_reason":                    {wire.Ollama, oText + `{"model":"m","message":{"role":"assistant","content":""},"done_reason":"stop"}` + "\n", true, 0},
		"done_reason alone":              {wire.Ollama, oText + `{"done_reason":"length"}` + "\n", true, 0},
		"done_reason beside done: false": {wire.Ollama, oText + `{"done_reason":"stop","done":false}` + "\n", true, 0},
		"empty done_reason":              {wire.Ollama, strings.Replace(oText, `"done":false`, `"done":false,"done_reason":""`, 1), false, 0},
		"done_reason null":               {wire.Ollama, strings.Replace(oText, `"done":false`, `"done":false,"done_reason":null`, 1), false, 0},
		"done_reason error":              {wire.Ollama, oText + `{"done_reason":"error"}` + "\n", true, 502},
		"stop_reason error":              {wire.Messages, msStart + msText + strings.Replace(msTool, "tool_use", "error", 1), true, 502},
		"stop_reason refusal":            {wire.Messages, msStart + strings.Replace(msTool, "tool_use", "refusal", 1), true, 0},
		"stop_reason pause_turn":         {wire.Messages, msStart + strings.Replace(msTool, "tool_use", "pause_turn", 1), true, 0},
		"chat, half a tool call":         {wire.Chat, cHe + strings.Replace(fStop, "stop", "malformed_tool_use", 1), true, 502},
		"index counts tokens":            {wire.Chat, strings.ReplaceAll(cOne+fOne, `"index":1`, `"index":3`) + cHe, false, 0},
	} {
		s, ms := play(t, c.format, c.body)
		assert.Equal(t, c.complete, s.Complete(), name)
		assert.Equal(t, c.status != 0, s.Failure() != nil, "%s: %v", name, ms)
		if c.status != 0 && s.Failure() != nil {
			assert.Equal(t, c.status, s.Failure().Status, name)
		}
	}
	large := `{"pad":"` + strings.Repeat("p", 70_000) + `","done_reason":"stop"}` + "\n"
	s := wire.Ollama.NewStream(wire.StreamOptions{})
	_, over, m := s.Large([]byte(large))
	require.True(t, over)
	assert.NotZero(t, m&wire.MarkEnd, "done_reason in a large line")
}

// A failure that an event names without a word of why is completed by the one
// behind it.
func TestFailureInTwoEvents(t *testing.T) {
	busy := event("error", `{"type":"error","error":{"type":"too_many_requests","code":"rate_limit_exceeded","message":"slow down"}}`)
	for name, c := range map[string]struct {
		format *wire.Format
		body   string
		want   int
		vague  bool
	}{
		"failed, then why":          {wire.Responses, event("response.failed", `{"type":"response.failed","response":{"status":"failed","error":null}}`) + busy, 429, false},
		"with others between":       {wire.Responses, event("", `{"type":"response.failed","response":{}}`) + ": x\n\n" + event("ping", `{}`) + busy, 429, false},
		"failed, nothing more":      {wire.Responses, event("", `{"type":"response.failed","response":{"error":null}}`) + done, 502, false},
		"failed, nothing at all":    {wire.Responses, event("", `{"type":"response.failed","response":{"error":null}}`), 502, true},
		"failed, then no error":     {wire.Responses, event("", `{"type":"response.failed","response":{"error":null}}`) + rsText, 502, true},
		"the first with words wins": {wire.Responses, event("", `{"type":"response.failed","response":{"error":{"code":"server_error"}}}`) + busy, 502, false},
		"error, then failed":        {wire.Responses, event("error", `{"type":"error","message":"x"}`) + event("", `{"type":"response.failed","response":{"error":{"code":"slow_down"}}}`), 503, false},
		"finish, then why":          {wire.Chat, cHe + strings.Replace(fStop, "stop", "error", 1) + event("", `{"error":{"code":429,"message":"x"}}`) + done, 429, false},
		"finish alone":              {wire.Chat, cHe + strings.Replace(fStop, "stop", "error", 1) + done, 502, false},
		"interaction":               {wire.Interactions, event("", `{"event_type":"interaction.failed"}`) + event("", `{"event_type":"error","error":{"code":"rate_limit_exceeded"}}`), 429, false},
		"messages":                  {wire.Messages, event("error", `{"type":"error"}`) + event("error", `{"type":"error","error":{"type":"overloaded_error"}}`), 503, false},
		"text, then why":            {wire.Chat, event("error", "oops") + event("", `{"error":{"code":401}}`), 401, false},
	} {
		s, _ := play(t, c.format, c.body)
		require.NotNil(t, s.Failure(), name)
		assert.Equal(t, c.want, s.Failure().Status, name)
		assert.Equal(t, c.vague, s.Vague(), name)
	}
}

// The path does not prove the format: who comes judges itself (contract 0).
func TestStreamOfAnotherFormat(t *testing.T) {
	llama := event("", `{"content":"he","stop":false}`)
	odd := event("", `{"delta_text":"he"}`)
	long := strings.Repeat("x", 70_000)
	baidu := func(last bool, text string) string {
		return event("", fmt.Sprintf(`{"id":"x","object":"chat.completion","is_end":%t,"result":%q,"usage":{"total_tokens":2}}`, last, text))
	}
	dash := func(finish string) string {
		return event("", `{"output":{"choices":[{"message":{"content":"a"},"finish_reason":"`+finish+`"}]},"usage":{"total_tokens":2},"request_id":"x"}`)
	}
	for name, c := range map[string]struct {
		format            *wire.Format
		body              string
		complete, atEOF   bool
		content, malforms bool
	}{
		"llama.cpp, whole":         {wire.Completions, llama + event("", `{"content":"","stop":true}`), true, true, true, false},
		"llama.cpp, long prompt":   {wire.Completions, llama + event("", `{"content":"","stop":true,"prompt":"`+long+`"}`), true, true, true, false},
		"llama.cpp, one long":      {wire.Completions, event("", `{"content":"he","stop":true,"prompt":"`+long+`"}`), true, true, true, false},
		"llama.cpp, long, cut":     {wire.Completions, llama + event("", `{"content":"`+long+`","stop":false}`), false, false, true, false},
		"Baidu on chat's path":     {wire.Chat, baidu(false, "he") + baidu(true, ""), true, true, true, false},
		"Baidu there, long":        {wire.Chat, baidu(false, "he") + baidu(true, long), true, true, true, false},
		"Baidu there, one long":    {wire.Chat, baidu(true, long), true, true, true, false},
		"DashScope on chat's path": {wire.Chat, dash("null") + dash("stop"), true, true, true, false},
		"DashScope there, cut":     {wire.Chat, dash("null") + dash("null"), false, false, true, false},
		"usage is not an answer":   {wire.Chat, event("", `{"object":"chat.completion.chunk","model":"m","usage":{"total_tokens":1}}`), false, false, false, false},
		"messages on chat's path":  {wire.Chat, msStart + msText + msTool, true, true, true, false},
		"messages there, cut":      {wire.Chat, msStart + msText, false, false, true, false},
		"messages there, [DONE]":   {wire.Chat, msStart + msText + done, false, false, true, false},
		"chat on messages' path":   {wire.Messages, cHe + fStop, true, true, true, false},
		"chat there, cut":          {wire.Messages, event("ping", `{}`) + cHe, false, false, true, false},
		"Gemini on chat's path":    {wire.Chat, event("", gText) + event("", gStop), true, true, true, false},
		"responses on chat's path": {wire.Chat, rsStart + rsText + event("", `{"type":"response.completed"}`), true, true, true, false},
		"of none":                  {wire.Chat, odd + odd, false, true, true, false},
		"of none, [DONE]":          {wire.Chat, odd + done, true, true, true, false},
		"of none, cut":             {wire.Chat, odd + `data: {"delta_t`, false, false, true, false},
		"of none, odd JSON":        {wire.Chat, odd + event("", `{odd}`), false, true, true, false},
		"of none, then its own":    {wire.Chat, odd + cHe, false, false, true, false},
		"notices are none":         {wire.Chat, notices["waiting"] + notices["queue notice"], false, false, false, false},
		"not in the middle":        {wire.Chat, cHe + msStart + msTool, false, false, true, false},
	} {
		s, ms := play(t, c.format, c.body)
		assert.Equal(t, c.complete, s.Complete(), name)
		assert.Equal(t, c.atEOF, s.CompleteAtEOF(), name)
		assert.Equal(t, c.content, s.Content(), name)
		assert.Nil(t, s.Failure(), name)
		assert.NotContains(t, ms, wire.MarkMalformed, name)
	}
}

// A lenient target ends with its body, unless half an event is pending.
func TestLenientWithHalfAnEvent(t *testing.T) {
	for tail, want := range map[string]bool{
		"": true, ": c": true, ": c\n": true, "\n": true, "data: {\"cho": false, "da": false, "event: x\n": false, "data: {\"cho\n": false,
		": c\ndata: {": false, "data: " + `{"choices":[{"index":0,"delta":{"content":"b"}}]}`: true,
		"data: {\"x\":\"" + strings.Repeat("x", 70_000): false, ": " + strings.Repeat("x", 70_000): true,
	} {
		s := wire.Chat.NewStream(wire.StreamOptions{Lenient: true})
		s.Event([]byte(cHe))
		b := []byte(tail)
		for len(b) > 0 {
			n := s.Next(b)
			if n == 0 {
				break
			}
			s.Event(b[:n])
			b = b[n:]
		}
		if len(b) > 64<<10 {
			_, over, _ := s.Large(b)
			require.False(t, over)
			b = nil
		}
		s.Rest(b)
		assert.Equal(t, want, s.CompleteAtEOF(), "%.20q", tail)
		assert.False(t, s.Complete())
	}
	s := wire.Chat.NewStream(wire.StreamOptions{Lenient: true})
	for i := range 3 { // an older text-generation server counts tokens in index
		s.Event([]byte(strings.Replace(cHe, `"index":0`, `"index":`+string(rune('1'+i)), 1)))
	}
	assert.True(t, s.CompleteAtEOF())
}
