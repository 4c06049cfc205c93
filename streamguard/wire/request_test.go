package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
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
		"Interactions":                  {"/v1beta/interactions", `{"model":"m","stream":true}`, wire.Request{Format: wire.Interactions, Model: "m", Stream: true}},
		"DashScope's body says nothing": {"/api/v1/services/aigc/text-generation/generation", `{"model":"m","stream":true}`, wire.Request{Format: wire.DashScope, Model: "m"}},
	} {
		u, err := url.Parse("https://api.example.com" + c.path)
		require.NoError(t, err)
		got := wire.Inspect("POST", u, nil)
		require.NoError(t, got.ReadBody("application/json", strings.NewReader(c.body)))
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
	`{"Model":"x"}`:                                                 {},
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

// pieces is a reader that is no io.WriterTo.
type pieces struct{ io.Reader }

func TestReadBody(t *testing.T) {
	for body, want := range requestBodies {
		for name, r := range map[string]io.Reader{
			"bytes": bytes.NewReader([]byte(body)), "string": strings.NewReader(body),
			"one byte": iotest.OneByteReader(strings.NewReader(body)), "copied": pieces{strings.NewReader(body)},
		} {
			var got wire.Request
			require.NoError(t, got.ReadBody("application/json", r))
			assert.Equal(t, want, got, "%s: %s", name, body)
		}
	}
}

func TestReadBodyKeepsWhatIsKnown(t *testing.T) {
	r := wire.Request{Model: "path", Stream: true}
	require.NoError(t, r.ReadBody("", strings.NewReader(`{"messages":[],"model":""}`)))
	assert.Equal(t, wire.Request{Model: "path", Stream: true}, r)
}

func TestReadBodyOfAnySize(t *testing.T) {
	big := `{"input":"` + strings.Repeat(`x\"model\":\"no\"`, 1<<16) + `","model":"m","stream":true}`
	var r wire.Request
	allocs := testing.AllocsPerRun(1, func() { require.NoError(t, r.ReadBody("", strings.NewReader(big))) })
	assert.Equal(t, wire.Request{Model: "m", Stream: true}, r)
	assert.Less(t, allocs, 20.0)
	r = wire.Request{}
	require.NoError(t, r.ReadBody("", strings.NewReader(`{"model":"`+strings.Repeat("m", 1<<20)+`","stream":true}`)))
	assert.Equal(t, wire.Request{Stream: true}, r, "a name of a megabyte is none")
}

func TestReadBodyReturnsTheBodysError(t *testing.T) {
	broken := errors.New("broken")
	var r wire.Request
	err := r.ReadBody("", io.MultiReader(strings.NewReader(`{"model":"m",`), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	assert.Equal(t, "m", r.Model)
}

func TestReadBodyOfAForm(t *testing.T) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	file, err := w.CreateFormFile("file", "a.wav")
	require.NoError(t, err)
	_, err = file.Write(bytes.Repeat([]byte("model\r\n"), 100000))
	require.NoError(t, err)
	require.NoError(t, w.WriteField("model", "whisper"))
	require.NoError(t, w.WriteField("stream", "true"))
	require.NoError(t, w.Close())
	form := b.Bytes()
	var r wire.Request
	require.NoError(t, r.ReadBody(w.FormDataContentType(), bytes.NewReader(form)))
	assert.Equal(t, wire.Request{Model: "whisper", Stream: true}, r)
	r = wire.Request{}
	require.NoError(t, r.ReadBody(w.FormDataContentType(), bytes.NewReader(form[:1000])), "a form that is cut")
	require.NoError(t, r.ReadBody("multipart/form-data", bytes.NewReader(form)), "no boundary")
	assert.Equal(t, wire.Request{}, r)
}

// What is found in pieces is what encoding/json finds in the whole.
func FuzzFields(f *testing.F) {
	for s := range requestBodies {
		f.Add([]byte(s), uint64(len(s)))
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		var whole, cut wire.Request
		if err := whole.ReadBody("", bytes.NewReader(b)); err != nil {
			t.Fatal(err)
		}
		rnd := rand.New(rand.NewPCG(seed, 2))
		var parts []io.Reader
		for rest := b; len(rest) > 0; {
			n := 1 + rnd.IntN(len(rest))
			parts = append(parts, pieces{bytes.NewReader(rest[:n])})
			rest = rest[n:]
		}
		if err := cut.ReadBody("", io.MultiReader(parts...)); err != nil {
			t.Fatal(err)
		}
		if whole != cut {
			t.Fatalf("%q: %v whole, %v in pieces", b, whole, cut)
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

func TestReplaceModel(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"a"}`: `{"model":"n\"1"}`,
		" {\n\"x\" : 1.50 , \"model\" :\t\"a\"\n} ":  " {\n\"x\" : 1.50 , \"model\" :\t\"n\\\"1\"\n} ",
		`{"model":"a","m":{"model":"b"},"model":{}}`: `{"model":"n\"1","m":{"model":"b"},"model":"n\"1"}`,
		`{"mod\u0065l":null,"é":"\u00e9"}`:           `{"mod\u0065l":"n\"1","é":"\u00e9"}`,
	} {
		in := []byte(body)
		got, err := wire.ReplaceModel(in, `n"1`)
		require.NoError(t, err, body)
		assert.Equal(t, want, string(got))
		assert.Equal(t, body, string(in), "the input is left alone")
	}
	for _, body := range []string{`{}`, `{"Model":"a"}`, `{"x":{"model":"a"}}`} {
		_, err := wire.ReplaceModel([]byte(body), "n")
		require.ErrorIs(t, err, wire.ErrNoModel, body)
	}
	for _, body := range []string{``, `{"model":"a"`, `{"model":"a"}}`, `{"model":}`, `["model"]`, `null`, `{"model":"a",}`} {
		_, err := wire.ReplaceModel([]byte(body), "n")
		require.Error(t, err, body)
		require.NotErrorIs(t, err, wire.ErrNoModel, body)
	}
}

func FuzzReplaceModel(f *testing.F) {
	for s := range requestBodies {
		f.Add([]byte(s), "new")
	}
	f.Add([]byte(`{"model":"a","x":"y"}`), "\xff<\"")
	f.Fuzz(func(t *testing.T, b []byte, model string) {
		out, err := wire.ReplaceModel(b, model)
		var was, is map[string]json.RawMessage
		if json.Unmarshal(b, &was) != nil || was == nil {
			if err == nil {
				t.Fatalf("%q is no object, but was rewritten", b)
			}
			return
		}
		if _, has := was["model"]; has == errors.Is(err, wire.ErrNoModel) {
			t.Fatalf("%q: %v", b, err)
		}
		if err != nil {
			return
		}
		if err := json.Unmarshal(out, &is); err != nil {
			t.Fatalf("%q became %q", b, out)
		}
		var got string
		if json.Unmarshal(is["model"], &got) != nil || got != strings.ToValidUTF8(model, "\ufffd") && utf8.ValidString(model) {
			t.Fatalf("%q: model %q, want %q", b, got, model)
		}
		if len(was) != len(is) {
			t.Fatalf("%q became %q", b, out)
		}
		for k, v := range was {
			if k != "model" && !bytes.Equal(v, is[k]) {
				t.Fatalf("%q: member %q became %s", b, k, is[k])
			}
		}
	})
}
