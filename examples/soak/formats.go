package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// format is a wire format as an SDK reads it: the text of an answer, or an
// error.
type format struct {
	name string
	path string
	ask  string // of the request, with the model and the stream flag
	anth bool
	// whole and delta find the text in a JSON body and in an event.
	whole func(map[string]any) string
	delta func(map[string]any) string
}

var formats = [3]format{
	{
		name: "chat completions", path: "/v1/chat/completions",
		ask:   `{"model":%q,"stream":%t,"messages":[{"role":"user","content":"x"}],"n":1.0}`,
		whole: func(m map[string]any) string { return text(m, "choices", 0, "message", "content") },
		delta: func(m map[string]any) string { return text(m, "choices", 0, "delta", "content") },
	},
	{
		name: "responses", path: "/v1/responses",
		ask:   `{"model":%q,"stream":%t,"input":"x"}`,
		whole: func(m map[string]any) string { return text(m, "output", 0, "content", 0, "text") },
		delta: func(m map[string]any) string { return ofType(m, "response.output_text.delta", "delta") },
	},
	{
		name: "messages", path: "/v1/messages", anth: true,
		ask:   `{"model":%q,"stream":%t,"max_tokens":9,"messages":[{"role":"user","content":"x"}]}`,
		whole: func(m map[string]any) string { return text(m, "content", 0, "text") },
		delta: func(m map[string]any) string { return ofType(m, "content_block_delta", "delta", "text") },
	},
}

// text goes down a decoded body; "" where the way ends.
func text(v any, way ...any) string {
	for _, step := range way {
		switch s := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[s]
		case int:
			l, _ := v.([]any)
			if s >= len(l) {
				return ""
			}
			v = l[s]
		}
	}
	out, _ := v.(string)
	return out
}

func ofType(m map[string]any, typ string, way ...any) string {
	if m["type"] != typ {
		return ""
	}
	return text(m, way...)
}

var errInBand = errors.New("the body carries an error")

// read is what an SDK makes of an answer's body: its text, and errInBand.
func (f *format) read(body string, events bool) (string, error) {
	if !events {
		var m map[string]any
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			return "", fmt.Errorf("a good answer that is no JSON: %w", err)
		}
		if m["error"] != nil {
			return "", errInBand
		}
		return f.whole(m), nil
	}
	var out strings.Builder
	var broken error
	lines := strings.ReplaceAll(strings.ReplaceAll(body, "\r\n", "\n"), "\r", "\n")
	for line := range strings.SplitSeq(lines, "\n") {
		data, ok := strings.CutPrefix(line, "data:")
		if !ok || strings.TrimSpace(data) == "[DONE]" {
			continue
		}
		var m map[string]any
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			broken = fmt.Errorf("an event that is no JSON: %w", err)
			continue // a huge one that was cut, before the error event
		}
		if m["error"] != nil || m["type"] == "error" || m["type"] == "response.failed" {
			return out.String(), errInBand
		}
		out.WriteString(f.delta(m))
	}
	return out.String(), broken
}

// seal is the head of an answer's text.
type seal struct {
	id, provider string
	answer       int
}

// unseal checks that a text is whole and says whose it is.
func unseal(s string) (seal, error) {
	head, rest, ok := strings.Cut(s, ">")
	parts := strings.Split(strings.TrimPrefix(head, "<"), "|")
	if !ok || len(parts) != 5 {
		return seal{}, fmt.Errorf("no seal: %.60q", s)
	}
	out := seal{id: parts[0], provider: parts[1]}
	var length int
	var sum uint32
	if _, err := fmt.Sscanf(parts[2]+" "+parts[3]+" "+parts[4], "%d %d %x", &out.answer, &length, &sum); err != nil {
		return out, fmt.Errorf("a broken seal: %q", head)
	}
	if len(rest) != length || crc32.ChecksumIEEE([]byte(rest)) != sum {
		return out, fmt.Errorf("not whole: %d of %d bytes", len(rest), length)
	}
	return out, nil
}
