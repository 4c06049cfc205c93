package streamguard_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	sg "github.com/surefoot-go/surefoot/streamguard"
)

// FuzzSplice asks for the rest of a stream that was cut anywhere and gets any
// bytes. What was relayed before stays; what follows it is the next event or the
// guard's own error event, and never one that came before.
func FuzzSplice(f *testing.F) {
	for _, keep := range keepers {
		k := keep("\n")
		for _, rest := range []string{
			strings.Join(k.events[5:], ""), strings.Join(k.events[4:], ""), strings.Join(k.events[6:], ""), k.whole(),
			k.events[1] + strings.Join(k.events[5:], ""), ": ok\r\n\r\n\xef\xbb\xbf" + k.events[5], "data: [DONE]\n\n",
			`{"error":{}}`, "data: {\"type\":\"response.created\",\"sequence_number\":1e9}\n\n",
			strings.ReplaceAll(k.events[5], "\n", "\r"),
		} {
			f.Add(len(strings.Join(k.events[:5], ""))+9, []byte(rest), k.post[4] == 'r', uint8(0))
			f.Add(len(strings.Join(k.events[:4], ""))-1, []byte(rest), k.post[4] == 'r', uint8(7))
		}
	}
	f.Fuzz(func(t *testing.T, cut int, rest []byte, responses bool, size uint8) {
		k := interactionsKeeper("\n")
		if responses {
			k = responsesKeeper("\n")
		}
		whole := k.whole()
		if cut < len(k.events[0]) || cut >= len(whole)-1 || len(rest) == 0 {
			return
		}
		k.cuts, k.rest = []int{cut}, string(rest)
		got, err := splice(t, k, int(size))
		require.Less(t, len(k.asks), 100)
		before, n := "", 0
		for n < len(k.events) && len(before)+len(k.events[n]) <= cut {
			before, n = before+k.events[n], n+1
		}
		require.True(t, strings.HasPrefix(got, before), "%q", got)
		after := got[len(before):]
		if err != nil {
			require.ErrorIs(t, err, sg.ErrIncomplete)
		} else {
			require.NotEmpty(t, after, "nothing follows, and no error")
		}
		next := firstPlace(after)
		if responses && next != nil && !strings.Contains(after[:min(len(after), strings.Index(after+"\n\n", "\n\n"))], "stream_incomplete") {
			require.JSONEq(t, string(rune('0'+n)), string(next), "%q", after)
		}
		if !responses && next != nil {
			require.NotContains(t, before, string(next), "%q", after)
		}
	})
}

// splice reads the stream through a guard, size bytes at a time (0: many).
func splice(t *testing.T, k *keeper, size int) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://x"+k.post, strings.NewReader(k.background))
	require.NoError(t, err)
	resp, err := stack(k, resumeOn).guard.RoundTrip(req)
	require.NoError(t, err)
	var out bytes.Buffer
	p := make([]byte, size+1)
	if size == 0 {
		p = make([]byte, 32<<10)
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{&out}, struct{ io.Reader }{resp.Body}, p)
	require.NoError(t, resp.Body.Close())
	return out.String(), err
}

// firstPlace is the sequence_number or event_id of the first event, nil if it has
// none that a strict reader sees.
func firstPlace(s string) json.RawMessage {
	ev, _, _ := strings.Cut(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s), "\n\n")
	var data []string
	for line := range strings.SplitSeq(ev, "\n") {
		if d, ok := strings.CutPrefix(line, "data:"); ok {
			data = append(data, d)
		}
	}
	var at map[string]json.RawMessage // a struct's names would match in any case
	if json.Unmarshal([]byte(strings.Join(data, "\n")), &at) != nil {
		return nil
	}
	if n := at["sequence_number"]; n != nil {
		return n
	}
	return at["event_id"]
}
