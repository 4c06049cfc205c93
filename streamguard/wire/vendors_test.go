package wire_test

import (
	"encoding/json"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

const (
	gText   = `{"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"},"index":0}]}`
	gStop   = `{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}]}`
	gUsage  = `{"usageMetadata":{"totalTokenCount":3}}`
	gBusy   = `{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}`
	oText   = `{"model":"m","message":{"role":"assistant","content":"a"},"done":false}` + "\n"
	oDone   = `{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}` + "\n"
	cmDelta = `{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"a"}}}}`
)

func TestVendorStreamEnds(t *testing.T) {
	ev := func(data ...string) string { return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n" }
	for name, c := range map[string]struct {
		format   *wire.Format
		body     string
		complete bool
		status   int
	}{
		"Gemini, cut":                    {wire.Gemini, ev(gText, gText), false, 0},
		"Gemini, unspecified reason":     {wire.Gemini, ev(strings.Replace(gStop, "STOP", "FINISH_REASON_UNSPECIFIED", 1)), false, 0},
		"Gemini, usage alone":            {wire.Gemini, ev(gUsage), false, 0},
		"Gemini, DONE of a gateway":      {wire.Gemini, ev(gText, "[DONE]"), true, 0},
		"Gemini, DONE alone":             {wire.Gemini, ev("[DONE]"), false, 0},
		"Gemini, goes on":                {wire.Gemini, ev(gStop, gText), true, 0},
		"Gemini, goes on half":           {wire.Gemini, ev(gStop) + "data: " + gText[:30], false, 0},
		"Gemini, half the usage":         {wire.Gemini, ev(gStop) + "data: " + gUsage[:12], true, 0},
		"Gemini, a second candidate":     {wire.Gemini, ev(gStop, strings.Replace(gText, `"index":0`, `"index":1`, 1)), false, 0},
		"Gemini, feedback without block": {wire.Gemini, ev(`{"promptFeedback":{"safetyRatings":[]}}`), false, 0},
		"Gemini, continuation":           {wire.Gemini, ev(strings.Replace(gStop, "STOP", "CONTINUATION", 1)), true, 0},
		"Gemini, error array in data":    {wire.Gemini, ev(gText, "["+gBusy+"]"), true, 503},
		"Gemini, bare array":             {wire.Gemini, ev(gText) + "[" + gBusy + "]\n", true, 503},
		"Gemini, text error":             {wire.Gemini, ev(gText, `{"error":"gone"}`), true, 502},
		"array, closed":                  {wire.Gemini, "[" + gText + "," + gStop + "]", true, 0},
		"array, finished but open":       {wire.Gemini, "[" + gText + "," + gStop, false, 0},
		"array, empty":                   {wire.Gemini, "[]", false, 0},
		"array, empty, blanks":           {wire.Gemini, " [ \r\n ] \n", false, 0},
		"array, usage alone":             {wire.Gemini, "[" + gUsage + "]", false, 0},
		"array, error alone":             {wire.Gemini, "[" + gBusy + "]", true, 503},
		"array, BOM":                     {wire.Gemini, "\xef\xbb\xbf[" + gStop + "]", true, 0},
		"Ollama, cut":                    {wire.Ollama, oText + oText, false, 0},
		"Ollama, done":                   {wire.Ollama, oText + oDone, true, 0},
		"Ollama, no last line end":       {wire.Ollama, oText + strings.TrimSpace(oDone), true, 0},
		"Ollama, half a line":            {wire.Ollama, oText + oDone[:40], false, 0},
		"Ollama, done for no reason":     {wire.Ollama, oText + strings.Replace(oDone, `,"done_reason":"stop"`, "", 1), true, 0},
		"Ollama, older server":           {wire.Ollama, oText + strings.Replace(oDone, `"done_reason":"stop"`, `"eval_count":3`, 1), true, 0},
		"Ollama, error first":            {wire.Ollama, `{"error":"model 'x' not found"}` + "\n", true, 502},
		"Ollama, error in content":       {wire.Ollama, strings.Replace(oText, `"a"`, `"{\"error\":\"x\"}"`, 1), false, 0},
		"Ollama, gateway's events":       {wire.Ollama, ev(strings.TrimSpace(oText), strings.TrimSpace(oDone)), true, 0},
		"Ollama, gateway's status":       {wire.Ollama, oText + `{"error":{"code":429,"message":"x"}}` + "\n", true, 429},
		"Cohere, cut":                    {wire.Cohere, event("content-delta", cmDelta), false, 0},
		"Cohere, DONE alone":             {wire.Cohere, event("content-delta", cmDelta) + done, false, 0},
		"Cohere, no event field":         {wire.Cohere, event("", cmDelta) + event("", `{"type":"message-end","delta":{"finish_reason":"COMPLETE"}}`), true, 0},
		"Cohere, error body":             {wire.Cohere, event("content-delta", cmDelta) + event("", `{"message":"internal server error","id":"x"}`), true, 502},
		"Interactions, cut":              {wire.Interactions, event("", `{"event_type":"content.delta","delta":{"type":"text","text":"a"}}`), false, 0},
		"Interactions, DONE alone":       {wire.Interactions, event("", `{"event_type":"content.delta","delta":{"type":"text","text":"a"}}`) + done, false, 0},
		"Interactions, cancelled":        {wire.Interactions, event("interaction.completed", `{"interaction":{"status":"cancelled"}}`), true, 0},
		"DashScope, cut":                 {wire.DashScope, event("result", `{"output":{"text":"a","finish_reason":"null"}}`), false, 0},
		"DashScope, usage alone":         {wire.DashScope, event("result", `{"output":{},"usage":{}}`), false, 0},
	} {
		s, _ := play(t, c.format, c.body)
		assert.Equal(t, c.complete, s.CompleteAtEOF(), name)
		if c.status == 0 {
			assert.Nil(t, s.Failure(), name)
			continue
		}
		if assert.NotNil(t, s.Failure(), name) {
			assert.Equal(t, c.status, s.Failure().Status, name)
		}
	}
}

// A stream that goes on behind its finish is over where its body ends well, and
// nowhere else.
func TestGeminiGoesOnAfterAFinish(t *testing.T) {
	s, _ := play(t, wire.Gemini, "data: "+gStop+"\n\n")
	assert.True(t, s.Complete())
	s, _ = play(t, wire.Gemini, "data: "+gStop+"\n\ndata: "+gText+"\n\n")
	assert.False(t, s.Complete(), "a transport failure here is one")
	assert.True(t, s.CompleteAtEOF())
	s, _ = play(t, wire.Gemini, "data: "+gStop+"\n\ndata: "+gText+"\n\ndata: "+gStop+"\n\n")
	assert.True(t, s.Complete())
}

func TestVendorEventsThatAreMalformed(t *testing.T) {
	for name, c := range map[string]struct {
		format *wire.Format
		body   string
	}{
		"Gemini":               {wire.Gemini, "data: {\"candidates\":[\n\n"},
		"array, two commas":    {wire.Gemini, "[" + gText + ",," + gText + "]"},
		"array, comma first":   {wire.Gemini, "[," + gText + "]"},
		"array, comma last":    {wire.Gemini, "[" + gText + ",]"},
		"array, no comma":      {wire.Gemini, "[" + gText + gText + "]"},
		"array, text":          {wire.Gemini, "[" + gText + ",\"x\"]"},
		"array, element":       {wire.Gemini, "[{\"candidates\":[}]"},
		"array, behind it":     {wire.Gemini, "[" + gText + "]x"},
		"array, odd nesting":   {wire.Gemini, "[{\"a\":\"\\x\"}]"},
		"Ollama":               {wire.Ollama, "{\"model\":\n"},
		"Ollama, two in one":   {wire.Ollama, strings.TrimSpace(oText) + oText},
		"Cohere":               {wire.Cohere, "data: {\"type\"\n\n"},
		"Interactions":         {wire.Interactions, "data: {\"event_type\"\n\n"},
		"DashScope":            {wire.DashScope, "data:{\"output\":{]}\n\n"},
		"Bedrock, no frame":    {wire.Bedrock, "{\"message\":\"nothing\"}"},
		"Bedrock, zero length": {wire.Bedrock, strings.Repeat("\x00", 16)},
	} {
		_, ms := play(t, c.format, c.body)
		assert.Contains(t, ms, wire.MarkMalformed, name)
	}
}

// Whichever bit of a frame is flipped on its way, the frame is not taken for
// good.
func TestBedrockChecksums(t *testing.T) {
	raw, err := os.ReadFile("testdata/bedrock/converse.bin")
	require.NoError(t, err)
	_, want := play(t, wire.Bedrock, string(raw))
	for i := range raw {
		bad := []byte(string(raw))
		bad[i] ^= 1 << (i % 8)
		_, ms := play(t, wire.Bedrock, string(bad))
		require.True(t, slices.Contains(ms, wire.MarkMalformed) || len(ms) < len(want), "byte %d: %v", i, ms)
	}
}

func TestVendorAborts(t *testing.T) {
	start := map[*wire.Format]string{
		wire.Gemini: "data: " + gText + "\r\n\r\n", wire.Ollama: oText, wire.Cohere: event("content-delta", cmDelta),
		wire.Interactions: event("content.delta", `{"event_type":"content.delta"}`), wire.DashScope: event("result", `{"output":{"text":"a"}}`),
	}
	for f, want := range map[*wire.Format]string{
		wire.Gemini:       "data: {\"error\":{\"code\":503,\"message\":\"m\",\"status\":\"UNAVAILABLE\"}}\r\n\r\n",
		wire.Ollama:       "{\"error\":\"m\"}\n",
		wire.Cohere:       "event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"ERROR\",\"error\":\"m\"}}\n\n",
		wire.Interactions: "event: error\ndata: {\"event_type\":\"error\",\"error\":{\"code\":\"stream_incomplete\",\"message\":\"m\"}}\n\n",
		wire.DashScope:    "event: error\ndata: {\"code\":\"stream_incomplete\",\"message\":\"m\"}\n\n",
	} {
		s, _ := play(t, f, start[f])
		got := string(s.Abort(502, "", "m"))
		assert.Equal(t, want, got, f.String())
		_, ms := play(t, f, got)
		assert.Equal(t, []wire.Mark{failing}, ms, "%s: the library knows its own event", f)
	}
	s, _ := play(t, wire.Gemini, "["+gText)
	assert.Equal(t, ",\n{\"error\":{\"code\":503,\"message\":\"m\",\"status\":\"UNAVAILABLE\"}}", string(s.Abort(504, "", "m")))
	s, _ = play(t, wire.Gemini, "[")
	assert.True(t, json.Valid(append(s.Abort(504, "", "m"), ']')), "the array stays open")
	s, _ = play(t, wire.Gemini, "["+gText+"]")
	assert.Nil(t, s.Abort(502, "", "m"))
	raw, err := os.ReadFile("testdata/bedrock/converse.bin")
	require.NoError(t, err)
	s, _ = play(t, wire.Bedrock, string(raw[:200]))
	assert.Nil(t, s.Abort(502, "", "m"))
	assert.Empty(t, s.CloseLarge())
	assert.Equal(t, "{\"error\":\"m\"}\n", string(wire.Ollama.NewStream(wire.StreamOptions{}).Abort(502, "", "m")), "before the first byte")
}

func TestVendorErrorBodies(t *testing.T) {
	for f, want := range map[*wire.Format]string{
		wire.Gemini:       `{"error":{"code":503,"message":"m","status":"UNAVAILABLE","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"circuit_open","domain":"surefoot"}]}}`,
		wire.Ollama:       `{"error":"m"}`,
		wire.Cohere:       `{"message":"m","code":"circuit_open"}`,
		wire.Interactions: `{"error":{"code":"circuit_open","message":"m"}}`,
		wire.Bedrock:      `{"__type":"ServiceUnavailableException","message":"m","reason":"circuit_open"}`,
		wire.DashScope:    `{"code":"circuit_open","message":"m"}`,
	} {
		assert.JSONEq(t, want, string(f.ErrorBody(503, "", "circuit_open", "m")), f.String())
	}
	for status, word := range map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ABORTED",
		429: "RESOURCE_EXHAUSTED", 499: "CANCELLED", 500: "INTERNAL", 502: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
	} {
		assert.Contains(t, string(wire.Gemini.ErrorBody(status, "", "", "m")), `"status":"`+word+`"`)
		assert.NotContains(t, string(wire.Gemini.ErrorBody(status, "", word, "m")), "details")
	}
	for status, name := range map[int]string{
		400: "ValidationException", 401: "AccessDeniedException", 404: "ResourceNotFoundException", 429: "ThrottlingException",
		408: "ModelTimeoutException", 500: "InternalServerException", 502: "ServiceUnavailableException",
	} {
		assert.Contains(t, string(wire.Bedrock.ErrorBody(status, "", "", "m")), name)
	}
	assert.JSONEq(t, `{"__type":"ThrottlingException","message":"m"}`, string(wire.Bedrock.ErrorBody(429, "", "throttlingException", "m")))
	assert.JSONEq(t, `{"error":{"code":"resource_exhausted","message":"m"}}`, string(wire.Interactions.ErrorBody(429, "", "", "m")))
	assert.JSONEq(t, `{"code":"rate_limit_error","message":"m"}`, string(wire.DashScope.ErrorBody(429, "", "", "m")))
}

func mustURL(t *testing.T, path string) *url.URL {
	t.Helper()
	u, err := url.Parse("https://api.example.com" + path)
	require.NoError(t, err)
	return u
}

func TestVendorAnswers(t *testing.T) {
	embeddings := wire.FormatOf("POST", mustURL(t, "/v1beta/models/e:embedContent"))
	titan := wire.FormatOf("POST", mustURL(t, "/model/amazon.titan-embed-text-v1/invoke"))
	for name, c := range map[string]struct {
		format *wire.Format
		body   string
		status int
		empty  string
		usable bool
	}{
		"Gemini":                    {wire.Gemini, strings.Replace(gStop, `{"c`, `{"usageMetadata":{"totalTokenCount":3},"c`, 1), 0, "", true},
		"Gemini, no usage":          {wire.Gemini, gStop, 0, "no_usage", true},
		"Gemini, blocked":           {wire.Gemini, `{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"totalTokenCount":3}}`, 0, "", false},
		"Gemini, no candidates":     {wire.Gemini, gUsage, 0, "no_output", false},
		"Gemini, error":             {wire.Gemini, gBusy, 503, "", false},
		"Gemini, error array":       {wire.Gemini, "[" + gBusy + "]", 503, "", false},
		"Gemini, null":              {wire.Gemini, "null", 502, "", false},
		"Gemini, half":              {wire.Gemini, gText[:20], 502, "", false},
		"Gemini, error beside":      {wire.Gemini, strings.Replace(gText, `{"c`, `{"error":{"code":500},"c`, 1), 0, "no_usage", true},
		"Ollama":                    {wire.Ollama, strings.Replace(oText, `"done":false`, `"done":true,"done_reason":"stop","eval_count":1`, 1), 0, "", true},
		"Ollama, error":             {wire.Ollama, `{"error":"no such model"}`, 502, "", false},
		"Ollama, load":              {wire.Ollama, oDone, 0, "no_usage", false},
		"Cohere":                    {wire.Cohere, `{"id":"x","finish_reason":"COMPLETE","message":{"role":"assistant","content":[{"type":"text","text":"a"}]},"usage":{"tokens":{"input_tokens":1}}}`, 0, "", true},
		"Cohere, no usage":          {wire.Cohere, `{"id":"x","finish_reason":"COMPLETE","message":{"role":"assistant","content":[{"type":"text","text":"a"}]}}`, 0, "no_usage", true},
		"Cohere, failed":            {wire.Cohere, `{"id":"x","finish_reason":"ERROR","message":{"role":"assistant","content":[]}}`, 502, "", false},
		"Cohere, timed out":         {wire.Cohere, `{"finish_reason":"TIMEOUT","message":{"role":"assistant","content":[{"type":"text","text":"a"}]}}`, 504, "", false},
		"Cohere, error":             {wire.Cohere, `{"id":"x","message":"something went wrong"}`, 502, "", false},
		"Cohere, half":              {wire.Cohere, `{"id":"x","message`, 502, "", false},
		"Interactions":              {wire.Interactions, `{"id":"x","status":"completed","outputs":[{"type":"text","text":"a"}],"usage":{"total_tokens":3}}`, 0, "", true},
		"Interactions, running":     {wire.Interactions, `{"id":"x","status":"in_progress"}`, 0, "", false},
		"Interactions, no output":   {wire.Interactions, `{"id":"x","status":"completed","outputs":[]}`, 0, "no_output", false},
		"Interactions, no usage":    {wire.Interactions, `{"id":"x","status":"completed","outputs":[{}]}`, 0, "no_usage", true},
		"Interactions, failed":      {wire.Interactions, `{"id":"x","status":"failed","error":{"code":"rate_limit_exceeded","message":"x"}}`, 429, "", false},
		"Interactions, quota":       {wire.Interactions, `{"error":{"code":"quota_exceeded","message":"x"}}`, 429, "", false},
		"Bedrock, converse":         {wire.Bedrock, `{"output":{"message":{"role":"assistant","content":[{"text":"a"}]}},"stopReason":"end_turn"}`, 0, "", true},
		"Bedrock, anything":         {wire.Bedrock, `{"message":"a model's own"}`, 0, "", true},
		"Bedrock, error":            {wire.Bedrock, `{"error":{"code":429,"message":"x"}}`, 429, "", false},
		"Bedrock, half":             {wire.Bedrock, `{"output":`, 502, "", false},
		"Bedrock, nothing":          {wire.Bedrock, "", 502, "", false},
		"Bedrock, an image":         {wire.Bedrock, "\x89PNG", 0, "", false},
		"DashScope":                 {wire.DashScope, `{"output":{"text":"a","finish_reason":"stop"},"usage":{"total_tokens":3}}`, 0, "", true},
		"DashScope, choices":        {wire.DashScope, `{"output":{"choices":[{"finish_reason":"stop","message":{"content":"a"}}]}}`, 0, "no_usage", true},
		"DashScope, throttled":      {wire.DashScope, `{"code":"Throttling","message":"x","request_id":"r"}`, 429, "", false},
		"Gemini embeddings":         {embeddings, `{"embedding":{"values":[0.1]}}`, 0, "", true},
		"Gemini embeddings, error":  {embeddings, gBusy, 503, "", false},
		"Bedrock embeddings":        {titan, `{"embedding":[0.1],"inputTextTokenCount":3}`, 0, "", true},
		"Bedrock embeddings, error": {titan, `{"error":{"code":503,"message":"x"}}`, 503, "", false},
	} {
		typ := "application/json"
		if strings.HasPrefix(c.body, "\x89") {
			typ = "image/png"
		}
		v := c.format.Judge(wire.Answer{Provider: "p", ContentType: typ}, []byte(c.body))
		if c.status != 0 {
			if assert.NotNil(t, v.Failure, name) {
				assert.Equal(t, c.status, v.Failure.Status, name)
				assert.True(t, json.Valid(v.Failure.Body), name)
			}
			continue
		}
		assert.Nil(t, v.Failure, name)
		assert.Equal(t, c.empty, v.Empty, name)
		assert.Equal(t, c.usable, v.Usable, name)
	}
	v := wire.Interactions.Judge(wire.Answer{Provider: "p", ContentType: ""}, []byte(`{"error":{"code":"quota_exceeded","message":"x"}}`))
	assert.True(t, v.Failure.Quota)
}

func TestVendorLargeEvents(t *testing.T) {
	pad := strings.Repeat("A", 70_000)
	for name, c := range map[string]struct {
		format *wire.Format
		body   string
		want   wire.Mark
	}{
		"Gemini":             {wire.Gemini, "data: " + strings.Replace(gText, `"a"`, `"`+pad+`"`, 1) + "\n\n", marks},
		"Gemini, finish":     {wire.Gemini, "data: " + strings.Replace(gStop, `""`, `"`+pad+`"`, 1) + "\n\n", marks | wire.MarkEnd},
		"Gemini, blocked":    {wire.Gemini, `data: {"x":"` + pad + `","promptFeedback":{"blockReason":"OTHER"}}` + "\n\n", marks | wire.MarkEnd},
		"Gemini, unknown":    {wire.Gemini, `data: {"x":"` + pad + `"}` + "\n\n", marks},
		"Gemini, error":      {wire.Gemini, `data: {"x":"` + pad + `","error":{"code":503}}` + "\n\n", failing},
		"array":              {wire.Gemini, "[" + strings.Replace(gText, `"a"`, `"`+pad+`]}\"[{"`, 1), marks},
		"Ollama":             {wire.Ollama, strings.Replace(oText, `"a"`, `"`+pad+`"`, 1), marks},
		"Ollama, done":       {wire.Ollama, strings.Replace(oDone, `""`, `"`+pad+`"`, 1), marks | wire.MarkEnd | wire.MarkFinal},
		"Ollama, no reason":  {wire.Ollama, `{"context":"` + pad + `","response":"","done":true}` + "\n", marks | wire.MarkEnd | wire.MarkFinal},
		"Ollama, unknown":    {wire.Ollama, `{"x":"` + pad + `"}` + "\n", marks},
		"Ollama, error":      {wire.Ollama, `{"x":"` + pad + `","error":"y"}` + "\n", failing},
		"Cohere, end":        {wire.Cohere, event("message-end", `{"x":"`+pad+`","delta":{"finish_reason":"COMPLETE"}}`), wire.MarkData | wire.MarkEnd | wire.MarkFinal},
		"Cohere, error":      {wire.Cohere, event("", `{"x":"`+pad+`","type":"message-end","delta":{"finish_reason":"ERROR","error":"e"}}`), failing},
		"Interactions, end":  {wire.Interactions, event("", `{"x":"`+pad+`","event_type":"interaction.completed","interaction":{"status":"completed"}}`), wire.MarkData | wire.MarkEnd | wire.MarkFinal},
		"Interactions, fail": {wire.Interactions, event("", `{"x":"`+pad+`","event_type":"interaction.completed","interaction":{"status":"failed"}}`), failing},
		"DashScope":          {wire.DashScope, event("result", `{"output":{"text":"`+pad+`","finish_reason":"stop"}}`), marks | wire.MarkEnd},
	} {
		s := c.format.NewStream(wire.StreamOptions{})
		require.Zero(t, s.Next([]byte(c.body[:65<<10])), name)
		rest := []byte(c.body)
		for over := false; !over; {
			n, end, m := s.Large(rest[:min(len(rest), 4001)])
			rest, over = rest[n:], end
			if over {
				assert.Equal(t, c.want, m, name)
			}
		}
		assert.Empty(t, rest, name)
	}
}
