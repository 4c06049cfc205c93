package resilience_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
	ut "github.com/surefoot-go/surefoot/resilience/upstreamtest"
	"github.com/surefoot-go/surefoot/streamguard"
)

// ev is a chat event with a piece of text.
func ev(text string) string {
	return `data: {"choices":[{"index":0,"delta":{"content":"` + text + `"},"finish_reason":null}]}` + "\n\n"
}

// cut checks a stream that broke off: what was delivered, the error event
// after it, and nothing that looks like an end.
func cut(delivered string, causes ...error) func(*testing.T, *rig, answer) {
	return func(t *testing.T, r *rig, a answer) {
		require.True(t, strings.HasPrefix(a.body, delivered), "%.500s", a.body)
		rest := a.body[len(delivered):]
		assert.Contains(t, rest, "stream_incomplete")
		assert.Equal(t, 1, strings.Count(rest, "data:"), "one event is appended: %s", rest)
		assert.NotContains(t, rest, "[DONE]")
		assert.NotContains(t, rest, "finish_reason")
		assert.NotErrorIs(t, a.read, io.EOF)
		for _, cause := range causes {
			assert.ErrorIs(t, a.read, cause)
		}
		require.Len(t, r.calls.list(), 2, "the first one primed the breaker")
		assert.Equal(t, resilience.OutcomeStreamError, r.calls.last(t).Outcome)
	}
}

// brokenRow is the row of a stream that breaks off after what was delivered. It
// is allowed to be retried, and must not be.
func brokenRow(name string, step ut.Step, delivered string, causes ...error) row {
	return row{
		name: name, change: heldBack, ask: streamBody, steps: []ut.Step{step}, seen: 200,
		read: streamguard.ErrIncomplete, reqs: 1, word: wordFail, check: cut(delivered, causes...),
	}
}

func wholeRow(name string, step ut.Step, body string) row {
	return row{name: name, change: heldBack, ask: streamBody, steps: []ut.Step{step}, seen: 200, body: body, reqs: 1, word: wordOK}
}

func TestCaseB1_JustEnds(t *testing.T) {
	t.Parallel()
	empty := func(s string) string {
		return strings.Replace(s, `"finish_reason":null`, `"finish_reason":""`, 1)
	}
	he, llo := ev("he"), ev("llo")
	run(t, []row{
		brokenRow("END", ut.RawStream(he, llo), he+llo, io.ErrUnexpectedEOF),
		brokenRow("close-delimited", ut.RawStream(he, llo).CloseDelimited(), he+llo, io.ErrUnexpectedEOF),
		brokenRow("FIN", ut.RawStream(he, llo).FIN(), he+llo, io.ErrUnexpectedEOF),
		brokenRow("empty reasons", ut.RawStream(empty(he), empty(llo)), empty(he)+empty(llo), io.ErrUnexpectedEOF),
		brokenRow("broken chunk", ut.RawStream(he, llo).BadChunk(), he+llo),
	})
}

func TestCaseB2_EitherEndMark(t *testing.T) {
	t.Parallel()
	last := `data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}` + "\n\n"
	run(t, []row{
		wholeRow("DONE alone", ut.RawStream(ev("hi"), evDone), ev("hi")+evDone),
		wholeRow("reason alone", ut.RawStream(ev("hi"), evStop), ev("hi")+evStop),
		wholeRow("content and reason in one", ut.RawStream(last), last),
		wholeRow("reason alone, close-delimited", ut.RawStream(ev("hi"), evStop).CloseDelimited(), ev("hi")+evStop),
	})
}

func TestCaseB3_CutInsideToolArguments(t *testing.T) {
	t.Parallel()
	tool := `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t1","function":{"name":"w","arguments":"{\"p\":\"a"}}]},"finish_reason":null}]}` + "\n\n"
	run(t, []row{
		brokenRow("END", ut.RawStream(ev("ok"), tool), ev("ok")+tool, io.ErrUnexpectedEOF),
		brokenRow("FIN inside the line", ut.RawStream(ev("ok"), tool).CutAfter(1).InsideLine().FIN(), ev("ok"), io.ErrUnexpectedEOF),
		brokenRow("END inside the line", ut.RawStream(ev("ok"), tool).CutAfter(1).InsideLine(), ev("ok"), io.ErrUnexpectedEOF),
	})
}

func TestCaseB4_ResetMidStream(t *testing.T) {
	t.Parallel()
	run(t, []row{brokenRow("HTTP/1.1", ut.RawStream(ev("a")).Reset(), ev("a"), syscall.ECONNRESET)})
	t.Run("HTTP/2", func(t *testing.T) {
		t.Parallel()
		r := newRigWith(t, heldBack, func(b *resilience.Builder) {
			base := b.Base.(*http.Transport)
			base.Protocols = new(http.Protocols)
			base.Protocols.SetUnencryptedHTTP2(true)
		})
		r.prime(t)
		r.up.Default(ut.RawStream(ev("a")).Reset())
		a := r.post(t, chatPath, streamBody)
		assert.Equal(t, "HTTP/2.0", r.up.Last().Proto)
		assert.Equal(t, 200, a.status)
		cut(ev("a"), streamguard.ErrIncomplete)(t, r, a)
		var inc *streamguard.IncompleteError
		require.ErrorAs(t, a.read, &inc)
		assert.Equal(t, streamguard.ReasonTransport, inc.Reason)
		assert.ErrorContains(t, inc.Err, "INTERNAL_ERROR", "the transport's own error is kept")
		assert.Equal(t, 1, r.up.Count()-1)
		assert.Equal(t, wordFail, r.word(t))
	})
}

func TestCaseB6_OpenAfterTheEnd(t *testing.T) {
	t.Parallel()
	brief := func(p *resilience.Policy) { p.Stream.IdleTimeout = 200 * time.Millisecond }
	closed := func(t *testing.T, r *rig, _ answer) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		require.NoError(t, r.up.Wait(ctx, func() bool { return r.up.Aborted() == 1 }), "the connection is closed")
	}
	done, reason := ut.RawStream(ev("a"), evStop, evDone).Stall(), ut.RawStream(ev("a"), evStop).Stall()
	run(t, []row{
		{name: "DONE", change: brief, ask: streamBody, steps: []ut.Step{done}, seen: 200, body: ev("a") + evStop + evDone, reqs: 1, word: wordOK, check: closed},
		{name: "DONE, long idle timeout", ask: streamBody, steps: []ut.Step{done}, seen: 200, body: ev("a") + evStop + evDone, reqs: 1, word: wordOK, check: closed},
		{name: "reason alone", change: brief, ask: streamBody, steps: []ut.Step{reason}, seen: 200, body: ev("a") + evStop, reqs: 1, word: wordOK, check: closed},
	})
}

func TestCaseB7_SilentMidAnswer(t *testing.T) {
	t.Parallel()
	silent := brokenRow("silent", ut.RawStream(ev("a")).Stall(), ev("a"))
	silent.change = func(p *resilience.Policy) { heldBack(p); p.Stream.IdleTimeout = 200 * time.Millisecond }
	silent.check = func(t *testing.T, r *rig, a answer) {
		cut(ev("a"))(t, r, a)
		var ne net.Error
		require.ErrorAs(t, a.read, &ne)
		assert.True(t, ne.Timeout())
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		require.NoError(t, r.up.Wait(ctx, func() bool { return r.up.Aborted() == 1 }), "the server sees its connection closed")
		assert.GreaterOrEqual(t, r.calls.last(t).Duration, 200*time.Millisecond)
	}
	run(t, []row{silent})
}

// inMemory is a stack over a provider of a synctest bubble, where time is
// exact.
func inMemory(t *testing.T, change func(*resilience.Policy)) (*ut.Upstream, *resilience.Transport, *calls) {
	t.Helper()
	up := ut.NewInMemory("")
	p := quick()
	if change != nil {
		change(&p)
	}
	tr, rec := build(t, up.RoundTripper(), p)
	return up, tr, rec
}

func ask(t *testing.T, up *ut.Upstream, path, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, up.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", jsonType)
	return req
}

func TestCaseB8_CommentsKeepAlive(t *testing.T) {
	t.Parallel()
	pings := strings.Repeat(": ping\n\n", 40)
	for _, v := range []struct {
		name       string
		eventLimit time.Duration
		step       ut.Step
		body       string
		whole      bool
		took       time.Duration
	}{
		{"nothing more", 0, ut.RawStream(ev("a")).At(1, ut.Pings(50*time.Millisecond, 40)).Stall(), ev("a") + pings, false, 2200 * time.Millisecond},
		{"goes on", 0, ut.RawStream(ev("a"), ev("b"), evStop, evDone).At(1, ut.Pings(50*time.Millisecond, 40)), ev("a") + pings + ev("b") + evStop + evDone, true, 2 * time.Second},
		{"nothing more, event limit", 500 * time.Millisecond, ut.RawStream(ev("a")).At(1, ut.Pings(50*time.Millisecond, 40)).Stall(), ev("a") + pings[:9*len(": ping\n\n")], false, 500 * time.Millisecond},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				up, tr, rec := inMemory(t, func(p *resilience.Policy) { p.Stream.EventTimeout = v.eventLimit })
				defer up.Close()
				up.Default(v.step)
				start := time.Now()
				status, body, err := do(t, tr, ask(t, up, chatPath, streamBody))
				assert.Equal(t, 200, status)
				assert.InDelta(t, v.took, time.Since(start), float64(51*time.Millisecond))
				assert.Equal(t, 1, up.Count())
				if v.whole {
					require.NoError(t, err)
					assert.Equal(t, v.body, body)
					assert.Equal(t, resilience.OutcomeSuccess, rec.last(t).Outcome)
					assert.Equal(t, 0, tr.Breakers()[0].Failures)
					return
				}
				assert.True(t, strings.HasPrefix(body, v.body), "%q", body)
				var ne net.Error
				require.ErrorAs(t, err, &ne)
				assert.True(t, ne.Timeout())
				assert.Equal(t, 1, tr.Breakers()[0].Failures)
			})
		})
	}
}

func TestCaseB10_CallerSetAcceptEncoding(t *testing.T) {
	t.Parallel()
	request := func(t *testing.T, r *rig) *http.Request {
		req := r.request(t, t.Context(), http.MethodPost, chatPath, streamBody)
		req.Header.Set("Accept-Encoding", "gzip")
		return req
	}
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(p *resilience.Policy) { p.Stream.IdleTimeout = time.Minute })
		r.prime(t)
		gate := make(chan struct{})
		r.up.Default(ut.RawStream(ev("a"), evStop+evDone).Gzip().At(1, ut.Gate(gate)))
		resp, err := r.tr.RoundTrip(request(t, r))
		require.NoError(t, err)
		defer resp.Body.Close()
		first := make([]byte, len(ev("a")))
		_, err = io.ReadFull(resp.Body, first)
		require.NoError(t, err)
		assert.Equal(t, ev("a"), string(first), "the first event comes with its flush")
		time.Sleep(300 * time.Millisecond)
		close(gate)
		rest, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, evStop+evDone, string(rest))
		assert.Empty(t, resp.Header.Get("Content-Encoding"), "header and body agree")
		assert.Equal(t, wordOK, r.word(t))
	})
	for name, step := range map[string]ut.Step{
		"cut by END": ut.RawStream(ev("a"), evStop+evDone).Gzip().CutAfter(1),
		"cut by FIN": ut.RawStream(ev("a"), evStop+evDone).Gzip().CutAfter(1).FIN(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.prime(t)
			r.up.Default(step)
			a := r.send(t, request(t, r))
			cut(ev("a"), streamguard.ErrIncomplete, io.ErrUnexpectedEOF)(t, r, a)
			assert.Equal(t, wordFail, r.word(t))
		})
	}
}

func TestCaseB11_LegalFraming(t *testing.T) {
	t.Parallel()
	whole := ev("那🦀") + evStop + evDone
	with := func(s, lineEnd, blank string) string {
		return strings.ReplaceAll(s, "\n\n", lineEnd+blank)
	}
	tight := strings.ReplaceAll(whole, "data: ", "data:")
	fields := strings.ReplaceAll(whole, "data: ", "event: message\nid: 7\nretry: 10\ndata: ")
	crlf := with(whole, "\r\n", "\r\n")
	split := strings.SplitAfter(crlf, "\r") // each CRLF falls between two writes
	rows := []row{
		wholeRow("CRLF", ut.RawStream(crlf), crlf),
		wholeRow("CR", ut.RawStream(with(whole, "\r", "\r")), with(whole, "\r", "\r")),
		wholeRow("mixed", ut.RawStream(with(whole, "\n", "\r\n")), with(whole, "\n", "\r\n")),
		wholeRow("CRLF split", ut.RawStream(split...).Every(time.Millisecond), crlf),
		wholeRow("no space", ut.RawStream(tight), tight),
		wholeRow("other fields", ut.RawStream(fields), fields),
		wholeRow("BOM", ut.RawStream("\ufeff"+whole), "\ufeff"+whole),
		wholeRow("one byte a write", ut.RawStream(whole).WriteSize(1), whole),
		wholeRow("CRLF one byte a write", ut.RawStream(crlf).WriteSize(1), crlf),
		wholeRow("CR one byte a write", ut.RawStream(with(whole, "\r", "\r")).WriteSize(1), with(whole, "\r", "\r")),
	}
	run(t, rows)
}

func TestCaseB12_HugeLines(t *testing.T) {
	t.Parallel()
	line := func(n int) string { // n bytes before the line end
		const head, tail = `data: {"type":"x","b64":"`, `"}`
		return head + strings.Repeat("A", n-len(head)-len(tail)) + tail + "\n\n"
	}
	var rows []row
	for name, n := range map[string]int{
		"64K-1": 64<<10 - 1, "64K": 64 << 10, "64K+1": 64<<10 + 1,
		"1M-1": 1<<20 - 1, "1M": 1 << 20, "1M+1": 1<<20 + 1, "4M": 4 << 20,
	} {
		rows = append(rows, wholeRow(name, ut.RawStream(line(n), ev("a"), evStop, evDone), line(n)+ev("a")+evStop+evDone))
		rows = append(rows, wholeRow(name+" later", ut.RawStream(ev("a"), line(n), evStop, evDone), ev("a")+line(n)+evStop+evDone))
	}
	mark := `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("A", 2<<20) + `"},"finish_reason":"stop"}]}` + "\n\n"
	rows = append(rows, wholeRow("end mark in it", ut.RawStream(ev("a"), mark), ev("a")+mark))
	rows = append(rows, wholeRow("nothing but the end mark in it", ut.RawStream(mark), mark))
	run(t, rows)
}

// A line need not be held whole: its first half arrives while the second is
// not yet sent.
func TestCaseB12_HugeLinesFlow(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(p *resilience.Policy) { p.Stream.IdleTimeout = time.Minute })
	gate := make(chan struct{})
	half := strings.Repeat("A", 2<<20)
	parts := []string{`data: {"type":"x","b64":"` + half, half + `"}` + "\n\n", ev("a") + evStop + evDone}
	r.up.Default(ut.RawStream(parts...).At(1, ut.Gate(gate)))
	resp, err := r.tr.RoundTrip(r.request(t, t.Context(), http.MethodPost, chatPath, streamBody))
	require.NoError(t, err)
	defer resp.Body.Close()
	sum, got := sha256.New(), 1<<20
	_, err = io.CopyN(sum, resp.Body, int64(got))
	require.NoError(t, err)
	close(gate)
	_, err = io.Copy(sum, resp.Body)
	require.NoError(t, err)
	want := sha256.Sum256([]byte(strings.Join(parts, "")))
	assert.Equal(t, want[:], sum.Sum(nil))
}

func TestCaseB14_NoBlankLineAtTheEnd(t *testing.T) {
	t.Parallel()
	done, stop := strings.TrimRight(evDone, "\n"), strings.TrimRight(evStop, "\n")
	run(t, []row{
		wholeRow("one line feed", ut.RawStream(ev("a"), done+"\n"), ev("a")+done+"\n"),
		wholeRow("nothing", ut.RawStream(ev("a"), done), ev("a")+done),
		wholeRow("unterminated reason", ut.RawStream(ev("a"), stop), ev("a")+stop),
		brokenRow("half an object", ut.RawStream(ev("a"), stop[:len(stop)/2]), ev("a"), io.ErrUnexpectedEOF),
	})
}

func TestCaseB17_Responses(t *testing.T) {
	t.Parallel()
	const (
		begun   = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r\",\"status\":\"in_progress\",\"output\":[]}}\n\n"
		delta   = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"output_index\":0,\"content_index\":0,\"delta\":\"a\"}\n\n"
		partial = "event: response.incomplete\ndata: {\"type\":\"response.incomplete\",\"response\":{\"status\":\"incomplete\",\"incomplete_details\":{\"reason\":\"max_output_tokens\"}}}\n\n"
		failed  = "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"x\"}}}\n\n"
	)
	on := func(c row) row {
		c.path, c.ask = responsesPath, `{"model":"m1","stream":true,"input":"x"}`
		return c
	}
	inBand := on(wholeRow("failed", ut.RawStream(begun, delta, failed), begun+delta+failed))
	inBand.word, inBand.read = wordFail, streamguard.ErrIncomplete
	nothing := on(brokenRow("END", ut.RawStream(begun, delta), begun+delta, io.ErrUnexpectedEOF))
	afterDone := on(brokenRow("DONE", ut.RawStream(begun, delta, evDone), begun+delta))
	afterDone.check = func(t *testing.T, r *rig, a answer) {
		assert.True(t, strings.HasPrefix(a.body, begun+delta), "%s", a.body)
		assert.Contains(t, a.body, "stream_incomplete")
	}
	run(t, []row{on(wholeRow("incomplete", ut.RawStream(begun, delta, partial), begun+delta+partial)), inBand, nothing, afterDone})
}

func TestCaseB18_ErrorAfterContent(t *testing.T) {
	t.Parallel()
	const (
		bad  = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n"
		chat = `data: {"error":{"code":502,"message":"x"},"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}` + "\n\n"
	)
	messages := wholeRow("messages", ut.RawStream(msgStart, blockStart, blockDelta, bad), msgStart+blockStart+blockDelta+bad)
	messages.path, messages.word, messages.read = messagesPath, wordFail, streamguard.ErrIncomplete
	openAI := wholeRow("chat", ut.RawStream(ev("a"), chat, evDone), ev("a")+chat)
	openAI.word, openAI.read = wordFail, streamguard.ErrIncomplete
	run(t, []row{messages, openAI})
}

// Pieces of a messages stream.
const (
	msgStart   = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"role\":\"assistant\",\"content\":[]}}\n\n"
	blockStart = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
	blockDelta = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n"
	toolStart  = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}}\n\n"
	toolDelta  = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n"
	blockStop  = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
	toolUse    = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":1}}\n\n"
)

func TestCaseB20_NoMessageStop(t *testing.T) {
	t.Parallel()
	whole := []string{msgStart, toolStart, toolDelta, blockStop, toolUse}
	all := strings.Join(whole, "")
	rows := []row{
		wholeRow("END", ut.RawStream(whole...), all),
		wholeRow("FIN", ut.RawStream(whole...).FIN(), all),
		brokenRow("cut", ut.RawStream(whole...).CutAfter(4), strings.Join(whole[:4], ""), io.ErrUnexpectedEOF),
	}
	for i := range rows {
		rows[i].path = messagesPath
		if rows[i].read != nil {
			rows[i].check = func(t *testing.T, _ *rig, a answer) {
				assert.True(t, strings.HasPrefix(a.body, strings.Join(whole[:4], "")+"event: error\ndata: "), "%s", a.body)
				assert.NotContains(t, a.body, "message_stop")
				assert.True(t, errors.Is(a.read, io.ErrUnexpectedEOF))
			}
		}
	}
	run(t, rows)
}
