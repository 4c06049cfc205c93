package streamguard_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	sg "github.com/surefoot-go/surefoot/streamguard"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// masked sends a call whose 200 has the given body and returns what the caller
// sees.
func masked(t *testing.T, req *http.Request, contentType, body string) (*http.Response, string, *rig) {
	t.Helper()
	r := stack(answer(contentType, pieces(body)), sg.Policy{})
	resp, got, err := r.readAll(t, req)
	require.NoError(t, err)
	require.Equal(t, int64(len(got)), max(resp.ContentLength, int64(len(got))))
	return resp, got, r
}

func TestCaseA1_ErrorBehind200(t *testing.T) {
	for name, body := range map[string]string{
		"object": `{"error":{"code":429,"message":"busy"}}`,
		"array":  `[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, req := range []*http.Request{plainCall(t, chatPath), streamCall(t, chatPath), plainCall(t, messagesPath), plainCall(t, responsesPath)} {
				resp, got, r := masked(t, req, "application/json", body)
				assert.Equal(t, 429, resp.StatusCode)
				assert.Equal(t, "429 Too Many Requests", resp.Status)
				assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
				assert.EqualValues(t, len(got), resp.ContentLength)
				if name == "object" {
					assert.Equal(t, body, got)
				} else {
					assert.Contains(t, got, `"error":{`)
				}
				rep, ok := sg.Unmasked(resp)
				require.True(t, ok)
				assert.Equal(t, body, string(rep.Original))
				assert.Equal(t, 200, rep.Status)
				assert.Equal(t, wire.ReasonHidden, rep.Failure.Reason)
				require.Len(t, r.reports, 1)
				assert.Empty(t, r.ends)
			}
		})
	}
}

func TestCaseA2_NothingInIt(t *testing.T) {
	for _, body := range []string{
		`{"id":"","choices":null,"usage":null}`, `{"choices":[]}`,
		`{"object":"chat.completion","usage":{"total_tokens":0}}`, "",
	} {
		resp, got, r := masked(t, plainCall(t, chatPath), "application/json", body)
		assert.Equal(t, 502, resp.StatusCode, body)
		assert.Contains(t, got, `"error":{`)
		if body == "" {
			assert.Contains(t, got, "provider returned empty response")
		} else {
			assert.Contains(t, got, "provider returned no choices")
			assert.Equal(t, "no_choices", r.reports[0].Empty)
		}
	}
	t.Run("no body", func(t *testing.T) {
		r := stack(answer("application/json", http.NoBody), sg.Policy{})
		resp, got, err := r.readAll(t, plainCall(t, chatPath))
		require.NoError(t, err)
		assert.Equal(t, 502, resp.StatusCode)
		assert.Contains(t, got, "provider returned empty response")
	})
	for name, c := range map[string]struct {
		method, url string
		status      int
		body        string
	}{
		"models":     {"GET", "http://up/v1/models", 200, `{"choices":[]}`},
		"embeddings": {"POST", "http://up/v1/embeddings", 200, `{"data":[],"usage":null}`},
		"204":        {"POST", chatPath, 204, ""},
		"head":       {"HEAD", chatPath, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			base := answer("application/json", pieces(c.body))
			r := stack(roundTripper(func(req *http.Request) (*http.Response, error) {
				resp, err := base(req)
				resp.StatusCode = c.status
				return resp, err
			}), sg.Policy{})
			req, err := http.NewRequestWithContext(t.Context(), c.method, c.url, http.NoBody)
			require.NoError(t, err)
			resp, got, err := r.readAll(t, req)
			require.NoError(t, err)
			assert.Equal(t, c.status, resp.StatusCode)
			assert.Equal(t, c.body, got)
		})
	}
}

func TestCaseA4_ToolOnlyTurns(t *testing.T) {
	for _, member := range []string{
		`"tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{}"}}]`,
		`"function_call":{"name":"f","arguments":"{}"}`, `"refusal":"no"`, `"audio":{"id":"a"}`,
	} {
		body := " \n" + `{"choices":[{"index":0,"message":{"role":"assistant","content":null,` + member + `},"finish_reason":"tool_calls"}]}`
		resp, got, r := masked(t, plainCall(t, chatPath), "application/json", body)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, body, got)
		require.Len(t, r.reports, 1)
		assert.Nil(t, r.reports[0].Failure)
		_, ok := sg.Unmasked(resp)
		assert.False(t, ok)
	}
}

func TestCaseA6_Pages(t *testing.T) {
	page := `<!DOCTYPE html><title>wait</title>`
	for name, c := range map[string]struct{ label, body string }{
		"html":     {"text/html", page},
		"as json":  {"application/json", page},
		"as sse":   {"text/event-stream", page},
		"bom":      {"text/html", "\xef\xbb\xbf\n\n" + page},
		"newlines": {"application/json", "\r\n\n" + page},
		"large":    {"text/html", page + strings.Repeat("x", 9<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, req := range []*http.Request{streamCall(t, chatPath), plainCall(t, chatPath)} {
				resp, got, r := masked(t, req, c.label, c.body)
				assert.Equal(t, 502, resp.StatusCode)
				assert.NotContains(t, got, "wait")
				require.Len(t, r.reports, 1)
				assert.Equal(t, wire.ReasonHTML, r.reports[0].Failure.Reason)
				assert.Equal(t, c.body[:min(len(c.body), 64<<10)], string(r.reports[0].Original))
			}
		})
	}
}

func TestCaseA7_BaseResp(t *testing.T) {
	ok := `{"base_resp":{"status_code":0,"status_msg":""},` + OKJSON[1:]
	resp, got, _ := masked(t, plainCall(t, chatPath), "application/json", ok)
	assert.Equal(t, 200, resp.StatusCode)
	assert.Equal(t, ok, got)
	for code, want := range map[string]int{"1002": 429, "1039": 429, "1004": 401, "1008": 402, "1026": 400, "4711": 502} {
		resp, _, _ := masked(t, plainCall(t, chatPath), "application/json",
			`{"base_resp":{"status_code":`+code+`,"status_msg":"x"},"choices":null}`)
		assert.Equal(t, want, resp.StatusCode, code)
	}
}

func TestCaseA8_BusinessCodes(t *testing.T) {
	for body, want := range map[string]int{
		`{"code":401,"msg":"bad key","success":false}`:      401,
		`{"error":{"code":"4711","message":"rate"}}`:        502,
		`{"code":200,"success":true,"data":{"answer":"x"}}`: 200,
	} {
		resp, got, _ := masked(t, plainCall(t, chatPath), "application/json", body)
		assert.Equal(t, want, resp.StatusCode, body)
		if want == 200 {
			assert.Equal(t, body, got)
		}
	}
}

func TestCaseA9_OnlyEventIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		event string
		want  int
	}{
		"504":  {`data: {"error":{"message":"slow","type":"GatewayTimeout","code":504}}` + "\n\n", 504},
		"400":  {`data: {"error":{"message":"slow","type":"GatewayTimeout","code":400}}` + "\n\n", 400},
		"vllm": {`data: {"object":"error","message":"x","code":400}` + "\n\n", 400},
		"choices beside": {
			`data: {"error":{"message":"x","code":503},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}` + "\n\n", 503,
		},
		"no blank line": {`data: {"error":{"message":"x","code":503}}`, 503},
	} {
		t.Run(name, func(t *testing.T) {
			for label, split := range map[string][]string{
				"one read": {c.event + DONE}, "comments first": {": ping\n\n", U, c.event, DONE},
			} {
				if name == "no blank line" {
					split[len(split)-1] = strings.TrimSuffix(split[len(split)-1], DONE)
				}
				for _, mode := range []string{sg.HoldFirstEvent, sg.HoldFirstContent, sg.HoldComplete} {
					r := stack(answer("text/event-stream", pieces(split...)), sg.Policy{HoldUntil: mode})
					resp, got, err := r.readAll(t, streamCall(t, chatPath))
					require.NoError(t, err, label)
					assert.Equal(t, c.want, resp.StatusCode, label)
					assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
					assert.Contains(t, got, `"error":{`)
					assert.NotContains(t, got, "data:")
					rep, ok := sg.Unmasked(resp)
					require.True(t, ok)
					assert.True(t, rep.Stream)
					assert.Contains(t, string(rep.Original), `"message":`)
					assert.Zero(t, r.firsts)
					assert.Empty(t, r.ends)
				}
			}
		})
	}
	t.Run("unmasker alone", func(t *testing.T) {
		u := &sg.Unmasker{Base: sse(part{data: ": hi\n\n" + `data: {"error":{"code":429}}` + "\n\n" + DONE})}
		resp, err := u.RoundTrip(streamCall(t, chatPath))
		require.NoError(t, err)
		defer resp.Body.Close()
		assert.Equal(t, 429, resp.StatusCode)

		bytes := ": hi\n\n" + C("a") + C("b")
		u = &sg.Unmasker{Base: sse(part{data: bytes})}
		resp, err = u.RoundTrip(streamCall(t, chatPath))
		require.NoError(t, err)
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, bytes, string(got))
	})
}

func TestCaseA11_StopsMidValue(t *testing.T) {
	const half = `{"choices":[{"message":{"content":"h`
	for name, end := range map[string]error{"clean": io.EOF, "cut": io.ErrUnexpectedEOF} {
		t.Run(name, func(t *testing.T) {
			for _, req := range []*http.Request{streamCall(t, chatPath), plainCall(t, chatPath)} {
				r := stack(answer("application/json", script(part{data: half, err: end})), sg.Policy{})
				resp, got, err := r.readAll(t, req)
				require.NoError(t, err)
				assert.Equal(t, 502, resp.StatusCode)
				assert.Contains(t, got, "failed to unmarshal response: provider up-eu: ")
			}
		})
	}
	t.Run("whole value, cut short", func(t *testing.T) {
		r := stack(answer("application/json", script(part{data: OKJSON, err: io.ErrUnexpectedEOF})), sg.Policy{})
		resp, _, err := r.readAll(t, plainCall(t, chatPath))
		require.NoError(t, err)
		assert.Equal(t, 502, resp.StatusCode)
	})
	t.Run("transport", func(t *testing.T) {
		reset := errors.New("connection reset")
		r := stack(answer("application/json", script(part{data: half, err: reset})), sg.Policy{})
		_, _, err := r.readAll(t, plainCall(t, chatPath))
		require.ErrorIs(t, err, reset)
	})
}
