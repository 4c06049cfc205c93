package wire_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// quirks are chat streams as vendors and servers frame them: with which text
// they are complete, and which status a failure stands for.
var quirks = map[string]struct {
	end    string
	status int
}{
	"azure_async_filter":   {`"finish_reason":"stop"}]}`, 0},
	"azure_content_filter": {`"finish_reason":"content_filter"}]}`, 0},
	"baidu":                {`"finish_reason":"normal"}]}`, 0},
	"baidu_error":          {"$", 429},
	"bare_error":           {"$", 503},
	"crlf_sse_starlette":   {`"finish_reason":"stop"}]}`, 0},
	"dashscope_compatible": {`"finish_reason":"stop"}]}`, 0},
	"deepseek":             {`"finish_reason":"stop"}],"usage":{"total_tokens":9}}`, 0},
	"deepseek_resources":   {`"finish_reason":"insufficient_system_resource"}]}`, 502},
	"done_only":            {"$", 0},
	"finish_only":          {"$", 0},
	"groq":                 {`"x_groq":{"id":"req_1","usage":{"total_tokens":9}}}`, 0},
	"groq_error":           {"$", 429},
	"groq_inline_error":    {`"x_groq":{"id":"req_1","error":"over capacity"}}`, 502},
	"llamacpp":             {`"timings":{"predicted_n":2}}`, 0},
	"llamacpp_error":       {`"type":"exceed_context_size_error"}`, 400},
	"minimax":              {"$", 0},
	"minimax_error":        {"$", 429},
	"mistral":              {`"total_tokens":9}}`, 0},
	"openai_error":         {"$", 502},
	"openrouter":           {`"finish_reason":"stop"}],"provider":"X"}`, 0},
	"openrouter_error":     {"$", 429},
	"sglang_abort":         {`"finish_reason":"abort"}]}`, 502},
	"sglang_two":           {"$", 0},
	"tgi":                  {`"finish_reason":"eos"}]}`, 0},
	"tgi_error":            {"$", 502},
	"vllm_error":           {`"code":500}}`, 500},
	"vllm_flat_error":      {`"code":400}`, 400},
	"vllm_two":             {`"finish_reason":"stop"}]}`, 0},
	"xai":                  {`"finish_reason":"stop"}]}`, 0},
	"zhipu":                {`"finish_reason":"sensitive"}]}`, 0},
	"zhipu_code":           {"$", 429},
	"zhipu_network_error":  {`"finish_reason":"network_error"}]}`, 502},
}

func TestQuirksCutAtEveryByte(t *testing.T) {
	files, err := filepath.Glob("testdata/quirks/*.sse")
	require.NoError(t, err)
	require.Len(t, files, len(quirks))
	for name, q := range quirks {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("testdata/quirks", name+".sse"))
			require.NoError(t, err)
			body := string(raw)
			end := ending(t, body, q.end)
			for n := range len(body) + 1 {
				s, ms := play(t, wire.Chat, body[:n])
				require.Equal(t, n >= end, s.Complete(), "cut at %d of %d, complete at %d", n, len(body), end)
				require.NotContains(t, ms, wire.MarkMalformed)
			}
			s, want := play(t, wire.Chat, body)
			assert.True(t, s.Content())
			if q.status == 0 {
				assert.Nil(t, s.Failure())
			} else {
				require.NotNil(t, s.Failure())
				assert.Equal(t, q.status, s.Failure().Status)
			}
			again, got, out := feed(wire.Chat, raw, func(int) int { return 1 })
			assert.Equal(t, want, got)
			assert.Equal(t, body, string(out))
			assert.Equal(t, s.Failure(), again.Failure())
		})
	}
}

// Blank lines before the JSON of an answer that is no stream.
func TestQuirksOfWholeAnswers(t *testing.T) {
	ok := `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"total_tokens":3}}`
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"DeepSeek, OpenRouter": {"\n\n\n\n" + ok, 0},
		"omlx":                 {" " + ok, 0},
		"a byte order mark":    {"\xef\xbb\xbf" + ok, 0},
		"MiniMax":              {strings.Replace(ok, `{`, `{"base_resp":{"status_code":0,"status_msg":"success"},`, 1), 0},
		"MiniMax balance":      {`{"choices":null,"base_resp":{"status_code":1008,"status_msg":"x"}}`, 402},
		"Azure's filter":       {strings.Replace(ok, `"index"`, `"content_filter_results":{"error":{"code":"content_filter_error"}},"index"`, 1), 0},
		"Azure's text code":    {`{"error":{"code":"429","message":"Please retry after 6 seconds"}}`, 429},
		"xAI":                  {`{"code":"Some resource has been exhausted","error":"text"}`, 502},
		"Baidu":                {`{"code":336501,"msg":"Rate limit reached for RPM"}`, 429},
		"Zhipu":                {`{"code":"1302","msg":"rate","success":false}`, 429},
		"blanks only":          {"\n\n\n", 502},
	} {
		v := wire.Chat.Judge(wire.Answer{Provider: "p", ContentType: "application/json"}, []byte(c.body))
		if c.status == 0 {
			assert.Nil(t, v.Failure, name)
			assert.True(t, v.Usable, name)
			continue
		}
		require.NotNil(t, v.Failure, name)
		assert.Equal(t, c.status, v.Failure.Status, name)
	}
}
