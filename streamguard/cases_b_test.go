package streamguard_test

import (
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
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

// stream sends a streaming call to url that is answered by parts.
func stream(t *testing.T, url string, p sg.Policy, parts ...part) (string, *rig, error) {
	t.Helper()
	r := stack(sse(parts...), p)
	resp, got, err := r.readAll(t, streamCall(t, url))
	if resp != nil {
		require.Equal(t, 200, resp.StatusCode)
	}
	return got, r, err
}

func whole(data ...string) []part {
	var ps []part
	for _, d := range data {
		ps = append(ps, part{data: d})
	}
	return ps
}

// complete requires that a stream passes byte for byte and ends well, however
// it is segmented.
func complete(t *testing.T, url, data string) {
	t.Helper()
	for name, base := range map[string]io.Reader{
		"whole": strings.NewReader(data), "bytes": iotest.OneByteReader(strings.NewReader(data)),
		"half": iotest.HalfReader(strings.NewReader(data)), "eof": iotest.DataErrReader(strings.NewReader(data)),
	} {
		for _, mode := range []string{"", sg.HoldFirstContent, sg.HoldComplete} {
			r := stack(answer("text/event-stream", io.NopCloser(base)), sg.Policy{HoldUntil: mode})
			if mode != "" { // base is spent
				r = stack(answer("text/event-stream", io.NopCloser(strings.NewReader(data))), sg.Policy{HoldUntil: mode})
			}
			_, got, err := r.readAll(t, streamCall(t, url))
			require.NoError(t, err, name)
			require.Equal(t, data, got, name)
			end := r.end(t)
			require.True(t, end.Complete, name)
			require.NoError(t, end.Err)
			require.EqualValues(t, len(data), end.Bytes)
			require.Equal(t, 1, r.firsts)
		}
	}
}

func incomplete(t *testing.T, r *rig, err error, cause error, events int) {
	t.Helper()
	require.ErrorIs(t, err, sg.ErrIncomplete)
	require.ErrorIs(t, err, cause)
	require.NotErrorIs(t, err, io.EOF)
	var inc *sg.IncompleteError
	require.ErrorAs(t, err, &inc)
	assert.Equal(t, events, inc.Events)
	assert.Equal(t, "up-eu", inc.Provider)
	end := r.end(t)
	assert.False(t, end.Complete)
	assert.False(t, end.Closed)
	require.ErrorIs(t, end.Err, cause)
}

func TestCaseB1_JustEnds(t *testing.T) {
	for name, chunks := range map[string]string{
		"null":  C("he") + C("llo"),
		"empty": strings.ReplaceAll(C("he")+C("llo"), "null", `""`),
	} {
		got, r, err := stream(t, chatPath, sg.Policy{}, part{data: chunks})
		aborted(t, got, chunks)
		incomplete(t, r, err, io.ErrUnexpectedEOF, 2)
		var inc *sg.IncompleteError
		require.ErrorAs(t, err, &inc)
		assert.Equal(t, sg.ReasonClosed, inc.Reason, name)
		assert.Equal(t, "chat completions", inc.Format)
		assert.False(t, inc.Timeout())
		assert.Contains(t, err.Error(), "provider up-eu: ")
	}
	t.Run("eof mode", func(t *testing.T) {
		got, r, err := stream(t, chatPath, sg.Policy{IncompleteRead: sg.IncompleteReadEOF}, part{data: C("he")})
		require.NoError(t, err)
		aborted(t, got, C("he"))
		require.ErrorIs(t, r.end(t).Err, sg.ErrIncomplete)
	})
	t.Run("messages", func(t *testing.T) {
		got, r, err := stream(t, messagesPath, sg.Policy{}, part{data: MS + BS + T("a")})
		require.True(t, strings.HasPrefix(got, MS+BS+T("a")+"event: error\ndata: "), got)
		incomplete(t, r, err, io.ErrUnexpectedEOF, 3)
	})
}

func TestCaseB2_EitherEndMark(t *testing.T) {
	for _, s := range []string{
		C("hi") + DONE, C("hi") + F("stop"), strings.Replace(C("hi"), "null", `"stop"`, 1),
		C("hi") + F("stop") + U + DONE,
	} {
		complete(t, chatPath, s)
	}
}

func TestCaseB3_CutInToolCall(t *testing.T) {
	tool := `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t1","function":{"name":"w","arguments":"{\"p\":\"a"}}]},"finish_reason":null}]}` + "\n\n"
	got, r, err := stream(t, chatPath, sg.Policy{}, whole(C("ok"), tool)...)
	aborted(t, got, C("ok")+tool)
	incomplete(t, r, err, io.ErrUnexpectedEOF, 2)
	for cut := 1; cut < len(tool)-2; cut++ { // within the line
		got, r, err := stream(t, chatPath, sg.Policy{}, part{data: C("ok") + tool[:cut], err: io.ErrUnexpectedEOF})
		if cut == len(tool)-3 {
			continue
		}
		aborted(t, got, C("ok"))
		incomplete(t, r, err, io.ErrUnexpectedEOF, 1)
	}
}

func TestCaseB4_Reset(t *testing.T) {
	reset := errors.New("connection reset by peer")
	got, r, err := stream(t, chatPath, sg.Policy{}, part{data: C("a"), err: reset})
	aborted(t, got, C("a"))
	incomplete(t, r, err, reset, 1)
	t.Run("before the first event", func(t *testing.T) {
		_, r, err := stream(t, chatPath, sg.Policy{}, part{data: ": hi\n\n", err: reset})
		require.ErrorIs(t, err, reset)
		require.NotErrorIs(t, err, sg.ErrIncomplete)
		assert.Empty(t, r.ends)
	})
}

func TestCaseB6_StaysOpenAfterTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		url, data string
		want      time.Duration
	}{
		"done":            {chatPath, C("a") + F("stop") + DONE, time.Second},
		"reason alone":    {chatPath, C("a") + F("stop"), 30 * time.Second},
		"message_stop":    {messagesPath, MS + T("a") + MD("end_turn") + "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", time.Second},
		"stop_reason":     {messagesPath, MS + T("a") + MD("end_turn"), 30 * time.Second},
		"response failed": {responsesPath, "data: {\"type\":\"response.created\"}\n\n" + failedResponse, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := script(part{data: c.data}, part{hang: true})
				r := stack(answer("text/event-stream", body), sg.Policy{IdleTimeout: 30 * time.Second})
				start := time.Now()
				_, got, err := r.readAll(t, streamCall(t, c.url))
				if c.url == responsesPath {
					failedInBand(t, err, 502)
				} else {
					require.NoError(t, err)
				}
				assert.Equal(t, c.data, got)
				assert.Equal(t, c.want, time.Since(start))
				assert.True(t, body.isClosed())
				assert.Equal(t, c.url != responsesPath, r.end(t).Complete)
			})
		})
	}
	t.Run("comments do not prolong it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ps := whole(C("a") + DONE)
			for range 100 {
				ps = append(ps, part{wait: 90 * time.Millisecond, data: ": x\n\n"})
			}
			start := time.Now()
			_, r, err := stream(t, chatPath, sg.Policy{}, ps...)
			require.NoError(t, err)
			assert.Equal(t, time.Second, time.Since(start))
			assert.True(t, r.end(t).Complete)
		})
	})
	t.Run("a slow reader loses nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := stack(sse(whole(C("a"), DONE, U)...), idle200)
			resp, err := r.guard.RoundTrip(streamCall(t, chatPath))
			require.NoError(t, err)
			defer resp.Body.Close()
			var got strings.Builder
			p := make([]byte, 2000)
			for err == nil {
				var n int
				n, err = resp.Body.Read(p)
				got.Write(p[:n])
				time.Sleep(time.Minute)
			}
			require.Equal(t, io.EOF, err)
			assert.Equal(t, C("a")+DONE+U, got.String())
		})
	})
}

const failedResponse = `data: {"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"x"}}}` + "\n\n"

func TestCaseB7_GoesSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := script(part{data: C("a") + `data: {"half`}, part{hang: true})
		r := stack(answer("text/event-stream", body), idle200)
		start := time.Now()
		_, got, err := r.readAll(t, streamCall(t, chatPath))
		assert.Equal(t, 200*time.Millisecond, time.Since(start))
		aborted(t, got, C("a"))
		var timeout *ending.TimeoutError
		require.ErrorAs(t, err, &timeout)
		assert.Equal(t, "idle_timeout", timeout.What)
		incomplete(t, r, err, timeout, 1)
		var inc *sg.IncompleteError
		require.ErrorAs(t, err, &inc)
		assert.Equal(t, sg.ReasonIdleTimeout, inc.Reason)
		assert.True(t, inc.Timeout())
		assert.True(t, body.isClosed())
	})
}

func TestCaseB8_Comments(t *testing.T) {
	pings := func(tail ...part) []part {
		ps := whole(C("a"))
		for range 40 {
			ps = append(ps, part{wait: 70 * time.Millisecond, data: ": ping\n\n"})
		}
		return append(ps, tail...)
	}
	synctest.Test(t, func(t *testing.T) { // by default they keep it alive
		got, r, err := stream(t, chatPath, idle200, pings(whole(C("b"), F("stop"), DONE)...)...)
		require.NoError(t, err)
		assert.Equal(t, C("a")+strings.Repeat(": ping\n\n", 40)+C("b")+F("stop")+DONE, got)
		assert.True(t, r.end(t).Complete)
	})
	synctest.Test(t, func(t *testing.T) { // event_timeout is not fooled
		p := sg.Policy{IdleTimeout: 200 * time.Millisecond, EventTimeout: 500 * time.Millisecond}
		start := time.Now()
		_, r, err := stream(t, chatPath, p, pings(part{hang: true})...)
		assert.Equal(t, 500*time.Millisecond, time.Since(start))
		var timeout *ending.TimeoutError
		require.ErrorAs(t, err, &timeout)
		assert.Equal(t, "event_timeout", timeout.What)
		incomplete(t, r, err, timeout, 1)
		var inc *sg.IncompleteError
		require.ErrorAs(t, r.end(t).Err, &inc)
		assert.Equal(t, sg.ReasonEventTimeout, inc.Reason)
	})
	synctest.Test(t, func(t *testing.T) { // nor while held back
		var ps []part
		for range 100 {
			ps = append(ps, part{wait: 50 * time.Millisecond, data: ": ping\n\n"})
		}
		_, r, err := stream(t, chatPath, sg.Policy{EventTimeout: 500 * time.Millisecond}, ps...)
		var timeout *ending.TimeoutError
		require.ErrorAs(t, err, &timeout)
		assert.Equal(t, "event_timeout", timeout.What)
		assert.Empty(t, r.ends)
	})
	synctest.Test(t, func(t *testing.T) { // a data event restarts it, a slow caller does not count
		var ps []part
		for range 10 {
			ps = append(ps, part{wait: 400 * time.Millisecond, data: C("x")})
		}
		r := stack(sse(append(ps, whole(DONE)...)...), sg.Policy{IdleTimeout: 450 * time.Millisecond, EventTimeout: 500 * time.Millisecond})
		resp, err := r.guard.RoundTrip(streamCall(t, chatPath))
		require.NoError(t, err)
		defer resp.Body.Close()
		p := make([]byte, 4000)
		for err == nil {
			_, err = resp.Body.Read(p)
			time.Sleep(time.Minute)
		}
		require.Equal(t, io.EOF, err)
	})
	t.Run("strip", func(t *testing.T) {
		for _, eol := range []string{"\n", "\r\n", "\r"} {
			comment := strings.ReplaceAll(": ping\n\n", "\n", eol)
			data := strings.ReplaceAll(C("a")+F("stop")+DONE, "\n", eol)
			in := comment + strings.ReplaceAll(data, eol+eol, eol+eol+comment+comment)
			for _, rd := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
				r := stack(answer("text/event-stream", io.NopCloser(rd)), sg.Policy{StripComments: true})
				_, got, err := r.readAll(t, streamCall(t, chatPath))
				require.NoError(t, err)
				assert.Equal(t, data, got)
			}
		}
	})
}

func TestCaseB11_LegalFraming(t *testing.T) {
	lf := C("那🦀") + F("stop") + DONE
	for _, s := range []string{
		strings.ReplaceAll(lf, "\n", "\r\n"), strings.ReplaceAll(lf, "\n", "\r"),
		strings.ReplaceAll(lf, "\n\n", "\n\r\n"), strings.ReplaceAll(lf, "data: ", "data:"),
		strings.ReplaceAll(lf, "data: ", "event: x\nid: 1\nretry: 5\ndata: "), "\xef\xbb\xbf" + lf,
		"\n\n" + lf, ": hi\n\n" + lf,
		"data: {\"choices\":\ndata: [{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n" + F("stop"),
	} {
		complete(t, chatPath, s)
	}
}

func TestCaseB12_LongLines(t *testing.T) {
	for _, n := range []int{64<<10 - 1, 64 << 10, 64<<10 + 1, 1<<20 - 1, 1<<20 + 1, 4 << 20} {
		big := `data: {"type":"x","b64":"` + strings.Repeat("A", n) + `"}` + "\n\n"
		end := `data: {"pad":"` + strings.Repeat("A", 2<<20) + `","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
		for _, data := range []string{big + C("a") + F("stop") + DONE, C("a") + big + F("stop"), C("a") + big + end} {
			for _, size := range []int{512, 32 << 10} {
				r := stack(sse(part{data: data}), sg.Policy{})
				resp, err := r.guard.RoundTrip(streamCall(t, chatPath))
				require.NoError(t, err)
				h := sha256.New()
				_, err = io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{resp.Body}, make([]byte, size))
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				want := sha256.Sum256([]byte(data))
				require.Equal(t, want[:], h.Sum(nil))
				require.True(t, r.end(t).Complete)
			}
		}
	}
	t.Run("cut", func(t *testing.T) {
		big := C("a") + `data: {"type":"x","b64":"` + strings.Repeat("A", 1<<20)
		got, r, err := stream(t, chatPath, sg.Policy{}, part{data: big})
		aborted(t, got, big+"\n\n")
		incomplete(t, r, err, io.ErrUnexpectedEOF, 1)
	})
}

func TestCaseB14_NoBlankLine(t *testing.T) {
	for _, s := range []string{
		C("a") + "data: [DONE]\n", C("a") + "data: [DONE]", C("a") + strings.TrimRight(F("stop"), "\n"),
		C("a") + F("stop") + "data: [DONE]\r",
	} {
		complete(t, chatPath, s)
	}
	got, r, err := stream(t, chatPath, sg.Policy{}, part{data: C("a") + F("stop")[:30]})
	aborted(t, got, C("a"))
	incomplete(t, r, err, io.ErrUnexpectedEOF, 1)
	t.Run("whole but no end", func(t *testing.T) {
		for tail, sep := range map[string]string{"": "\n\n", "\n": "\n"} {
			data := C("a") + strings.TrimRight(C("b"), "\n") + tail
			got, r, err := stream(t, chatPath, sg.Policy{}, part{data: data})
			aborted(t, got, data+sep)
			incomplete(t, r, err, io.ErrUnexpectedEOF, 2)
		}
	})
}

func TestCaseB17_Responses(t *testing.T) {
	head := "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"status\":\"in_progress\"}}\n\n" +
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"delta\":\"x\"}\n\n"
	complete(t, responsesPath, head+"event: response.incomplete\n"+
		`data: {"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`+"\n\n")
	got, r, err := stream(t, responsesPath, sg.Policy{}, part{data: head + failedResponse})
	failedInBand(t, err, 502)
	assert.Equal(t, head+failedResponse, got)
	require.NotNil(t, r.end(t).Failure)
	assert.False(t, r.end(t).Complete)
	for _, tail := range []string{"", DONE} {
		got, r, err := stream(t, responsesPath, sg.Policy{}, part{data: head + tail})
		require.True(t, strings.HasPrefix(got, head+tail+"event: error\ndata: "), got)
		assert.Contains(t, got, `"sequence_number":2`)
		incomplete(t, r, err, io.ErrUnexpectedEOF, 2)
	}
}

func TestCaseB18_InBandError(t *testing.T) {
	for url, s := range map[string]string{
		messagesPath: MS + BS + T("a") + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n",
		chatPath:     C("a") + `data: {"error":{"code":502,"message":"x"},"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}` + "\n\n",
	} {
		got, r, err := stream(t, url, sg.Policy{}, part{data: s + DONE})
		assert.Equal(t, s, got)
		end := r.end(t)
		require.NotNil(t, end.Failure)
		assert.False(t, end.Complete)
		assert.GreaterOrEqual(t, end.Failure.Status, 502)
		failedInBand(t, err, end.Failure.Status)
		failedInBand(t, end.Err, end.Failure.Status)
	}
}

func TestCaseB20_StopReasonWithoutStop(t *testing.T) {
	tool := MS + "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n" +
		"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
	complete(t, messagesPath, tool+MD("tool_use"))
	_, r, err := stream(t, messagesPath, sg.Policy{}, part{data: tool})
	incomplete(t, r, err, io.ErrUnexpectedEOF, 4)
	got, r, err := stream(t, messagesPath, sg.Policy{}, part{data: tool + MD("tool_use"), err: io.ErrUnexpectedEOF})
	require.NoError(t, err)
	assert.Equal(t, tool+MD("tool_use"), got)
	assert.True(t, r.end(t).Complete)
}

func TestCaseD9_CallerLeaves(t *testing.T) {
	for name, c := range map[string]struct {
		data     string
		complete bool
	}{"after a chunk": {C("a"), false}, "after done": {C("a") + F("stop") + DONE, true}} {
		t.Run(name, func(t *testing.T) {
			body := script(part{data: c.data}, part{hang: true})
			r := stack(answer("text/event-stream", body), sg.DefaultPolicy())
			resp, err := r.guard.RoundTrip(streamCall(t, chatPath))
			require.NoError(t, err)
			p := make([]byte, 4096)
			for n := 0; n < len(c.data); {
				k, err := resp.Body.Read(p)
				require.NoError(t, err)
				n += k
			}
			require.NoError(t, resp.Body.Close())
			require.NoError(t, resp.Body.Close())
			_, err = resp.Body.Read(p)
			require.ErrorIs(t, err, http.ErrBodyReadAfterClose)
			end := r.end(t)
			assert.Equal(t, c.complete, end.Complete)
			assert.Equal(t, !c.complete, end.Closed)
			require.NoError(t, end.Err)
			assert.True(t, body.isClosed())
		})
	}
}
