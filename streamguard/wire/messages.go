package wire

import (
	"net/http"
	"net/url"
	"strings"
)

// Messages is Anthropic's Messages API, on Vertex AI too.
var Messages = &Format{
	name: "messages", operation: "chat", generative: true,
	bound: messagesBound,
	carries: []signs{
		{{name: "type", words: []string{"message_start", "message_delta", "message_stop", "content_block_start", "content_block_delta", "content_block_stop"}}},
		{{name: "content", kinds: "["}, {name: "type", words: []string{"message"}}},
		{{name: "content", kinds: "["}, {name: "stop_reason", kinds: `"n`}},
	},
	match: matchMessages, types: messagesTypes, event: readTyped, done: noSentinel,
	judge: wantObject(messagesJudge), errorBody: messagesError, abort: messagesAbort,
}

var messagesTypes = &types{
	member: "type", own: []string{"message_*", "content_block_*"}, pieces: []string{"delta"},
	content: []string{"content_block_delta"},
	stop:    []string{"message_delta"},
	final:   []string{"message_stop"},
	holds:   "message",
}

var messagesBound = []string{
	"container", "container.id",
	"messages[].content[].source(file).file_id", "messages[].content[](tool_result).content[].source(file).file_id",
	"messages[].content[](container_upload).file_id",
	"messages[].content[](thinking).signature", "messages[].content[](redacted_thinking).data",
}

// matchMessages takes POST …/v1/messages and the two methods of Anthropic
// models on Vertex AI.
func matchMessages(method string, u *url.URL) (string, bool) {
	if method != http.MethodPost {
		return "", false
	}
	if strings.HasSuffix(u.Path, "/v1/messages") {
		return "/v1/messages", true
	}
	i := strings.LastIndex(u.Path, "/publishers/anthropic/models/")
	if i < 0 {
		return "", false
	}
	_, verb, _ := strings.Cut(u.Path[i+1:], ":")
	return u.Path[i:], verb == "rawPredict" || verb == "streamRawPredict"
}

func messagesJudge(f *Format, a Answer, b []byte) Verdict {
	var drift string
	usable, content, usage := false, false, counter{}
	p := parse(b)
	for ok := p.object(); ok && p.member(); {
		k := p.kind()
		switch string(p.name) {
		case "content":
			content = k != 'n'
			if k != '[' && k != 'n' {
				drift = "content: want array"
			}
			usable = p.filled()
		case "usage":
			if k != '{' && k != 'n' && drift == "" {
				drift = "usage: want object"
			}
			usage.take(&p)
		}
	}
	if v, done := f.unfit(a, &p, usable, content || drift != ""); done {
		return v
	}
	if drift != "" {
		return f.drift(a, drift, ReasonDrift)
	}
	return delivered(usable, usage)
}

// messagesType returns Anthropic's name for a class of errors.
func messagesType(status int) string {
	switch status {
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusServiceUnavailable, 529:
		return "overloaded_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	}
	if t := errorType(status); t != "server_error" {
		return t
	}
	return "api_error"
}

// messagesErrorTypes are the types that Anthropic's clients know.
var messagesErrorTypes = map[string]bool{
	"invalid_request_error": true, "authentication_error": true, "billing_error": true, "permission_error": true,
	"not_found_error": true, "request_too_large": true, "rate_limit_error": true, "timeout_error": true,
	"api_error": true, "overloaded_error": true,
}

// messagesError renders an error of a type that the clients know; another
// vendor's becomes the code.
func messagesError(status int, typ, code, message string) []byte {
	switch {
	case typ == errorType(status):
		typ = messagesType(status)
	case !messagesErrorTypes[typ]:
		if code == "" {
			code = typ
		}
		typ = messagesType(status)
	}
	b := append([]byte(`{"type":"error","error":{"type":`), quote(typ)...)
	b = append(append(b, `,"message":`...), quote(message)...)
	if code != "" {
		b = append(append(b, `,"code":`...), quote(code)...)
	}
	return append(b, "}}"...)
}

func messagesAbort(_ *Stream, _ int, _, message string) (string, []byte) {
	b := append([]byte(`{"type":"error","error":{"type":"api_error","message":`), quote(message)...)
	return "error", append(b, "}}"...)
}
