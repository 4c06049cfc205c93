package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

func TestInspect(t *testing.T) {
	for target, want := range map[string]struct {
		format   *wire.Format
		model    string
		stream   bool
		endpoint string
	}{
		"POST /v1/chat/completions":                        {wire.Chat, "", false, "/chat/completions"},
		"POST /openai/v1/chat/completions":                 {wire.Chat, "", false, "/chat/completions"},
		"POST /v1/completions":                             {wire.Completions, "", false, "/completions"},
		"POST /v1/responses":                               {wire.Responses, "", false, "/responses"},
		"POST /v1/messages":                                {wire.Messages, "", false, "/v1/messages"},
		"POST /anthropic/v1/messages?beta=true":            {wire.Messages, "", false, "/v1/messages"},
		"POST /v1/embeddings":                              {wire.Embeddings, "", false, "/embeddings"},
		"GET /v1/responses/resp_1?stream=true":             {wire.Responses, "", true, "/responses/resp_1"},
		"GET /v1/responses/resp_1?stream=true&after=3":     {wire.Responses, "", true, "/responses/resp_1"},
		"GET /v1/responses/resp_1":                         {wire.Unknown, "", false, ""},
		"GET /v1/responses/?stream=true":                   {wire.Unknown, "", false, ""},
		"GET /v1/responses/resp_1/input_items?stream=true": {wire.Unknown, "", false, ""},
		"POST /v1/responses/resp_1/cancel":                 {wire.Unknown, "", false, ""},
		"POST /v1/messages/count_tokens":                   {wire.Unknown, "", false, ""},
		"POST /v1/messages/batches":                        {wire.Unknown, "", false, ""},
		"POST /v1/threads/t1/v1/messages":                  {wire.Unknown, "", false, ""},
		"POST /v1/threads/t1/messages":                     {wire.Unknown, "", false, ""},
		"POST /messages":                                   {wire.Unknown, "", false, ""},
		"GET /v1/chat/completions":                         {wire.Unknown, "", false, ""},
		"HEAD /v1/chat/completions":                        {wire.Unknown, "", false, ""},
		"GET /v1/models":                                   {wire.Unknown, "", false, ""},
		"POST /openai/deployments/gpt4/chat/completions?api-version=2024-10-21":                 {wire.Chat, "gpt4", false, "/chat/completions"},
		"POST /openai/deployments/my%20dep/embeddings?api-version=1":                            {wire.Embeddings, "my dep", false, "/embeddings"},
		"POST /v1beta/models/gemini-3:generateContent":                                          {wire.Gemini, "gemini-3", false, "/v1beta/models/gemini-3:generateContent"},
		"POST /v1beta/models/gemini-3:streamGenerateContent?alt=sse":                            {wire.Gemini, "gemini-3", true, "/v1beta/models/gemini-3:streamGenerateContent"},
		"POST /proxy/models/gemini-3:streamGenerateContent":                                     {wire.Gemini, "gemini-3", true, "/models/gemini-3:streamGenerateContent"},
		"POST /models/gemini-3:generateContent":                                                 {wire.Gemini, "gemini-3", false, "/models/gemini-3:generateContent"},
		"POST /v1beta/tunedModels/mine:generateContent":                                         {wire.Gemini, "mine", false, "/v1beta/tunedModels/mine:generateContent"},
		"POST /v1/projects/p/locations/l/publishers/google/models/g-2:generateContent":          {wire.Gemini, "g-2", false, "/publishers/google/models/g-2:generateContent"},
		"POST /v1beta1/projects/p/locations/l/publishers/google/models/g:streamGenerateContent": {wire.Gemini, "g", true, "/publishers/google/models/g:streamGenerateContent"},
		"POST /v1/projects/p/locations/l/endpoints/123:streamGenerateContent":                   {wire.Gemini, "", true, "/endpoints/123:streamGenerateContent"},
		"GET /v1beta/models/gemini-3:generateContent":                                           {wire.Unknown, "gemini-3", false, ""},
		"POST /v1beta/models/gemini-3:countTokens":                                              {wire.Unknown, "gemini-3", false, ""},
		"POST /v1internal:streamGenerateContent":                                                {wire.Unknown, "", true, ""},
		"POST /v1beta/models/e:embedContent":                                                    {nil, "e", false, "/v1beta/models/e:embedContent"},
		"POST /v1beta/models/e:batchEmbedContents":                                              {nil, "e", false, "/v1beta/models/e:batchEmbedContents"},
		"POST /v1beta/interactions":                                                             {wire.Interactions, "", false, "/v1beta/interactions"},
		"POST /interactions":                                                                    {wire.Interactions, "", false, "/interactions"},
		"GET /v1beta/interactions/i_1?stream=true&last_event_id=e2":                             {wire.Interactions, "", true, "/v1beta/interactions/i_1"},
		"GET /v1beta/interactions/i_1":                                                          {wire.Unknown, "", false, ""},
		"POST /v1beta/interactions/i_1/cancel":                                                  {wire.Unknown, "", false, ""},
		"POST /api/chat":                                                                        {wire.Ollama, "", true, "/api/chat"},
		"POST /api/generate":                                                                    {wire.Ollama, "", true, "/api/generate"},
		"POST /api/chat/completions":                                                            {wire.Chat, "", false, "/chat/completions"},
		"POST /api/embed":                                                                       {nil, "", false, "/api/embed"},
		"POST /api/embeddings":                                                                  {wire.Embeddings, "", false, "/embeddings"},
		"GET /api/tags":                                                                         {wire.Unknown, "", false, ""},
		"POST /api/pull":                                                                        {wire.Unknown, "", false, ""},
		"POST /v2/chat":                                                                         {wire.Cohere, "", false, "/v2/chat"},
		"POST /v2/embed":                                                                        {nil, "", false, "/v2/embed"},
		"POST /v2/rerank":                                                                       {wire.Unknown, "", false, ""},
		"POST /model/anthropic.claude-v2%3A1/invoke-with-response-stream":                       {wire.Bedrock, "anthropic.claude-v2:1", true, "/model/anthropic.claude-v2:1/invoke-with-response-stream"},
		"POST /model/arn%3Aaws%3Abedrock%3Ax%2Fprofile/converse-stream":                         {wire.Bedrock, "arn:aws:bedrock:x/profile", true, "/model/arn:aws:bedrock:x/profile/converse-stream"},
		"POST /model/m/converse":                                                                {wire.Bedrock, "m", false, "/model/m/converse"},
		"POST /model/m/invoke":                                                                  {wire.Bedrock, "m", false, "/model/m/invoke"},
		"POST /model/amazon.titan-embed-text-v2%3A0/invoke":                                     {nil, "amazon.titan-embed-text-v2:0", false, "/model/amazon.titan-embed-text-v2:0/invoke"},
		"POST /model/m/count-tokens":                                                            {wire.Unknown, "m", false, ""},
		"POST /api/v1/services/aigc/text-generation/generation":                                 {wire.DashScope, "", false, "/services/aigc/text-generation/generation"},
		"POST /api/v1/services/aigc/text2image/image-synthesis":                                 {wire.Unknown, "", false, ""},
		"POST /v1/projects/p/locations/l/publishers/anthropic/models/claude@1:streamRawPredict": {wire.Messages, "claude@1", true, "/publishers/anthropic/models/claude@1:streamRawPredict"},
		"POST /v1/projects/p/locations/l/publishers/anthropic/models/claude@1:rawPredict":       {wire.Messages, "claude@1", false, "/publishers/anthropic/models/claude@1:rawPredict"},
		"POST /v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:other":        {wire.Unknown, "count-tokens", false, ""},
	} {
		method, path, _ := strings.Cut(target, " ")
		u, err := url.Parse("https://api.example.com" + path)
		require.NoError(t, err)
		got := wire.Inspect(method, u, nil)
		if want.format != nil {
			assert.Equal(t, want.format, got.Format, target)
		} else { // embeddings with errors of their own
			assert.Equal(t, "embeddings", got.Format.String(), target)
			assert.False(t, got.Format.Generative(), target)
			assert.True(t, got.Format.Inference(), target)
		}
		assert.Equal(t, got.Format, wire.FormatOf(method, u), target)
		assert.Equal(t, want.endpoint, got.Format.Endpoint(u), target)
		assert.Equal(t, want.model, got.Model, target)
		assert.Equal(t, want.stream, got.Stream, target)
	}
	assert.Equal(t, wire.Unknown, wire.FormatOf("POST", nil))
	u := &url.URL{Path: "/v1/chat/completions"}
	assert.True(t, wire.Inspect("POST", u, http.Header{"Accept": {"text/event-stream"}}).Stream)
	assert.False(t, wire.Inspect("POST", u, http.Header{"Accept": {"application/json"}}).Stream)
}

// Who decides whether a stream is asked for, and for which model.
func TestWhatTheBodySays(t *testing.T) {
	for name, c := range map[string]struct {
		path, body string
		want       wire.Request
	}{
		"Ollama streams by default":     {"/api/chat", `{"model":"m"}`, wire.Request{Format: wire.Ollama, Model: "m", Stream: true}},
		"Ollama, null":                  {"/api/chat", `{"model":"m","stream":null}`, wire.Request{Format: wire.Ollama, Model: "m", Stream: true}},
		"Ollama, off":                   {"/api/generate", `{"stream":false,"model":"m"}`, wire.Request{Format: wire.Ollama, Model: "m"}},
		"Gemini's path decides":         {"/v1beta/models/g:streamGenerateContent", `{"stream":false,"model":"x"}`, wire.Request{Format: wire.Gemini, Model: "g", Stream: true}},
		"Gemini's path, no stream":      {"/v1beta/models/g:generateContent", `{"stream":true}`, wire.Request{Format: wire.Gemini, Model: "g"}},
		"Bedrock's path decides":        {"/model/m/invoke", `{"stream":true,"model":"x"}`, wire.Request{Format: wire.Bedrock, Model: "m"}},
		"a tuned model's endpoint":      {"/v1/projects/p/locations/l/endpoints/1:generateContent", `{"model":"x"}`, wire.Request{Format: wire.Gemini, Model: "x"}},
		"Cohere":                        {"/v2/chat", `{"model":"m","stream":true}`, wire.Request{Format: wire.Cohere, Model: "m", Stream: true}},
		"Interactions":                  {"/v1beta/interactions", `{"model":"m","stream":true}`, wire.Request{Format: wire.Interactions, Model: "m", Stream: true, Resumable: true}},
		"DashScope's body says nothing": {"/api/v1/services/aigc/text-generation/generation", `{"model":"m","stream":true}`, wire.Request{Format: wire.DashScope, Model: "m"}},
	} {
		u, err := url.Parse("https://api.example.com" + c.path)
		require.NoError(t, err)
		got := wire.Inspect("POST", u, nil)
		got = read(got, "application/json", c.body)
		assert.Equal(t, c.want, got, name)
	}
	u := &url.URL{Path: "/api/v1/services/aigc/text-generation/generation"}
	assert.True(t, wire.Inspect("POST", u, http.Header{"X-Dashscope-Sse": {"enable"}}).Stream)
}

func TestFormats(t *testing.T) {
	for f, want := range map[*wire.Format]struct {
		name, operation       string
		inference, generative bool
	}{
		wire.Chat:         {"chat completions", "chat", true, true},
		wire.Gemini:       {"gemini", "generate_content", true, true},
		wire.Interactions: {"interactions", "chat", true, true},
		wire.Ollama:       {"ollama", "chat", true, true},
		wire.Cohere:       {"cohere", "chat", true, true},
		wire.Bedrock:      {"bedrock", "chat", true, true},
		wire.DashScope:    {"dashscope", "chat", true, true},
		wire.Completions:  {"completions", "text_completion", true, true},
		wire.Responses:    {"responses", "chat", true, true},
		wire.Messages:     {"messages", "chat", true, true},
		wire.Embeddings:   {"embeddings", "embeddings", true, false},
		wire.Unknown:      {"unknown", "", false, false},
	} {
		assert.Equal(t, want.name, f.String())
		assert.Equal(t, want.operation, f.Operation())
		assert.Equal(t, want.inference, f.Inference())
		assert.Equal(t, want.generative, f.Generative())
	}
}

var requestBodies = map[string]wire.Request{
	`{"model":"m","stream":true}`:                                   {Model: "m", Stream: true},
	`{"messages":[{"model":"x","stream":true}],"model":"m"}`:        {Model: "m"},
	`{"a":{"model":"x"},"b":"\"model\":\"y\"","model" : "m\u0031"}`: {Model: "m1"},
	`{"mod\u0065l":"m","str\u0065am":true}`:                         {Model: "m", Stream: true},
	`{"model":"a","model":"b","stream":true,"stream":false}`:        {Model: "b"},
	`{"model":"a","stream":null}`:                                   {Model: "a"},
	`{"model":"a","stream":"true"}`:                                 {Model: "a"},
	`{"model":["a"],"stream":[true]}`:                               {},
	`{"model":{"model":"x"}}`:                                       {},
	`{"Model":"x"}`:                                                 {Model: "x"},
	`{"model":"m","MODEL":"x"}`:                                     {Model: "m"},
	`{"MODEL":"x","model":"m"}`:                                     {Model: "m"},
	`{"model":"m","x":NaN,"stream":true}`:                           {Model: "m", Stream: true},
	`{"stream":true,"model":"m","x":`:                               {Model: "m", Stream: true},
	`["model","x"]`:                                                 {},
	`{"x":["model"],"model":"m"}`:                                   {Model: "m"},
	`{"model":"😀\ud83d\ude00\n\\"}`:                                 {Model: "😀😀\n\\"},
	`{"model":"\b\f\n\r\t\"\/\u00E9\udc00"}`:                        {Model: "\b\f\n\r\t\"/é\ufffd"},
	`{"stream":true`:                                                {Stream: true},
	`"model"`:                                                       {},
	``:                                                              {},
	`{"a":[[[[[[[[[[[[{"model":"x"}]]]]]]]]]]]],"model":"m"}`:       {Model: "m"},
	`{"model":"m"}{"model":"n"}`:                                    {Model: "m"},
}

// read returns what r is after a look at a body.
func read(r wire.Request, contentType, body string) wire.Request {
	c := wire.ReadContent(http.Header{"Content-Type": {contentType}}, []byte(body))
	r.Add(&c)
	return r
}

func TestReadContent(t *testing.T) {
	for body, want := range requestBodies {
		assert.Equal(t, want, read(wire.Request{}, "application/json", body), body)
	}
}

func TestReadContentKeepsWhatIsKnown(t *testing.T) {
	r := wire.Request{Model: "path", Stream: true}
	assert.Equal(t, r, read(r, "", `{"messages":[],"model":""}`))
}

func TestReadContentOfAnySize(t *testing.T) {
	big := []byte(`{"input":"` + strings.Repeat(`x\"model\":\"no\"`, 1<<16) + `","model":"m","stream":true}`)
	var c wire.Content
	allocs := testing.AllocsPerRun(1, func() { c = wire.ReadContent(nil, big) })
	var r wire.Request
	r.Add(&c)
	assert.Equal(t, wire.Request{Model: "m", Stream: true}, r)
	assert.LessOrEqual(t, allocs, 1.0)
	assert.Equal(t, wire.Request{Stream: true}, read(wire.Request{}, "", `{"model":"`+strings.Repeat("m", 1<<20)+`","stream":true}`), "a name of a megabyte is none")
	deep := strings.Repeat(`[{"a":`, 100_000)
	assert.Equal(t, wire.Request{Model: "m"}, read(wire.Request{}, "", `{"model":"m","input":`+deep))
}

func TestReadContentOfAForm(t *testing.T) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	file, err := w.CreateFormFile("file", "a.wav")
	require.NoError(t, err)
	_, err = file.Write(bytes.Repeat([]byte("model\r\n"), 100000))
	require.NoError(t, err)
	require.NoError(t, w.WriteField("model", "whisper"))
	require.NoError(t, w.WriteField("stream", "true"))
	require.NoError(t, w.Close())
	form := b.String()
	assert.Equal(t, wire.Request{Model: "whisper", Stream: true}, read(wire.Request{}, w.FormDataContentType(), form))
	assert.Equal(t, wire.Request{}, read(wire.Request{}, w.FormDataContentType(), form[:1000]), "a form that is cut")
	assert.Equal(t, wire.Request{}, read(wire.Request{}, "multipart/form-data", form), "no boundary")
}

// What is found is what encoding/json finds, and no beginning of a body is read
// differently from the whole.
func FuzzReadContent(f *testing.F) {
	for s := range requestBodies {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		whole := read(wire.Request{}, "", string(b))
		for cut := 0; cut < len(b); cut += 1 + len(b)/512 { // each reads what is left
			_ = read(wire.Request{}, "", string(b[:cut])) // must not panic
			if !wire.FollowsAlike(b[cut:]) {
				t.Fatalf("%q: the reader of bindings ends elsewhere", b[cut:])
			}
		}
		var members map[string]json.RawMessage
		if !utf8.Valid(b) || json.Unmarshal(b, &members) != nil {
			return
		}
		var model string
		if json.Unmarshal(members["model"], &model) == nil && model != "" && len(model) <= 1024 && whole.Model != model {
			t.Fatalf("%q: model %q, want %q", b, whole.Model, model)
		}
		if s := string(members["stream"]); (s == "true" || s == "false") && whole.Stream != (s == "true") {
			t.Fatalf("%q: stream %t", b, whole.Stream)
		}
	})
}

// replace puts a model into a JSON body.
func replace(body, model string) (string, wire.Content, error) {
	c := wire.ReadContent(nil, []byte(body))
	out, next, err := c.Replace([]byte(body), model)
	return string(out), next, err
}

func TestReplaceModel(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"a"}`:                              `{"model":"n\"1"}`,
		`{"model":"a","x":[NaN,-Infinity,1.]}`:       `{"model":"n\"1","x":[NaN,-Infinity,1.]}`,
		`{"model":"a"} and more {"model":"b"}`:       `{"model":"n\"1"} and more {"model":"b"}`,
		`{"model":"a",}`:                             `{"model":"n\"1",}`,
		`{"model":"a","x":`:                          `{"model":"n\"1","x":`,
		`{"MODEL":"a","Model":"b"}`:                  `{"MODEL":"n\"1","Model":"n\"1"}`,
		"\xef\xbb\xbf{\"model\":\"a\"}":              "\xef\xbb\xbf{\"model\":\"n\\\"1\"}",
		`{"x":"a	b","model":null,"y":"\x"}`:          `{"x":"a	b","model":"n\"1","y":"\x"}`,
		" {\n\"x\" : 1.50 , \"model\" :\t\"a\"\n} ":  " {\n\"x\" : 1.50 , \"model\" :\t\"n\\\"1\"\n} ",
		`{"model":"a","m":{"model":"b"},"model":{}}`: `{"model":"n\"1","m":{"model":"b"},"model":"n\"1"}`,
		`{"mod\u0065l":null,"é":"\u00e9"}`:           `{"mod\u0065l":"n\"1","é":"\u00e9"}`,
	} {
		got, next, err := replace(body, `n"1`)
		require.NoError(t, err, body)
		assert.Equal(t, want, got)
		again, _, err := next.Replace([]byte(got), "other")
		require.NoError(t, err)
		direct, _, err := replace(body, "other")
		require.NoError(t, err)
		assert.Equal(t, direct, string(again), "what is known of the copy")
	}
	deep := `{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `,"model":"a"}`
	got, _, err := replace(deep, "b")
	require.NoError(t, err)
	assert.Equal(t, strings.Replace(deep, `"a"`, `"b"`, 1), got, "deeper than encoding/json reads")
	for _, body := range []string{``, `{}`, `{"mode":"a"}`, `{"x":{"model":"a"}}`, `["model"]`, `null`, `"model"`} {
		_, _, err := replace(body, "n")
		require.ErrorIs(t, err, wire.ErrNoModel, body)
	}
	for _, body := range []string{`hello`, `{`, `{"x":1`, `{"model":}`, `{"model"`, `{x:1,"model":"a"}`, "\x1f\x8b\x08"} {
		_, _, err := replace(body, "n")
		require.ErrorIs(t, err, wire.ErrNotRead, body)
	}
	c := wire.ReadContent(http.Header{"Content-Encoding": {"gzip"}}, []byte(`{"model":"a"}`))
	_, _, err = c.Replace([]byte(`{"model":"a"}`), "n")
	require.ErrorIs(t, err, wire.ErrEncoded)
}

func FuzzReplaceModel(f *testing.F) {
	for s := range requestBodies {
		f.Add([]byte(s), "new")
	}
	f.Add([]byte(`{"model":"a","x":"y"}`), "\xff<\"")
	f.Fuzz(func(t *testing.T, b []byte, model string) {
		rewritten, _, err := replace(string(b), model)
		out := []byte(rewritten)
		var was, is map[string]json.RawMessage
		if json.Unmarshal(b, &was) != nil || was == nil {
			return
		}
		has, spellings := false, 0
		for k := range was {
			if len(k) == len("model") && strings.EqualFold(k, "model") {
				has = has || k == "model"
				spellings++
			}
		}
		if (spellings == 0) != errors.Is(err, wire.ErrNoModel) {
			t.Fatalf("%q: %v", b, err)
		}
		if err != nil {
			return
		}
		if err := json.Unmarshal(out, &is); err != nil {
			t.Fatalf("%q became %q", b, out)
		}
		var got string
		if has && json.Unmarshal(is["model"], &got) != nil || has && got != strings.ToValidUTF8(model, "\ufffd") && utf8.ValidString(model) {
			t.Fatalf("%q: model %q, want %q", b, got, model)
		}
		if len(was) != len(is) {
			t.Fatalf("%q became %q", b, out)
		}
		for k, v := range was {
			if !strings.EqualFold(k, "model") && !bytes.Equal(v, is[k]) {
				t.Fatalf("%q: member %q became %s", b, k, is[k])
			}
		}
	})
}
