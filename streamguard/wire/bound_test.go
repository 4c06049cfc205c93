package wire_test

import (
	"bytes"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// Paths of requests of each format that may be bound.
const (
	chatPath         = "/v1/chat/completions"
	completionsPath  = "/v1/completions"
	responsesPath    = "/v1/responses"
	messagesPath     = "/v1/messages"
	geminiPath       = "/v1beta/models/m:generateContent"
	interactionsPath = "/v1beta/interactions"
	conversePath     = "/model/m/converse"
	invokePath       = "/model/m/invoke"
	ollamaPath       = "/api/chat"
	embeddingsPath   = "/v1/embeddings"

	conversationsURL = "https://api.mistral.ai/v1/conversations"
)

var boundFormats = []string{
	chatPath, completionsPath, responsesPath, messagesPath, geminiPath, interactionsPath,
	conversePath, invokePath, ollamaPath, embeddingsPath, "/v2/chat", "/v1/audio/transcriptions",
	conversationsURL,
}

func bound(path string, body []byte) bool {
	u, err := url.Parse(path)
	if err != nil {
		panic(err)
	}
	r := wire.Inspect(http.MethodPost, u, nil)
	c := wire.ReadContent(nil, body)
	r.Add(&c)
	return r.Bound
}

// in puts a content block into the first of two messages.
func in(block string) string {
	return `{"model":"m","messages":[{"role":"assistant","content":[{"type":"text","text":"x"},` + block + `]},{"role":"user","content":"hi"}]}`
}

func items(item string) string { return `{"input":[` + item + `,{"role":"user","content":"hi"}]}` }

func part(p string) string { return `{"contents":[{"role":"user","parts":[{"text":"x"},` + p + `]}]}` }

func tool(tl string) string {
	return `{"input":"hi","tools":[{"type":"web_search"},` + tl + `]}`
}

const upload = "https://generativelanguage.googleapis.com/v1beta/files/abc"

var anthropic = []string{messagesPath, invokePath, conversePath}

// boundRows are requests, and the paths of the formats in which they are bound.
var boundRows = map[string]struct {
	body string
	of   []string
}{
	"responses: previous_response_id":   {`{"previous_response_id":"resp_1","input":"hi"}`, []string{responsesPath}},
	"responses: conversation":           {`{"conversation":"conv_1","input":"hi"}`, []string{responsesPath}},
	"responses: conversation object":    {`{"conversation":{"id":"conv_1"},"input":"hi"}`, []string{responsesPath}},
	"responses: stored prompt":          {`{"prompt":{"id":"pmpt_1","version":"2"}}`, []string{responsesPath}},
	"responses: reasoning":              {items(`{"type":"reasoning","summary":[],"encrypted_content":"gAAA"}`), []string{responsesPath}},
	"responses: reasoning, type last":   {items(`{"encrypted_content":"gAAA","type":"reasoning"}`), []string{responsesPath}},
	"responses: compaction":             {items(`{"type":"compaction","encrypted_content":"gAAA"}`), []string{responsesPath}},
	"responses: item_reference":         {items(`{"type":"item_reference","id":"rs_1"}`), []string{responsesPath}},
	"responses: input_file":             {items(`{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}`), []string{responsesPath}},
	"responses: input_image":            {items(`{"role":"user","content":[{"type":"input_image","file_id":"file-1"}]}`), []string{responsesPath}},
	"responses: computer output":        {items(`{"type":"computer_call_output","output":{"type":"computer_screenshot","file_id":"file-1"}}`), []string{responsesPath}},
	"responses: function output":        {items(`{"type":"function_call_output","output":[{"type":"input_file","file_id":"file-1"}]}`), []string{responsesPath}},
	"responses: container":              {tool(`{"type":"code_interpreter","container":"cntr_1"}`), []string{responsesPath}},
	"responses: container's files":      {tool(`{"type":"code_interpreter","container":{"type":"auto","file_ids":["file-1"]}}`), []string{responsesPath}},
	"responses: file_search":            {tool(`{"type":"file_search","vector_store_ids":["vs_1"]}`), []string{responsesPath}},
	"responses: image mask":             {tool(`{"type":"image_generation","input_image_mask":{"file_id":"file-1"}}`), []string{responsesPath}},
	"responses: white space":            {"{ \"input\" : [\n\t{ \"type\" : \"item_reference\" , \"id\" : \"rs_1\" } ] }", []string{responsesPath}},
	"responses: an escaped name":        {`{"previous_response_i\u0064":"resp_1"}`, []string{responsesPath}},
	"chat: file":                        {in(`{"type":"file","file":{"file_id":"file-1"}}`), []string{chatPath}},
	"chat: audio of an answer":          {`{"messages":[{"role":"assistant","audio":{"id":"audio_1"}}]}`, []string{chatPath}},
	"messages: container":               {`{"container":"cont_1","messages":[]}`, anthropic},
	"messages: container object":        {`{"container":{"id":"cont_1","skills":[]}}`, anthropic},
	"messages: document":                {in(`{"type":"document","source":{"type":"file","file_id":"file_1"}}`), anthropic},
	"messages: image":                   {in(`{"type":"image","source":{"type":"file","file_id":"file_1"}}`), anthropic},
	"messages: container_upload":        {in(`{"type":"container_upload","file_id":"file_1"}`), anthropic},
	"messages: image of a tool":         {in(`{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"file","file_id":"file_1"}}]}`), anthropic},
	"messages: thinking":                {in(`{"type":"thinking","thinking":"x","signature":"Eq"}`), anthropic},
	"messages: redacted_thinking":       {in(`{"type":"redacted_thinking","data":"Eq"}`), anthropic},
	"bedrock: reasoning":                {in(`{"reasoningContent":{"reasoningText":{"text":"x","signature":"Eq"}}}`), []string{conversePath, invokePath}},
	"bedrock: redacted reasoning":       {in(`{"reasoningContent":{"redactedContent":"Eq=="}}`), []string{conversePath, invokePath}},
	"gemini: cachedContent":             {`{"cachedContent":"cachedContents/1","contents":[]}`, []string{geminiPath}},
	"gemini: cached_content":            {`{"cached_content":"cachedContents/1"}`, []string{geminiPath}},
	"gemini: continuationToken":         {`{"continuationToken":"abc"}`, []string{geminiPath}},
	"gemini: file":                      {part(`{"fileData":{"mimeType":"image/png","fileUri":"` + upload + `"}}`), []string{geminiPath}},
	"gemini: file_data":                 {part(`{"file_data":{"file_uri":"` + upload + `"}}`), []string{geminiPath}},
	"gemini: fileData, file_uri":        {part(`{"fileData":{"file_uri":"` + upload + `"}}`), []string{geminiPath}},
	"gemini: file_data, fileUri":        {part(`{"file_data":{"fileUri":"` + upload + `"}}`), []string{geminiPath}},
	"gemini: thoughtSignature":          {part(`{"functionCall":{"name":"f"},"thoughtSignature":"Eq"}`), []string{geminiPath}},
	"gemini: thought_signature":         {part(`{"thought_signature":"Eq"}`), []string{geminiPath}},
	"interactions: previous":            {`{"previous_interaction_id":"v1_1","input":"hi"}`, []string{interactionsPath}},
	"interactions: thought":             {items(`{"type":"thought","signature":"Eq"}`), []string{interactionsPath}},
	"interactions: file":                {items(`{"type":"document","uri":"` + upload + `"}`), []string{interactionsPath}},
	"interactions: file in a turn":      {items(`{"role":"user","content":[{"type":"image","uri":"` + upload + `"}]}`), []string{interactionsPath}},
	"conversations: agent":              {`{"agent_id":"ag_1","inputs":"hi"}`, []string{conversationsURL}},
	"conversations: file":               {`{"inputs":[{"role":"user","content":[{"type":"file","file_id":"f"}]}]}`, []string{conversationsURL}},
	"conversations: document":           {`{"inputs":[{"role":"user","content":[{"type":"tool_file","file_id":"f"}]}]}`, []string{conversationsURL}},
	"conversations: library":            {`{"inputs":"hi","tools":[{"type":"document_library","library_ids":["l"]}]}`, []string{conversationsURL}},
	"behind an unreadable member":       {`{"messages":[{"a":1]},"container":"cont_1"}`, anthropic},
	"of one that occurs twice":          {`{"container":"cont_1","container":null}`, anthropic},
	"null":                              {`{"previous_response_id":null,"conversation":null,"container":null,"cachedContent":null}`, nil},
	"empty":                             {`{"previous_response_id":"","conversation":{"id":""},"container":"","cachedContent":""}`, nil},
	"not a string":                      {`{"previous_response_id":7,"conversation":[{"id":"x"}],"container":{"skills":[{"skill_id":"pptx"}]}}`, nil},
	"a name in another place":           {`{"metadata":{"previous_response_id":"resp_1","container":"c","file_id":"f"},"user":"conversation"}`, nil},
	"a name in a text":                  {in(`{"type":"text","text":"{\"signature\":\"x\",\"file_id\":\"file_1\",\"type\":\"thinking\"}"}`), nil},
	"encrypted_content null":            {items(`{"type":"reasoning","encrypted_content":null}`), nil},
	"encrypted_content elsewhere":       {items(`{"type":"message","encrypted_content":"x"}`), nil},
	"an id that is no reference":        {items(`{"type":"message","id":"msg_1"}`), nil},
	"thinking without signature":        {in(`{"type":"thinking","thinking":"x"}`), nil},
	"thinking with an empty signature":  {in(`{"type":"thinking","thinking":"x","signature":""}`), nil},
	"a signature of a tool's arguments": {in(`{"type":"tool_use","name":"sign","input":{"type":"thinking","signature":"x","file_id":"f"}}`), nil},
	"a file inline":                     {in(`{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AA"}}`), nil},
	"an image by its address":           {in(`{"type":"image","source":{"type":"url","url":"https://x.example/file_id"}}`), nil},
	"base64 named file_id":              {in(`{"type":"image","source":{"type":"base64","data":"AA","file_id":"x"}}`), nil},
	"an automatic container":            {tool(`{"type":"code_interpreter","container":{"type":"auto"}}`), nil},
	"a public file":                     {part(`{"fileData":{"fileUri":"https://www.youtube.com/watch?v=x"}}`), nil},
	"a bucket":                          {part(`{"fileData":{"fileUri":"gs://bucket/files/x"}}`), nil},
	"a signature that says there is none": {
		part(`{"functionCall":{},"thoughtSignature":"skip_thought_signature_validator"}`), nil},
	"the schema of a tool": {`{"messages":[{"role":"user","content":"hi"}],"input":"hi","tools":[
			{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"file_id":{"type":"string"},
			"container":{"type":"string"},"previous_response_id":{"type":"string","default":"x"},"signature":{"type":"string"}},"required":["file_id","container"]}}},
			{"type":"function","name":"g","container":"x","parameters":{"conversation":"x","vector_store_ids":["x"],"encrypted_content":"x"}},
			{"name":"h","input_schema":{"type":"object","properties":{"type":"thinking","signature":{"const":"x"}}}},
			{"functionDeclarations":[{"name":"i","parameters":{"properties":{"fileUri":{"enum":["generativelanguage.googleapis.com"]}}}}]}]}`, nil},
	"no object":   {`["previous_response_id","x"]`, nil},
	"nothing":     {``, nil},
	"a text":      {`"container"`, nil},
	"legacy text": {`{"prompt":"id","container":7}`, nil},
}

// What only an account knows binds a request of the format that documents it,
// and no other request (contract 11).
func TestARequestIsBoundByWhatOnlyItsAccountKnows(t *testing.T) {
	for name, tc := range boundRows {
		t.Run(name, func(t *testing.T) {
			for _, path := range boundFormats {
				want := false
				for _, of := range tc.of {
					want = want || of == path
				}
				assert.Equal(t, want, bound(path, []byte(tc.body)), path)
			}
		})
	}
}

// Every value that binds has a row that would be missed without it.
func TestEveryBindingHasACase(t *testing.T) {
	found := func() (n int) {
		for _, row := range boundRows {
			for _, path := range boundFormats {
				if bound(path, []byte(row.body)) {
					n++
				}
			}
		}
		return n
	}
	all, places := found(), 0
	wire.WithoutEachBinding(func(path string) {
		places++
		assert.Less(t, found(), all, "no row for %s", path)
	})
	assert.Greater(t, places, 25)
	assert.Equal(t, all, found())
}

// The model is replaced as before, and what is known of the request stays.
func TestABoundRequestStaysBoundWithAnotherModel(t *testing.T) {
	body := `{"model":"a","input":[{"type":"item_reference","id":"rs_1"}],"model":"b"}`
	c := wire.ReadContent(nil, []byte(body))
	_, c, err := c.Replace([]byte(body), "c")
	require.NoError(t, err)
	r := wire.Request{Format: wire.Responses}
	r.Add(&c)
	assert.True(t, r.Bound)
	assert.Equal(t, "c", r.Model)
}

// No recorded answer reads like a bound request, whole or event by event.
func TestNoRecordedAnswerIsBound(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.*") // not the corpora of the fuzz targets
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, path := range boundFormats {
			if path == conversationsURL && strings.Contains(name, "/conversations/") {
				continue // its events name the agent as its requests do
			}
			require.False(t, bound(path, data), name)
			for line := range bytes.Lines(data) {
				require.False(t, bound(path, bytes.TrimPrefix(line, []byte("data:"))), name)
			}
		}
	}
}

func TestReadingForBindingAllocatesNothing(t *testing.T) {
	body := []byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"` + strings.Repeat("x", 9<<10) +
		`"},{"type":"thinking","signature":"Eq"}]}],"tools":[{"type":"function","name":"f","parameters":{}}],"container":"c"}`)
	r := wire.Request{Format: wire.Messages}
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		c := wire.ReadContent(nil, body)
		r.Add(&c)
	}), "also with a hit")
	assert.True(t, r.Bound)
}

// What is told apart of a request has a bound, which no format may break.
func TestPlacesThatBindFit(t *testing.T) {
	has, room := wire.WidestBound()
	assert.LessOrEqual(t, has, room)
	assert.False(t, wire.ManyBindings())
}

// A path that names an answer binds, too.
func TestAPathBinds(t *testing.T) {
	for path, want := range map[string]bool{
		"/v1/responses/resp_1?stream=true": true, "/v1beta/interactions/int_1?stream=true": true, "/v1/responses/resp_1": false,
	} {
		u, err := url.Parse(path)
		require.NoError(t, err)
		assert.Equal(t, want, wire.Inspect("GET", u, nil).Bound, path)
		assert.False(t, wire.Inspect("POST", &url.URL{Path: "/v1/responses"}, nil).Bound)
	}
}
