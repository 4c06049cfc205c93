package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

const (
	marks   = wire.MarkData | wire.MarkContent
	failing = wire.MarkFailed | wire.MarkEnd | wire.MarkFinal
	cHe     = `data: {"choices":[{"index":0,"delta":{"content":"he"},"finish_reason":null}]}` + "\n\n"
	cLlo    = `data: {"choices":[{"index":0,"delta":{"content":"llo"},"finish_reason":null}]}` + "\n\n"
	cOne    = `data: {"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":null}]}` + "\n\n"
	fStop   = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	fOne    = `data: {"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}` + "\n\n"
	uFrame  = `data: {"choices":[],"usage":{"total_tokens":3}}` + "\n\n"
	done    = "data: [DONE]\n\n"

	msStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"role\":\"assistant\",\"content\":[]}}\n\n"
	msText  = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n"
	msTool  = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":1}}\n\n"

	rsStart = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"status\":\"in_progress\",\"error\":null}}\n\n"
	rsText  = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":7,\"delta\":\"a\"}\n\n"
)

// play feeds body to a new stream and returns each event's marks.
func play(t testing.TB, f *wire.Format, body string) (*wire.Stream, []wire.Mark) {
	t.Helper()
	s := f.NewStream(wire.StreamOptions{})
	var ms []wire.Mark
	b := []byte(body)
	for {
		n := s.Next(b)
		if n == 0 {
			break
		}
		ms = append(ms, s.Event(b[:n]))
		b = b[n:]
	}
	if len(b) > 0 {
		m, whole := s.Rest(b)
		if whole {
			ms = append(ms, m)
		}
	}
	return s, ms
}

func event(name, data string) string {
	if name != "" {
		name = "event: " + name + "\n"
	}
	return name + "data: " + data + "\n\n"
}

func TestChatStreamMarks(t *testing.T) {
	s, ms := play(t, wire.Chat, cHe+cLlo+": ping\n\n"+fStop+uFrame+done)
	require.Equal(t, []wire.Mark{marks, marks, wire.MarkComment, wire.MarkData | wire.MarkEnd, wire.MarkAside, wire.MarkEnd | wire.MarkFinal}, ms)
	assert.True(t, s.Complete())
	assert.Nil(t, s.Failure())
	assert.Equal(t, 4, s.Events())
}

func TestStreamEnds(t *testing.T) {
	errEvent := event("error", `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`)
	for name, c := range map[string]struct {
		format   *wire.Format
		body     string
		complete bool
		status   int // of the failure, 0: none
	}{
		"B1 cut":                       {wire.Chat, cHe + cLlo, false, 0},
		"B1 empty reasons":             {wire.Chat, strings.ReplaceAll(cHe+cLlo, "null", `""`), false, 0},
		"B1 reason is the text null":   {wire.Chat, strings.ReplaceAll(cHe+cLlo, "null", `"null"`), false, 0},
		"B2 DONE alone":                {wire.Chat, cHe + done, true, 0},
		"B2 finish alone":              {wire.Chat, cHe + fStop, true, 0},
		"B2 content and finish":        {wire.Chat, strings.Replace(cHe, "null", `"stop"`, 1), true, 0},
		"B3 tool arguments":            {wire.Chat, cHe + event("", `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t1","function":{"name":"w","arguments":"{\"p\":\"a"}}]},"finish_reason":null}]}`), false, 0},
		"B14 DONE, one line end":       {wire.Chat, cHe + "data: [DONE]\n", true, 0},
		"B14 DONE, no line end":        {wire.Chat, cHe + "data: [DONE]", true, 0},
		"B14 finish, no line end":      {wire.Chat, cHe + strings.TrimSpace(fStop), true, 0},
		"B14 half an object":           {wire.Chat, cHe + strings.TrimSpace(fStop)[:len(fStop)-4], false, 0},
		"two choices, one open":        {wire.Chat, cHe + cOne + fStop, false, 0},
		"two choices, both finished":   {wire.Chat, cHe + cOne + fStop + fOne, true, 0},
		"a choice after the end":       {wire.Chat, cHe + fStop + cOne, false, 0},
		"two choices, DONE":            {wire.Chat, cHe + cOne + fOne + done, true, 0},
		"huge index":                   {wire.Chat, strings.ReplaceAll(cOne+fOne, `"index":1`, `"index":4294967296`), true, 0},
		"odd index":                    {wire.Chat, strings.ReplaceAll(cOne+fOne, `"index":1`, `"index":-1`), true, 0},
		"DONE without data":            {wire.Chat, done, false, 0},
		"DONE after usage only":        {wire.Chat, uFrame + done, false, 0},
		"completions":                  {wire.Completions, event("", `{"choices":[{"text":"a","index":0,"finish_reason":"stop"}]}`), true, 0},
		"B17 incomplete":               {wire.Responses, rsStart + rsText + event("response.incomplete", `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`), true, 0},
		"B17 failed":                   {wire.Responses, rsStart + rsText + event("response.failed", `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"x"}}}`), true, 502},
		"B17 cut":                      {wire.Responses, rsStart + rsText, false, 0},
		"B17 DONE":                     {wire.Responses, rsStart + rsText + done, false, 0},
		"cancelled":                    {wire.Responses, rsStart + event("", `{"type":"response.cancelled","response":{"status":"cancelled"}}`), true, 0},
		"type from the event field":    {wire.Responses, rsStart + event("response.completed", `{"response":{"status":"completed"}}`), true, 0},
		"data's type wins":             {wire.Responses, rsStart + event("response.completed", `{"type":"response.in_progress"}`), false, 0},
		"responses, flat error":        {wire.Responses, event("error", `{"type":"error","code":"rate_limit_exceeded","message":"x","param":null,"sequence_number":1}`), true, 429},
		"responses, chat's error":      {wire.Responses, event("", `{"error":{"code":"server_is_overloaded","message":"x"}}`), true, 503},
		"responses, error by field":    {wire.Responses, event("error", `{}`), true, 502},
		"B18 messages":                 {wire.Messages, msStart + msText + errEvent, true, 503},
		"B18 chat":                     {wire.Chat, cHe + event("", `{"error":{"code":502,"message":"x"},"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}`) + done, true, 502},
		"error in a choice":            {wire.Chat, cHe + event("", `{"choices":[{"index":0,"delta":{"content":""},"error":{"code":429,"message":"x"}}]}`), true, 429},
		"error beside content":         {wire.Chat, cHe + event("", `{"error":{"code":429},"choices":[{"index":0,"delta":{"content":"x"}}]}`), true, 429},
		"no error: null":               {wire.Chat, strings.ReplaceAll(cHe, `{"choices"`, `{"error":null,"choices"`), false, 0},
		"no error: object":             {wire.Chat, strings.ReplaceAll(cHe, `{"choices"`, `{"error":{ },"choices"`), false, 0},
		"no error: text":               {wire.Chat, strings.ReplaceAll(cHe, `{"choices"`, `{"error":"","choices"`), false, 0},
		"no error: false":              {wire.Chat, strings.ReplaceAll(cHe, `{"choices"`, `{"error":false,"choices"`), false, 0},
		"no error: in content":         {wire.Chat, strings.ReplaceAll(cHe, `"he"`, `"{\"error\":{\"code\":500}}"`), false, 0},
		"no error: Azure's filter":     {wire.Chat, strings.ReplaceAll(cHe, `"index"`, `"content_filter_results":{"error":{"code":"x"}},"index"`), false, 0},
		"no error: base_resp 0":        {wire.Chat, cHe + event("", `{"choices":[],"base_resp":{"status_code":0,"status_msg":"success"}}`), false, 0},
		"base_resp":                    {wire.Chat, event("", `{"choices":null,"base_resp":{"status_code":1008,"status_msg":"x"}}`), true, 402},
		"A9 GatewayTimeout":            {wire.Chat, event("", `{"error":{"message":"slow","type":"GatewayTimeout","code":504}}`) + done, true, 504},
		"A9 400":                       {wire.Chat, event("", `{"error":{"message":"slow","type":"GatewayTimeout","code":400}}`) + done, true, 400},
		"A9 vLLM":                      {wire.Chat, event("", `{"object":"error","message":"x","code":400}`) + done, true, 400},
		"TGI":                          {wire.Chat, event("", `{"error":"text","error_type":"generation"}`), true, 502},
		"Groq":                         {wire.Chat, event("error", `{"error":{"message":"x","type":"rate_limit_error"}}`), true, 429},
		"error named, no shape":        {wire.Chat, event("error", `{"x":1}`), true, 502},
		"error named, text":            {wire.Chat, event("error", `out of memory`), true, 502},
		"llama.cpp":                    {wire.Chat, "error: {\"code\":400,\"message\":\"context\",\"type\":\"invalid_request_error\"}\n\n" + done, true, 400},
		"DashScope":                    {wire.Chat, "id:1\nevent:error\n:HTTP_STATUS/429\ndata:{\"code\":\"Odd\",\"message\":\"x\"}\n\n", true, 429},
		"Google's array":               {wire.Chat, event("", `[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}]`), true, 429},
		"detail":                       {wire.Chat, event("", `{"detail":"x"}`), true, 502},
		"finish error":                 {wire.Chat, cHe + strings.Replace(fStop, "stop", "error", 1) + done, true, 502},
		"finish abort":                 {wire.Chat, cHe + strings.Replace(fStop, "stop", "abort", 1), true, 502},
		"finish network_error":         {wire.Chat, cHe + strings.Replace(fStop, "stop", "network_error", 1), true, 502},
		"finish no resource":           {wire.Chat, cHe + strings.Replace(fStop, "stop", "insufficient_system_resource", 1), true, 502},
		"finish content_filter":        {wire.Chat, cHe + strings.Replace(fStop, "stop", "content_filter", 1), true, 0},
		"error after finish":           {wire.Chat, cHe + fStop + event("", `{"error":{"code":500}}`) + done, true, 500},
		"error after DONE":             {wire.Chat, cHe + done + event("", `{"error":{"code":500}}`), true, 0},
		"B20 stop_reason":              {wire.Messages, msStart + msTool, true, 0},
		"B20 cut":                      {wire.Messages, msStart + msText, false, 0},
		"null stop_reason":             {wire.Messages, msStart + strings.Replace(msTool, `"tool_use"`, "null", 1), false, 0},
		"message_stop":                 {wire.Messages, msStart + event("message_stop", `{"type":"message_stop"}`), true, 0},
		"messages, DONE":               {wire.Messages, msStart + done, false, 0},
		"messages, chat's error":       {wire.Messages, event("", `{"error":{"type":"permission_error"}}`), true, 403},
		"stop_reason inside a text":    {wire.Messages, msStart + strings.Replace(msText, `"a"`, `"\"stop_reason\":\"x\""`, 1), false, 0},
		"plain text is relayed":        {wire.Chat, event("", "hello"), false, 0},
		"unknown format":               {wire.Unknown, event("", `{"error":{}`), true, 0},
		"embeddings":                   {wire.Embeddings, event("", `{`), true, 0},
		"only comments":                {wire.Chat, ": x\n\n\n\nevent: y\n\n", false, 0},
		"an error event, then content": {wire.Chat, event("", `{"error":{"code":500}}`) + cHe, true, 500},
	} {
		t.Run(name, func(t *testing.T) {
			s, ms := play(t, c.format, c.body)
			assert.Equal(t, c.complete, s.Complete())
			assert.NotContains(t, ms, wire.MarkMalformed)
			if c.status == 0 {
				assert.Nil(t, s.Failure())
				return
			}
			require.NotNil(t, s.Failure())
			assert.Equal(t, c.status, s.Failure().Status)
			assert.True(t, json.Valid(s.Failure().Body))
			assert.Contains(t, string(s.Failure().Body), `"error":{`)
		})
	}
}

func TestStreamMarks(t *testing.T) {
	for name, c := range map[string]struct {
		format *wire.Format
		event  string
		want   wire.Mark
	}{
		"role":                  {wire.Chat, event("", `{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`), wire.MarkData},
		"refusal":               {wire.Chat, event("", `{"choices":[{"delta":{"refusal":"no"}}]}`), marks},
		"reasoning":             {wire.Chat, event("", `{"choices":[{"delta":{"reasoning_content":"hm"}}]}`), marks},
		"no tool calls":         {wire.Chat, event("", `{"choices":[{"delta":{"tool_calls":[ ]}}]}`), wire.MarkData},
		"malformed":             {wire.Chat, event("", `{"choices":[{"delta":{"content":"x}]}`), wire.MarkMalformed},
		"malformed list":        {wire.Chat, event("", `[1,`), wire.MarkMalformed},
		"trailing garbage":      {wire.Chat, event("", `{"choices":[]} x`), wire.MarkMalformed},
		"malformed response":    {wire.Responses, event("", `{"type":"response.completed",}`), wire.MarkMalformed},
		"malformed message":     {wire.Messages, event("", `{"type":"message_stop"`), wire.MarkMalformed},
		"plain text":            {wire.Chat, event("", `plain`), 0},
		"empty data":            {wire.Chat, "data:\n\n", wire.MarkComment},
		"choices null":          {wire.Chat, event("", `{"choices":null,"usage":{}}`), wire.MarkAside},
		"filter results":        {wire.Chat, event("", `{"choices":[],"prompt_filter_results":[{"x":1}]}`), wire.MarkAside},
		"ping":                  {wire.Messages, event("ping", `{"type":"ping"}`), 0},
		"block start":           {wire.Messages, event("", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`), wire.MarkData},
		"text":                  {wire.Messages, msText, marks},
		"heartbeat":             {wire.Responses, event("", `{"type":"response.heartbeat"}`), 0},
		"lifecycle":             {wire.Responses, rsStart, wire.MarkData},
		"delta":                 {wire.Responses, rsText, marks},
		"completed":             {wire.Responses, event("", `{"type":"response.completed"}`), wire.MarkData | wire.MarkEnd | wire.MarkFinal},
		"failing finish":        {wire.Chat, strings.Replace(fStop, "stop", "abort", 1), wire.MarkFailed | wire.MarkEnd},
		"error":                 {wire.Chat, event("", `{"error":"x"}`), failing},
		"escaped key":           {wire.Chat, event("", `{"\u0065rror":"x"}`), failing},
		"unknown, no JSON":      {wire.Unknown, event("", `{"error":`), wire.MarkData},
		"vendor code, success":  {wire.Chat, event("", `{"code":200,"msg":"ok"}`), 0},
		"escaped stop_reason":   {wire.Messages, event("", `{"type":"message_delta","delta":{"stop_re\u0061son":"x"}}`), wire.MarkData | wire.MarkEnd},
		"duplicate choices":     {wire.Chat, event("", `{"choices":[],"choices":[{"index":0,"delta":{"content":"a"}}]}`), marks},
		"choices of odd things": {wire.Chat, event("", `{"choices":[1,null,{"delta":5,"index":"x","finish_reason":7}]}`), wire.MarkData},
	} {
		t.Run(name, func(t *testing.T) {
			_, ms := play(t, c.format, c.event)
			assert.Equal(t, []wire.Mark{c.want}, ms)
		})
	}
}

func TestLenientTakesContentForAnEnd(t *testing.T) {
	for _, lenient := range []bool{false, true} {
		s := wire.Chat.NewStream(wire.StreamOptions{Lenient: lenient})
		assert.False(t, s.CompleteAtEOF())
		s.Event([]byte(cHe))
		assert.Equal(t, lenient, s.CompleteAtEOF())
		assert.False(t, s.Complete())
	}
}

func TestAbort(t *testing.T) {
	type object = map[string]any
	for _, eol := range []string{"\n", "\r\n", "\r"} {
		for name, c := range map[string]struct {
			format *wire.Format
			body   string
			event  string
			want   object
		}{
			"chat":        {wire.Chat, cHe, "", object{"error": object{"message": "a \"b\"\n", "type": "server_error", "param": nil, "code": "stream_incomplete"}}},
			"completions": {wire.Completions, cHe, "", object{"error": object{"message": "a \"b\"\n", "type": "server_error", "param": nil, "code": "stream_incomplete"}}},
			"messages":    {wire.Messages, msText, "error", object{"type": "error", "error": object{"type": "api_error", "message": "a \"b\"\n"}}},
			"responses": {wire.Responses, rsStart + rsText, "error", object{"type": "error", "code": "stream_incomplete", "message": "a \"b\"\n", "param": nil, "sequence_number": 8.0,
				"error": object{"message": "a \"b\"\n", "type": "server_error", "param": nil, "code": "stream_incomplete"}}},
			"responses, no numbers": {wire.Responses, strings.ReplaceAll(rsText, "sequence_number", "n"), "error", object{"type": "error", "code": "stream_incomplete", "message": "a \"b\"\n", "param": nil, "sequence_number": 1.0,
				"error": object{"message": "a \"b\"\n", "type": "server_error", "param": nil, "code": "stream_incomplete"}}},
		} {
			s, _ := play(t, c.format, strings.ReplaceAll(c.body, "\n", eol))
			got := string(s.Abort(502, "", "a \"b\"\n"))
			if c.event != "" {
				head := "event: " + c.event + eol
				require.True(t, strings.HasPrefix(got, head), "%s: %q", name, got)
				got = got[len(head):]
			}
			data, ok := strings.CutPrefix(got, "data: ")
			require.True(t, ok, "%s: %q", name, got)
			data, ok = strings.CutSuffix(data, eol+eol)
			require.True(t, ok, "%s: %q", name, got)
			require.NotContains(t, data, "\n", name)
			var v object
			require.NoError(t, json.Unmarshal([]byte(data), &v), name)
			assert.Equal(t, c.want, v, fmt.Sprintf("%s, %q", name, eol))
		}
	}
}
