package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// mostOfLarge bounds what is kept of an event, however large it is.
const mostOfLarge = 72 << 10

// What decides about an event is found in it wherever it stands, whatever fills
// the event.
func TestCondensedDocumentsKeepWhatDecides(t *testing.T) {
	numbers := strings.Repeat("123456,", 100_000) + "7"
	words := strings.Repeat(`"word",`, 100_000) + `"x"`
	objects := strings.Repeat(`{"token":"a","top":[{"token":"b"}]},`, 20_000) + "{}"
	texts := strings.Repeat(`{"content":[{"type":"output_text","text":"`+strings.Repeat("y", 5000)+`"}]},`, 300) + "{}"
	for name, c := range map[string]struct{ doc, kept string }{
		"a long text":               {`{"a":"` + strings.Repeat("x", 1<<20) + `","b":{"c":[{"d":"e"}]}}`, `"b":{"c":[{"d":"e"}]}}`},
		"one of nothing but quotes": {`{"a":"` + strings.Repeat(`\"`, 1<<20) + `","b":1}`, `"b":1}`},
		"one of nothing but hex":    {`{"a":"x` + strings.Repeat(`\u00e9`, 1<<18) + `","b":1}`, `"b":1}`},
		"numbers":                   {`{"context":[` + numbers + `],"done":true}`, `"done":true}`},
		"words":                     {`{"context":[` + words + `],"done":true}`, `"done":true}`},
		"deep objects":              {`{"choices":[{"logprobs":{"content":[` + objects + `]},"index":0,"finish_reason":"stop"}]}`, `"index":0,"finish_reason":"stop"}]}`},
		"many long items":           {`{"response":{"output":[` + texts + `],"status":"failed","error":{"code":"x"}}}`, `"status":"failed","error":{"code":"x"}}}`},
		"many keys":                 {`{"x":{` + strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("k", 200)+`":null,`, 2000), ",") + `},"error":{"code":429}}`, `"error":{"code":429}}`},
		"many choices":              {`{"choices":[` + strings.Repeat(`{"index":1,"delta":{"content":"`+strings.Repeat("z", 2000)+`"}},`, 120) + `{"index":7,"finish_reason":"stop"}]}`, `{"index":7,"finish_reason":"stop"}]}`},
	} {
		require.True(t, json.Valid([]byte(c.doc)), name)
		for _, step := range []int{1, 7, 4096, 1 << 30} {
			got, ended := wire.Condense([]byte(c.doc), step)
			assert.True(t, ended, name)
			assert.True(t, json.Valid(got), "%s: %.200s", name, got)
			assert.True(t, strings.HasSuffix(string(got), c.kept), "%s: %s", name, got[max(0, len(got)-200):])
			assert.Less(t, len(got), mostOfLarge, name)
		}
	}
}

// A document that is small is kept as it is, but for white space; one that is
// large stays a document, and is bounded; how it is cut changes nothing.
func FuzzCondense(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":"c\u00e9\"\\"},[],{}],"d":-1.5e3}`, `[]`, `"x"`, `[[[{"a":{}}]]]`, "[DONE]", `{"a" 1 "b" "c"}`, `}{`, "\xef\xbb\xbf{}", `{"":""}`} {
		f.Add([]byte(s), uint8(1), uint16(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, step uint8, times uint16) {
		for _, doc := range [][]byte{b, grown(b, int(times)%200)} {
			got, ended := wire.Condense(doc, 1+int(step))
			whole, over := wire.Condense(doc, len(doc)+1)
			require.Equal(t, string(whole), string(got))
			require.Equal(t, over, ended)
			require.Less(t, len(got), mostOfLarge)
			if !json.Valid(doc) {
				continue
			}
			require.True(t, json.Valid(got), "%q: %q", doc, got)
			var compact bytes.Buffer
			require.NoError(t, json.Compact(&compact, doc))
			if compact.Len() < 4<<10 && !bytes.Contains(doc, bytes.Repeat([]byte("0"), 64)) && longestKey(doc) < 64 {
				require.Equal(t, compact.String(), string(got))
			}
		}
	})
}

// grown returns an object that holds b, if that is a value, many times.
func grown(b []byte, times int) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, `{"choices":[%s`, b)
	for range times {
		fmt.Fprintf(&out, `,{"a":%s}`, b)
	}
	fmt.Fprintf(&out, `],"b":%s}`, b)
	return out.Bytes()
}

// longestKey is no less than how long a key of b is, as it is spelled.
func longestKey(b []byte) (n int) {
	for part := range bytes.SplitSeq(b, []byte(`"`)) {
		n = max(n, len(part))
	}
	return n
}
