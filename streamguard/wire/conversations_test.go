package wire_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// OpenAI has the same path, where a POST makes or changes a conversation and
// generates nothing.
func TestConversationsAreMistrals(t *testing.T) {
	for target, want := range map[string]struct {
		format   *wire.Format
		endpoint string
		bound    bool
	}{
		"https://api.mistral.ai/v1/conversations":                {wire.Conversations, "/conversations", false},
		"https://API.EU.Mistral.ai:443/v1/conversations":         {wire.Conversations, "/conversations", false},
		"https://api.mistral.ai/v1/conversations/conv_1":         {wire.Conversations, "/conversations/conv_1", true},
		"https://api.mistral.ai/v1/conversations/conv_1/restart": {wire.Conversations, "/conversations/conv_1/restart", true},
		"https://api.mistral.ai/v1/conversations/conv_1/history": {wire.Unknown, "", false},
		"https://api.mistral.ai/v1/conversations/":               {wire.Unknown, "", false},
		"https://api.mistral.ai/v1/conversationsx":               {wire.Unknown, "", false},
		"https://api.openai.com/v1/conversations":                {wire.Unknown, "", false},
		"https://notmistral.ai/v1/conversations":                 {wire.Unknown, "", false},
	} {
		u, err := url.Parse(target)
		require.NoError(t, err)
		got := wire.Inspect(http.MethodPost, u, nil)
		assert.Equal(t, want.format, got.Format, target)
		assert.Equal(t, want.endpoint, got.Format.Endpoint(u), target)
		assert.Equal(t, want.bound, got.Bound, target)
		assert.Equal(t, wire.Unknown, wire.FormatOf(http.MethodGet, u), target)
	}
}

func TestConversationsRequests(t *testing.T) {
	for body, bound := range map[string]bool{
		`{"model":"m","inputs":"hi","stream":true}`:                                                false,
		`{"agent_id":"ag_1","inputs":"hi","stream":true}`:                                          true,
		`{"inputs":[{"content":[{"type":"tool_file","file_id":"f"}]}],"stream":true}`:              true,
		`{"inputs":"hi","tools":[{"type":"document_library","library_ids":["l"]}],"stream":true}`:  true,
		`{"inputs":"hi","tools":[{"type":"function","library_ids":["l"]}],"stream":true,"n":null}`: false,
	} {
		r := wire.Request{Format: wire.Conversations}
		c := wire.ReadContent(http.Header{"Content-Type": {"application/json"}}, []byte(body))
		r.Add(&c)
		assert.Equal(t, bound, r.Bound, body)
		assert.True(t, r.Stream, body)
	}
}

func TestConversationsAnswers(t *testing.T) {
	const output = `{"object":"entry","type":"message.output","role":"assistant","content":"Spain."}`
	const usage = `"usage":{"prompt_tokens":1,"total_tokens":2}`
	for body, want := range map[string]struct {
		status int
		empty  string
		usable bool
	}{
		`{"object":"conversation.response","conversation_id":"c","outputs":[` + output + `],` + usage + `}`: {0, "", true},
		`{"object":"conversation.response","conversation_id":"c","outputs":[` + output + `]}`:               {0, wire.EmptyUsage, true},
		`{"object":"conversation.response","conversation_id":"c","outputs":[],` + usage + `}`:               {0, wire.EmptyOutput, false},
		`{"object":"error","message":"Rate limit exceeded","type":"rate_limited","param":null,"code":null}`: {429, "", false},
		`{"detail":[{"msg":"Field required"}]}`:                                                             {502, "", false},
		`{"conversation_id":"c","outputs":`:                                                                 {502, "", false},
	} {
		v := wire.Conversations.Judge(wire.Answer{Provider: "p", ContentType: "application/json"}, []byte(body))
		if want.status != 0 {
			require.NotNil(t, v.Failure, body)
			assert.Equal(t, want.status, v.Failure.Status, body)
			continue
		}
		assert.Nil(t, v.Failure, body)
		assert.Equal(t, want.empty, v.Empty, body)
		assert.Equal(t, want.usable, v.Usable, body)
	}
}

func TestConversationsErrors(t *testing.T) {
	s, _ := play(t, wire.Conversations, event("message.output.delta", `{"type":"message.output.delta","content":"a"}`))
	abort := string(s.Abort(504, "", "m"))
	assert.Equal(t, "event: conversation.response.error\ndata: {\"type\":\"conversation.response.error\",\"message\":\"m\",\"code\":504}\n\n", abort)
	s, ms := play(t, wire.Conversations, abort)
	assert.Equal(t, []wire.Mark{failing}, ms, "the library knows its own event")
	assert.Equal(t, 504, s.Failure().Status)
	for _, code := range []string{"", "circuit_open"} {
		v := wire.ParseFailure(0, wire.Conversations.ErrorBody(503, "", code, "m"))
		assert.Equal(t, wire.Failure{Status: 502, Code: code, Type: "server_error", Message: "m", Body: v.Body}, v)
	}
}
