package wire_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

func TestATicketIsAnAnswer(t *testing.T) {
	deferred, plain := wire.Answer{Deferred: true}, wire.Answer{}
	accepted := wire.Answer{Status: http.StatusAccepted}
	for name, c := range map[string]struct {
		answer wire.Answer
		body   string
	}{
		"xAI":                       {deferred, `{"request_id":"d0f5"}`},
		"a task's name":             {deferred, `{"taskId":17,"created":1}`},
		"a URL to ask":              {deferred, `{"status_url":"https://up/1"}`},
		"no choices yet":            {deferred, `{"id":"x","choices":[]}`},
		"Zhipu":                     {plain, `{"request_id":"r","id":"x","model":"m","task_status":"PROCESSING"}`},
		"DashScope":                 {plain, `{"output":{"task_status":"PENDING","task_id":"t"},"request_id":"r"}`},
		"Perplexity":                {plain, `{"id":"x","model":"m","created_at":1,"status":"CREATED","response":null,"error_message":null}`},
		"fal":                       {plain, `{"status":"IN_QUEUE","request_id":"r","response_url":"https://up/r","queue_position":0}`},
		"Replicate":                 {plain, `{"id":"x","status":"starting","output":null,"error":null,"urls":{"get":"https://up/x"}}`},
		"a message beside":          {plain, `{"job_id":"j","state":"queued","message":"your job is queued"}`},
		"within a task":             {plain, `{"code":0,"task":{"id":"t","status":"in_progress"}}`},
		"within data":               {plain, `{"code":200,"success":true,"data":{"task_id":"t","status":"submitted"}}`},
		"a status that is a number": {plain, `{"id":"x","status":202}`},
		"a code that is 202":        {plain, `{"code":202,"message":"accepted","task_id":"t"}`},
		"background":                {plain, `{"id":"x","object":"response","status":"queued","background":true,"output":[],"error":null}`},
		"202":                       {accepted, `{"request_id":"r"}`},
		"202, nothing":              {accepted, ``},
		"202, text":                 {accepted, `Accepted`},
		"202, message":              {accepted, `{"code":202,"message":"accepted"}`},
		"202, null":                 {accepted, `null`},
		"202, list":                 {accepted, `[]`},
		"202, no choices":           {accepted, `{"choices":[]}`},
		"202, an answer":            {accepted, okJSON},
	} {
		for _, f := range append(judging, wire.Embeddings, wire.Bedrock) {
			v := f.Judge(c.answer, []byte(c.body))
			require.Nil(t, v.Failure, "%s at %s", name, f)
			assert.True(t, v.Accepted, "%s at %s", name, f)
			assert.Empty(t, v.Empty, "%s at %s", name, f)
		}
	}
}

func TestNoTicket(t *testing.T) {
	deferred, plain := wire.Answer{Deferred: true}, wire.Answer{}
	accepted := wire.Answer{Status: http.StatusAccepted}
	for name, c := range map[string]struct {
		answer wire.Answer
		body   string
		status int // of the failure; 0 is delivered
	}{
		"an answer after all":      {deferred, okJSON, 0},
		"a handle nobody asked":    {plain, `{"request_id":"r"}`, 502},
		"no handle":                {plain, `{"status":"queued"}`, 502},
		"a handle that is empty":   {plain, `{"id":"","status":"queued"}`, 502},
		"over":                     {plain, `{"id":"x","task_status":"FAIL"}`, 502},
		"a choice, if empty":       {plain, `{"id":"x","status":"queued","choices":[{"message":{"content":""}}]}`, 0},
		"processing is over":       {plain, `{"id":"x","status":"processing_complete"}`, 502},
		"it could not start":       {plain, `{"id":"x","status":"failed_in_queue"}`, 502},
		"an error":                 {deferred, `{"request_id":"r","error":{"code":429}}`, 429},
		"an error and a status":    {plain, `{"id":"x","status":"queued","error":"busy"}`, 502},
		"refused":                  {plain, `{"id":"x","status":"pending","success":false}`, 502},
		"a business code":          {deferred, `{"code":401,"msg":"bad key","request_id":"r"}`, 401},
		"MiniMax":                  {deferred, `{"task_id":"t","base_resp":{"status_code":1002}}`, 429},
		"a message":                {deferred, `{"request_id":"r","message":"Unauthorized"}`, 502},
		"details":                  {plain, `{"id":"x","status":"queued","detail":"full"}`, 502},
		"the word within content":  {plain, `{"id":"x","choices":[{"message":{"content":"status: queued"}}]}`, 0},
		"202, an error":            {accepted, `{"error":{"code":429,"message":"busy"}}`, 429},
		"202, an error in a list":  {accepted, `[{"error":{"code":429,"message":"busy"}}]`, 429},
		"202, a firewall's puzzle": {accepted, "\n<!DOCTYPE html><title>challenge</title>", 502},
	} {
		v := wire.Chat.Judge(c.answer, []byte(c.body))
		assert.False(t, v.Accepted, name)
		if c.status == 0 {
			assert.Nil(t, v.Failure, name)
			continue
		}
		require.NotNil(t, v.Failure, name)
		assert.Equal(t, c.status, v.Failure.Status, name)
	}
}

func TestRequestsThatAskForTheirAnswerLater(t *testing.T) {
	for name, c := range map[string]struct {
		path, body string
		header     http.Header
		want       bool
	}{
		"plain":           {"/v1/chat/completions", `{"model":"m"}`, nil, false},
		"a member":        {"/v1/chat/completions", `{"deferred":true,"model":"m"}`, nil, true},
		"false":           {"/v1/chat/completions", `{"deferred":false}`, nil, false},
		"text":            {"/v1/chat/completions", `{"deferred":"true"}`, nil, false},
		"of a message":    {"/v1/chat/completions", `{"messages":[{"deferred":true}]}`, nil, false},
		"the path":        {"/api/paas/v4/async/chat/completions", `{}`, nil, true},
		"RFC 7240":        {"/v1/responses", `{}`, http.Header{"Prefer": {"wait=5, respond-async"}}, true},
		"DashScope":       {"/api/v1/services/aigc/text-generation/generation", `{}`, http.Header{"X-Dashscope-Async": {"enable"}}, true},
		"no inference":    {"/async/jobs", `{}`, nil, false},
		"a name in there": {"/v1/asynchronous/chat/completions", `{}`, nil, false},
	} {
		u, err := url.Parse("http://up" + c.path)
		require.NoError(t, err)
		r := wire.Inspect("POST", u, c.header)
		r = read(r, "application/json", c.body)
		assert.Equal(t, c.want, r.Deferred, name)
	}
}

// FuzzJudge looks at bodies as every format and every kind of answer sees them:
// no panic, and what is known of the members is what encoding/json says.
func FuzzJudge(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
	}
	for _, c := range wholeAnswers {
		f.Add([]byte(c.body))
	}
	for _, s := range []string{
		`{"request_id":"x"}`, `{"id":1,"status":"queued"}`, `{"output":{"task_id":"t","task_status":"PENDING"}}`,
		`{"ch\u006fices":[]}`, `{"choices":null,"choices":[]}`, `{"Output":{"__type":"a#B:c"}}`, `{"id":"x","status":202,"data":{"id":{}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, g := range append(judging, wire.Embeddings, wire.Bedrock) {
			for _, a := range []wire.Answer{{}, {Deferred: true}, {Status: http.StatusAccepted}, {ContentType: "application/json"}} {
				v := g.Judge(a, b)
				if v.Failure != nil && (v.Accepted || v.Failure.Status < 400 || len(v.Failure.Body) == 0) {
					t.Fatalf("%s: %q: %+v", g, b, v.Failure)
				}
			}
		}
		object, once := decoded(b)
		for g, want := range membership(object) {
			if got := wire.Carries(b, g); got != want && once {
				t.Fatalf("%s: %q: %t, want %t", g, b, got, want)
			}
		}
	})
}

// decoded is the object b as encoding/json reads it, nil if it is none; once
// says that no member occurs twice.
func decoded(b []byte) (object map[string]json.RawMessage, once bool) {
	if json.Unmarshal(b, &object) != nil {
		return nil, true
	}
	d := json.NewDecoder(bytes.NewReader(b))
	_, _ = d.Token()
	n := 0
	for ; d.More(); n++ {
		var v json.RawMessage
		_, _ = d.Token()
		if d.Decode(&v) != nil {
			break
		}
	}
	return object, n == len(object)
}

// membership says by encoding/json which formats' members an object carries.
func membership(object map[string]json.RawMessage) map[*wire.Format]bool {
	is := func(name, kinds string) bool {
		v := object[name]
		return len(v) > 0 && strings.IndexByte(kinds, v[0]) >= 0
	}
	word := func(name string) string {
		var s string
		if is(name, `"`) {
			_ = json.Unmarshal(object[name], &s)
		}
		return s
	}
	named := func(name string, values ...string) bool { return slices.Contains(values, word(name)) }
	eventType := word("event_type")
	return map[*wire.Format]bool{
		wire.Chat:      is("choices", "[n") || named("object", "chat.completion", "chat.completion.chunk", "text_completion"),
		wire.Responses: named("object", "response") || strings.HasPrefix(word("type"), "response."),
		wire.Messages: is("content", "[") && (named("type", "message") || is("stop_reason", `"n`)) || named("type", "message_start",
			"message_delta", "message_stop", "content_block_start", "content_block_delta", "content_block_stop"),
		wire.Gemini: is("candidates", "[") || is("promptFeedback", "{") || is("usageMetadata", "{"),
		wire.Ollama: (is("done", "tf") || word("done_reason") != "") &&
			(is("message", "{") || is("response", `"`) || is("created_at", `"`)),
		wire.Cohere: is("message", "{") && is("finish_reason", `"`) || named("type", "message-start", "message-end", "content-start",
			"content-delta", "content-end", "tool-plan-delta", "tool-call-start", "tool-call-delta", "tool-call-end",
			"citation-start", "citation-end"),
		wire.Interactions: named("object", "interaction") || eventType != "" && eventType != "error",
		wire.DashScope:    is("output", "{") && is("request_id", `"`),
		wire.Bedrock:      is("output", "{") && word("stopReason") != "",
	}
}
