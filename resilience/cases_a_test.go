package resilience_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
	ut "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// original checks that the upstream's bytes can still be read.
func original(want string) func(*testing.T, *rig, answer) {
	return func(t *testing.T, _ *rig, a answer) {
		assert.True(t, a.call.Unmasked)
		assert.Equal(t, want, string(a.call.Original))
		assert.True(t, json.Valid([]byte(a.body)), "%s", a.body)
		assert.Equal(t, jsonType, a.header.Get("Content-Type"))
	}
}

func TestCaseA1_ErrorInA200(t *testing.T) {
	t.Parallel()
	const (
		object = `{"error":{"code":429,"message":"busy"}}`
		array  = `[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}]`
	)
	busy, list, good := ut.Body(jsonType, object), ut.Body(jsonType, array), ut.Body(jsonType, okJSON)
	run(t, []row{
		{name: "then good", steps: []ut.Step{busy, good}, seen: 200, body: okJSON, reqs: 2, word: wordOK},
		{name: "array then good", steps: []ut.Step{list, good}, seen: 200, body: okJSON, reqs: 2, word: wordOK},
		{name: "always", steps: []ut.Step{busy}, seen: 429, body: object, reqs: 3, word: wordFail, check: original(object)},
		{name: "array always", steps: []ut.Step{list}, seen: 429, reqs: 3, word: wordFail, check: original(array)},
	})
}

func TestCaseA2_NothingInA200(t *testing.T) {
	t.Parallel()
	empties := []string{
		`{"id":"","choices":null,"usage":null}`,
		`{"choices":[]}`,
		`{"object":"chat.completion","usage":{"total_tokens":0}}`,
		"",
	}
	message := func(want string) func(*testing.T, *rig, answer) {
		return func(t *testing.T, _ *rig, a answer) { assert.Contains(t, a.body, want) }
	}
	var rows []row
	for i, b := range empties {
		name, says := b, "provider returned no choices"
		step := ut.Body(jsonType, b)
		if b == "" {
			name, step, says = "no body", ut.Empty(), "provider returned empty response"
		}
		good := ut.Body(jsonType, okJSON)
		rows = append(rows,
			row{name: name, steps: []ut.Step{step}, seen: 502, reqs: 3, word: wordFail, check: message(says)},
			row{name: name + " then good", steps: []ut.Step{step, good}, seen: 200, body: okJSON, reqs: 2, word: wordOK},
			row{name: name + " list", path: "/v1/models", method: http.MethodGet, steps: []ut.Step{step}, seen: 200, body: b, reqs: 1, word: wordOK},
			row{name: name + " HEAD", method: http.MethodHead, steps: []ut.Step{step}, seen: 200, reqs: 1, word: wordOK},
		)
		if i < 3 {
			rows = append(rows, row{name: name + " embeddings", path: embedPath, steps: []ut.Step{step}, seen: 200, body: b, reqs: 1, word: wordOK})
		}
	}
	rows = append(rows, row{name: "204", steps: []ut.Step{ut.Status(204)}, seen: 204, reqs: 1, word: wordOK})
	run(t, rows)
}

func TestCaseA4_AnswersWithoutText(t *testing.T) {
	t.Parallel()
	const around = `{"choices":[{"index":0,"message":{"role":"assistant","content":null,%},"finish_reason":"tool_calls"}]}`
	var rows []row
	for name, member := range map[string]string{
		"tool_calls":    `"tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{}"}}]`,
		"function_call": `"function_call":{"name":"f","arguments":"{}"}`,
		"refusal":       `"refusal":"no"`,
		"audio":         `"audio":{"id":"a","data":"AA==","transcript":"x"}`,
	} {
		body := strings.Replace(around, "%", member, 1)
		rows = append(rows, row{name: name, steps: []ut.Step{ut.Body(jsonType, body)}, seen: 200, body: body, reqs: 1, word: wordOK})
	}
	run(t, rows)
}

func TestCaseA6_APageInA200(t *testing.T) {
	t.Parallel()
	const page = "<!DOCTYPE html><title>wait</title>"
	long := page + strings.Repeat("x", 1<<20)
	html := func(label, body string) []ut.Step { return []ut.Step{ut.Body(label, body)} }
	good := ut.Body(jsonType, okJSON)
	run(t, []row{
		{name: "html", steps: html("text/html", page), seen: 502, reqs: 3, word: wordFail, check: original(page)},
		{name: "labelled JSON", steps: html(jsonType, page), seen: 502, reqs: 3, word: wordFail, check: original(page)},
		{name: "BOM and newlines", steps: html("text/html", "\ufeff\n\n"+page), seen: 502, reqs: 3, word: wordFail, check: original("\ufeff\n\n" + page)},
		{name: "newlines labelled JSON", steps: html(jsonType, "\n\n"+page), seen: 502, reqs: 3, word: wordFail, check: original("\n\n" + page)},
		{name: "stream", ask: streamBody, steps: html("text/html", page), seen: 502, reqs: 1, word: wordFail, check: original(page)},
		{name: "stream labelled JSON", ask: streamBody, steps: html(jsonType, page), seen: 502, reqs: 1, word: wordFail, check: original(page)},
		{name: "stream labelled events", ask: streamBody, steps: html("text/event-stream", page), seen: 502, reqs: 1, word: wordFail, check: original(page)},
		{name: "stream held back", change: heldBack, ask: streamBody, steps: html("text/html", page), seen: 502, reqs: 3, word: wordFail, check: original(page)},
		{name: "then good", steps: append(html("text/html", page), good), seen: 200, body: okJSON, reqs: 2, word: wordOK},
		{name: "a long one", steps: html("text/html", long), seen: 502, reqs: 3, word: wordFail, check: func(t *testing.T, _ *rig, a answer) {
			assert.LessOrEqual(t, len(a.call.Original), 64<<10)
			assert.True(t, strings.HasPrefix(string(a.call.Original), page))
			assert.NotContains(t, a.body, "xxx")
		}},
	})
}

func TestCaseA7_VendorCodes(t *testing.T) {
	t.Parallel()
	with := func(n, rest string) string {
		return `{"base_resp":{"status_code":` + n + `,"status_msg":"x"},` + rest + `}`
	}
	good := with("0", okJSON[1:len(okJSON)-1])
	failing := func(n string) []ut.Step { return []ut.Step{ut.Body(jsonType, with(n, `"choices":null`))} }
	run(t, []row{
		{name: "0", steps: []ut.Step{ut.Body(jsonType, good)}, seen: 200, body: good, reqs: 1, word: wordOK},
		{name: "1002", steps: failing("1002"), seen: 429, reqs: 3, word: wordFail},
		{name: "1039", steps: failing("1039"), seen: 429, reqs: 3, word: wordFail},
		{name: "1004", steps: failing("1004"), seen: 401, reqs: 1, word: wordNeutral},
		{name: "1008", steps: failing("1008"), seen: 402, reqs: 1, word: wordNeutral},
		{name: "1026", steps: failing("1026"), seen: 400, reqs: 1, word: wordNeutral},
		{name: "unknown", steps: failing("7777"), seen: 502, reqs: 3, word: wordFail},
		{name: "looks like HTTP", steps: failing("500"), seen: 502, reqs: 3, word: wordFail},
	})
}

func TestCaseA8_BusinessCodes(t *testing.T) {
	t.Parallel()
	const contrast = `{"code":200,"success":true,"data":{}}`
	body := func(b string) []ut.Step { return []ut.Step{ut.Body(jsonType, b)} }
	run(t, []row{
		{name: "401", steps: body(`{"code":401,"msg":"bad key","success":false}`), seen: 401, reqs: 1, word: wordNeutral},
		{name: "Zhipu", steps: body(`{"error":{"code":"1302","message":"rate"}}`), seen: 429, reqs: 3, word: wordFail},
		{name: "text code", steps: body(`{"error":{"code":"9302","message":"rate"}}`), seen: 502, reqs: 3, word: wordFail},
		{name: "success", path: "/api/v1/tasks", method: http.MethodGet, steps: body(contrast), seen: 200, body: contrast, reqs: 1, word: wordOK},
		{name: "success of embeddings", path: embedPath, steps: body(contrast), seen: 200, body: contrast, reqs: 1, word: wordOK},
	})
}

func TestCaseA9_TheOnlyEventIsAnError(t *testing.T) {
	t.Parallel()
	const (
		slow = `data: {"error":{"message":"slow","type":"GatewayTimeout","code":504}}` + "\n\n"
		bad  = `data: {"error":{"message":"slow","type":"GatewayTimeout","code":400}}` + "\n\n"
		vllm = `data: {"object":"error","message":"x","code":400}` + "\n\n"
	)
	events := func(ev string) ut.Step { return ut.RawStream(ev, evDone) }
	good := ut.RawStream(evA, evStop, evDone)
	none := func(t *testing.T, _ *rig, a answer) {
		assert.NotContains(t, a.body, "data:", "judged before any byte reached the caller")
		assert.True(t, json.Valid([]byte(a.body)), "%s", a.body)
	}
	run(t, []row{
		{name: "504", ask: streamBody, steps: []ut.Step{events(slow)}, seen: 504, reqs: 1, word: wordFail, check: none},
		{name: "504 held back", change: heldBack, ask: streamBody, steps: []ut.Step{events(slow)}, seen: 504, reqs: 3, word: wordFail, check: none},
		{name: "504 then good", change: heldBack, ask: streamBody, steps: []ut.Step{events(slow), good}, seen: 200, body: evA + evStop + evDone, reqs: 2, word: wordOK},
		{name: "400", change: heldBack, ask: streamBody, steps: []ut.Step{events(bad)}, seen: 400, reqs: 1, word: wordNeutral, check: none},
		{name: "vLLM", change: heldBack, ask: streamBody, steps: []ut.Step{events(vllm)}, seen: 400, reqs: 1, word: wordNeutral, check: none},
	})
}

func TestCaseA11_JSONStopsMidValue(t *testing.T) {
	t.Parallel()
	const half = `{"choices":[{"message":{"content":"h`
	framed := ut.Body(jsonType, half)
	short := framed.ContentLength(80)
	good := ut.Body(jsonType, okJSON)
	require.Len(t, half, 36)
	run(t, []row{
		{name: "framed", steps: []ut.Step{framed}, seen: 502, reqs: 3, word: wordFail},
		{name: "framed then good", steps: []ut.Step{framed, good}, seen: 200, body: okJSON, reqs: 2, word: wordOK},
		{name: "short", steps: []ut.Step{short}, seen: 502, reqs: 3, word: wordFail},
		{name: "short then good", steps: []ut.Step{short, good}, seen: 200, body: okJSON, reqs: 2, word: wordOK},
		{name: "within the budget", change: func(p *resilience.Policy) { p.Retry.MaxRetries = 1 }, steps: []ut.Step{framed, short, good}, seen: 502, reqs: 2, word: wordFail},
	})
}
