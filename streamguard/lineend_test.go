package streamguard_test

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	sg "github.com/surefoot-go/surefoot/streamguard"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// lfEvents decodes an event stream as the Go SDKs do: lines end with LF, with or
// without a CR before it.
func lfEvents(body string) (data []string) {
	sc := bufio.NewScanner(strings.NewReader(body))
	sc.Buffer(nil, 1<<20)
	event := ""
	for sc.Scan() {
		if sc.Text() == "" {
			if event != "" {
				data = append(data, event)
			}
			event = ""
			continue
		}
		if d, ok := strings.CutPrefix(sc.Text(), "data: "); ok {
			event += d + "\n"
		}
	}
	return data
}

// Wherever the stream breaks off, within a CR LF too, decoders that know no line
// end but LF find each event by itself, the added one last.
func TestAddedEventForDecodersThatSplitAtLF(t *testing.T) {
	mixed := strings.NewReplacer("}\n\n", "}\n\r\n")
	crlf := strings.NewReplacer("\n", "\r\n")
	big := strings.Replace(C("a"), `"a"`, `"`+strings.Repeat("a", 70_000)+`"`, 1)
	for name, body := range map[string]string{
		"LF": C("a") + C("b"), "CR LF": crlf.Replace(C("a") + C("b")), "mixed": mixed.Replace(C("a") + C("b")),
		"large, LF": C("a") + big, "large, CR LF": crlf.Replace(C("a") + big), "large, mixed": mixed.Replace(C("a") + big),
		"large first": crlf.Replace(big),
	} {
		for n := max(len(body)-90, len(C("a"))+2); n <= len(body); n++ {
			for _, size := range []int{1 << 20, 1000} {
				resp, _, err := guarded(&sized{data: []byte(body[:n]), n: size, end: io.EOF}, wire.Chat, sg.Policy{})
				require.ErrorIs(t, err, sg.ErrIncomplete)
				b, _ := io.ReadAll(resp.Body)
				events := lfEvents(string(b))
				require.NotEmpty(t, events, "%s cut at %d", name, n)
				var last struct{ Error struct{ Code string } }
				require.NoError(t, json.Unmarshal([]byte(events[len(events)-1]), &last), "%s cut at %d of %d: %.300q", name, n, len(body), b)
				assert.Equal(t, "stream_incomplete", last.Error.Code)
				for _, e := range events[:len(events)-1] {
					if strings.Contains(name, "large") {
						break // half of it may have been sent
					}
					require.True(t, json.Valid([]byte(e)), "%s cut at %d: %q", name, n, b)
				}
			}
		}
	}
}

// A blank line is fatal to Ollama's client.
func TestAddedLineBehindALargeLine(t *testing.T) {
	big := `{"message":{"role":"assistant","content":"` + strings.Repeat("a", 70_000) + `"},"done":false}`
	for _, cut := range []string{"", "\r", "\r\n", "\n"} {
		resp, _, err := guarded(strings.NewReader(big+cut), wire.Ollama, sg.Policy{})
		require.ErrorIs(t, err, sg.ErrIncomplete)
		b, _ := io.ReadAll(resp.Body)
		lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
		require.Len(t, lines, 2, "%q", cut)
		for _, line := range lines {
			assert.True(t, json.Valid([]byte(line)), "%q", cut)
		}
	}
}
