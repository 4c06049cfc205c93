package upstreamtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	ut "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// Bytes of messages streams.
const (
	msgStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"role\":\"assistant\",\"content\":[]}}\n\n"
	msgTool  = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}}\n\n"
	msgDelta = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":1}}\n\n"
)

// TestCases shows that what public bug reports saw on the wire can be scripted,
// and what a bare client makes of it.
func TestCases(t *testing.T) {
	const (
		jsonType = "application/json"
		slow     = `data: {"error":{"message":"slow","type":"GatewayTimeout","code":504}}` + "\n\n"
		toolCut  = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t1","function":{"name":"w","arguments":"{\"p\":\"a"}}]},"finish_reason":null}]}` + "\n\n"
		half     = `{"choices":[{"message":{"content":"h`
		page     = "<!DOCTYPE html><title>wait</title>"
		noMark   = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		short    = "unexpected EOF"
	)
	huge := `data: {"type":"x","b64":"` + strings.Repeat("A", 4<<20) + `"}` + "\n\n"
	tests := []struct {
		id   string
		step ut.Step
		body string
		err  string // part of the read error
	}{
		{"A1", ut.Body(jsonType, `{"error":{"code":429,"message":"busy"}}`), `{"error":{"code":429,"message":"busy"}}`, ""},
		{"A2 empty", ut.Empty(), "", ""},
		{"A6 mislabelled", ut.Body(jsonType, "\ufeff\n"+page), "\ufeff\n" + page, ""},
		{"A9", ut.RawStream(slow, done), slow + done, ""},
		{"A11 framed", ut.Body(jsonType, half), half, ""},
		{"A11 short", ut.Body(jsonType, half).ContentLength(80), half, short},
		{"B1", ut.RawStream(chatA, chatB), chatA + chatB, ""},
		{"B1 close-delimited", ut.RawStream(chatA, chatB).CloseDelimited(), chatA + chatB, ""},
		{"B1 FIN", ut.RawStream(chatA, chatB).FIN(), chatA + chatB, short},
		{"B3", ut.RawStream(chatA, toolCut), chatA + toolCut, ""},
		{"B3 inside the line", ut.RawStream(chatA, toolCut).CutAfter(1).InsideLine().FIN(), chatA + toolCut[:len(toolCut)/2], short},
		{"B4", ut.RawStream(chatA).Reset(), chatA, "connection reset"},
		{"B8", ut.RawStream(chatA, chatB, chatStop, done).At(1, ut.Pings(time.Millisecond, 40)), chatA + strings.Repeat(": ping\n\n", 40) + chatB + chatStop + done, ""},
		{"B11 split CRLF", ut.RawStream("data: [DONE]\r", "\n\r", "\n"), "data: [DONE]\r\n\r\n", ""},
		{"B12", ut.RawStream(huge, chatStop, done), huge + chatStop + done, ""},
		{"B14 no line end", ut.RawStream(chatA, "data: [DONE]"), chatA + "data: [DONE]", ""},
		{"B14 unterminated", ut.RawStream(chatA, noMark), chatA + noMark, ""},
		{"B18", ut.RawStream(chatA).FailAfter(1, 502), chatA + `data: {"error":{"message":"scripted status 502","type":"server_error","param":null,"code":502}}` + "\n\n" + done, ""},
		{"B20 END", ut.RawStream(msgStart, msgTool, msgDelta), msgStart + msgTool + msgDelta, ""},
		{"B20 cut", ut.RawStream(msgStart, msgTool, msgDelta).CutAfter(2), msgStart + msgTool, ""},
		{"B20 FIN", ut.RawStream(msgStart, msgTool, msgDelta).FIN(), msgStart + msgTool + msgDelta, short},
		{"E5 nothing, FIN", ut.RawStream().FIN(), "", short},
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			both(t, func(t *testing.T, r reach) {
				r.up.Default(tt.step)
				g := r.post(t, chatPath, ask("m", true))
				require.NoError(t, g.err)
				require.Equal(t, len(tt.body), len(g.body))
				assert.True(t, tt.body == g.body, "the bytes are as scripted")
				if tt.err == "" {
					assert.NoError(t, g.read)
				} else {
					assert.ErrorContains(t, g.read, tt.err)
				}
			})
		})
	}
}

// The stream said its last word, or went silent before it, and the connection
// stays open.
func TestCaseB6B7_OpenAfterTheEnd(t *testing.T) {
	for _, sent := range []string{chatA + chatStop + done, chatA + chatStop, chatA} {
		both(t, func(t *testing.T, r reach) {
			r.up.Default(ut.RawStream(sent).Stall())
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			resp, err := r.client.Do(newRequest(t, ctx, r.up.URL, strings.NewReader(ask("m", true))))
			require.NoError(t, err)
			b := make([]byte, len(sent))
			_, err = io.ReadFull(resp.Body, b)
			require.NoError(t, err)
			assert.Equal(t, sent, string(b))
			require.NoError(t, resp.Body.Close())
			waitFor(t, r.up, func() bool { return r.up.Aborted() == 1 })
		})
	}
}

// Discarded attempts share one connection; an endless body ends with its reader.
func TestCaseC6_Bodies(t *testing.T) {
	up := start(t)
	client := up.Client()
	defer client.CloseIdleConnections()
	r := reach{"socket", up, client}
	up.Default(ut.Cycle(ut.Status(503).Body("text/plain", strings.Repeat("x", 20)).Times(2), ut.OK("hi")))
	assert.Equal(t, []int{503, 503, 200, 503, 503, 200}, statuses(t, r, "m", 6))
	assert.Equal(t, 1, up.Connections())

	up.Default(ut.Status(503).At(-1, ut.Pings(0, -1)))
	resp, _, err := open(t, r)
	require.NoError(t, err)
	_, err = io.CopyN(io.Discard, resp.Body, 64<<10)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	waitFor(t, up, func() bool { return up.Aborted() == 1 })
}

// Dial refused, accepted and dropped, idle connection gone.
func TestCaseC7C8_Connections(t *testing.T) {
	up := start(t)
	// One connection at a time: a spare one would hide what is counted.
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	r := reach{"socket", up, client}

	up.Next(ut.Drop().Reset().Delay(time.Millisecond))
	require.ErrorIs(t, r.post(t, chatPath, ask("m", false)).err, syscall.ECONNRESET)
	assert.Equal(t, 1, up.Count(), "it was read in full")

	up.Stop()
	require.ErrorIs(t, r.post(t, chatPath, ask("m", false)).err, syscall.ECONNREFUSED)
	require.NoError(t, up.Start())
	require.NoError(t, r.post(t, chatPath, ask("m", false)).err)

	before := up.Connections()
	for _, drop := range []func(){up.CloseIdle, up.ResetIdle} {
		drop() // at once after an answer
		assert.Eventually(t, func() bool {
			g := r.post(t, chatPath, ask("m", false))
			return g.err == nil && g.status == 200
		}, patience, time.Millisecond)
	}
	assert.Equal(t, before+2, up.Connections())
}

// A redirect to another host, and every place a key may hide in.
func TestCaseE2_Keys(t *testing.T) {
	other, up := start(t), ut.New()
	defer up.Close()
	up.Default(ut.Status(http.StatusTemporaryRedirect).Header("Location", other.URL+chatPath+"?x=1"))
	client := up.Client()
	defer client.CloseIdleConnections()
	g := reach{"socket", up, client}.do(t, http.MethodPost, chatPath+"?key=SECRET", ask("m", false), http.Header{"X-Api-Key": {"SECRET"}, "Authorization": {"Bearer TOKEN"}})
	require.NoError(t, g.err)
	assert.Equal(t, 200, g.status)
	assert.Contains(t, up.Last().Dump(), "key=SECRET")
	assert.Contains(t, up.Last().Dump(), "Bearer TOKEN")
	assert.Contains(t, other.Last().Dump(), "X-Api-Key: SECRET", "net/http hands unknown headers on")
	assert.Contains(t, other.Last().Dump(), "Referer: "+up.URL+chatPath+"?key=SECRET", "and the old URL, query and all")
	assert.Equal(t, up.Last().Sum, other.Last().Sum)
}

// Any wait header goes out as it is.
func TestCaseC1_RetryAfter(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		for _, v := range []string{"86400", "9999999999", "-5", "Wed, 21 Oct 2015 07:28:00 GMT", "NaN", "", "soon"} {
			r.up.Next(ut.Status(429).Header("Retry-After", v))
			g := r.post(t, chatPath, ask("m", false))
			assert.Equal(t, []string{v}, g.header["Retry-After"])
		}
	})
}

// A held request is counted while it is held.
func TestCaseD3D4_Held(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		gate := make(chan struct{})
		r.up.Next(ut.OK("slow").Hold(gate))
		r.up.Default(ut.Status(500))
		slow := make(chan got, 1)
		go func() { slow <- r.post(t, chatPath, ask("m", false)) }()
		waitFor(t, r.up, func() bool { return r.up.InFlight() == 1 })
		assert.Equal(t, []int{500, 500, 500}, statuses(t, r, "m", 3))
		close(gate)
		assert.Equal(t, 200, (<-slow).status)
	})
}

func TestDefaultErrorsSayTheirStatus(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		for _, code := range []int{400, 401, 402, 403, 404, 408, 409, 413, 425, 429, 498, 500, 502, 503, 504, 520, 529} {
			r.up.Default(ut.Status(code))
			g := r.post(t, "/v1/messages", ask("m", false))
			assert.Equal(t, code, g.status)
			assert.Contains(t, g.body, fmt.Sprintf(`"message":"scripted status %d"`, code))
			assert.NotContains(t, g.body, `"type":""`)
		}
	})
}

func TestErrorsUnwrap(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		r.up.Default(ut.RawStream(chatA).FIN())
		g := r.post(t, chatPath, ask("m", true))
		assert.True(t, errors.Is(g.read, io.ErrUnexpectedEOF))
	})
}
