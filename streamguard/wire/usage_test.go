package wire_test

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// Each vendor's way to say what a whole answer took.
func TestUsageOfWholeAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		format *wire.Format
		body   string
		want   wire.Usage
	}{
		"chat": {wire.Chat, `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,` +
			`"prompt_tokens_details":{"cached_tokens":64,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":12}}}`, wire.Usage{Input: 100, CacheRead: 64, Output: 20, Reasoning: 12}},
		"OpenRouter": {wire.Chat, `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":5,"cache_write_tokens":7},"cost":0.01}}`,
			wire.Usage{Input: 100, CacheRead: 5, CacheWrite: 7, Output: 20}},
		"DeepSeek": {wire.Chat, `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":5}}`,
			wire.Usage{Input: 9, CacheRead: 4, Output: 2}},
		"xAI, reasoning beside the output": {wire.Chat, `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}}`,
			wire.Usage{Input: 32, Output: 103, Reasoning: 94}},
		"xAI, little of it": {wire.Chat, `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":32,"completion_tokens":90,"total_tokens":126,"completion_tokens_details":{"reasoning_tokens":4}}}`,
			wire.Usage{Input: 32, Output: 94, Reasoning: 4}},
		"more reasoning than output, no total": {wire.Chat, `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":3,"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":94}}}`,
			wire.Usage{Input: 3, Output: 103, Reasoning: 94}},
		"LiteLLM, both vendors' names": {wire.Chat, `{"choices":[{"message":{"content":"x"}}],"usage":{"completion_tokens":10,"prompt_tokens":110,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":80},"cache_creation_input_tokens":20,"cache_read_input_tokens":80}}`,
			wire.Usage{Input: 110, CacheRead: 80, CacheWrite: 20, Output: 10}},
		"LiteLLM, without details": {wire.Chat, `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":110,"completion_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":80}}`,
			wire.Usage{Input: 110, CacheRead: 80, CacheWrite: 20, Output: 10}},
		"responses, both vendors' names": {wire.Responses, `{"status":"completed","output":[{}],"usage":{"input_tokens":110,"input_tokens_details":{"cached_tokens":80},"cache_read_input_tokens":80,"output_tokens":10}}`,
			wire.Usage{Input: 110, CacheRead: 80, Output: 10}},
		"a gateway that leaves the cached part out": {wire.Chat, `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":10,"completion_tokens":10,"total_tokens":120,"cache_creation_input_tokens":20,"cache_read_input_tokens":80}}`,
			wire.Usage{Input: 110, CacheRead: 80, CacheWrite: 20, Output: 10}},
		"floats":      {wire.Chat, `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":9.0,"completion_tokens":2e1}}`, wire.Usage{Input: 9, Output: 20}},
		"nonsense":    {wire.Chat, `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":-3,"completion_tokens":1e300,"total_tokens":"9","prompt_tokens_details":null}}`, wire.Usage{}},
		"too many":    {wire.Chat, `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":9000000000000,"completion_tokens":99999999999999999999999999}}`, wire.Usage{}},
		"null":        {wire.Chat, `{"choices":[{"message":{"content":"x"}}],"usage":null}`, wire.Usage{}},
		"nothing":     {wire.Chat, `{"choices":[{"message":{"content":"{\"usage\":{\"prompt_tokens\":5}}"}}]}`, wire.Usage{}},
		"a failure":   {wire.Chat, `{"error":{"code":503,"message":"x"},"usage":{"prompt_tokens":9,"completion_tokens":0}}`, wire.Usage{Input: 9}},
		"completions": {wire.Completions, `{"choices":[{"text":"x"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`, wire.Usage{Input: 3, Output: 4}},
		"embeddings":  {wire.Embeddings, `{"data":[{"embedding":[0.5]}],"usage":{"prompt_tokens":8,"total_tokens":8}}`, wire.Usage{Input: 8}},
		"responses": {wire.Responses, `{"status":"completed","output":[{}],"usage":{"input_tokens":50,"input_tokens_details":{"cached_tokens":10},"output_tokens":30,"output_tokens_details":{"reasoning_tokens":25},"total_tokens":80}}`,
			wire.Usage{Input: 50, CacheRead: 10, Output: 30, Reasoning: 25}},
		"messages": {wire.Messages, `{"type":"message","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":10,"cache_creation_input_tokens":30,"cache_read_input_tokens":200,"output_tokens":5,"cache_creation":{"ephemeral_5m_input_tokens":30}}}`,
			wire.Usage{Input: 240, CacheRead: 200, CacheWrite: 30, Output: 5}},
		"Gemini": {wire.Gemini, `{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":40,"cachedContentTokenCount":8,"candidatesTokenCount":5,"thoughtsTokenCount":20,"totalTokenCount":65}}`,
			wire.Usage{Input: 40, CacheRead: 8, Output: 25, Reasoning: 20}},
		"Gemini's tools": {wire.Gemini, `{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":40,"toolUsePromptTokenCount":100,"candidatesTokenCount":5,"totalTokenCount":145}}`,
			wire.Usage{Input: 140, Output: 5}},
		"interactions": {wire.Interactions, `{"object":"interaction","status":"completed","outputs":[{}],"usage":{"total_input_tokens":7,"total_output_tokens":20,"total_tokens":49,"total_thought_tokens":22,"total_cached_tokens":3}}`,
			wire.Usage{Input: 7, CacheRead: 3, Output: 42, Reasoning: 22}},
		"Ollama":    {wire.Ollama, `{"message":{"content":"x"},"done":true,"prompt_eval_count":26,"eval_count":298,"eval_duration":5}`, wire.Usage{Input: 26, Output: 298}},
		"Cohere":    {wire.Cohere, `{"id":"i","message":{"content":[{"type":"text","text":"x"}]},"finish_reason":"COMPLETE","usage":{"billed_units":{"input_tokens":3,"output_tokens":2},"tokens":{"input_tokens":70,"output_tokens":4},"cached_tokens":6}}`, wire.Usage{Input: 70, CacheRead: 6, Output: 4}},
		"Converse":  {wire.Bedrock, `{"output":{"message":{"content":[{"text":"x"}]}},"stopReason":"end_turn","usage":{"inputTokens":5,"outputTokens":6,"totalTokens":11,"cacheReadInputTokens":2,"cacheWriteInputTokens":1}}`, wire.Usage{Input: 8, CacheRead: 2, CacheWrite: 1, Output: 6}},
		"DashScope": {wire.DashScope, `{"output":{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]},"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1}},"request_id":"r"}`, wire.Usage{Input: 3, CacheRead: 1, Output: 2}},
		"Mistral":   {wire.Conversations, `{"object":"conversation.response","outputs":[{}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, wire.Usage{Input: 3, Output: 2}},
		"llama.cpp": {wire.Completions, `{"content":"x","stop":true,"tokens_predicted":12,"tokens_evaluated":30}`, wire.Usage{Input: 30, Output: 12}},
	} {
		v := c.format.Judge(wire.Answer{Provider: "p", ContentType: "application/json"}, []byte(c.body))
		assert.Equal(t, c.want, v.Usage, name)
	}
}

// In a stream it stands where each vendor puts it, once or in every event, and
// counts up.
func TestUsageOfStreams(t *testing.T) {
	chunk := func(s string) string { return `{"bytes":"` + base64.StdEncoding.EncodeToString([]byte(s)) + `"}` }
	for name, c := range map[string]struct {
		format *wire.Format
		stream string
		want   wire.Usage
	}{
		"chat, the last chunk": {wire.Chat, cHe + `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}` + "\n\n", wire.Usage{Input: 9, Output: 3}},
		"chat, every chunk": {wire.Chat, `data: {"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{"content":"b"}}],"usage":{"prompt_tokens":9,"completion_tokens":2}}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}` + "\n\n", wire.Usage{Input: 9, Output: 3}},
		"chat, every chunk, cut": {wire.Chat, `data: {"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}` + "\n\n" + `data: {"choices":[{"index":0,"delta":{"content":"b"}}],"usage":{"prompt_tokens":9,"completion_tokens":2}}` + "\n\n" + `data: {"choices":[{"index":0,"delta":{"content":"c"}}],"usage":{"prompt_tokens":9,"completion_tokens":3}}` + "\n\n" + `data: {"choices":[{"index":0,"delta":{"content":"d"}}],"usage":{"prompt_tokens":9,"completion_tokens":4}}` + "\n\n", wire.Usage{Input: 9, Output: 4}},
		"Gemini, cut":            {wire.Gemini, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}],\"usageMetadata\":{\"promptTokenCount\":4,\"candidatesTokenCount\":1}}\n\n" + "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"b\"}]}}],\"usageMetadata\":{\"promptTokenCount\":4,\"candidatesTokenCount\":2}}\n\n" + "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"c\"}]}}],\"usageMetadata\":{\"promptTokenCount\":4,\"candidatesTokenCount\":3}}\n\n" + "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"d\"}]}}],\"usageMetadata\":{\"promptTokenCount\":4,\"candidatesTokenCount\":4}}\n\n", wire.Usage{Input: 4, Output: 4}},
		"DashScope, cut":         {wire.DashScope, event("result", `{"output":{"text":"a","finish_reason":"null"},"usage":{"input_tokens":3,"output_tokens":1}}`) + event("result", `{"output":{"text":"b","finish_reason":"null"},"usage":{"input_tokens":3,"output_tokens":2}}`) + event("result", `{"output":{"text":"c","finish_reason":"null"},"usage":{"input_tokens":3,"output_tokens":3}}`) + event("result", `{"output":{"text":"d","finish_reason":"null"},"usage":{"input_tokens":3,"output_tokens":4}}`), wire.Usage{Input: 3, Output: 4}},
		"chat, none":             {wire.Chat, cHe, wire.Usage{}},
		"Groq":                   {wire.Chat, cHe + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r","usage":{"prompt_tokens":4,"completion_tokens":5}}}` + "\n\n", wire.Usage{Input: 4, Output: 5}},
		"messages": {wire.Messages, event("message_start", `{"type":"message_start","message":{"id":"m","content":[],"usage":{"input_tokens":10,"cache_read_input_tokens":5,"output_tokens":1}}}`) +
			event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}}`), wire.Usage{Input: 15, CacheRead: 5, Output: 15}},
		"xAI":           {wire.Chat, cHe + `data: {"choices":[],"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}}` + "\n\n", wire.Usage{Input: 32, Output: 103, Reasoning: 94}},
		"messages, cut": {wire.Messages, event("message_start", `{"type":"message_start","message":{"id":"m","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}`), wire.Usage{Input: 10, Output: 1}},
		"responses":     {wire.Responses, event("response.completed", `{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":2,"output_tokens":3,"output_tokens_details":{"reasoning_tokens":1}}}}`), wire.Usage{Input: 2, Output: 3, Reasoning: 1}},
		"Gemini":        {wire.Gemini, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}],\"usageMetadata\":{\"promptTokenCount\":4,\"candidatesTokenCount\":1}}\n\ndata: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"b\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":4,\"candidatesTokenCount\":6,\"thoughtsTokenCount\":2}}\n\n", wire.Usage{Input: 4, Output: 8, Reasoning: 2}},
		"interactions":  {wire.Interactions, event("interaction.complete", `{"event_type":"interaction.complete","interaction":{"status":"completed","usage":{"total_input_tokens":7,"total_output_tokens":2}}}`), wire.Usage{Input: 7, Output: 2}},
		"Ollama":        {wire.Ollama, "{\"message\":{\"content\":\"a\"},\"done\":false}\n{\"message\":{\"content\":\"\"},\"done\":true,\"prompt_eval_count\":3,\"eval_count\":4}\n", wire.Usage{Input: 3, Output: 4}},
		"Cohere":        {wire.Cohere, event("message-end", `{"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"billed_units":{"input_tokens":1},"tokens":{"input_tokens":8,"output_tokens":9}}}}`), wire.Usage{Input: 8, Output: 9}},
		"DashScope":     {wire.DashScope, event("result", `{"output":{"text":"a","finish_reason":"stop"},"usage":{"input_tokens":3,"output_tokens":2}}`), wire.Usage{Input: 3, Output: 2}},
		"Mistral":       {wire.Conversations, event("conversation.response.done", `{"type":"conversation.response.done","usage":{"prompt_tokens":3,"completion_tokens":2}}`), wire.Usage{Input: 3, Output: 2}},
		"llama.cpp":     {wire.Completions, "data: {\"content\":\"a\",\"stop\":false,\"tokens_predicted\":1}\n\ndata: {\"content\":\"\",\"stop\":true,\"tokens_predicted\":2,\"tokens_evaluated\":5}\n\n", wire.Usage{Input: 5, Output: 2}},
		"Converse":      {wire.Bedrock, string(frame("metadata", `{"usage":{"inputTokens":5,"outputTokens":6}}`)), wire.Usage{Input: 5, Output: 6}},
		"Claude on Invoke": {wire.Bedrock, string(frame("chunk", chunk(`{"type":"message_start","message":{"usage":{"input_tokens":11,"output_tokens":1}}}`))) +
			string(frame("chunk", chunk(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}`))) +
			string(frame("chunk", chunk(`{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":11,"outputTokenCount":7}}`))), wire.Usage{Input: 11, Output: 7}},
		"Nova on Invoke": {wire.Bedrock, string(frame("chunk", chunk(`{"metadata":{"usage":{"inputTokens":3,"outputTokens":4},"metrics":{}}}`))), wire.Usage{Input: 3, Output: 4}},
	} {
		s, ms := play(t, c.format, c.stream)
		assert.NotContains(t, ms, wire.MarkMalformed, name)
		if u := s.Usage(); u != nil {
			assert.Equal(t, c.want, *u, name)
		} else {
			assert.Zero(t, c.want, name)
		}
	}
}
