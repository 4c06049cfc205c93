package wire_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

const okJSON = `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"total_tokens":3}}`

// TestHiddenErrorStatus has a 2xx body that is an error in each row, and the
// status it stands for.
func TestHiddenErrorStatus(t *testing.T) {
	for body, status := range map[string]int{
		// numbers
		`{"error":{"code":429,"message":"busy"}}`:                        429,
		`{"error":{"code":"429","message":"busy"}}`:                      429,
		`{"error":{"code":503}}`:                                         503,
		`{"error":{"code":599}}`:                                         599,
		`{"error":{"code":600}}`:                                         502,
		`{"error":{"code":200,"message":"x"}}`:                           502,
		`{"error":{"status":404,"message":"x"}}`:                         404,
		`{"error":{"status":"404","message":"x"}}`:                       404,
		`{"status":500,"error":"Internal Server Error","path":"/"}`:      500,
		`{"error":"x","code":401}`:                                       401,
		`{"error":{"code":"x"},"status":418,"code":419}`:                 418,
		`[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}]`:         429,
		` [ {"error":"x"} ] `:                                            502,
		`{"error":{"code":529,"type":"overloaded_error"}}`:               529,
		`{"error":{"code":429},"choices":[]}`:                            429,
		`{"error":{"code":429},"choices":null,"content":[],"output":[]}`: 429,
		`{"error":{"code":1008,"message":"x"}}`:                          502,
		`{"error":{"code":"abc429"}}`:                                    502,
		// words
		`{"error":{"code":"rate_limit_exceeded"}}`:                              429,
		`{"error":{"type":"rate_limit_error"}}`:                                 429,
		`{"error":{"metadata":{"provider_code":"rate_limited"},"message":"x"}}`: 429,
		`{"error":{"status":"RESOURCE_EXHAUSTED"}}`:                             429,
		`{"code":"Throttling","message":"x","request_id":"r"}`:                  429,
		`{"code":"Throttling.RateQuota","message":"x"}`:                         429,
		`{"error":{"code":"insufficient_quota"}}`:                               429,
		`{"error":{"code":"quota_exceeded"}}`:                                   429,
		`{"type":"error","error":{"type":"overloaded_error","message":"x"}}`:    503,
		`{"error":{"code":"server_is_overloaded"}}`:                             503,
		`{"error":{"code":"slow_down"}}`:                                        503,
		`{"error":{"status":"UNAVAILABLE"}}`:                                    503,
		`{"error":{"type":"service_unavailable_error"}}`:                        503,
		`{"error":{"type":"timeout_error"}}`:                                    504,
		`{"error":{"status":"DEADLINE_EXCEEDED"}}`:                              504,
		`{"error":{"type":"GatewayTimeout"}}`:                                   504,
		`{"error":{"type":"authentication_error"}}`:                             401,
		`{"error":{"code":"invalid_api_key"}}`:                                  401,
		`{"error":{"status":"UNAUTHENTICATED"}}`:                                401,
		`{"error":{"type":"permission_error"}}`:                                 403,
		`{"error":{"status":"PERMISSION_DENIED"}}`:                              403,
		`{"error":{"type":"not_found_error"}}`:                                  404,
		`{"error":{"code":"model_not_found","type":"invalid_request_error"}}`:   404,
		`{"error":{"status":"NOT_FOUND"}}`:                                      404,
		`{"error":{"type":"invalid_request_error"}}`:                            400,
		`{"error":{"status":"INVALID_ARGUMENT"}}`:                               400,
		`{"error":{"code":"context_length_exceeded"}}`:                          400,
		`{"error":{"code":"server_error"}}`:                                     502,
		`{"error":{"code":null,"type":"overloaded_error"}}`:                     503,
		// text is never read
		`{"error":"rate limit exceeded, 429"}`:          502,
		`{"error":{"message":"{\"code\":429}"}}`:        502,
		`{"error":{"message":"429 too many requests"}}`: 502,
		`{"detail":"Unauthorized"}`:                     502,
		`{"detail":[{"loc":["body"],"msg":"x"}]}`:       502,
		// vendors
		`{"base_resp":{"status_code":1002,"status_msg":"x"},"choices":null}`:   429,
		`{"base_resp":{"status_code":1039,"status_msg":"x"}}`:                  429,
		`{"base_resp":{"status_code":1004,"status_msg":"x"}}`:                  401,
		`{"base_resp":{"status_code":1008,"status_msg":"x"}}`:                  402,
		`{"base_resp":{"status_code":1026,"status_msg":"x"}}`:                  400,
		`{"base_resp":{"status_code":2013,"status_msg":"x"}}`:                  400,
		`{"base_resp":{"status_code":500,"status_msg":"x"}}`:                   502,
		`{"base_resp":{"status_code":-1,"status_msg":"x"}}`:                    502,
		`{"error":{"code":"1302","message":"rate"}}`:                           429,
		`{"error":{"code":"1305"}}`:                                            503,
		`{"error":{"code":"1308"}}`:                                            429,
		`{"error":{"code":"1113"}}`:                                            429,
		`{"code":1302,"msg":"x","success":false}`:                              429,
		`{"code":401,"msg":"bad key","success":false}`:                         401,
		`{"code":336501,"msg":"Rate limit reached for RPM"}`:                   429,
		`{"error_code":18,"error_msg":"x"}`:                                    429,
		`{"error_code":500,"error_msg":"x"}`:                                   502,
		`{"object":"error","message":"x","type":"BadRequestError","code":400}`: 400,
		`{"success":false,"errors":[{"code":10000,"message":"x"}]}`:            502,
		`{"Response":{"Error":{"Code":"LimitExceeded","Message":"x"}}}`:        502,
		`{"Response":{"Error":{"Code":"ResourceExhausted","Message":"x"}}}`:    429,
		`{"header":{"code":10013,"message":"x"}}`:                              502,
		`{"message":"Internal error"}`:                                         502,
		`{"status_code":404,"code":"ModelNotFound","message":"x"}`:             404,
	} {
		require.True(t, json.Valid([]byte(body)), body)
		for _, f := range []*wire.Format{wire.Chat, wire.Completions, wire.Responses, wire.Messages, wire.Embeddings} {
			v := f.Judge(wire.Answer{Provider: "p", ContentType: "application/json"}, []byte(body))
			if assert.NotNil(t, v.Failure, "%s: %s", f, body) {
				assert.Equal(t, status, v.Failure.Status, "%s: %s", f, body)
				assert.Equal(t, wire.ReasonHidden, v.Failure.Reason, body)
				checkBody(t, f, body, v.Failure)
			}
		}
	}
}

// checkBody looks at what the caller gets: an object with an object for its
// error, the upstream's own where it had one.
func checkBody(t *testing.T, f *wire.Format, body string, v *wire.Failure) {
	t.Helper()
	var own struct{ Error json.RawMessage }
	if json.Unmarshal([]byte(body), &own) == nil && len(own.Error) > 0 && own.Error[0] == '{' {
		assert.Equal(t, body, string(v.Body))
		return
	}
	var got struct {
		Type  string
		Error struct {
			Message, Type string
			Code          any
		}
	}
	require.NoError(t, json.Unmarshal(v.Body, &got), "%s", v.Body)
	assert.NotEmpty(t, got.Error.Message)
	assert.NotEmpty(t, got.Error.Type)
	if v.Message != "" {
		assert.Equal(t, v.Message, got.Error.Message)
	}
	if v.Code != "" {
		assert.Equal(t, v.Code, got.Error.Code)
	}
	assert.Equal(t, f == wire.Messages, got.Type == "error")
}

func TestBodiesThatPass(t *testing.T) {
	chat := func(member string) string { return strings.Replace(okJSON, `{"choices"`, `{`+member+`,"choices"`, 1) }
	for name, c := range map[string]struct {
		format *wire.Format
		body   string
		empty  string
	}{
		"plain":                     {wire.Chat, okJSON, ""},
		"error null":                {wire.Chat, chat(`"error":null`), ""},
		"error object empty":        {wire.Chat, chat(`"error":{}`), ""},
		"error text empty":          {wire.Chat, chat(`"error":""`), ""},
		"error false":               {wire.Chat, chat(`"error":false`), ""},
		"error beside content":      {wire.Chat, chat(`"error":{"code":429}`), ""},
		"A7 base_resp 0":            {wire.Chat, chat(`"base_resp":{"status_code":0,"status_msg":"success"}`), ""},
		"code 0":                    {wire.Chat, chat(`"code":0`), ""},
		"unknown members":           {wire.Chat, chat(`"x_y":[1,{"error":"z"}],"object":5`), ""},
		"A8 contrast":               {wire.Chat, `{"code":200,"success":true,"data":{}}`, ""},
		"A4 tool calls":             {wire.Chat, `{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`, wire.EmptyUsage},
		"A4 function_call":          {wire.Chat, `{"choices":[{"message":{"content":null,"function_call":{"name":"f"}}}]}`, wire.EmptyUsage},
		"A4 refusal":                {wire.Chat, `{"choices":[{"message":{"content":null,"refusal":"no"}}]}`, wire.EmptyUsage},
		"A4 audio":                  {wire.Chat, `{"choices":[{"message":{"content":null,"audio":{"id":"x"}}}]}`, wire.EmptyUsage},
		"content filter":            {wire.Chat, `{"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]}`, wire.EmptyUsage},
		"length":                    {wire.Chat, `{"choices":[{"message":{"content":""},"finish_reason":"length"}]}`, wire.EmptyUsage},
		"content list":              {wire.Chat, `{"choices":[{"message":{"content":[{"type":"text","text":"x"}]}}]}`, wire.EmptyUsage},
		"usage zero":                {wire.Chat, strings.Replace(okJSON, "3", "0", 1), wire.EmptyUsage},
		"usage null":                {wire.Chat, strings.Replace(okJSON, `{"total_tokens":3}`, "null", 1), wire.EmptyUsage},
		"usage text is no number":   {wire.Chat, strings.Replace(okJSON, `{"total_tokens":3}`, `{"a9":"9","b":0.0}`, 1), wire.EmptyUsage},
		"usage nested":              {wire.Chat, strings.Replace(okJSON, `{"total_tokens":3}`, `{"a":{"b":0.5}}`, 1), ""},
		"members that are missing":  {wire.Chat, `{"choices":[{}]}`, wire.EmptyUsage},
		"members that are null":     {wire.Chat, `{"choices":[{"message":null,"finish_reason":null}],"usage":null}`, wire.EmptyUsage},
		"white space first":         {wire.Chat, "\n \r\n\t" + okJSON + "\n", ""},
		"byte order mark":           {wire.Chat, "\xef\xbb\xbf" + okJSON, ""},
		"error in content":          {wire.Chat, strings.Replace(okJSON, `"hi"`, `"{\"error\":{\"code\":500}}"`, 1), ""},
		"Azure's filter":            {wire.Chat, strings.Replace(okJSON, `"index"`, `"content_filter_results":{"error":{"code":"x"}},"index"`, 1), ""},
		"completions":               {wire.Completions, `{"choices":[{"text":"a","index":0}],"usage":{"total_tokens":1}}`, ""},
		"responses":                 {wire.Responses, `{"status":"completed","error":null,"output":[{"type":"message"}],"usage":{"total_tokens":1}}`, ""},
		"responses, no output":      {wire.Responses, `{"status":"completed","error":null,"output":[],"usage":{"total_tokens":1}}`, wire.EmptyOutput},
		"responses, missing output": {wire.Responses, `{"status":"completed"}`, wire.EmptyOutput},
		"responses, no usage":       {wire.Responses, `{"status":"completed","output":[{"type":"message"}]}`, wire.EmptyUsage},
		"responses, queued":         {wire.Responses, `{"status":"queued","output":[],"background":true,"usage":null}`, ""},
		"responses, in progress":    {wire.Responses, `{"status":"in_progress","output":[]}`, ""},
		"responses, incomplete":     {wire.Responses, `{"status":"incomplete","output":[],"incomplete_details":{"reason":"max_output_tokens"}}`, ""},
		"messages":                  {wire.Messages, `{"type":"message","content":[{"type":"text","text":"x"}],"usage":{"output_tokens":1},"base_resp":{"status_code":0,"status_msg":"success"}}`, ""},
		"messages, empty":           {wire.Messages, `{"type":"message","content":[],"stop_reason":"end_turn","usage":{"output_tokens":1}}`, ""},
		"messages, with a code":     {wire.Messages, `{"type":"message","content":[],"code":7,"message":"fine","usage":{"output_tokens":1}}`, ""},
		"messages, no usage":        {wire.Messages, `{"type":"message","content":[{"type":"text","text":"x"}]}`, wire.EmptyUsage},
		"embeddings":                {wire.Embeddings, `{"object":"list","data":[{"embedding":[0.1]}]}`, ""},
		"embeddings, empty":         {wire.Embeddings, `{"object":"list","data":[]}`, ""},
		"embeddings, no choices":    {wire.Embeddings, `{"choices":[]}`, ""},
		"embeddings, an array":      {wire.Embeddings, `[[0.1,0.2]]`, ""},
		"unknown":                   {wire.Unknown, `{"error":`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := c.format.Judge(wire.Answer{Provider: "p", ContentType: "application/json"}, []byte(c.body))
			if v.Failure != nil {
				t.Fatalf("failure %d %s: %s", v.Failure.Status, v.Failure.Reason, v.Failure.Message)
			}
			assert.Equal(t, c.empty, v.Empty)
		})
	}
}

func TestBodiesThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		format                *wire.Format
		body, reason, message string
	}{
		"A2 choices null":    {wire.Chat, `{"id":"","choices":null,"usage":null}`, "no_choices", "provider returned no choices"},
		"A2 choices empty":   {wire.Chat, `{"choices":[]}`, "no_choices", "provider returned no choices"},
		"A2 choices absent":  {wire.Chat, `{"object":"chat.completion","usage":{"total_tokens":0}}`, "no_choices", "provider returned no choices"},
		"A2 no body":         {wire.Chat, ``, "empty_response", "provider returned empty response"},
		"white space only":   {wire.Messages, "\n\n \r\n", "empty_response", "provider returned empty response"},
		"null":               {wire.Responses, "null\n", "empty_response", "provider returned empty response"},
		"A6 page":            {wire.Chat, "\xef\xbb\xbf\n<!DOCTYPE html><title>wait</title>", "html", "provider returned an HTML page"},
		"A11 cut":            {wire.Chat, `{"choices":[{"message":{"content":"h`, "malformed", "failed to unmarshal response: provider p: invalid JSON"},
		"cut error":          {wire.Chat, `{"error":{"code":429`, "malformed", "failed to unmarshal response: provider p: invalid JSON"},
		"two values":         {wire.Chat, okJSON + "{}", "malformed", "failed to unmarshal response: provider p: invalid JSON"},
		"text":               {wire.Embeddings, `upstream busy`, "malformed", "failed to unmarshal response: provider p: invalid JSON"},
		"scalar":             {wire.Chat, `"busy"`, "drift", "failed to unmarshal response: provider p: body: want object"},
		"array":              {wire.Responses, `[1,2]`, "drift", "failed to unmarshal response: provider p: body: want object"},
		"choices":            {wire.Chat, `{"choices":{}}`, "drift", "failed to unmarshal response: provider p: choices: want array"},
		"choice":             {wire.Chat, `{"choices":[{},"x"]}`, "drift", "failed to unmarshal response: provider p: choices[1]: want object"},
		"message":            {wire.Chat, `{"choices":[{"message":"x"}]}`, "drift", "failed to unmarshal response: provider p: choices[0].message: want object"},
		"content":            {wire.Chat, `{"choices":[{"message":{"content":{"a":1}}}]}`, "drift", "failed to unmarshal response: provider p: choices[0].message.content: want string, array or null"},
		"tool_calls":         {wire.Chat, `{"choices":[{"message":{"tool_calls":{}}}]}`, "drift", "failed to unmarshal response: provider p: choices[0].message.tool_calls: want array"},
		"finish_reason":      {wire.Chat, `{"choices":[{"finish_reason":1}]}`, "drift", "failed to unmarshal response: provider p: choices[0].finish_reason: want string"},
		"usage":              {wire.Chat, `{"choices":[{}],"usage":5}`, "drift", "failed to unmarshal response: provider p: usage: want object"},
		"output":             {wire.Responses, `{"status":"completed","output":"x"}`, "drift", "failed to unmarshal response: provider p: output: want array"},
		"status":             {wire.Responses, `{"status":1,"output":[]}`, "drift", "failed to unmarshal response: provider p: status: want string"},
		"messages content":   {wire.Messages, `{"content":"x"}`, "drift", "failed to unmarshal response: provider p: content: want array"},
		"messages usage":     {wire.Messages, `{"content":[],"usage":[]}`, "drift", "failed to unmarshal response: provider p: usage: want object"},
		"finish error":       {wire.Chat, `{"choices":[{"message":{"content":"x"},"finish_reason":"error"}]}`, "hidden_error", ""},
		"MiniMax, no text":   {wire.Chat, `{"choices":[{"message":{"content":""}}],"base_resp":{"status_code":1000,"status_msg":"boom"}}`, "hidden_error", "boom"},
		"MiniMax, messages":  {wire.Messages, `{"type":"message","content":null,"base_resp":{"status_code":1000,"status_msg":"boom"}}`, "hidden_error", "boom"},
		"null content":       {wire.Messages, `{"content":null,"detail":"boom"}`, "hidden_error", "boom"},
		"failed response":    {wire.Responses, `{"status":"failed","error":{"code":"server_error","message":"boom"},"output":[]}`, "hidden_error", "boom"},
		"error, no content":  {wire.Chat, `{"error":{"message":"boom"},"choices":[{"message":{"content":""},"finish_reason":null}]}`, "hidden_error", "boom"},
		"error of a choice":  {wire.Chat, `{"choices":[{"message":{"content":""},"error":{"code":502,"message":"boom"}}]}`, "hidden_error", "boom"},
		"error, text finish": {wire.Chat, `{"error":{"message":"boom"},"choices":[{"message":{"content":"x"},"finish_reason":"error"}]}`, "hidden_error", "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			v := c.format.Judge(wire.Answer{Provider: "p", ContentType: ""}, []byte(c.body))
			require.NotNil(t, v.Failure)
			assert.Equal(t, 502, v.Failure.Status)
			assert.Equal(t, c.reason, v.Failure.Reason)
			assert.Equal(t, c.message, v.Failure.Message)
			assert.Equal(t, c.reason == "no_choices", v.Empty == "no_choices")
			checkBody(t, c.format, c.body, v.Failure)
		})
	}
}

// A stream where JSON was due is not for Judge.
func TestJudgeLeavesStreamsAlone(t *testing.T) {
	assert.Equal(t, wire.Verdict{}, wire.Chat.Judge(wire.Answer{Provider: "p", ContentType: "text/event-stream"}, []byte(cHe)))
	assert.Equal(t, wire.Verdict{}, wire.Chat.Judge(wire.Answer{Provider: "p", ContentType: "text/plain"}, []byte(": ping\n\n"+cHe)))
	assert.NotNil(t, wire.Chat.Judge(wire.Answer{Provider: "p", ContentType: "application/json; charset=utf-8"}, []byte(cHe)).Failure)
}

func TestJudgeDoesNotAllocateForAGoodAnswer(t *testing.T) {
	for f, body := range map[*wire.Format]string{
		wire.Chat:       chatAnswer(1500),
		wire.Responses:  `{"status":"completed","error":null,"output":[{"type":"message"}],"usage":{"total_tokens":1}}`,
		wire.Messages:   `{"type":"message","content":[{"type":"text","text":"x"}],"usage":{"output_tokens":1}}`,
		wire.Embeddings: `{"object":"list","data":[{"embedding":[0.1,-2e-3]}]}`,
	} {
		b := []byte(body)
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			if f.Judge(wire.Answer{Provider: "p", ContentType: "application/json"}, b).Failure != nil {
				t.Error("failure")
			}
		}), f)
	}
}

func TestParseFailure(t *testing.T) {
	for body, want := range map[string]wire.Failure{
		`{"error":{"message":"m","type":"t","param":null,"code":"c"}}`:                        {Code: "c", Type: "t", Message: "m"},
		`{"error":{"message":"m","type":"t","code":null}}`:                                    {Type: "t", Message: "m"},
		`{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}`:                  {Code: "429", Type: "RESOURCE_EXHAUSTED", Message: "m"},
		`[{"error":{"code":429,"message":"m"}}]`:                                              {Code: "429", Message: "m"},
		`{"error":"m"}`:                                                                       {Message: "m"},
		`{"type":"error","error":{"type":"overloaded_error","message":"m"},"request_id":"r"}`: {Type: "overloaded_error", Message: "m"},
		`{"object":"error","message":"m","type":"NotFoundError","code":404}`:                  {Code: "404", Type: "NotFoundError", Message: "m"},
		`{"detail":"m"}`:           {Message: "m"},
		`{"message":"m","id":"x"}`: {Message: "m"},
		`{"success":false,"errors":[{"code":7003,"message":"m"}]}`: {Code: "7003", Message: "m"},
		`{"error":{"code":"insufficient_quota","message":"m"}}`:    {Code: "insufficient_quota", Message: "m", Quota: true},
		`{"error":{"type":"insufficient_quota"}}`:                  {Type: "insufficient_quota", Quota: true},
		`{"error":{"code":"credit_balance_exhausted"}}`:            {Code: "credit_balance_exhausted", Quota: true},
		`{"error":{"code":"organization_spend_limit_exceeded"}}`:   {Code: "organization_spend_limit_exceeded", Quota: true},
		`{"error":{"code":"project_spend_limit_exceeded"}}`:        {Code: "project_spend_limit_exceeded", Quota: true},
		`{"error":{"code":"organization_usage_limit_exceeded"}}`:   {Code: "organization_usage_limit_exceeded", Quota: true},
		`{"error":{"type":"enforced_spend_limit_reached"}}`:        {Type: "enforced_spend_limit_reached", Quota: true},
		`{"error":{"code":"quota_exceeded"}}`:                      {Code: "quota_exceeded", Quota: true},
		`{"error":{"code":"billing_hard_limit_reached"}}`:          {Code: "billing_hard_limit_reached", Quota: true},
		`{"error":{"code":"1308"}}`:                                {Code: "1308", Quota: true},
		`{"error":{"code":1113}}`:                                  {Code: "1113", Quota: true},
		`{"error":{"code":"rate_limit_exceeded"}}`:                 {Code: "rate_limit_exceeded"},
		`{"error":{"details":[{"@type":"x"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"36s"}]}}`:                 {Limit: wire.Limit{Wait: 36 * time.Second, Source: wire.SourceBody}},
		`{"error":{"details":[{"retryDelay":"45.837906927s"}]}}`:                                                                        {Limit: wire.Limit{Wait: 45837906927, Source: wire.SourceBody}},
		`{"error":{"details":[{"retryDelay":"-1s"}]}}`:                                                                                  {},
		`{"error":{"details":[{"retryDelay":"soon"}]}}`:                                                                                 {},
		`{"error":{"availability":{"retryable":true,"retry_after":12.5}}}`:                                                              {Limit: wire.Limit{Wait: 12500 * time.Millisecond, Source: wire.SourceBody}},
		`{"error":{"details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"retryDelay":"36s"}]}}`: {Quota: true, Limit: wire.Limit{Wait: 36 * time.Second, Source: wire.SourceBody}},
		`{"error":{"details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProject"}]}]}}`:                                    {},
		`{"error":{"code":"c","message":"cut he`:                                                                                        {Code: "c"},
		`<html>`:                                                                                                                        {},
		``:                                                                                                                              {},
		`[[[[`:                                                                                                                          {},
		`{"error":"Not \u00e9\ud83d\ude00 \ud83d x"}`:                                                                                   {Message: "Not é😀 \ufffd x"},
	} {
		got := wire.ParseFailure(429, []byte(body))
		want.Status, want.Body = 429, []byte(body)
		got.Limit.Kind = "" // for TestReadLimit
		assert.Equal(t, want, got, body)
	}
}

func TestErrorBody(t *testing.T) {
	chat := `{"error":{"message":"a\"b","type":"server_error","param":null,"code":"c"}}`
	for f, want := range map[*wire.Format]string{
		wire.Chat: chat, wire.Completions: chat, wire.Responses: chat, wire.Embeddings: chat, wire.Unknown: chat,
		wire.Messages: `{"type":"error","error":{"type":"api_error","message":"a\"b","code":"c"}}`,
	} {
		assert.JSONEq(t, want, string(f.ErrorBody(502, "", "c", `a"b`)), f)
	}
	assert.JSONEq(t, `{"error":{"message":"m","type":"t","param":null,"code":null}}`, string(wire.Chat.ErrorBody(429, "t", "", "m")))
	for status, want := range map[int]string{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error", 500: "api_error", 503: "overloaded_error", 504: "timeout_error", 529: "overloaded_error"} {
		assert.JSONEq(t, `{"type":"error","error":{"type":"`+want+`","message":"m"}}`, string(wire.Messages.ErrorBody(status, "", "", "m")), status)
	}
}

func TestSniff(t *testing.T) {
	for body, want := range map[string]wire.Shape{
		"": wire.ShapeUnknown, " \n": wire.ShapeUnknown, "\xef": wire.ShapeUnknown, "\xef\xbb\xbf": wire.ShapeUnknown,
		"{": wire.ShapeJSON, " \r\n [": wire.ShapeJSON, "\xef\xbb\xbf{": wire.ShapeJSON, `"x`: wire.ShapeJSON, "-1": wire.ShapeJSON, "7": wire.ShapeJSON, "null": wire.ShapeJSON, "nul": wire.ShapeUnknown, "true\n": wire.ShapeJSON,
		"<": wire.ShapeHTML, "\n\n<!DOCTYPE html>": wire.ShapeHTML, "<?xml": wire.ShapeHTML,
		":": wire.ShapeEvents, "\n\n: ping": wire.ShapeEvents, "data: x": wire.ShapeEvents, "data:": wire.ShapeEvents, "data\n": wire.ShapeEvents, "event:x": wire.ShapeEvents, "id: 1": wire.ShapeEvents, "retry: 1": wire.ShapeEvents, "\xef\xbb\xbfdata:": wire.ShapeEvents, "error: {": wire.ShapeEvents,
		"d": wire.ShapeUnknown, "data": wire.ShapeUnknown, "ev": wire.ShapeUnknown, "database": wire.ShapeOther, "hello": wire.ShapeOther, "\x00": wire.ShapeOther, "id ": wire.ShapeOther,
	} {
		assert.Equal(t, want, wire.Sniff([]byte(body)), "%q", body)
	}
}
