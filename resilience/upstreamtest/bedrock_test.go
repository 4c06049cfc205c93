package upstreamtest_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	ut "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

const (
	conversePath       = "/model/amazon.nova-pro-v1:0/converse"
	converseStreamPath = "/model/amazon.nova-pro-v1:0/converse-stream"
	claude             = "anthropic.claude-sonnet-4-v1:0"
)

// frameOf is one decoded frame.
type frameOf struct {
	header  map[string]string
	payload string
}

// kind is the type of an event, an exception or an error.
func (f frameOf) kind() string {
	return f.header[":event-type"] + f.header[":exception-type"] + f.header[":error-code"]
}

// frames decodes frames and checks their lengths and sums; rest is what is no
// whole frame.
func frames(t *testing.T, body string) (out []frameOf, rest string) {
	t.Helper()
	for b := []byte(body); ; {
		if len(b) < 12 || int(binary.BigEndian.Uint32(b)) > len(b) {
			return out, string(b)
		}
		size, headers := int(binary.BigEndian.Uint32(b)), int(binary.BigEndian.Uint32(b[4:]))
		require.Equal(t, crc32.ChecksumIEEE(b[:8]), binary.BigEndian.Uint32(b[8:]))
		require.Equal(t, crc32.ChecksumIEEE(b[:size-4]), binary.BigEndian.Uint32(b[size-4:]))
		f := frameOf{header: map[string]string{}, payload: string(b[12+headers : size-4])}
		for h := b[12 : 12+headers]; len(h) > 0; {
			name := string(h[1 : 1+h[0]])
			h = h[1+h[0]:]
			require.Equal(t, byte(7), h[0], "the type of a text")
			n := int(binary.BigEndian.Uint16(h[1:]))
			f.header[name] = string(h[3 : 3+n])
			h = h[3+n:]
		}
		out, b = append(out, f), b[size:]
	}
}

// kinds are the types of frames.
func kinds(t *testing.T, body string) string {
	t.Helper()
	all, rest := frames(t, body)
	assert.Empty(t, rest)
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = f.kind()
	}
	return strings.Join(names, " ")
}

// chunks are a model's own events in frames.
func chunks(t *testing.T, body string) []string {
	t.Helper()
	all, rest := frames(t, body)
	assert.Empty(t, rest)
	out := make([]string, len(all))
	for i, f := range all {
		require.Equal(t, "chunk", f.kind())
		var p struct{ Bytes []byte }
		require.NoError(t, json.Unmarshal([]byte(f.payload), &p))
		require.True(t, json.Valid(p.Bytes), "%s", p.Bytes)
		out[i] = string(p.Bytes)
	}
	return out
}

func TestBedrockPathsNameFormatAndModel(t *testing.T) {
	const arn = "arn:aws:bedrock:eu-central-1:1:application-inference-profile/x"
	tests := []struct {
		path, model string
		format      ut.Format
		stream      bool
	}{
		{conversePath, "amazon.nova-pro-v1:0", ut.Bedrock, false},
		{converseStreamPath, "amazon.nova-pro-v1:0", ut.Bedrock, true},
		{"/model/m/invoke", "m", ut.Bedrock, false},
		{"/model/m/invoke-with-response-stream", "m", ut.Bedrock, true},
		{"/model/" + strings.ReplaceAll(arn, "/", "%2F") + "/converse", arn, ut.Bedrock, false},
		{"/model/m/count-tokens", "m", ut.Unknown, false},
		{"/model/invoke", "invoke", ut.Unknown, false},
	}
	both(t, func(t *testing.T, r reach) {
		for _, tt := range tests {
			r.post(t, tt.path, `{}`)
			q := r.up.Last()
			assert.Equal(t, tt.format, q.Format, tt.path)
			assert.Equal(t, tt.model, q.Model, tt.path)
			assert.Equal(t, tt.stream, q.Stream, tt.path)
		}
	})
}

func TestConverseAnswers(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		r.up.Default(ut.OK("he", "llo").Usage(3, 4))
		g := r.post(t, conversePath, `{}`)
		assert.Equal(t, "application/json", g.header.Get("Content-Type"))
		assert.JSONEq(t, `{"output":{"message":{"role":"assistant","content":[{"text":"hello"}]}},"stopReason":"end_turn",
			"usage":{"inputTokens":3,"outputTokens":4,"totalTokens":7},"metrics":{"latencyMs":1}}`, g.body)

		g = r.post(t, converseStreamPath, `{}`)
		assert.Equal(t, "application/vnd.amazon.eventstream", g.header.Get("Content-Type"))
		assert.Equal(t, "messageStart contentBlockDelta contentBlockDelta contentBlockStop messageStop metadata", kinds(t, g.body))
		all, _ := frames(t, g.body)
		assert.JSONEq(t, `{"contentBlockIndex":0,"delta":{"text":"llo"}}`, all[2].payload)
		assert.Equal(t, map[string]string{":event-type": "messageStop", ":content-type": "application/json", ":message-type": "event"}, all[4].header)

		r.up.Default(ut.ToolCall("f", `{"a":1}`))
		assert.Contains(t, r.post(t, conversePath, `{}`).body, `{"toolUse":{"toolUseId":"tooluse_3","name":"f","input":{"a":1}}}`)
		g = r.post(t, converseStreamPath, `{}`)
		assert.Equal(t, "messageStart contentBlockStart contentBlockDelta contentBlockDelta contentBlockStop messageStop metadata", kinds(t, g.body))
		all, _ = frames(t, g.body)
		assert.JSONEq(t, `{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{\"a"}}}`, all[2].payload)
		assert.JSONEq(t, `{"stopReason":"tool_use"}`, all[5].payload)
	})
}

// An invoked model answers in the words of its vendor; a stream's last event
// carries what Bedrock adds.
func TestInvokeAnswers(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		for _, tt := range []struct{ model, body, whole, first, last string }{
			{claude, `{}`, `"stop_reason":"end_turn"`, "message_start", "message_stop"},
			{"some-profile", `{"anthropic_version":"bedrock-2023-05-31"}`, `"stop_reason":"end_turn"`, "message_start", "message_stop"},
			{"openai.gpt-oss-120b-1:0", `{}`, `"finish_reason":"stop"`, `"role":"assistant"`, `"finish_reason":"stop"`},
		} {
			r.up.Default(ut.OK("a", "b"))
			assert.Contains(t, r.post(t, "/model/"+tt.model+"/invoke", tt.body).body, tt.whole)
			events := chunks(t, r.post(t, "/model/"+tt.model+"/invoke-with-response-stream", tt.body).body)
			assert.Contains(t, events[0], tt.first)
			assert.Contains(t, events[len(events)-1], tt.last)
			assert.Contains(t, events[len(events)-1], `"amazon-bedrock-invocationMetrics":{`)
			assert.NotContains(t, strings.Join(events[:len(events)-1], ""), "invocationMetrics")
			assert.NotContains(t, strings.Join(events, ""), "DONE")
		}
		r.up.Default(ut.OK("a").NoDone())
		assert.NotContains(t, strings.Join(chunks(t, r.post(t, "/model/"+claude+"/invoke-with-response-stream", `{}`).body), ""), "message_stop")
	})
}

func TestBedrockErrors(t *testing.T) {
	tests := []struct {
		status   int
		name     string // of an answer with the status
		converse string // in a stream's frame
		invoke   string
	}{
		{400, "ValidationException", "validationException", "validationException"},
		{401, "AccessDeniedException", "AccessDeniedException", "AccessDeniedException"},
		{403, "AccessDeniedException", "AccessDeniedException", "AccessDeniedException"},
		{404, "ResourceNotFoundException", "ResourceNotFoundException", "ResourceNotFoundException"},
		{408, "ModelTimeoutException", "internalServerException", "modelTimeoutException"},
		{424, "ModelErrorException", "modelStreamErrorException", "modelStreamErrorException"},
		{429, "ThrottlingException", "throttlingException", "throttlingException"},
		{500, "InternalServerException", "internalServerException", "internalServerException"},
		{503, "ServiceUnavailableException", "serviceUnavailableException", "serviceUnavailableException"},
	}
	both(t, func(t *testing.T, r reach) {
		for _, tt := range tests {
			message := fmt.Sprintf("scripted status %d", tt.status)
			r.up.Default(ut.Status(tt.status))
			for _, path := range []string{conversePath, converseStreamPath, "/model/m/invoke"} {
				g := r.post(t, path, `{}`)
				assert.Equal(t, tt.status, g.status)
				assert.Equal(t, tt.name, g.header.Get("X-Amzn-Errortype"))
				assert.JSONEq(t, `{"message":"`+message+`"}`, g.body)
			}
			r.up.Default(ut.OK("a", "b").FailAfter(1, tt.status))
			for path, want := range map[string]string{converseStreamPath: tt.converse, "/model/m/invoke-with-response-stream": tt.invoke} {
				all, rest := frames(t, r.post(t, path, `{}`).body)
				require.Len(t, all, 2)
				assert.Empty(t, rest)
				assert.Equal(t, want, all[1].kind())
				switch all[1].header[":message-type"] {
				case "exception":
					assert.JSONEq(t, `{"message":"`+message+`"}`, all[1].payload)
				case "error":
					assert.Equal(t, message, all[1].header[":error-message"])
				default:
					t.Errorf("a frame of type %q", all[1].header[":message-type"])
				}
			}
		}
	})
}

// What can be done to a stream of lines can be done to one of frames.
func TestBedrockCutsAndPieces(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		body := func(s ut.Step) string {
			r.up.Default(s)
			return r.post(t, converseStreamPath, `{}`).body
		}
		ok := ut.OK("a\n", "b\n")
		assert.Equal(t, "messageStart contentBlockDelta", kinds(t, body(ok.CutAfterText(1))))
		assert.Equal(t, "messageStart contentBlockDelta serviceUnavailableException", kinds(t, body(ok.CutAfterText(1).At(-1, ut.ErrorEvent(503)))))
		assert.Equal(t, "throttlingException", kinds(t, body(ok.FailAfter(0, 429))))
		assert.Equal(t, "ping ping messageStart", kinds(t, body(ok.At(0, ut.Pings(0, 2)).CutAfter(1))))
		assert.Equal(t, "metadata", kinds(t, body(ok.At(0, ut.Event(`{"metadata":{"usage":{}}}`)).CutAfter(0))))
		for _, end := range []ut.LineEnd{ut.CRLF, ut.CR, ut.Mixed} {
			assert.Equal(t, body(ok), body(ok.LineEnds(end)), "frames have no line ends")
		}

		whole, rest := frames(t, body(ok.CutAfterText(1).InsideLine()))
		assert.Len(t, whole, 2)
		assert.NotEmpty(t, rest)

		broken, rest := frames(t, body(ok.At(0, ut.Malformed()).CutAfter(0)))
		require.Len(t, broken, 1)
		assert.Empty(t, rest, "its sums are right")
		assert.False(t, json.Valid([]byte(broken[0].payload)))

		r.up.Default(ok.At(0, ut.Huge(1000)).CutAfter(0))
		huge := chunks(t, r.post(t, "/model/m/invoke-with-response-stream", `{}`).body)
		assert.Len(t, huge[0], 1000)
		assert.Equal(t, http.StatusOK, r.post(t, conversePath, `{}`).status)
	})
}

func TestBedrockPingsOfAWholeAnswerAreBlank(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		r.up.Default(ut.OK("a").At(0, ut.Pings(0, 2)))
		g := r.post(t, conversePath, `{}`)
		assert.True(t, json.Valid([]byte(g.body)), g.body)
		assert.True(t, strings.HasPrefix(g.body, "\n\n{"))
	})
}

func TestHiddenCoralNamesTheException(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		r.up.Default(ut.Hidden(ut.HiddenCoral, 503))
		assert.Contains(t, r.post(t, conversePath, `{}`).body, `"__type":"com.amazon.coral.service#ServiceUnavailableException"`)
	})
}
