package streamguard_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	up "github.com/surefoot-go/surefoot/resilience/upstreamtest"
	sg "github.com/surefoot-go/surefoot/streamguard"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// vendors are streaming calls of the formats beside OpenAI's and Anthropic's.
var vendors = map[string]struct {
	path, body string
	format     *wire.Format
	aborted    string // what the appended event begins with
	readable   func(string) bool
}{
	"gemini": {
		"/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[]}`, wire.Gemini,
		"data: {\"error\":{\"code\":503,\"message\":", func(s string) bool { return strings.HasSuffix(s, "\r\n\r\n") },
	},
	"gemini array": {
		"/v1beta/models/m:streamGenerateContent", `{"contents":[]}`, wire.Gemini,
		",\n{\"error\":{\"code\":503,\"message\":", openArray,
	},
	"vertex": {
		"/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent?alt=sse", `{"contents":[]}`, wire.Gemini,
		"data: {\"error\":{\"code\":503,\"message\":", func(s string) bool { return strings.HasSuffix(s, "\r\n\r\n") },
	},
	"ollama chat": {
		"/api/chat", `{"model":"m"}`, wire.Ollama, "{\"error\":\"", validLines,
	},
	"ollama generate": {
		"/api/generate", `{"model":"m","stream":true}`, wire.Ollama, "{\"error\":\"", validLines,
	},
	"cohere": {
		"/v2/chat", `{"model":"m","stream":true}`, wire.Cohere,
		"event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"ERROR\",\"error\":",
		func(s string) bool { return strings.HasSuffix(s, "\n\n") },
	},
}

func validLines(s string) bool {
	for line := range strings.Lines(s) {
		if !json.Valid([]byte(line)) {
			return false
		}
	}
	return strings.HasSuffix(s, "\n")
}

// vendorCall sends one call through the layers to a scripted upstream.
func vendorCall(t *testing.T, path, body string, step up.Step, p sg.Policy) (*rig, *http.Response, string, error) {
	t.Helper()
	u := up.NewInMemory("up")
	defer u.Close()
	u.Default(step)
	r := stack(u.RoundTripper(), p)
	resp, got, err := r.readAll(t, request(t, t.Context(), u.URL+path, body))
	return r, resp, got, err
}

// bare is what the upstream sends without any layer.
func bare(t *testing.T, path, body string, step up.Step) string {
	t.Helper()
	u := up.NewInMemory("up")
	defer u.Close()
	u.Default(step)
	resp, err := u.RoundTripper().RoundTrip(request(t, t.Context(), u.URL+path, body))
	require.NoError(t, err)
	b, _ := io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	return string(b)
}

func TestVendorStreamsThatAreWhole(t *testing.T) {
	ok := up.OK("he", "llo 那🦀", "!")
	for name, v := range vendors {
		for kind, step := range map[string]up.Step{
			"plain":      ok,
			"tool":       up.ToolCall("w", `{"error":{"code":500}}`),
			"a byte":     ok.WriteSize(1),
			"delimited":  ok.CloseDelimited(),
			"cut short":  ok.Finish(map[bool]string{true: "MAX_TOKENS", false: "length"}[v.format != wire.Ollama]),
			"huge event": ok.At(1, up.Huge(100_000)),
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				r, resp, got, err := vendorCall(t, v.path, v.body, step, sg.Policy{})
				require.NoError(t, err)
				require.Equal(t, 200, resp.StatusCode)
				assert.Equal(t, bare(t, v.path, v.body, step), got)
				assert.True(t, r.end(t).Complete)
				assert.Equal(t, 1, r.firsts)
			})
		}
	}
}

// openArray reports whether s is an array of whole elements that only lacks its
// end: with it an answer that broke off would look whole.
func openArray(s string) bool { return !json.Valid([]byte(s)) && json.Valid([]byte(s+"]")) }

func TestVendorStreamsThatBreakOff(t *testing.T) {
	ok := up.OK("he", "llo", "!")
	for name, v := range vendors {
		for kind, step := range map[string]up.Step{
			"cut":         ok.CutAfterText(2),
			"inside":      ok.CutAfterText(2).InsideLine(),
			"reset":       ok.CutAfterText(1).Reset(),
			"bad chunk":   ok.CutAfterText(2).BadChunk(),
			"malformed":   ok.At(3, up.Malformed()).CutAfterText(3),
			"before last": ok.CutAfterText(3),
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				r, resp, got, err := vendorCall(t, v.path, v.body, step, sg.Policy{})
				require.ErrorIs(t, err, sg.ErrIncomplete)
				require.Equal(t, 200, resp.StatusCode)
				i := strings.LastIndex(got, v.aborted)
				require.Positive(t, i, "%q", got)
				assert.True(t, v.readable(got), "%q", got)
				assert.True(t, strings.HasPrefix(bare(t, v.path, v.body, ok), got[:i]), "%q", got)
				assert.False(t, r.end(t).Complete)
			})
		}
	}
}

func TestVendorStreamsThatFallSilent(t *testing.T) {
	for name, v := range vendors {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, _, got, err := vendorCall(t, v.path, v.body, up.OK("a", "b").CutAfterText(1).Stall(), idle200)
				require.ErrorIs(t, err, sg.ErrIncomplete)
				var timeout interface{ Timeout() bool }
				require.ErrorAs(t, err, &timeout)
				assert.True(t, timeout.Timeout())
				assert.True(t, v.readable(got), "%q", got)
				assert.Equal(t, 200*time.Millisecond, time.Since(start))
			})
		})
	}
}

func TestVendorStreamsThatFail(t *testing.T) {
	for name, v := range vendors {
		t.Run(name, func(t *testing.T) {
			want := 503
			if v.format == wire.Ollama || v.format == wire.Cohere {
				want = 502 // their errors are text
			}
			_, resp, got, err := vendorCall(t, v.path, v.body, up.OK("a").FailAfter(0, 503), sg.Policy{})
			require.NoError(t, err)
			assert.Equal(t, want, resp.StatusCode)
			assert.Contains(t, got, "scripted status 503")

			step := up.OK("a", "b").FailAfter(2, 503)
			r, resp, got, err := vendorCall(t, v.path, v.body, step, sg.Policy{})
			failedInBand(t, err, want)
			assert.Equal(t, 200, resp.StatusCode)
			sent := bare(t, v.path, v.body, step)
			if name == "gemini array" {
				sent = strings.Replace(sent, "}}]", "}}", 1) // see TestNoEndMarkBehindAFailure
			}
			assert.Equal(t, sent, got, "nothing is added")
			require.NotNil(t, r.end(t).Failure)
			assert.False(t, r.end(t).Complete)

			_, resp, _, err = vendorCall(t, v.path, v.body, step, sg.Policy{HoldUntil: sg.HoldComplete})
			require.NoError(t, err)
			assert.GreaterOrEqual(t, resp.StatusCode, 502)
		})
	}
}

func TestVendorStreamsHeldBackWhole(t *testing.T) {
	for name, v := range vendors {
		t.Run(name, func(t *testing.T) {
			step := up.OK("a", "b")
			_, resp, got, err := vendorCall(t, v.path, v.body, step, sg.Policy{HoldUntil: sg.HoldComplete})
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
			assert.Equal(t, bare(t, v.path, v.body, step), got)
			_, resp, _, err = vendorCall(t, v.path, v.body, step.CutAfterText(1), sg.Policy{HoldUntil: sg.HoldComplete})
			require.ErrorIs(t, err, sg.ErrIncomplete)
			require.Nil(t, resp)
		})
	}
}

// A call for a whole answer gets it as it is, errors behind a 200 aside.
func TestVendorAnswersThatAreNoStream(t *testing.T) {
	for name, c := range map[string]struct{ path, body string }{
		"gemini": {"/v1beta/models/m:generateContent", `{"contents":[]}`},
		"ollama": {"/api/chat", `{"model":"m","stream":false}`},
		"cohere": {"/v2/chat", `{"model":"m"}`},
	} {
		for kind, step := range map[string]up.Step{"text": up.OK("he", "llo"), "tool": up.ToolCall("w", `{"error":"x"}`)} {
			_, resp, got, err := vendorCall(t, c.path, c.body, step, sg.Policy{})
			require.NoError(t, err, name)
			assert.Equal(t, 200, resp.StatusCode, name)
			assert.Equal(t, bare(t, c.path, c.body, step), got, "%s/%s", name, kind)
		}
		_, resp, got, err := vendorCall(t, c.path, c.body, up.Body("application/json", `{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}`), sg.Policy{})
		require.NoError(t, err, name)
		assert.Equal(t, 429, resp.StatusCode, name)
		assert.Contains(t, got, "slow down", name)
	}
}

// What a proxy sends in place of the lines that were asked for.
func TestOllamaStreamIsToldFromAnAnswer(t *testing.T) {
	line := `{"model":"m","message":{"role":"assistant","content":"a"},"done":false}` + "\n"
	last := `{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}`
	for name, c := range map[string]struct {
		typ, body string
		status    int
	}{
		"labelled":         {"application/x-ndjson", line + last + "\n", 200},
		"labelled as JSON": {"application/json", line + last + "\n", 200},
		"no last line end": {"application/json", line + last, 200},
		"one line":         {"application/json; charset=utf-8", last, 200},
		"error":            {"application/json", `{"error":"model is busy"}`, 502},
		"pretty error":     {"application/json", "{\n  \"error\": {\n    \"code\": 429\n  }\n}\n", 429},
		"a page":           {"text/html", "<html>wait</html>", 502},
		"nothing":          {"application/x-ndjson", "", 502},
		"cut":              {"application/x-ndjson", line[:20], 502},
	} {
		_, resp, got, err := vendorCall(t, "/api/chat", `{"model":"m"}`, up.Body(c.typ, c.body), sg.Policy{})
		require.NoError(t, err, name)
		assert.Equal(t, c.status, resp.StatusCode, name)
		if c.status == 200 {
			assert.Equal(t, c.body, got, name)
		}
	}
}

// Older servers, bridges and the answer to a model's loading are done without a
// reason and without a count.
func TestOllamaDoneForNoReason(t *testing.T) {
	for _, body := range []string{
		`{"model":"m","response":"a","done":false}` + "\n" + `{"model":"m","response":"","done":true,"total_duration":5}` + "\n",
		`{"model":"m","created_at":"2023-12-18T19:52:07.071755Z","response":"","done":true}` + "\n",
		`{"message":{"role":"assistant","content":"a"},"done":true}`,
	} {
		_, _, got, err := vendorCall(t, "/api/generate", `{"model":"m"}`, up.Body("application/x-ndjson", body), sg.Policy{})
		require.NoError(t, err)
		assert.Equal(t, body, got)
	}
}

// An element of the array that flows through and breaks off cannot be closed:
// the error of Read is all.
func TestJSONArrayCutInALargeElement(t *testing.T) {
	big := `[{"candidates":[{"content":{"parts":[{"text":"a"}]}}]},{"candidates":[{"content":{"parts":[{"inlineData":{"data":"` + strings.Repeat("A", 200_000)
	_, resp, got, err := vendorCall(t, "/v1beta/models/m:streamGenerateContent", `{}`, up.Body("application/json", big), sg.Policy{IncompleteRead: sg.IncompleteReadEOF})
	require.ErrorIs(t, err, sg.ErrIncomplete)
	assert.Equal(t, 200, resp.StatusCode)
	assert.Equal(t, big, got)
}
