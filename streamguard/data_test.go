package streamguard_test

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
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

	"github.com/surefoot-go/surefoot/resilience/ending"
	sg "github.com/surefoot-go/surefoot/streamguard"
)

const (
	completionsPath  = "http://up/completions"
	geminiPath       = "http://up/v1beta/models/m:streamGenerateContent"
	ollamaPath       = "http://up/api/chat"
	coherePath       = "http://up/v2/chat"
	interactionsPath = "http://up/v1beta/interactions"
	invokePath       = "http://up/model/anthropic.x/invoke-with-response-stream"
	conversePath     = "http://up/model/x/converse-stream"
	dashScopePath    = "http://up/api/v1/services/aigc/text-generation/generation"
)

func named(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }

func data(data string) string { return "data: " + data + "\n\n" }

// begun are, by path, an event with a piece of the answer, and one that ends a
// stream with a failure.
var begun = map[string]struct{ content, failure string }{
	chatPath:         {C("a"), inBand503},
	completionsPath:  {data(`{"choices":[{"index":0,"text":"a"}]}`), inBand503},
	responsesPath:    {named("response.output_text.delta", `{"type":"response.output_text.delta","delta":"a"}`), named("error", `{"type":"error","code":"server_is_overloaded"}`)},
	messagesPath:     {T("a"), named("error", `{"type":"error","error":{"type":"overloaded_error"}}`)},
	geminiPath:       {data(`{"candidates":[{"content":{"parts":[{"text":"a"}]},"index":0}]}`), data(`{"error":{"code":503,"status":"UNAVAILABLE"}}`)},
	coherePath:       {named("content-delta", `{"type":"content-delta","delta":{"message":{"content":{"text":"a"}}}}`), named("message-end", `{"type":"message-end","delta":{"finish_reason":"TIMEOUT"}}`)},
	interactionsPath: {named("content.delta", `{"event_type":"content.delta","delta":{"type":"text","text":"a"}}`), named("error", `{"event_type":"error","error":{"code":"unavailable"}}`)},
	dashScopePath:    {named("result", `{"output":{"text":"a","finish_reason":"null"}}`), "event:error\n:HTTP_STATUS/503\ndata:{\"code\":\"Odd\",\"message\":\"x\"}\n\n"},
	ollamaPath:       {`{"message":{"content":"a"},"done":false}` + "\n", `{"error":"x"}` + "\n"},
}

// idleEvents are none of any format: they are relayed and do nothing else.
var idleEvents = map[string]string{
	"ping": named("ping", `{"type":"ping"}`), "ping without a type": named("ping", `{}`),
	"keepalive": named("keepalive", `{"type":"keepalive"}`), "keep_alive": data(`{"type":"response.keep_alive"}`),
	"queue notice": data(`{"status":"queued","position":3}`), "message": data(`{"message":"waiting"}`),
	"text": data("hello"), "empty data": "data:\n\n", "comment": ": x\n\n",
}

// What is none of the format's events restarts no timer, in no format.
func TestOnlyDataRestartsTheEventTimeout(t *testing.T) {
	for path, b := range begun {
		for name, ev := range idleEvents {
			if path == ollamaPath {
				if ev = strings.TrimPrefix(strings.TrimSuffix(ev, "\n"), "data: "); strings.Contains(ev, ":\n") || strings.Contains(ev, "event:") || ev[0] == ':' {
					continue
				}
			}
			synctest.Test(t, func(t *testing.T) {
				ps := whole(b.content)
				for range 40 {
					ps = append(ps, part{wait: 70 * time.Millisecond, data: ev})
				}
				start := time.Now()
				got, r, err := stream(t, path, sg.Policy{EventTimeout: 300 * time.Millisecond}, ps...)
				var inc *sg.IncompleteError
				require.ErrorAs(t, err, &inc, "%s: %s", path, name)
				assert.Equal(t, sg.ReasonEventTimeout, inc.Reason)
				assert.Equal(t, http.StatusGatewayTimeout, inc.Status)
				assert.Equal(t, 300*time.Millisecond, time.Since(start), "%s: %s", path, name)
				assert.True(t, strings.HasPrefix(got, b.content+ev+ev), "relayed: %q", got)
				assert.Equal(t, 1, r.end(t).Events)
			})
		}
	}
	t.Run("usage does", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ps := whole(C("a"))
			for range 5 {
				ps = append(ps, part{wait: 250 * time.Millisecond, data: U})
			}
			_, _, err := stream(t, chatPath, sg.Policy{EventTimeout: 300 * time.Millisecond}, append(ps, whole(F("stop"), DONE)...)...)
			require.NoError(t, err)
		})
	})
	t.Run("a long comment does not", func(t *testing.T) {
		for _, policy := range []sg.Policy{{}, {StripComments: true}, {HoldUntil: sg.HoldComplete}} {
			for _, first := range []string{C("a"), ""} {
				synctest.Test(t, func(t *testing.T) {
					policy.EventTimeout = 300 * time.Millisecond
					ps := whole(first, ": "+strings.Repeat("c", 70<<10))
					for range 40 {
						ps = append(ps, part{wait: 70 * time.Millisecond, data: strings.Repeat("c", 1000)})
					}
					start := time.Now()
					r := stack(sse(ps...), policy)
					_, _, err := r.readAll(t, streamCall(t, chatPath))
					var timeout *ending.TimeoutError
					require.ErrorAs(t, err, &timeout)
					assert.Equal(t, "event_timeout", timeout.What)
					assert.Equal(t, 300*time.Millisecond, time.Since(start))
				})
			}
		}
	})
}

// Nor do they commit a stream or prove an answer.
func TestOnlyDataCommits(t *testing.T) {
	for path, b := range begun {
		for name, ev := range idleEvents {
			if path == ollamaPath {
				continue // the first byte shows how its events are told apart
			}
			for _, end := range []string{"", DONE} {
				r := stack(sse(part{data: ev + ev + end}), sg.Policy{})
				resp, got, err := r.readAll(t, streamCall(t, path))
				require.NoError(t, err, "%s: %s", path, name)
				assert.Equal(t, 502, resp.StatusCode, "%s: %s", path, name)
				assert.Contains(t, got, "provider returned an empty stream")
			}
			r := stack(sse(part{data: ev + ev + b.failure}), sg.Policy{})
			resp, _, err := r.readAll(t, streamCall(t, path))
			require.NoError(t, err)
			assert.GreaterOrEqual(t, resp.StatusCode, 503, "%s: %s", path, name)
			assert.Zero(t, r.firsts)
			synctest.Test(t, func(t *testing.T) {
				var ps []part
				for range 40 {
					ps = append(ps, part{wait: 70 * time.Millisecond, data: ev})
				}
				start := time.Now()
				_, _, err := stream(t, path, sg.Policy{FirstEventTimeout: 300 * time.Millisecond}, ps...)
				var timeout *ending.TimeoutError
				require.ErrorAs(t, err, &timeout, "%s: %s", path, name)
				assert.Equal(t, 300*time.Millisecond, time.Since(start))
			})
		}
	}
	r := stack(sse(part{data: strings.Repeat(idleEvents["ping"], 10_000) + C("a") + DONE}), sg.Policy{})
	_, got, err := r.readAll(t, streamCall(t, chatPath))
	require.NoError(t, err)
	assert.LessOrEqual(t, len(got), 64<<10+len(C("a")+DONE), "what is held back is bounded")
	assert.True(t, strings.HasSuffix(got, C("a")+DONE))
}

// A failure that the stream reports itself is relayed, and Read fails behind it.
func TestFailureToldInBand(t *testing.T) {
	for path, b := range begun {
		want := map[string]int{coherePath: 504, ollamaPath: 502}[path]
		if want == 0 {
			want = 503
		}
		for _, parts := range [][]part{whole(b.content + b.failure), whole(b.content, b.failure), append(whole(b.content, b.failure), part{hang: true})} {
			synctest.Test(t, func(t *testing.T) {
				got, r, err := stream(t, path, idle200, slices.Clone(parts)...)
				failedInBand(t, err, want, path)
				assert.Equal(t, b.content+b.failure, got, "nothing is appended")
				failedInBand(t, r.end(t).Err, want, path)
				assert.Equal(t, want, r.end(t).Failure.Status)
				assert.NotContains(t, err.Error(), "Odd")
			})
			synctest.Test(t, func(t *testing.T) {
				got, r, err := stream(t, path, sg.Policy{IdleTimeout: time.Second, IncompleteRead: sg.IncompleteReadEOF}, slices.Clone(parts)...)
				require.NoError(t, err)
				assert.Equal(t, b.content+b.failure, got)
				failedInBand(t, r.end(t).Err, want, path)
			})
		}
		t.Run("closed behind it", func(t *testing.T) { // as SDKs do
			r := stack(answer("text/event-stream", pieces(b.content, b.failure)), sg.Policy{})
			resp, err := r.guard.RoundTrip(streamCall(t, path))
			require.NoError(t, err)
			_, err = io.ReadFull(resp.Body, make([]byte, len(b.content+b.failure)))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			failedInBand(t, r.end(t).Err, want, path)
			assert.False(t, r.end(t).Closed)
		})
	}
	finish := C("a") + F("network_error")
	got, _, err := stream(t, chatPath, sg.Policy{}, whole(finish, DONE)...)
	failedInBand(t, err, 502)
	assert.Equal(t, finish, got)
}

const (
	vagueFailure = `event: response.failed` + "\n" + `data: {"type":"response.failed","response":{"status":"failed","error":null}}` + "\n\n"
	rateLimited  = `event: error` + "\n" + `data: {"type":"error","error":{"type":"too_many_requests","code":"rate_limit_exceeded","message":"slow"}}` + "\n\n"
)

// A failure told in two events has the status of both, however they came.
func TestFailureInTwoEvents(t *testing.T) {
	for name, c := range map[string]struct {
		parts []part
		want  int
		after time.Duration
	}{
		"one segment":            {whole(vagueFailure + rateLimited), 429, 0},
		"two segments":           {whole(vagueFailure, rateLimited), 429, 0},
		"a moment later":         {append(whole(vagueFailure), part{wait: 100 * time.Millisecond, data: rateLimited}, part{hang: true}), 429, 100 * time.Millisecond},
		"a ping between":         {whole(vagueFailure+": x\n\n"+idleEvents["ping"], rateLimited), 429, 0},
		"no blank line behind":   {whole(vagueFailure + strings.TrimSpace(rateLimited)), 429, 0},
		"a sentinel":             {append(whole(vagueFailure, DONE), part{hang: true}), 502, 0},
		"nothing more, the end":  {whole(vagueFailure), 502, 0},
		"nothing more, no end":   {append(whole(vagueFailure), part{hang: true}), 502, 250 * time.Millisecond},
		"pings alone":            {append(whole(vagueFailure), part{wait: 200 * time.Millisecond, data: ": x\n\n"}, part{wait: 200 * time.Millisecond, data: rateLimited}), 502, 250 * time.Millisecond},
		"far too late":           {append(whole(vagueFailure), part{wait: time.Second, data: rateLimited}), 502, 250 * time.Millisecond},
		"a cut connection":       {[]part{{data: vagueFailure, err: errReset}}, 502, 0},
		"more than can be held":  {whole(vagueFailure + ": " + strings.Repeat("c", 100<<10) + "\n\n" + rateLimited), 429, 0},
		"with the first timeout": {append(whole(vagueFailure), part{hang: true}), 502, 250 * time.Millisecond},
	} {
		for _, mode := range []string{"", sg.HoldFirstContent, sg.HoldComplete} {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				r := stack(sse(slices.Clone(c.parts)...), sg.Policy{HoldUntil: mode, FirstEventTimeout: 200 * time.Millisecond})
				resp, got, err := r.readAll(t, streamCall(t, responsesPath))
				require.NoError(t, err, name)
				assert.Equal(t, c.want, resp.StatusCode, name)
				assert.Equal(t, c.after, time.Since(start), name)
				if c.want == 429 {
					assert.Contains(t, got, "rate_limit_exceeded", name)
				}
			})
		}
	}
	t.Run("after content", func(t *testing.T) {
		b := begun[responsesPath].content
		got, r, err := stream(t, responsesPath, sg.Policy{}, whole(b+vagueFailure, rateLimited)...)
		failedInBand(t, err, 429)
		assert.Equal(t, b+vagueFailure+rateLimited, got)
		assert.Equal(t, 429, r.end(t).Failure.Status)
	})
}

func frames(events ...[2]string) string {
	var b strings.Builder
	for _, e := range events {
		b.Write(frame(e[0], e[1]))
	}
	return b.String()
}

// frame is an event in a binary frame of Bedrock.
func frame(eventType, payload string) []byte {
	return headed([][2]string{{":event-type", eventType}, {":message-type", "event"}}, payload)
}

func headed(headers [][2]string, payload string) []byte {
	var head []byte
	for _, h := range headers {
		head = append(append(head, byte(len(h[0]))), h[0]...)
		head = append(binary.BigEndian.AppendUint16(append(head, 7), uint16(len(h[1]))), h[1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(head)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(head)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, head...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func invoked(event string) [2]string {
	return [2]string{"chunk", `{"bytes":"` + base64.StdEncoding.EncodeToString([]byte(event)) + `"}`}
}

// Reports of users: what comes first is an error, or nothing at all.
func TestReportedStarts(t *testing.T) {
	overloaded := named("error", `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`)
	for name, c := range map[string]struct {
		path, mode, body string
		want             int
	}{
		"an empty wallet as the first frame":   {chatPath, "", named("error", `{"type":"error","error":{"type":"proxy_error","code":40201}}`), 502},
		"an error as plain text":               {chatPath, "", data("error: the engine died") + DONE, 502},
		"200 and no bytes":                     {messagesPath, "", "", 502},
		"a role, then an error":                {chatPath, sg.HoldFirstContent, role + data(`{"choices":[],"error":{"code":502}}`) + DONE, 502},
		"heartbeats before an error":           {responsesPath, "", strings.Repeat(idleEvents["keep_alive"], 2) + named("error", `{"type":"error","code":"server_is_overloaded"}`), 503},
		"pings without a type before an error": {messagesPath, "", idleEvents["ping without a type"] + overloaded, 503},
		"overload behind message_start":        {messagesPath, sg.HoldFirstContent, MS + idleEvents["ping"] + overloaded, 503},
		"overload behind an empty delta":       {messagesPath, sg.HoldFirstContent, MS + BS + T("") + overloaded, 503},
		"overload as the first chunk":          {invokePath, "", frames(invoked(`{"type":"error","error":{"type":"overloaded_error","message":"x"}}`)), 503},
		"damaged transcripts":                  {messagesPath, sg.HoldFirstContent, MS + named("error", `{"type":"error","error":{"type":"invalid_request_error","message":"x"}}`), 400},
		"a flagged prompt":                     {responsesPath, sg.HoldFirstContent, data(`{"type":"response.created"}`) + data(`{"type":"response.failed","response":{"error":{"code":"invalid_prompt"}}}`), 400},
		"half a tool call":                     {conversePath, sg.HoldComplete, frames([2]string{"messageStart", `{"role":"assistant"}`}, [2]string{"messageStop", `{"stopReason":"malformed_tool_use"}`}), 502},
	} {
		label := "text/event-stream"
		if strings.HasPrefix(c.path, "http://up/model/") {
			label = "application/vnd.amazon.eventstream"
		}
		r := stack(answer(label, pieces(c.body)), sg.Policy{HoldUntil: c.mode})
		resp, _, err := r.readAll(t, streamCall(t, c.path))
		require.NoError(t, err, name)
		assert.Equal(t, c.want, resp.StatusCode, name)
	}
}

// Reports of users: streams that are whole, byte for byte.
func TestReportedWholes(t *testing.T) {
	created := data(`{"type":"response.created","response":{"status":"in_progress"}}`) + begun[responsesPath].content
	for name, c := range map[string][2]string{
		"response.done":            {responsesPath, created + data(`{"type":"response.done","response":{"status":"completed"}}`)},
		"response.done and [DONE]": {responsesPath, created + data(`{"type":"response.done","response":{"status":"completed"}}`) + DONE},
		"done_reason without done": {ollamaPath, `{"message":{"content":"a"}}` + "\n" + `{"message":{"content":""},"done_reason":"stop"}` + "\n"},
		"pings without a type":     {messagesPath, idleEvents["ping without a type"] + MS + T("a") + idleEvents["ping without a type"] + MD("end_turn")},
		"empty data lines":         {chatPath, "data:\n\n" + C("a") + "data:\n\n" + F("stop") + "data:\n\n" + DONE},
		"ids, comments glued on":   {chatPath, "id: 1\n" + C("a") + ": ping\nid: 2\n" + F("stop") + ": ping\n" + DONE},
		"content as parts":         {chatPath, data(`{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"a"}]}}]}`) + F("stop")},
		"llama.cpp's own":          {completionsPath, data(`{"content":"he","stop":false}`) + data(`{"content":"","stop":true}`)},
		"of no known format":       {chatPath, data(`{"delta_text":"he"}`) + data(`{"delta_text":"llo"}`)},
		"a refusal":                {messagesPath, MS + MD("refusal")},
	} {
		for _, mode := range []string{"", sg.HoldFirstContent, sg.HoldComplete} {
			for _, rd := range []io.Reader{strings.NewReader(c[1]), iotest.OneByteReader(strings.NewReader(c[1]))} {
				r := stack(answer("text/event-stream", io.NopCloser(rd)), sg.Policy{HoldUntil: mode})
				_, got, err := r.readAll(t, streamCall(t, c[0]))
				require.NoError(t, err, name)
				assert.Equal(t, c[1], got, name)
				assert.True(t, r.end(t).Complete, name)
			}
		}
	}
}

// An error that is glued to half an event ends the stream as a broken one.
func TestErrorGluedToHalfAnEvent(t *testing.T) {
	glued := `data: {"choices":[{"index":0,"del` + "\n" + inBand503
	got, _, err := stream(t, chatPath, sg.Policy{}, part{data: C("a") + glued})
	aborted(t, got, C("a"))
	require.ErrorIs(t, err, sg.ErrIncomplete)
}

// A lenient target ends with its body, but half an event is not dropped in
// silence.
func TestLenientAndHalfAnEvent(t *testing.T) {
	run := func(body string) (string, error) {
		r := stack(sse(part{data: body}), sg.Policy{})
		r.guard.Lenient = func(*http.Request) bool { return true }
		_, got, err := r.readAll(t, streamCall(t, chatPath))
		return got, err
	}
	for _, tail := range []string{C("b")[:30], "event: x\nda", "data: {"} {
		got, err := run(C("a") + tail)
		require.ErrorIs(t, err, sg.ErrIncomplete, tail)
		aborted(t, got, C("a"))
	}
	for _, tail := range []string{"", ": comm", "\n"} {
		_, err := run(C("a") + tail)
		require.NoError(t, err, "%q", tail)
	}
	tokens := strings.Replace(C("a"), `"index":0`, `"index":1`, 1) + strings.Replace(C("b"), `"index":0`, `"index":2`, 1) +
		strings.Replace(F("stop"), `"index":0`, `"index":3`, 1)
	got, err := run(tokens)
	require.NoError(t, err, "an index that counts tokens")
	assert.Equal(t, tokens, got)
	_, _, err = stream(t, chatPath, sg.Policy{}, part{data: tokens})
	require.ErrorIs(t, err, sg.ErrIncomplete)
}
