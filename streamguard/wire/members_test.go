package wire_test

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// wholeAnswers are answers of each vendor's own shape. None has usage, so that
// the format that judged one shows in no_usage.
var wholeAnswers = map[string]struct {
	body  string
	empty string
}{
	"chat":         {`{"object":"chat.completion","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`, wire.EmptyUsage},
	"completions":  {`{"choices":[{"text":"hi","index":0}]}`, wire.EmptyUsage},
	"responses":    {`{"object":"response","status":"completed","output":[{"type":"message"}]}`, wire.EmptyUsage},
	"messages":     {`{"type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}`, wire.EmptyUsage},
	"gemini":       {`{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}]}`, wire.EmptyUsage},
	"ollama":       {`{"model":"m","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":"hi"},"done":true}`, wire.EmptyUsage},
	"generate":     {`{"model":"m","response":"hi","done_reason":"stop"}`, wire.EmptyUsage},
	"cohere":       {`{"id":"x","finish_reason":"COMPLETE","message":{"role":"assistant","content":[{"type":"text","text":"hi"}]}}`, wire.EmptyUsage},
	"interactions": {`{"object":"interaction","status":"completed","outputs":[{"type":"text","text":"hi"}]}`, wire.EmptyUsage},
	"dashscope":    {`{"output":{"text":"hi","finish_reason":"stop"},"request_id":"r"}`, wire.EmptyUsage},
	"converse":     {`{"output":{"message":{"role":"assistant","content":[{"text":"hi"}]}},"stopReason":"end_turn"}`, ""},
	"llama.cpp":    {`{"content":" hello","stop":true}`, wire.EmptyUsage},
	"TGI":          {`{"generated_text":"hi","details":{"tokens":[]}}`, wire.EmptyShape},
	"legacy text":  {`{"type":"completion","completion":"hi","stop_reason":"stop_sequence"}`, wire.EmptyShape},
	"replicate":    {`{"status":"succeeded","output":["h","i"],"urls":{"get":"u"}}`, wire.EmptyShape},
}

// judging are the formats that judge the shape of their answers.
var judging = []*wire.Format{
	wire.Chat, wire.Completions, wire.Responses, wire.Messages, wire.Gemini, wire.Ollama, wire.Cohere, wire.Interactions, wire.DashScope,
}

func TestThePathDoesNotProveTheFormatOfABody(t *testing.T) {
	for name, c := range wholeAnswers {
		for _, f := range judging {
			t.Run(name+" at "+f.String(), func(t *testing.T) {
				v := f.Judge(wire.Answer{Provider: "p"}, []byte(c.body))
				require.Nil(t, v.Failure)
				assert.False(t, v.Accepted)
				switch {
				case name == "replicate" && f == wire.Responses: // its status and output
				case name == "replicate" && f == wire.Interactions:
				default:
					assert.Equal(t, c.empty, v.Empty)
				}
			})
		}
	}
}

// A list is no answer of any known format. One that holds something passes.
func TestListsOfAnswers(t *testing.T) {
	for body, want := range map[string]string{
		`[{"generated_text":"hi"}]`:                                  wire.EmptyShape,
		`[{"content":" a","stop":true},{"content":"b","stop":true}]`: wire.EmptyShape,
		`[{"generated_text":"","error":{"code":"x"}}]`:               wire.ReasonHidden,
		`[{"generated_text":"hi","detail":"boom"}]`:                  wire.ReasonDrift,
		`[{"message":"boom"}]`:                                       wire.ReasonDrift,
		`[{"id":"x"}]`:                                               wire.ReasonDrift,
		`[{}]`:                                                       wire.ReasonDrift,
		`[]`:                                                         wire.ReasonDrift,
		`["hi"]`:                                                     wire.ReasonDrift,
	} {
		for _, f := range judging {
			v := f.Judge(wire.Answer{}, []byte(body))
			if v.Failure == nil {
				assert.Equal(t, want, v.Empty, "%s: %s", f, body)
			} else {
				assert.Equal(t, want, v.Failure.Reason, "%s: %s", f, body)
			}
		}
	}
}

// Another format's failure is one, and is rendered in the call's own format.
func TestAnotherFormatsFailureIsJudgedByThatFormat(t *testing.T) {
	for name, c := range map[string]struct {
		body    string
		status  int
		message string
	}{
		"failed response":      {`{"object":"response","status":"failed","error":{"code":"rate_limit_exceeded","message":"boom"},"output":[]}`, 429, "boom"},
		"failed finish":        {`{"object":"chat.completion","choices":[{"message":{"content":"x"},"finish_reason":"error"}]}`, 502, ""},
		"no choices":           {`{"object":"chat.completion","choices":[]}`, 502, "provider returned no choices"},
		"failed cohere answer": {`{"id":"x","finish_reason":"TIMEOUT","message":{"role":"assistant","content":[]}}`, 504, ""},
		"drift of a chat":      {`{"object":"chat.completion","choices":[{"message":"x"}]}`, 502, "failed to unmarshal response: provider p: choices[0].message: want object"},
		"malformed tool use":   {`{"output":{"message":{"content":[{"text":"x"}]}},"stopReason":"malformed_tool_use"}`, 502, ""},
	} {
		for _, f := range judging {
			v := f.Judge(wire.Answer{Provider: "p"}, []byte(c.body))
			require.NotNil(t, v.Failure, "%s at %s", name, f)
			assert.Equal(t, c.status, v.Failure.Status, "%s at %s", name, f)
			assert.Equal(t, c.message, v.Failure.Message, "%s at %s", name, f)
		}
	}
}

// Embeddings and whatever a Bedrock model says are not judged by their shape.
func TestFormatsWithoutAShapeJudgeErrorsAlone(t *testing.T) {
	at := func(path string) *wire.Format {
		u, err := url.Parse("http://up" + path)
		require.NoError(t, err)
		return wire.FormatOf("POST", u)
	}
	for _, f := range []*wire.Format{wire.Embeddings, wire.Bedrock, at("/api/embed"), at("/v2/embed"), at("/model/amazon.titan-embed/invoke")} {
		for name, c := range wholeAnswers {
			assert.Equal(t, "", f.Judge(wire.Answer{}, []byte(c.body)).Empty, "%s at %s", name, f)
		}
		assert.Nil(t, f.Judge(wire.Answer{}, []byte(`{"choices":[]}`)).Failure, f)
		assert.NotNil(t, f.Judge(wire.Answer{}, []byte(`{"error":{"code":429}}`)).Failure, f)
	}
}

func TestChatWithoutChoices(t *testing.T) {
	for body, want := range map[string]string{
		// the envelope and signs of an error alone
		`{}`: wire.ReasonNoChoices,
		`{"id":"x","object":"chat.completion","created":1,"model":"m","usage":{"total_tokens":9},"system_fingerprint":"f"}`: wire.ReasonNoChoices,
		`{"id":"x","service_tier":"default","request_id":"r","timings":{"ms":3},"latency_ms":12}`:                           wire.ReasonNoChoices,
		`{"choices":[],"completion":"x"}`:         wire.ReasonNoChoices,
		`{"choices":null,"completion":{"a":1}}`:   wire.ReasonNoChoices,
		`{"id":"x","completion":"","result":[]}`:  wire.ReasonNoChoices,
		`{"prompt_filter_results":[{"index":0}]}`: wire.ReasonNoChoices,
		// something else, with something in it
		`{"id":"x","completion":"hi"}`:                      wire.EmptyShape,
		`{"model":"m","result":{"text":"hi"}}`:              wire.EmptyShape,
		`{"predictions":["hi"]}`:                            wire.EmptyShape,
		`{"code":200,"success":true,"data":{"answer":"x"}}`: wire.EmptyShape,
		`{"code":0,"success":true,"data":{}}`:               "", // a vendor's envelope that says it went well
		// signs of an error win
		`{"completion":"","message":"boom"}`:         wire.ReasonHidden,
		`{"result":{"a":1},"detail":"boom"}`:         wire.ReasonHidden,
		`{"data":{"a":1},"success":false,"msg":"x"}`: wire.ReasonHidden,
		`{"completion":"x","code":1001,"msg":"x"}`:   wire.ReasonHidden,
	} {
		for _, f := range []*wire.Format{wire.Chat, wire.Completions} {
			v := f.Judge(wire.Answer{Provider: "p"}, []byte(body))
			if v.Failure != nil {
				assert.Equal(t, want, v.Failure.Reason, "%s: %s", f, body)
				assert.Equal(t, 502, v.Failure.Status, "%s: %s", f, body)
				continue
			}
			assert.Equal(t, want, v.Empty, "%s: %s", f, body)
		}
	}
}

// What looks like an empty answer to a format's letter is one that was meant.
func TestAnswersThatHoldLittle(t *testing.T) {
	for name, c := range map[string]struct {
		format *wire.Format
		body   string
	}{
		"refusal":                {wire.Messages, `{"type":"message","content":[],"stop_reason":"refusal","usage":{"output_tokens":0,"input_tokens":4}}`},
		"nothing to add":         {wire.Messages, `{"type":"message","content":[],"stop_reason":"end_turn","usage":{"output_tokens":2}}`},
		"pause":                  {wire.Messages, `{"type":"message","content":[],"stop_reason":"pause_turn","usage":{"output_tokens":2}}`},
		"a list of parts":        {wire.Chat, `{"choices":[{"message":{"content":[{"type":"text","text":"hi"}]},"finish_reason":"stop"}],"usage":{"total_tokens":2}}`},
		"no parts":               {wire.Chat, `{"choices":[{"message":{"content":[]},"finish_reason":"stop"}],"usage":{"total_tokens":2}}`},
		"filtered by Converse":   {wire.Bedrock, `{"output":{"message":{"content":[]}},"stopReason":"content_filtered"}`},
		"guardrail of Converse":  {wire.Bedrock, `{"output":{"message":{"content":[{"text":"no"}]}},"stopReason":"guardrail_intervened"}`},
		"a name, not an error":   {wire.Chat, `{"__type":"","choices":[{"message":{"content":"x"}}],"usage":{"total_tokens":2}}`},
		"an Invoke's own __type": {wire.Bedrock, `{"__type":"com.example#Answer","text":"x"}`},
		"a model's own __type":   {wire.Chat, `{"__type":"Answer","choices":[{"message":{"content":"x"}}],"usage":{"total_tokens":2}}`},
		"incomplete, with words": {wire.Responses, `{"status":"incomplete","output":[],"incomplete_details":{"reason":"content_filter"},"usage":{"total_tokens":1}}`},
	} {
		v := c.format.Judge(wire.Answer{}, []byte(c.body))
		assert.Equal(t, wire.Verdict{Usable: v.Usable, Usage: v.Usage}, v, name)
	}
}

func TestAWSSaysAFailureInItsOwnWords(t *testing.T) {
	for body, c := range map[string]struct {
		status     int
		name, says string
	}{
		`{"Output":{"__type":"com.amazon.coral.service#UnknownOperationException"},"Version":"1.0"}`:          {404, "UnknownOperationException", "provider returned an error"},
		`{"Output":{"__type":"com.amazon.coral.service#InternalFailure","message":"m"},"Version":"1.0"}`:      {500, "InternalServerException", "m"},
		`{"__type":"ThrottlingException","message":"m"}`:                                                      {429, "ThrottlingException", "m"},
		`{"message":"m","__type":"com.amazon.bedrock#ThrottlingException"}`:                                   {429, "ThrottlingException", "m"},
		`{"Message":"m","__type":"AccessDeniedException:http://internal.amazon.com/coral/com.amazon.coral/"}`: {403, "AccessDeniedException", "m"},
		`{"__type":"ServiceQuotaExceededException"}`:                                                          {429, "ServiceQuotaExceededException", "provider returned an error"},
		`{"__type":"ModelTimeoutException"}`:                                                                  {408, "ModelTimeoutException", "provider returned an error"},
		`{"__type":"SomethingNewException","message":"m"}`:                                                    {502, "SomethingNewException", "m"},
	} {
		for _, f := range append(judging, wire.Bedrock, wire.Embeddings) {
			v := f.Judge(wire.Answer{Provider: "p"}, []byte(body))
			require.NotNil(t, v.Failure, "%s: %s", f, body)
			assert.Equal(t, c.status, v.Failure.Status, "%s: %s", f, body)
			if f != wire.Bedrock {
				assert.Empty(t, v.Failure.Header)
				continue
			}
			// What AWS clients know an error by: a header, and __type.
			assert.Equal(t, c.name, v.Failure.Header.Get("x-amzn-errortype"))
			var got struct {
				Type    string `json:"__type"`
				Message string
			}
			require.NoError(t, json.Unmarshal(v.Failure.Body, &got))
			assert.Equal(t, c.name, got.Type)
			assert.Equal(t, c.says, got.Message)
		}
	}
}

func TestConverseStopReasonsThatNameAFailure(t *testing.T) {
	for _, reason := range []string{"malformed_tool_use", "malformed_model_output"} {
		v := wire.Bedrock.Judge(wire.Answer{}, []byte(`{"output":{"message":{"content":[{"toolUse":{}}]}},"stopReason":"`+reason+`"}`))
		require.NotNil(t, v.Failure)
		assert.Equal(t, 502, v.Failure.Status, "the request is not at fault")
		assert.Equal(t, reason, v.Failure.Code)
		assert.Equal(t, "ServiceUnavailableException", v.Failure.Header.Get("X-Amzn-Errortype"))
	}
}

// A body says its details anywhere, also beside an error that is null.
func TestDetailsBesideANullError(t *testing.T) {
	for body, want := range map[string]int{
		`{"object":"response","status":"failed","error":null,"last_error":{"code":"rate_limit_exceeded","message":"m"},"output":[]}`:   429,
		`{"status":"failed","error":null,"status_details":{"type":"failed","error":{"type":"insufficient_quota","message":"m"}}}`:      429,
		`{"type":"response.failed","response":{"status":"failed","error":null},"error":{"code":"server_is_overloaded","message":"m"}}`: 503,
		`{"type":"error","response":{"error":null,"status_details":{"error":{"code":"server_is_overloaded","message":"m"}}}}`:          503,
		`{"status":"failed","error":null,"incomplete_details":{"reason":"content_filter"},"message":"m"}`:                              400,
		`{"error":null,"errors":[{"code":"rate_limit_exceeded","message":"m"}]}`:                                                       429,
		`{"error":null,"detail":{"code":"rate_limit_exceeded","message":"m"}}`:                                                         429,
		`{"error":{"error":{"type":"overloaded_error","message":"m"}}}`:                                                                503,
		`{"detail":{"error":{"code":"rate_limit_exceeded","message":"m"}}}`:                                                            429,
		`{"statusCode":429,"message":"m"}`:                                               429,
		`{"error":{"statusCode":503,"message":"m"}}`:                                     503,
		`{"error":{"code":null,"message":"m","type":null},"code":"rate_limit_exceeded"}`: 429,
	} {
		v := wire.Responses.Judge(wire.Answer{}, []byte(body))
		require.NotNil(t, v.Failure, body)
		assert.Equal(t, want, v.Failure.Status, body)
		assert.Equal(t, "m", v.Failure.Message, body)
		assert.Contains(t, string(v.Failure.Body), `"m"`, body)
	}
}
