package referees_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// format is one of aimock's wire formats.
type format struct {
	name         string
	path, stream string // of a whole answer, and of a stream where that differs
	body         string // %[1] is the prompt, %[2] whether a stream is wanted
	terminal     string // what a stream's last event holds, or the one that names the reason
	textOnly     bool   // it has no tool calls
}

// chat is the body that several formats share.
const chat = `{"model":"m","stream":%[2]t,"max_tokens":99,"messages":[{"role":"user","content":%[1]q}]}`

const (
	gemini = `{"contents":[{"role":"user","parts":[{"text":%[1]q}]}]}`
	vertex = "/v1/projects/p/locations/l/publishers/google/models/m:"
)

// formats are all of aimock's but one: its invoke-with-response-stream puts the
// events themselves into the frames, where Bedrock has {"bytes": …}, so that
// AWS's own SDK reads nothing from it, and the stack calls it empty.
func formats() []format {
	return []format{
		{name: "chat completions", path: "/v1/chat/completions", body: chat, terminal: `"finish_reason":"`},
		{name: "azure", path: "/openai/deployments/m/chat/completions?api-version=2024-10-21", body: chat, terminal: `"finish_reason":"`},
		{name: "responses", path: "/v1/responses", body: `{"model":"m","stream":%[2]t,"input":%[1]q}`, terminal: `"type":"response.completed"`},
		{name: "messages", path: "/v1/messages", body: chat, terminal: `"stop_reason":"`},
		{name: "gemini", path: "/v1beta/models/m:generateContent", stream: "/v1beta/models/m:streamGenerateContent?alt=sse", body: gemini, terminal: `"finishReason":"`},
		{name: "vertex", path: vertex + "generateContent", stream: vertex + "streamGenerateContent?alt=sse", body: gemini, terminal: `"finishReason":"`},
		{name: "interactions", path: "/v1beta/interactions", body: `{"model":"m","stream":%[2]t,"input":%[1]q}`, terminal: `"event_type":"interaction.completed"`},
		{name: "ollama chat", path: "/api/chat", body: chat, terminal: `"done":true`},
		{name: "ollama generate", path: "/api/generate", body: `{"model":"m","stream":%[2]t,"prompt":%[1]q}`, terminal: `"done":true`, textOnly: true},
		{name: "cohere", path: "/v2/chat", body: chat, terminal: `"type":"message-end"`},
		{name: "bedrock converse", path: "/model/m/converse", stream: "/model/m/converse-stream", body: `{"messages":[{"role":"user","content":[{"text":%[1]q}]}]}`, terminal: "messageStop"},
	}
}

func (f format) answers() []answer {
	if f.textOnly {
		return []answer{text}
	}
	return []answer{text, tool}
}

// post makes one call and returns what came: the bytes of the body, and the
// error of the call or of Read.
func (f format) post(t *testing.T, ctx context.Context, rt http.RoundTripper, url, prompt string, stream bool) (status int, body string, err error) {
	t.Helper()
	path := f.path
	if stream && f.stream != "" {
		path = f.stream
	}
	payload := fmt.Sprintf(f.body, prompt, stream)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, strings.NewReader(payload))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// spoken are the members that hold pieces of an answer, in one format or other.
var spoken = regexp.MustCompile(`"(?:text|content|delta|arguments|partial_json|input|response|note|name)":\s*("(?:[^"\\]|\\.)*")`)

// said returns the pieces of an answer in the order in which they came: what
// two answers to one prompt have in common, since ids and times differ.
func said(body string) string {
	var b strings.Builder
	for _, m := range spoken.FindAllStringSubmatch(body, -1) {
		b.WriteString(m[1])
	}
	return b.String()
}
