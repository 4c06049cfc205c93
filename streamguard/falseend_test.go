package streamguard_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	up "github.com/surefoot-go/surefoot/resilience/upstreamtest"
	sg "github.com/surefoot-go/surefoot/streamguard"
)

// A failing is a stream that reports a failure, and what its sender may still
// send behind that, each of which says that the answer is over and well. The
// marks take a filling that makes them as large as a test wants.
type failing struct {
	path, begun string
	marks       []func(filling string) string
}

func finish(before, after string) func(string) string {
	return func(filling string) string { return before + filling + after }
}

// filled is a JSON event's data with a member that may be large.
func filled(name, object string) func(string) string {
	lead := ""
	if name != "" {
		lead = "event: " + name + "\n"
	}
	return finish(lead+"data: "+strings.TrimSuffix(object, "}")+`,"more":"`, "\"}\n\n")
}

var doneMark = finish("data: [DONE]", "\n\n")

func framed(eventType, object string) func(string) string {
	return func(filling string) string {
		return string(frame(eventType, strings.TrimSuffix(object, "}")+`,"more":"`+filling+`"}`))
	}
}

func inChunk(object string) func(string) string {
	return func(filling string) string {
		return frames(invoked(strings.TrimSuffix(object, "}") + `,"more":"` + filling + `"}`))
	}
}

var failings = map[string]failing{
	"chat":             {chatPath, C("a") + inBand503, []func(string) string{filled("", `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`), doneMark}},
	"chat, failed end": {chatPath, C("a") + F("network_error"), []func(string) string{doneMark}},
	"completions":      {completionsPath, data(`{"choices":[{"index":0,"text":"a"}]}`) + inBand503, []func(string) string{filled("", `{"choices":[{"index":0,"text":"","finish_reason":"length"}]}`), doneMark}},
	"llama.cpp":        {completionsPath, data(`{"content":"a","stop":false}`) + "error: {\"code\":503,\"message\":\"x\"}\n\n", []func(string) string{filled("", `{"content":"","stop":true}`), doneMark}},
	"no known format":  {chatPath, data(`{"delta_text":"a"}`) + inBand503, []func(string) string{filled("", `{"delta_text":"b","is_end":true}`), doneMark}},
	"responses": {responsesPath, begun[responsesPath].content + begun[responsesPath].failure, []func(string) string{
		filled("response.completed", `{"type":"response.completed","response":{"status":"completed"}}`),
		filled("response.incomplete", `{"type":"response.incomplete","response":{"status":"incomplete"}}`),
		filled("", `{"type":"response.done","response":{"status":"completed"}}`), doneMark,
	}},
	"responses, vague": {responsesPath, begun[responsesPath].content + vagueFailure, []func(string) string{
		filled("response.completed", `{"type":"response.completed","response":{"status":"completed"}}`), doneMark,
	}},
	"messages": {messagesPath, MS + T("a") + begun[messagesPath].failure, []func(string) string{
		filled("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`), filled("message_stop", `{"type":"message_stop"}`), doneMark,
	}},
	"messages, failed end": {messagesPath, MS + T("a") + MD("error"), []func(string) string{filled("message_stop", `{"type":"message_stop"}`)}},
	"gemini": {geminiPath, begun[geminiPath].content + begun[geminiPath].failure, []func(string) string{
		filled("", `{"candidates":[{"finishReason":"STOP","index":0}]}`), doneMark,
	}},
	"gemini array": {geminiPath, `[{"candidates":[{"content":{"parts":[{"text":"a"}]},"index":0}]}` + "\n" + `,{"error":{"code":503,"status":"UNAVAILABLE"}}`, []func(string) string{
		finish(`,{"candidates":[{"finishReason":"STOP","index":0}],"more":"`, `"}`),
		func(filling string) string { return strings.ReplaceAll(filling, "A", "") + "]" },
	}},
	"interactions": {interactionsPath, begun[interactionsPath].content + begun[interactionsPath].failure, []func(string) string{
		filled("interaction.completed", `{"event_type":"interaction.completed","interaction":{"status":"completed"}}`), doneMark,
	}},
	"cohere": {coherePath, begun[coherePath].content + named("error", `{"type":"error","message":"x"}`), []func(string) string{
		filled("message-end", `{"type":"message-end","delta":{"finish_reason":"COMPLETE"}}`), doneMark,
	}},
	"dashscope": {dashScopePath, begun[dashScopePath].content + begun[dashScopePath].failure, []func(string) string{
		filled("result", `{"output":{"text":"","finish_reason":"stop"}}`), doneMark,
	}},
	"ollama": {ollamaPath, begun[ollamaPath].content + begun[ollamaPath].failure, []func(string) string{
		finish(`{"message":{"content":""},"done":true,"more":"`, "\"}\n"), finish(`{"message":{"content":""},"done_reason":"stop","more":"`, "\"}\n"),
	}},
	"converse": {conversePath, frames([2]string{"messageStart", `{"role":"assistant"}`}, [2]string{"contentBlockDelta", `{"delta":{"text":"a"}}`}) + exception("throttlingException"), []func(string) string{
		framed("messageStop", `{"stopReason":"end_turn"}`), framed("metadata", `{"usage":{"inputTokens":1}}`),
	}},
	"invoke": {invokePath, frames(invoked(`{"type":"message_start"}`), invoked(`{"type":"content_block_delta","delta":{"text":"a"}}`)) + exception("modelStreamErrorException"), []func(string) string{
		inChunk(`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`), inChunk(`{"type":"message_stop"}`),
	}},
	"invoke, error event": {invokePath, frames(invoked(`{"type":"content_block_delta","delta":{"text":"a"}}`), invoked(`{"type":"error","error":{"type":"overloaded_error"}}`)), []func(string) string{
		inChunk(`{"type":"message_stop"}`),
	}},
}

func exception(kind string) string {
	return string(headed([][2]string{{":exception-type", kind}, {":message-type", "exception"}}, `{"message":"x"}`))
}

// relayed guards a stream and reads it with buffers of the given size.
func relayed(t *testing.T, path string, p sg.Policy, body io.Reader, size int) (string, *rig, error) {
	t.Helper()
	label := "text/event-stream"
	if strings.HasPrefix(path, "http://up/model/") {
		label = "application/vnd.amazon.eventstream"
	}
	r := stack(answer(label, io.NopCloser(body)), p)
	resp, err := r.guard.RoundTrip(streamCall(t, path))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	got, err := readIn(resp.Body, size)
	require.NoError(t, resp.Body.Close())
	return got, r, err
}

// A reader that takes no notice of the failure, and stops at a mark that says
// that the answer is whole, never comes to the error of Read: behind a failure
// there is no such mark, in no format and however its bytes come (contract 6).
func TestNoEndMarkBehindAFailure(t *testing.T) {
	for name, f := range failings {
		t.Run(name, func(t *testing.T) {
			for _, filling := range []string{"", strings.Repeat("A", 100<<10)} {
				sizes := []int{100, 4096, 1 << 20}
				if filling != "" {
					sizes = sizes[1:]
				}
				var all strings.Builder
				for _, mark := range f.marks {
					m := mark(filling)
					if strings.HasPrefix(m, "data: [DONE]") {
						m = strings.ReplaceAll(m, "A", " ")
					}
					check := func(marks string) {
						for _, size := range sizes {
							for way, body := range ways(f.begun+marks, len(filling) > 0) {
								got, r, err := relayed(t, f.path, sg.Policy{}, body, size)
								require.True(t, f.begun == got, "%s, %d at a time: %.300q", way, size, got)
								var inc *sg.IncompleteError
								require.ErrorAs(t, err, &inc)
								require.Equal(t, sg.ReasonInBandError, inc.Reason)
								require.False(t, r.end(t).Complete)
							}
						}
					}
					check(m)
					check(strings.TrimRight(m, "\n")) // the body ends in it
					all.WriteString(m)
					check(all.String())
				}
			}
		})
	}
}

func ways(s string, large bool) map[string]io.Reader {
	w := map[string]io.Reader{
		"at once":            strings.NewReader(s),
		"with the end":       iotest.DataErrReader(strings.NewReader(s)),
		"half and half":      iotest.HalfReader(strings.NewReader(s)),
		"and then the reset": io.MultiReader(strings.NewReader(s), iotest.ErrReader(errReset)),
	}
	if !large {
		w["byte by byte"] = iotest.OneByteReader(strings.NewReader(s))
	}
	return w
}

// Comments, line ends and the policy change nothing of that.
func TestNoEndMarkBehindAFailureInAnyEventStream(t *testing.T) {
	begun := C("a") + inBand503
	for name, c := range map[string]struct{ tail, relayed string }{
		"a comment before":     {": x\n\n" + DONE, ": x\n\n"},
		"a comment glued on":   {": x\n" + DONE, ""},
		"fields around":        {"id: 7\nevent: done\n" + DONE, ""},
		"pings between":        {idleEvents["ping"] + F("stop") + idleEvents["comment"] + DONE, idleEvents["ping"] + idleEvents["comment"]},
		"twice":                {DONE + DONE, ""},
		"usage":                {U + DONE, U},
		"more of the answer":   {C("b") + F("stop") + DONE, C("b")},
		"another failure":      {inBand503 + DONE, inBand503},
		"a failed end":         {F("error") + DONE, F("error")},
		"text and [DONE]":      {"data: bye\ndata: [DONE]\n\n", ""},
		"an object and [DONE]": {"data: {\"a\":1}\ndata: [DONE]\n\n" + U, U},
		"what does not parse":  {"data: {\"a\n\n" + DONE, ""},
	} {
		for _, eol := range []string{"\n", "\r\n", "\r"} {
			for _, p := range []sg.Policy{{}, {StripComments: true}, {IncompleteRead: sg.IncompleteReadEOF}, {HoldUntil: sg.HoldComplete, HoldLimit: 1}} {
				as := func(s string) string { return strings.ReplaceAll(s, "\n", eol) }
				want := as(begun + c.relayed)
				if p.StripComments {
					want = strings.ReplaceAll(want, as(": x\n\n"), "")
				}
				for _, size := range []int{100, 4096} {
					for way, body := range ways(as(begun+c.tail), false) {
						got, r, err := relayed(t, chatPath, p, body, size)
						require.True(t, want == got, "%s: %s, %q: %.300q", name, way, eol, got)
						if p.IncompleteRead == sg.IncompleteReadEOF {
							require.NoError(t, err)
						} else {
							failedInBand(t, err, 503)
						}
						failedInBand(t, r.end(t).Err, 503)
					}
				}
			}
		}
	}
	got, _, err := relayed(t, responsesPath, sg.Policy{}, strings.NewReader(failings["responses"].begun+failedResponse+DONE), 4096)
	failedInBand(t, err, 503)
	assert.Equal(t, failings["responses"].begun+failedResponse, got, "what says more of the failure")
}

// A stream whose answer was over before the failure is whole, as it was.
func TestFailureBehindTheEndMark(t *testing.T) {
	for _, s := range []string{C("a") + DONE + inBand503, C("a") + F("stop") + DONE + inBand503 + DONE} {
		complete(t, chatPath, s)
	}
}

// With the mark at hand the stream is over: its sender is not waited for.
func TestEndMarkBehindAFailureWithTheConnectionOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		got, _, err := stream(t, chatPath, idle200, part{data: C("a")}, part{data: inBand503}, part{wait: 100 * time.Millisecond, data: DONE}, part{hang: true})
		failedInBand(t, err, 503)
		assert.Equal(t, C("a")+inBand503, got)
		assert.LessOrEqual(t, time.Since(start), time.Second)
	})
}

// The formats as their vendors send them, over whole answers and tool calls.
func TestVendorStreamsThatEndWellBehindAFailure(t *testing.T) {
	calls := map[string][2]string{
		"chat": {"/v1/chat/completions", `{"model":"m","stream":true}`}, "responses": {"/v1/responses", `{"model":"m","stream":true}`},
		"completions": {"/v1/completions", `{"model":"m","stream":true}`}, "messages": {"/v1/messages", `{"model":"m","stream":true}`},
		"converse": {"/model/m/converse-stream", `{}`}, "invoke": {"/model/anthropic.m/invoke-with-response-stream", `{}`},
	}
	for name, v := range vendors {
		calls[name] = [2]string{v.path, v.body}
	}
	for name, c := range calls {
		for kind, good := range map[string]up.Step{"text": up.OK("a", "b"), "tool": up.ToolCall("w", `{"a":1}`)} {
			if kind == "tool" && (name == "completions" || name == "ollama generate") {
				continue
			}
			t.Run(name+"/"+kind, func(t *testing.T) {
				cut := good.CutAfterText(1).At(-1, up.ErrorEvent(503))
				failed := bare(t, c[0], c[1], cut)
				_, _, got, err := vendorCall(t, c[0], c[1], cut.At(-1, up.Ending()), sg.Policy{})
				var inc *sg.IncompleteError
				require.ErrorAs(t, err, &inc)
				require.Equal(t, sg.ReasonInBandError, inc.Reason)
				rest, found := strings.CutPrefix(got, strings.TrimRight(failed, "]\n"))
				require.True(t, found, "%q", got)
				for _, word := range []string{"DONE", "message_stop", "message-end", "response.completed", "messageStop", "metadata", `stop_reason":"`, `finish_reason":"`, "finishReason", `done":true`} {
					assert.NotContains(t, strings.TrimPrefix(rest, "}"), word)
				}
				assert.False(t, name == "gemini array" && strings.HasSuffix(strings.TrimSpace(got), "]"), "%q", got)
			})
		}
	}
}

// A reader of the array that decodes it as it comes stops at its bracket.
func TestJSONArrayWithoutItsBracketBehindAFailure(t *testing.T) {
	f := failings["gemini array"]
	r := stack(answer("application/json", io.NopCloser(strings.NewReader(f.begun+"]"))), sg.Policy{})
	resp, err := r.guard.RoundTrip(streamCall(t, f.path))
	require.NoError(t, err)
	dec := json.NewDecoder(resp.Body)
	_, err = dec.Token()
	require.NoError(t, err)
	n := 0
	for ; dec.More(); n++ {
		require.NoError(t, dec.Decode(&struct{}{}))
	}
	_, err = dec.Token()
	require.ErrorIs(t, err, sg.ErrIncomplete)
	assert.Equal(t, 2, n)
	require.NoError(t, resp.Body.Close())
	assert.False(t, slices.ContainsFunc(r.ends, func(e sg.End) bool { return e.Complete }))
}
