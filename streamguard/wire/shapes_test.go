package wire_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// A status is a number, however it is spelled.
func TestStatusesOfAllSpellings(t *testing.T) {
	for code, want := range map[string]int{
		`429`: 429, `"429"`: 429, `429.0`: 429, `"429.0"`: 429, `4.29e2`: 429, `400`: 400, `599`: 599,
		`429.5`: 502, `399`: 502, `600`: 502, `-429`: 502, `1e400`: 502, `99999999999999999999999`: 502, `"0x1AD"`: 502,
		`"NaN"`: 502, `"Inf"`: 502,
	} {
		for _, body := range []string{
			`{"error":{"code":` + code + `,"message":"x"}}`, `{"error":{"status":` + code + `,"message":"x"}}`,
			`{"error":"x","code":` + code + `}`, `{"error":"x","status":` + code + `}`,
		} {
			v := wire.Chat.Judge(wire.Answer{Provider: "p", ContentType: "application/json"}, []byte(body))
			if assert.NotNil(t, v.Failure, body) {
				assert.Equal(t, want, v.Failure.Status, body)
			}
		}
	}
}

// A vendor's 0 is a success, however it is spelled.
func TestBusinessCodesOfAllSpellings(t *testing.T) {
	for code, ok := range map[string]bool{`0`: true, `"0"`: true, `0.0`: true, `"00"`: true, `1`: false, `"x"`: false, `null`: true} {
		v := wire.Messages.Judge(wire.Answer{Provider: "p", ContentType: "application/json"}, []byte(`{"base_resp":{"status_code":`+code+`}}`))
		assert.Equal(t, ok, v.Failure == nil, code)
	}
	for code, ok := range map[string]bool{`200.0`: true, `"200"`: true, `0`: true, `204`: true, `1`: false, `300`: false} {
		v := wire.Messages.Judge(wire.Answer{Provider: "p", ContentType: "application/json"}, []byte(`{"code":`+code+`,"msg":"x","success":true}`))
		assert.Equal(t, ok, v.Failure == nil, code)
	}
}

func TestResponsesThatAreCountedAsEmpty(t *testing.T) {
	for body, want := range map[string]string{
		`{"status":"completed","background":true,"output":[],"usage":null}`:      "",
		`{"status":"completed","background":true,"output":[{}],"usage":null}`:    "",
		`{"status":"completed","background":false,"output":[],"usage":null}`:     wire.EmptyOutput,
		`{"status":"completed","background":null,"output":[{}]}`:                 wire.EmptyUsage,
		`{"status":"incomplete","output":[{}],"usage":{"total_tokens":0}}`:       wire.EmptyUsage,
		`{"status":"in_progress","output":[{}],"usage":null}`:                    "",
		`{"status":"cancelled","output":[{}],"usage":null}`:                      "",
		`{"object":"response","output":[{}]}`:                                    wire.EmptyUsage,
		`{"object":"response","output":[{}],"usage":{"total_tokens":1}}`:         "",
		`{"object":"response","output":[],"usage":null,"background":"whatever"}`: "",
	} {
		v := wire.Responses.Judge(wire.Answer{Provider: "p", ContentType: "application/json"}, []byte(body))
		require.Nil(t, v.Failure, body)
		assert.Equal(t, want, v.Empty, body)
	}
}

// What is called an error is one, whatever type its data names, in an event of
// any size.
func TestEventsCalledError(t *testing.T) {
	pad := strings.Repeat("p", 100_000)
	for _, f := range []*wire.Format{wire.Messages, wire.Responses, wire.Cohere, wire.Interactions} {
		for data, want := range map[string]int{
			`{"type":"overloaded_error","message":"x"}`:               503,
			`{"type":"api_error","message":"x"}`:                      502,
			`{"type":"response.x","code":"rate_limit_exceeded"}`:      429,
			`{"type":"message-end","event_type":"content.delta"}`:     502,
			`{"type":"content_block_delta","error":{"code":"429"}}`:   429,
			`{"message":"x","code":401,"sequence_number":4,"type":1}`: 401,
		} {
			s, ms := play(t, f, "event: error\ndata: "+data+"\n\n")
			if assert.NotNil(t, s.Failure(), "%s: %s: %v", f, data, ms) {
				assert.Equal(t, want, s.Failure().Status, "%s: %s", f, data)
			}
			large := "event: error\ndata: " + strings.Replace(data, "{", `{"pad":"`+pad+`",`, 1) + "\n\n"
			l := f.NewStream(wire.StreamOptions{})
			_, over, m := l.Large([]byte(large))
			require.True(t, over)
			assert.NotZero(t, m&wire.MarkFailed, "%s: %s", f, data)
			if assert.NotNil(t, l.Failure()) {
				assert.Equal(t, want, l.Failure().Status, "%s: %s", f, data)
			}
		}
	}
}

// MiniMax puts its code beside the choices.
func TestVendorCodeBesideChoices(t *testing.T) {
	chunk := func(code string) string {
		return `data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":null}],"base_resp":` + code + "}\n\n"
	}
	for base, want := range map[string]int{
		`{"status_code":0,"status_msg":""}`: 0, `{"status_code":"0"}`: 0, `{}`: 0, `null`: 0, `[1]`: 0, `{"status_code":null}`: 0, `{"status_code":true}`: 0,
		`{"status_msg":"x","status_code":1002}`: 429, `{"status_code":1004}`: 401, `{"status_code":"1008"}`: 402, `{"status_code":9}`: 502,
	} {
		for _, pad := range []string{"", strings.Repeat("p", 100_000)} {
			body := strings.Replace(chunk(base), `"content":""`, `"content":"`+pad+`"`, 1)
			s := wire.Chat.NewStream(wire.StreamOptions{})
			var m wire.Mark
			if pad == "" {
				m = s.Event([]byte(body))
			} else {
				_, _, m = s.Large([]byte(body))
			}
			assert.Equal(t, want != 0, m&wire.MarkFailed != 0, base)
			if want != 0 && assert.NotNil(t, s.Failure(), base) {
				assert.Equal(t, want, s.Failure().Status, base)
			}
		}
	}
}

// An error in a line of its own needs no field, and no blank line before it
// (googleapis/js-genai#1973).
func TestBareErrorBehindALine(t *testing.T) {
	const busy = `{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}`
	for _, before := range []string{"event: error\n", ": c\n", "id: 3\n", "data: " + gText + "\n", "data: " + gText + "\nretry: 3\r\n"} {
		for _, after := range []string{"\n\n", "\r\n\r\n", "\n", ""} {
			for _, line := range []string{busy, "[" + busy + "]"} {
				s, ms := play(t, wire.Gemini, before+line+after)
				if !assert.NotNil(t, s.Failure(), "%q: %v", before+line+after, ms) {
					continue
				}
				assert.Equal(t, 503, s.Failure().Status)
			}
		}
		s, _ := play(t, wire.Gemini, before+`{"x":"error"}`+"\n\n")
		assert.Nil(t, s.Failure())
	}
}

func TestParseFailureOfFastAPI(t *testing.T) {
	for body, want := range map[string]wire.Failure{
		`{"detail":"gone"}`: {Message: "gone"},
		`{"detail":[{"loc":["body","model"],"msg":"gone"}]}`: {Message: "gone"},
		`{"detail":{"message":"gone","code":"model_gone"}}`:  {Message: "gone", Code: "model_gone"},
		`{"detail":{"type":"x_error","message":"gone"}}`:     {Message: "gone", Type: "x_error"},
	} {
		v := wire.ParseFailure(404, []byte(body))
		assert.Equal(t, want.Message, v.Message, body)
		assert.Equal(t, want.Code, v.Code, body)
		assert.Equal(t, want.Type, v.Type, body)
	}
	// Beside an answer an empty one says nothing.
	v := wire.Messages.Judge(wire.Answer{Provider: "p", ContentType: "application/json"}, []byte(`{"id":"m","detail":"","usage":{"output_tokens":1}}`))
	assert.Nil(t, v.Failure)
	assert.True(t, wire.ParseFailure(429, []byte(`{"error":{"code":"billing_not_active"}}`)).Quota)
}

func TestRequestBehindAByteOrderMark(t *testing.T) {
	r := wire.Request{Format: wire.Chat}
	r = read(r, "application/json", "\xef\xbb\xbf \n"+`{"model":"m","stream":true}`)
	assert.Equal(t, "m", r.Model)
	assert.True(t, r.Stream)
}

func TestAcceptInAnyCase(t *testing.T) {
	for _, v := range []string{"text/event-stream", "Text/Event-Stream", "application/json, TEXT/EVENT-STREAM;q=0.9"} {
		assert.True(t, wire.Inspect(http.MethodPost, nil, http.Header{"Accept": {v}}).Stream, v)
	}
	assert.False(t, wire.Inspect(http.MethodPost, nil, http.Header{"Accept": {"application/json"}}).Stream)
}

func TestPartialImageIsContent(t *testing.T) {
	s := wire.Responses.NewStream(wire.StreamOptions{})
	m := s.Event([]byte(`data: {"type":"response.image_generation_call.partial_image","partial_image_b64":"AA"}` + "\n\n"))
	assert.NotZero(t, m&wire.MarkContent)
}

// An error in front of a stream, without a field, is told although the body is
// no JSON then.
func TestErrorBeforeAStream(t *testing.T) {
	for _, f := range []*wire.Format{wire.Chat, wire.Responses, wire.Messages, wire.Gemini, wire.Interactions, wire.Cohere} {
		for _, body := range []string{
			`{"error":{"code":429,"message":"x"}}` + "\n\ndata: [DONE]\n\n", `[{"error":{"code":429,"message":"x"}}]` + "\r\n" + `{"a":1}`,
		} {
			v := f.Judge(wire.Answer{Provider: "p", ContentType: "text/event-stream"}, []byte(body))
			require.NotNil(t, v.Failure)
			assert.Equal(t, 429, v.Failure.Status, "%s: %s", f, body)
			assert.True(t, json.Valid(v.Failure.Body))
		}
		v := f.Judge(wire.Answer{Provider: "p", ContentType: "application/json"}, []byte(`{"choices":[],"content":[]}`+"\n{"))
		require.NotNil(t, v.Failure)
		assert.Equal(t, wire.ReasonMalformed, v.Failure.Reason)
	}
}

func TestChoiceIndexesOfAllSpellings(t *testing.T) {
	for index, complete := range map[string]bool{`1`: false, `1.0`: false, `1e0`: false, `300`: false, `1e99`: false, `0`: true, `0.0`: true, `null`: true, `-1`: true, `"1"`: true} {
		s, _ := play(t, wire.Chat, `data: {"choices":[{"index":`+index+`,"delta":{"content":"a"}}]}`+"\n\n"+
			`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n")
		assert.Equal(t, complete, s.Complete(), index)
	}
}
