package upstreamtest_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	ut "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// endpoint is one format's path, and how a stream is asked for there.
type endpoint struct {
	format       ut.Format
	plain, strm  string // paths
	ndjson       bool
	body, stream string
	model        string
}

var endpoints = []endpoint{
	{ut.Chat, chatPath, chatPath, false, ask("m", false), ask("m", true), "m"},
	{ut.Completions, "/v1/completions", "/v1/completions", false, ask("m", false), ask("m", true), "m"},
	{ut.Responses, "/v1/responses", "/v1/responses", false, ask("m", false), ask("m", true), "m"},
	{ut.Messages, "/v1/messages", "/v1/messages", false, ask("m", false), ask("m", true), "m"},
	{ut.Gemini, "/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent?alt=sse", false, `{}`, `{}`, "m"},
	{ut.Ollama, "/api/chat", "/api/chat", true, `{"model":"m","stream":false}`, `{"model":"m"}`, "m"},
	{ut.Cohere, "/v2/chat", "/v2/chat", false, ask("m", false), ask("m", true), "m"},
}

// datas are the data of each event, [DONE] left out; every one has to be JSON.
func datas(t *testing.T, body string, ndjson bool) []string {
	t.Helper()
	body = strings.ReplaceAll(body, "\r\n", "\n")
	if ndjson {
		return strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	}
	var out []string
	for ev := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		_, data, ok := strings.Cut("\n"+ev, "\ndata: ")
		require.True(t, ok, ev)
		if data != "[DONE]" {
			out = append(out, data)
		}
	}
	return out
}

// golden compares body with testdata/name.
func golden(t *testing.T, name, body string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	assert.Equal(t, string(want), body)
}

func TestFormats(t *testing.T) {
	for _, e := range endpoints {
		t.Run(string(e.format), func(t *testing.T) {
			both(t, func(t *testing.T, r reach) {
				r.up.Default(ut.OK("he", "llo \"<>\""))
				g := r.post(t, e.plain, e.body)
				require.NoError(t, g.read)
				assert.Equal(t, "application/json", g.header.Get("Content-Type"))
				assert.True(t, json.Valid([]byte(g.body)), g.body)
				golden(t, string(e.format)+".json", g.body)
				q := r.up.Last()
				assert.Equal(t, e.format, q.Format)
				assert.Equal(t, e.model, q.Model)
				assert.False(t, q.Stream)

				g = r.post(t, e.strm, e.stream)
				require.NoError(t, g.read)
				if e.ndjson {
					assert.Equal(t, "application/x-ndjson", g.header.Get("Content-Type"))
				} else {
					assert.Equal(t, "text/event-stream", g.header.Get("Content-Type"))
				}
				for _, d := range datas(t, g.body, e.ndjson) {
					assert.True(t, json.Valid([]byte(d)), d)
				}
				golden(t, string(e.format)+".stream", g.body)
				assert.True(t, r.up.Last().Stream)
				assert.Equal(t, 2, r.up.CountModel(e.model))

				r.up.Default(ut.ToolCall("f", `{"a":1}`))
				g = r.post(t, e.plain, e.body)
				assert.True(t, json.Valid([]byte(g.body)), g.body)
				g = r.post(t, e.strm, e.stream)
				if e.format != ut.Completions {
					golden(t, string(e.format)+".tool", g.body)
				}
				for _, d := range datas(t, g.body, e.ndjson) {
					assert.True(t, json.Valid([]byte(d)), d)
				}
			})
		})
	}
}

func TestFormatErrors(t *testing.T) {
	for _, e := range endpoints {
		t.Run(string(e.format), func(t *testing.T) {
			both(t, func(t *testing.T, r reach) {
				var all strings.Builder
				r.up.Default(ut.Status(429))
				g := r.post(t, e.plain, e.body)
				assert.Equal(t, 429, g.status)
				all.WriteString(g.body + "\n")
				r.up.Default(ut.Stream("a", "b").FailAfter(0, 503))
				g = r.post(t, e.strm, e.stream)
				assert.Equal(t, 200, g.status)
				require.NoError(t, g.read)
				all.WriteString(g.body)
				r.up.Default(ut.Stream("a", "b").FailAfter(2, 503).NoDone())
				g = r.post(t, e.strm, e.stream)
				d := datas(t, g.body, e.ndjson)
				assert.Len(t, d, 3)
				all.WriteString(d[2] + "\n")
				golden(t, string(e.format)+".errors", all.String())
			})
		})
	}
}

func TestCutAfterText(t *testing.T) {
	for _, e := range endpoints {
		t.Run(string(e.format), func(t *testing.T) {
			both(t, func(t *testing.T, r reach) {
				r.up.Default(ut.Stream("aaa", "bbb", "ccc").CutAfterText(2))
				g := r.post(t, e.strm, e.stream)
				require.NoError(t, g.read)
				assert.Contains(t, g.body, "bbb")
				assert.NotContains(t, g.body, "ccc")
				r.up.Default(ut.Stream("aaa", "bbb", "ccc").CutAfterText(0))
				g = r.post(t, e.strm, e.stream)
				assert.NotContains(t, g.body, "aaa")
				r.up.Default(ut.Stream("aaa").Finish("because"))
				assert.Contains(t, r.post(t, e.strm, e.stream).body, "because")
				assert.Contains(t, r.post(t, e.strm, e.stream).body, "because")
			})
		})
	}
}

func TestNoDone(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		r.up.Default(ut.Stream("a").NoDone())
		for path, mark := range map[string]string{chatPath: "[DONE]", "/v1/completions": "[DONE]", "/v1/messages": "message_stop"} {
			g := r.post(t, path, ask("m", true))
			assert.NotContains(t, g.body, mark)
			assert.Contains(t, g.body, `"a"`)
		}
	})
}

func TestResponsesEndings(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		for finish, event := range map[string]string{
			"": "event: response.completed\n", "failed": "event: response.failed\n", "cancelled": "event: response.cancelled\n",
			"max_output_tokens": "event: response.incomplete\n",
		} {
			r.up.Default(ut.OK("a").Finish(finish))
			assert.Contains(t, r.post(t, "/v1/responses", ask("m", true)).body, event)
		}
	})
}

func TestUsage(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		r.up.Default(ut.OK("a").Usage(11, 22))
		for _, e := range endpoints[:1] {
			assert.Contains(t, r.post(t, e.strm, e.stream).body, `"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":22,"total_tokens":33}`)
		}
		r.up.Default(ut.OK("a"))
		assert.NotContains(t, r.post(t, chatPath, ask("m", true)).body, "usage")
		assert.Contains(t, r.post(t, chatPath, `{"stream":true,"stream_options":{"include_usage":true}}`).body, "usage")
	})
}

func TestGeminiArray(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		const path = "/v1beta/models/g:streamGenerateContent"
		r.up.Default(ut.OK("a", "b"))
		g := r.post(t, path, `{}`)
		assert.Equal(t, "application/json", g.header.Get("Content-Type"))
		var all []any
		require.NoError(t, json.Unmarshal([]byte(g.body), &all), g.body)
		assert.Len(t, all, 3)
		r.up.Default(ut.OK("a", "b").FailAfter(1, 503))
		require.NoError(t, json.Unmarshal([]byte(r.post(t, path, `{}`).body), &all))
		assert.Len(t, all, 2)
		r.up.Default(ut.OK("a", "b").FailAfter(0, 503))
		require.NoError(t, json.Unmarshal([]byte(r.post(t, path, `{}`).body), &all))
		assert.Len(t, all, 1)
		r.up.Default(ut.OK("a", "b").At(1, ut.Event(`{"x":1}`)))
		require.NoError(t, json.Unmarshal([]byte(r.post(t, path, `{}`).body), &all))
		assert.Len(t, all, 4)
		r.up.Default(ut.Status(429))
		require.NoError(t, json.Unmarshal([]byte(r.post(t, path, `{}`).body), &all))
	})
}

func TestModelFromThePath(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		for path, model := range map[string]string{
			"/v1beta/models/gemini-x:generateContent":                         "gemini-x",
			"/openai/deployments/dep/chat/completions?api-version=1":          "dep",
			"/v1/projects/p/publishers/anthropic/models/claude@1:rawPredict":  "claude@1",
			"/model/anthropic.claude-v1:0/converse":                           "anthropic.claude-v1:0",
			"/v1/chat/completions":                                            "",
			"/v1/projects/p/publishers/google/models/g:streamGenerateContent": "g",
		} {
			r.post(t, path, `{"messages":[]}`)
			assert.Equal(t, model, r.up.Last().Model, path)
		}
		r.post(t, "/openai/deployments/dep/chat/completions", `{"messages":[{"model":"no"}],"model":"last"}`)
		assert.Equal(t, "last", r.up.Last().Model)
		r.post(t, chatPath, `{"model":7,"stream":"yes"}`)
		assert.Empty(t, r.up.Last().Model)
		assert.False(t, r.up.Last().Stream)
		r.do(t, http.MethodGet, "/v1/responses/resp_1?stream=true", "", nil)
		assert.True(t, r.up.Last().Stream)
		assert.Equal(t, ut.Responses, r.up.Last().Format)
	})
}

func TestEmbeddings(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		g := r.post(t, "/v1/embeddings", `{"model":"e","input":["a","b"]}`)
		assert.Contains(t, g.body, `"index":1`)
		assert.True(t, json.Valid([]byte(g.body)))
		g = r.post(t, "/v1/embeddings", `{"model":"e","input":"a"}`)
		assert.NotContains(t, g.body, `"index":1`)
		assert.Equal(t, ut.Embeddings, r.up.Last().Format)
	})
}

func TestHidden(t *testing.T) {
	var all strings.Builder
	for _, shape := range ut.Shapes() {
		both(t, func(t *testing.T, r reach) {
			r.up.Default(ut.Hidden(shape, 429))
			g := r.post(t, chatPath, ask("m", false))
			require.NoError(t, g.read)
			assert.Equal(t, 200, g.status)
			if r.name == "memory" {
				all.WriteString(string(shape) + "\t" + g.header.Get("Content-Type") + "\t" + strings.ReplaceAll(g.body, "\n", `\n`) + "\n")
			}
		})
	}
	golden(t, "hidden.txt", all.String())
	assert.Panics(t, func() { ut.Hidden("nonsense", 500) })
	list := ut.Shapes()
	list[0] = "changed"
	assert.NotEqual(t, list, ut.Shapes())
}

func TestEdits(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		body := ut.Body("application/json", `{"choices":[{"m":"<x>","n":1.0}],"usage":{"a":null}}`)
		for _, tt := range []struct {
			step ut.Step
			want string
		}{
			{body.Drift("choices.0.m"), `{"choices":[{"m":7,"n":1.0}],"usage":{"a":null}}`},
			{body.Drift("choices.0.n"), `{"choices":[{"m":"<x>","n":"1.0"}],"usage":{"a":null}}`},
			{body.Drift("choices").Drift("usage").Drift("new"), `{"choices":"drift","new":"drift","usage":"drift"}`},
			{body.Delete("choices.0").Delete("usage"), `{"choices":[]}`},
			{body.Delete("choices").Set("usage.a.b", []int{1}), `{"usage":{"a":{"b":[1]}}}`},
			{body.Set("choices", nil).Delete("usage.a"), `{"choices":null,"usage":{}}`},
			{body.Set("choices.9.m", 1).Set("choices.x", 1), `{"choices":[{"m":"<x>","n":1.0}],"usage":{"a":null}}`},
			{ut.Body("text/html", "<p>").Set("a", 1), "<p>"},
			{ut.RawStream(chatA).Set("a", 1), chatA},
			{body.Delete("choices").Delete("usage").CutBytes(1), "{"},
		} {
			r.up.Default(tt.step)
			assert.Equal(t, tt.want, r.post(t, chatPath, "").body)
		}
		r.up.Default(ut.OK("hi").Drift("choices.0.message.content").Header("X", "1"))
		g := r.post(t, chatPath, ask("m", false))
		assert.Contains(t, g.body, `"content":7`)
		assert.EqualValues(t, len(g.body), g.length)
	})
}

func TestHugeLines(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		for _, n := range []int{64<<10 - 1, 64 << 10, 64<<10 + 1, 1 << 20, 4 << 20} {
			r.up.Default(ut.RawStream(chatStop, done).At(0, ut.Huge(n)))
			g := r.post(t, chatPath, ask("m", true))
			require.NoError(t, g.read)
			line, rest, _ := strings.Cut(g.body, "\n")
			assert.Len(t, line, n)
			assert.Equal(t, "\n"+chatStop+done, rest)
			assert.True(t, json.Valid([]byte(line[len("data: "):])))
		}
		r.up.Default(ut.Stream("a").At(0, ut.Huge(100)))
		g := r.post(t, "/api/chat", `{"model":"m"}`)
		line, _, _ := strings.Cut(g.body, "\n")
		assert.Len(t, line, 100)
		assert.True(t, json.Valid([]byte(line)))
	})
}

func TestLineEndsOfPieces(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		r.up.Default(ut.Stream("a").At(1, ut.Pings(0, 1), ut.ErrorEvent(503)).CutAfter(1))
		g := r.post(t, "/v1beta/models/m:streamGenerateContent?alt=sse", "{}")
		assert.Equal(t, strings.Count(g.body, "\n"), strings.Count(g.body, "\r\n"), "Gemini's own: CRLF")
		assert.Contains(t, g.body, ": ping\r\n\r\ndata: {\"error\"")
	})
}

func TestEnding(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		for path, want := range map[string]string{
			chatPath:          "\"finish_reason\":\"stop\"}]}\n\n" + done,
			"/v1/messages":    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
			"/v2/chat":        "\"finish_reason\":\"COMPLETE\"",
			"/api/chat":       "\"done\":true",
			"/v1/completions": done,
		} {
			r.up.Default(ut.Stream("a").CutAfterText(1).At(-1, ut.ErrorEvent(503), ut.Ending()))
			_, behind, found := strings.Cut(r.post(t, path, ask("m", true)).body, "scripted status 503")
			assert.True(t, found, path)
			assert.Contains(t, behind, want, path)
		}
	})
}

func TestOtherForms(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		r.up.Default(ut.JSON("a").Code(201))
		g := r.post(t, chatPath, ask("m", true))
		assert.Equal(t, 201, g.status)
		assert.True(t, json.Valid([]byte(g.body)), "JSON where a stream was asked for")

		r.up.Default(ut.OK("a"))
		assert.Contains(t, r.post(t, "/api/generate", `{"model":"m"}`).body, `"response":"a"`)
		assert.Contains(t, r.do(t, http.MethodGet, "/v1/models", "", nil).body, `"id":"model"`)

		r.up.Default(ut.ToolCall("f", ""))
		for path, want := range map[string]string{
			"/api/chat": `"arguments":{}`, "/v1/messages": `"input":{}`, "/v1beta/models/m:generateContent": `"args":{}`,
		} {
			assert.Contains(t, r.post(t, path, `{"model":"m","stream":false}`).body, want)
		}
		for status, code := range map[int]string{429: "1002", 401: "1004", 402: "1008", 400: "1026", 500: "1000"} {
			r.up.Default(ut.Hidden(ut.HiddenBaseResp, status))
			assert.Contains(t, r.post(t, chatPath, "").body, `"status_code":`+code)
		}
	})
}
