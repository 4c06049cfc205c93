package upstreamtest_test

import (
	"errors"
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

// Bytes of the cases (chat).
const (
	chatA    = `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n"
	chatB    = `data: {"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":null}]}` + "\n\n"
	chatStop = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	done     = "data: [DONE]\n\n"
	okJSON   = `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`
)

func TestEndings(t *testing.T) {
	raw := ut.RawStream(chatA, chatB, chatStop, done)
	whole := chatA + chatB + chatStop + done
	tests := []struct {
		name string
		step ut.Step
		body string
		read error
		any  bool // some other error
	}{
		{"whole", raw, whole, nil, false},
		{"cut at a boundary", raw.CutAfter(2), chatA + chatB, nil, false},
		{"cut before the first", raw.CutAfter(0), "", nil, false},
		{"cut inside a line", raw.CutAfter(1).InsideLine(), chatA + chatB[:len(chatB)/2], nil, false},
		{"cut at a byte", raw.CutBytes(100), whole[:100], nil, false},
		{"FIN at a boundary", raw.CutAfter(1).FIN(), chatA, io.ErrUnexpectedEOF, false},
		{"FIN inside a line", raw.CutAfter(1).InsideLine().FIN(), chatA + chatB[:len(chatB)/2], io.ErrUnexpectedEOF, false},
		{"FIN with nothing", raw.CutAfter(0).FIN(), "", io.ErrUnexpectedEOF, false},
		{"FIN after the end", raw.FIN(), whole, io.ErrUnexpectedEOF, false},
		{"reset", raw.CutAfter(1).Reset(), chatA, syscall.ECONNRESET, false},
		{"close-delimited", raw.CloseDelimited(), whole, nil, false},
		{"close-delimited, cut", raw.CutAfter(1).CloseDelimited(), chatA, nil, false},
		{"close-delimited, reset", raw.CutAfter(1).CloseDelimited().Reset(), chatA, syscall.ECONNRESET, false},
		{"bad chunk", raw.CutAfter(1).BadChunk(), chatA, nil, true},
		{"malformed event", raw.At(1, ut.Malformed()).CutAfter(1), chatA + `data: {"id":"broken","choices":[{"delta":{"content":` + "\n\n", nil, false},
		{"error event first", ut.RawStream(chatA, done).FailAfter(0, 504),
			`data: {"error":{"message":"scripted status 504","type":"timeout_error","param":null,"code":504}}` + "\n\n" + done, nil, false},
		{"error event later, no mark", ut.RawStream(chatA, done).FailAfter(1, 429).NoDone(),
			chatA + `data: {"error":{"message":"scripted status 429","type":"rate_limit_error","param":null,"code":429}}` + "\n\n", nil, false},
		{"pings", raw.At(1, ut.Pings(time.Millisecond, 3)), chatA + strings.Repeat(": ping\n\n", 3) + chatB + chatStop + done, nil, false},
		{"bytes, gap, event", raw.At(0, ut.Bytes("\ufeff"), ut.Wait(time.Millisecond), ut.Event("x\ny")), "\ufeffdata: x\ndata: y\n\n" + whole, nil, false},
		{"pieces at the very end", raw.CutAfter(1).At(-1, ut.Bytes("data: {")).At(3, ut.Bytes("never")), chatA + "data: {", nil, false},
		{"CRLF", raw.LineEnds(ut.CRLF), strings.ReplaceAll(whole, "\n", "\r\n"), nil, false},
		{"CR", raw.LineEnds(ut.CR), strings.ReplaceAll(whole, "\n", "\r"), nil, false},
		{"mixed", raw.LineEnds(ut.Mixed), strings.ReplaceAll(whole, "\n\n", "\n\r\n"), nil, false},
		{"a write a byte", ut.RawStream("data: 那🦀\r\n\r\n").WriteSize(1), "data: 那🦀\r\n\r\n", nil, false},
		{"slow", raw.Every(time.Millisecond).FirstToken(time.Millisecond).Delay(time.Millisecond), whole, nil, false},
		{"JSON", ut.Body("application/json", okJSON), okJSON, nil, false},
		{"JSON cut, framed", ut.Body("application/json", okJSON).CutBytes(36), okJSON[:36], nil, false},
		{"JSON cut, FIN", ut.Body("application/json", okJSON).CutBytes(36).FIN(), okJSON[:36], io.ErrUnexpectedEOF, false},
		{"JSON cut, reset", ut.Body("application/json", okJSON).CutBytes(36).Reset(), okJSON[:36], syscall.ECONNRESET, false},
		{"JSON, length declared", ut.Body("application/json", okJSON[:36]).ContentLength(80), okJSON[:36], io.ErrUnexpectedEOF, false},
		{"JSON whole, FIN", ut.Body("application/json", okJSON).FIN(), okJSON, nil, false},
		{"JSON after blank lines", ut.Body("application/json", okJSON).At(0, ut.Pings(time.Millisecond, 2)), "\n\n" + okJSON, nil, false},
		{"empty", ut.Empty(), "", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			both(t, func(t *testing.T, r reach) {
				r.up.Default(tt.step)
				g := r.post(t, chatPath, ask("m", true))
				require.NoError(t, g.err)
				assert.Equal(t, 200, g.status)
				assert.Equal(t, tt.body, g.body)
				if tt.any {
					assert.Error(t, g.read)
				} else {
					require.True(t, errors.Is(g.read, tt.read), g.read) // nil is nil
				}
				assert.Equal(t, 1, r.up.Count())
				assert.Zero(t, r.up.Aborted())
			})
		})
	}
}

func TestNoAnswer(t *testing.T) {
	tests := []struct {
		name string
		step ut.Step
		want error
	}{
		{"FIN", ut.Drop(), io.EOF},
		{"reset", ut.Drop().Reset(), syscall.ECONNRESET},
		{"late reset", ut.Drop().Reset().Delay(time.Millisecond), syscall.ECONNRESET},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			both(t, func(t *testing.T, r reach) {
				r.up.Default(tt.step)
				g := r.post(t, chatPath, ask("m", true))
				require.ErrorIs(t, g.err, tt.want)
				assert.Equal(t, 1, r.up.Count())
			})
		})
	}
}

func TestStatus(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		r.up.Default(ut.Status(429).RetryAfter(1500*time.Millisecond).Header("X-A", "1").Header("x-a", "2").Header("Content-Type", "text/x"))
		g := r.post(t, chatPath, ask("m", true))
		require.NoError(t, g.err)
		assert.Equal(t, 429, g.status)
		assert.Equal(t, "2", g.header.Get("Retry-After"))
		assert.Equal(t, []string{"1", "2"}, g.header.Values("X-A"))
		assert.Equal(t, []string{"text/x"}, g.header.Values("Content-Type"))
		assert.JSONEq(t, `{"error":{"message":"scripted status 429","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}`, g.body)
		assert.EqualValues(t, len(g.body), g.length)

		r.up.Default(ut.Status(503).Body("text/plain", "down"))
		g = r.post(t, chatPath, ask("m", false))
		assert.Equal(t, 503, g.status)
		assert.Equal(t, "down", g.body)

		r.up.Default(ut.Status(204))
		g = r.post(t, chatPath, ask("m", false))
		assert.Equal(t, 204, g.status)
		assert.Empty(t, g.body)

		r.up.Default(ut.OK("hi"))
		g = r.do(t, http.MethodHead, chatPath, "", nil)
		require.NoError(t, g.err)
		assert.Equal(t, 200, g.status)
		assert.Empty(t, g.body)
		assert.Positive(t, g.length)
	})
}
