package wire

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Conversations is Mistral's conversations, of its agents too. OpenAI has the
// same path, where nothing is generated: so the host decides, too.
var Conversations = &Format{
	name: "conversations", operation: "chat", generative: true,
	match: matchConversations, bound: conversationsBound, boundPath: namesConversation,
	types: conversationsTypes, event: readTyped, done: noSentinel,
	judge:   wantObject(conversationsJudge),
	carries: []signs{{{name: "object", words: []string{"conversation.response"}}}, {{name: "type", words: []string{"conversation.response.*", "message.output.delta", "function.call.delta"}}}},
	// Mistral renders its errors flat.
	errorBody: conversationsError, abort: conversationsAbort,
}

var conversationsTypes = &types{
	member: "type", pieces: []string{"content", "arguments"}, idle: []string{"created_at"},
	own:     []string{"conversation.response.*", "message.output.*", "function.call.*", "tool.execution.*", "agent.handoff.*"},
	content: []string{"message.output.delta", "function.call.delta"},
	final:   []string{"conversation.response.done"},
	fail:    []string{"conversation.response.error"},
}

var conversationsBound = []string{
	"agent_id", "inputs[].content[].file_id", "inputs[].content[](file).file_id", "tools[](document_library).library_ids[]",
}

// matchConversations takes POST …/conversations, …/conversations/{id} and
// …/conversations/{id}/restart.
func matchConversations(method string, u *url.URL) (string, bool) {
	const root = "/conversations"
	host, i := "."+strings.ToLower(u.Hostname()), strings.LastIndex(u.Path, root)
	if method != http.MethodPost || i < 0 || !strings.HasSuffix(host, ".mistral.ai") {
		return "", false
	}
	rest := strings.TrimSuffix(u.Path[i+len(root):], "/restart")
	id, ok := strings.CutPrefix(rest, "/")
	return u.Path[i:], rest == "" && u.Path[i:] == root || ok && id != "" && !strings.Contains(id, "/")
}

// namesConversation reports whether a request goes on with a conversation.
func namesConversation(method string, u *url.URL) bool {
	path, ok := matchConversations(method, u)
	return ok && path != "/conversations"
}

func conversationsJudge(f *Format, a Answer, b []byte) Verdict {
	outputs, usable, usage := false, false, counter{}
	p := parse(b)
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "outputs":
			outputs = p.kind() == '['
			usable = p.filled()
		case "usage":
			usage.take(&p)
		}
	}
	if v, done := f.unfit(a, &p, usable, outputs); done {
		return v
	}
	if !usable {
		return Verdict{Empty: EmptyOutput, Usage: usage.Usage}
	}
	return delivered(usable, usage)
}

func conversationsError(_ int, typ, code, message string) []byte {
	b := append([]byte(`{"object":"error","message":`), quote(message)...)
	b = append(append(b, `,"type":`...), quote(typ)...)
	b = append(b, `,"param":null,"code":`...)
	if code == "" {
		return append(b, "null}"...)
	}
	return append(append(b, quote(code)...), '}')
}

// conversationsAbort has a code that is a number, which the official clients
// insist on.
func conversationsAbort(_ *Stream, status int, _, message string) (string, []byte) {
	const name = "conversation.response.error"
	b := append([]byte(`{"type":"`+name+`","message":`), quote(message)...)
	return name, append(strconv.AppendInt(append(b, `,"code":`...), int64(status), 10), '}')
}
