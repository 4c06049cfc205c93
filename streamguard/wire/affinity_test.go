package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

func TestWhatKeepsCallsTogether(t *testing.T) {
	for body, want := range map[string][2]string{ // cache key, user
		`{"prompt_cache_key":"k","user":"u"}`:                  {"k", "u"},
		`{"metadata":{"user_id":"m"},"user":"u"}`:              {"", "m"},
		`{"user":"u","safety_identifier":"s"}`:                 {"", "s"},
		`{"metadata":{"user_id":null},"user":"u"}`:             {"", "u"},
		`{"messages":[{"prompt_cache_key":"no","user":"no"}]}`: {"", ""},
		`{"prompt_cache_key":7,"user":["u"],"metadata":"x"}`:   {"", ""},
		`{"prompt_cache_key":"\u0041b","user":"\u00fc"}`:       {"Ab", "ü"},
		`{"prompt_cache_key":"k"`:                              {"k", ""},
		`[]`:                                                   {"", ""},
		``:                                                     {"", ""},
		`{"a":` + strings.Repeat("[", 20_000) + `,"prompt_cache_key":"k"}`: {"", ""},
	} {
		assert.Equal(t, want, [2]string{wire.CacheKey([]byte(body)), wire.UserID([]byte(body))}, "%.60s", body)
	}
}

// All turns of a conversation have the same beginning, in each format; another
// conversation, or another instruction, has another.
func TestPromptStart(t *testing.T) {
	for name, turns := range map[string][]string{
		"chat": {
			`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"q"}]}`,
			`{"model":"m","stream":true,"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"r"}]}`,
			`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"other"}]}`,
			`{"messages":[{"role":"system","content":"other"},{"role":"user","content":"q"}]}`,
			`{"messages":[{"role":"user","content":"q"}]}`,
		},
		"responses": {
			`{"instructions":"s","input":[{"role":"user","content":"q"}]}`,
			`{"input":[{"role":"user","content":"q"},{"type":"reasoning"},{"role":"user","content":"r"}],"instructions":"s"}`,
			`{"instructions":"t","input":[{"role":"user","content":"q"}]}`,
			`{"instructions":"s","input":"q"}`,
		},
		"messages": {
			`{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"q"}]}`,
			`{"max_tokens":1,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}`,
			`{"system":[{"type":"text","text":"t"}],"messages":[{"role":"user","content":"q"}]}`,
		},
		"Gemini": {
			`{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"q"}]}]}`,
			`{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[]}]}`,
			`{"contents":[{"role":"user","parts":[{"text":"q"}]}]}`,
		},
		"DashScope": {
			`{"model":"q","input":{"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"}]}}`,
			`{"model":"q","input":{"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}}`,
			`{"model":"q","input":{"prompt":"q"}}`,
		},
		"completions": {`{"prompt":"a"}`, `{"prompt":"a","n":1}`, `{"prompt":"b"}`},
	} {
		first := wire.PromptStart([]byte(turns[0]))
		assert.Len(t, first, 32, name)
		assert.NotContains(t, first, "q", name)
		assert.Equal(t, first, wire.PromptStart([]byte(turns[1])), name)
		seen := map[string]bool{first: true}
		for _, other := range turns[2:] {
			hash := wire.PromptStart([]byte(other))
			assert.False(t, seen[hash], "%s: %s", name, other)
			seen[hash] = true
		}
	}
	for _, none := range []string{``, `{}`, `[]`, `{"model":"m"}`, `{"messages":[]}`, `{"input":""}`, `{"messages":null}`, `{"system":"s"}`} {
		assert.Empty(t, wire.PromptStart([]byte(none)), none)
	}
}

// Where a cache's mark stands moves from turn to turn, and an SDK makes text a block
// to hang it on: the conversation is the same. So it is
// whatever the blanks.
func TestPromptStartHeedsNoCacheMark(t *testing.T) {
	for name, turns := range map[string][]string{
		"messages": {
			`{"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"q","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]}`,
			`{"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"q"}]},{"role":"assistant","content":"a"},{"role":"user","content":[{"type":"text","text":"r","cache_control":{"type":"ephemeral"}}]}]}`,
			`{"system":[{"text":"s","type":"text"}],"messages":[{"role":"user","content":[{"cache_control":null,"text":"q","type":"text"}]}]}`,
			`{"system":"s","messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}`,
			`{"system": "s", "messages": [ {"role": "user", "content": [ {"type": "text", "text": "q"} ] } ] }`,
		},
		"chat": {
			`{"messages":[{"role":"system","content":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]},{"role":"user","content":"q"}]}`,
			`{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"q"}]},{"role":"assistant","content":"a"}]}`,
		},
		"Converse": {
			`{"system":[{"text":"s"},{"cachePoint":{"type":"default"}}],"messages":[{"role":"user","content":[{"text":"q"},{"cachePoint":{"type":"default"}}]}]}`,
			`{"system":[{"text":"s"},{"cachePoint":{"type":"default"}}],"messages":[{"role":"user","content":[{"text":"q"}]},{"role":"assistant","content":[{"text":"a"}]}]}`,
		},
	} {
		for _, turn := range turns {
			assert.Equal(t, wire.PromptStart([]byte(turns[0])), wire.PromptStart([]byte(turn)), "%s: %s", name, turn)
		}
	}
	other := map[string]bool{}
	for _, body := range []string{
		`{"messages":[{"role":"user","content":"q"}]}`, `{"messages":[{"role":"user","content":"r"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"q"},{"type":"text","text":"r"}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"qr"}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"v"}}]}]}`,
		`{"messages":[{"role":"user","content":7}]}`,
		`{"messages":[{"role":"system","content":"q"}]}`,
	} {
		hash := wire.PromptStart([]byte(body))
		assert.NotEmpty(t, hash, body)
		assert.False(t, other[hash], body)
		other[hash] = true
	}
	deep := `{"messages":[{"role":"user","content":` + strings.Repeat("[", 20_000) + `}]}`
	assert.NotPanics(t, func() { wire.PromptStart([]byte(deep)) })
}
