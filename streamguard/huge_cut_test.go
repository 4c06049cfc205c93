package streamguard_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	sg "github.com/surefoot-go/surefoot/streamguard"
)

// An event that is too large to hold has gone by in part when its stream is cut:
// an answer with half an event in it is not whole, even where it had finished
// before. Behind the final mark nobody reads any more.
func TestALargeEventThatIsCutBehindTheFinish(t *testing.T) {
	large := strings.Repeat("x", 100<<10)
	const done = "data: [DONE]\n\n"
	chat, messages := C("a")+F("stop"), T("a")+MD("end_turn")
	for name, row := range map[string]struct {
		path, body string
		whole      bool
	}{
		"chat, usage":               {chatPath, chat + `data: {"choices":[],"usage":{"x":"` + large, false},
		"chat, its value":           {chatPath, chat + "data: " + large, false},
		"chat, a comment":           {chatPath, chat + ": " + large, true},
		"chat, whole without a gap": {chatPath, chat + `data: {"choices":[],"usage":{"x":"` + large + `"}}`, true},
		"chat, small":               {chatPath, chat + `data: {"choices":[],"usage":{"x":"`, true},
		"chat, behind the mark":     {chatPath, chat + done + `data: {"x":"` + large, true},
		"messages":                  {messagesPath, messages + "event: ping\ndata: {\"type\":\"ping\",\"x\":\"" + large, false},
		"Gemini": {geminiPath, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]},\"finishReason\":\"STOP\"}]}\n\n" +
			"data: {\"usageMetadata\":{\"x\":\"" + large, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, until := range []string{sg.HoldFirstEvent, sg.HoldFirstContent, sg.HoldComplete} {
				for _, err := range []error{io.EOF, io.ErrUnexpectedEOF} {
					policy := sg.DefaultPolicy()
					policy.HoldUntil = until
					resp, got := stack(sse(part{data: row.body}, part{err: err}), policy).guard.RoundTrip(streamCall(t, row.path))
					if got == nil {
						_, got = io.ReadAll(resp.Body)
						require.NoError(t, resp.Body.Close())
					}
					if row.whole {
						assert.NoError(t, got, "%s, %v", until, err)
					} else {
						assert.ErrorIs(t, got, sg.ErrIncomplete, "%s, %v", until, err)
					}
				}
			}
		})
	}
}
