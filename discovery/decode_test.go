package discovery_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/discovery"
)

// listing answers every request with what body gives and reports the bytes
// that were allocated for the fetch.
func listing(t *testing.T, kind string, body func() io.Reader) ([]discovery.Model, uint64, error) {
	t.Helper()
	client := &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		resp := answer(req, 200, "application/json", "")
		resp.ContentLength = -1
		resp.Body = io.NopCloser(body())
		return resp, nil
	})}
	l, err := discovery.NewLister(discovery.ListerConfig{Type: kind, Client: client, BaseURL: "http://h"})
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ms, err := l.ListModels(t.Context())
	runtime.ReadMemStats(&after)
	return ms, after.TotalAlloc - before.TotalAlloc, err
}

// forever repeats a piece of text without an end.
type forever struct {
	text string
	at   int
}

func (f *forever) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		m := copy(p[n:], f.text[f.at:])
		n += m
		f.at = (f.at + m) % len(f.text)
	}
	return len(p), nil
}

// A page costs a bounded multiple of what may be read of it, in whatever shape
// it comes. Counted in bytes allocated, which no machine's speed changes: what
// is read is at most 8 MiB.
func TestPagesAreBounded(t *testing.T) {
	const mib = 1 << 20
	endless := func(start, piece string) func() io.Reader {
		piece = strings.Repeat(piece, 4096)
		return func() io.Reader { return io.MultiReader(strings.NewReader(start), &forever{text: piece}) }
	}
	for _, tc := range []struct {
		name   string
		body   func() io.Reader
		reason string
		mib    uint64
	}{
		{"a million empty objects", endless(`{"data":[{}`, `,{}`), discovery.ReasonTooLarge, 16},
		{"a million numbers in place of models", endless(`[1`, `,1`), discovery.ReasonTooLarge, 16},
		{"models without an end", endless(`{"data":[{"id":"a"}`, `,{"id":"a","owned_by":"o","created":1}`), discovery.ReasonTooLarge, 32},
		{"arrays nested without an end", endless(``, `[`), discovery.ReasonMalformed, 8},
		{"objects nested without an end", endless(`{"data":[`, `{"a":`), discovery.ReasonMalformed, 8},
		{"nested in a member that nobody reads", endless(`{"x":`, `[`), discovery.ReasonMalformed, 8},
		{"a string without an end", endless(`{"data":[{"id":"`, `x`), discovery.ReasonTooLarge, 48},
		{"escapes without an end", endless(`{"data":[{"id":"`, `\u0041`), discovery.ReasonTooLarge, 48},
		{"a key without an end", endless(`{"`, `x`), discovery.ReasonTooLarge, 48},
		{"a number without an end", endless(`{"data":[{"created":`, `1`), discovery.ReasonTooLarge, 48},
		{"members of an entry without an end", endless(`{"data":[{"a":1`, `,"a":1`), discovery.ReasonTooLarge, 48},
		{"one member of an entry again and again", endless(`{"data":[{"id":"a"`, `,"id":"a"`), discovery.ReasonTooLarge, 96},
		{"members of the page without an end", endless(`{"a":1`, `,"a":1`), discovery.ReasonTooLarge, 8},
		{"the list again and again", endless(`{"data":[]`, `,"data":[{"id":"a"}]`), discovery.ReasonTooLarge, 8},
		{"an error value without an end", endless(`{"error":[1`, `,1`), discovery.ReasonTooLarge, 48},
		{"white space before", endless(``, ` `), discovery.ReasonTooLarge, 8},
		{"white space within", endless(`{"data":[`, " \n"), discovery.ReasonTooLarge, 8},
		{"white space after", endless(`{"data":[{"id":"a"}]}`, " "), discovery.ReasonTooLarge, 8},
		{"a web page without an end", endless(`<html>`, "x"), discovery.ReasonHTML, 8},
		{"a word without an end", endless(`"`, "x"), discovery.ReasonTooLarge, 48},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ms, allocated, err := listing(t, "openai", tc.body)
			var le *discovery.ListError
			require.ErrorAs(t, err, &le)
			assert.Equal(t, tc.reason, le.Reason)
			assert.Nil(t, ms)
			assert.Less(t, allocated/mib, tc.mib, "MiB allocated")
		})
	}
}

// A page that says how large it is is not read at all.
func TestPageThatIsTooLargeByItsLength(t *testing.T) {
	client := &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		resp := answer(req, 200, "application/json", "")
		resp.ContentLength = 16 << 20
		resp.Body = io.NopCloser(iotest.ErrReader(errors.New("was read")))
		return resp, nil
	})}
	l, err := discovery.NewLister(discovery.ListerConfig{Type: "openai", Client: client, BaseURL: "http://h"})
	require.NoError(t, err)
	_, err = l.ListModels(t.Context())
	require.ErrorContains(t, err, "over 8388608 bytes")
}

// The bounds hold for all pages together.
func TestListIsBoundedOverItsPages(t *testing.T) {
	for name, tc := range map[string]struct {
		filler string // in each page
		entry  string
		n      int // entries a page
		word   string
	}{
		"bytes":       {strings.Repeat("x", 7<<20), `{"name":"m"}`, 1, "over 33554432 bytes"},
		"entries":     {"", `{"name":"m"}`, 3000, "over 20000 models"},
		"bad entries": {"", `{"name":"m"},7`, 3000, "over 20000 models"},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			_, _, err := listing(t, "gemini", func() io.Reader {
				n++
				list := strings.TrimSuffix(strings.Repeat(tc.entry+",", tc.n), ",")
				return strings.NewReader(`{"x":"` + tc.filler + `","models":[` + list + `],"nextPageToken":"t` + strconv.Itoa(n) + `"}`)
			})
			require.ErrorContains(t, err, tc.word)
			assert.Less(t, n, 10)
		})
	}
}

// A list as large as any real one costs little more than its models.
func TestRealListIsCheap(t *testing.T) {
	list := strings.TrimSuffix(strings.Repeat(`{"id":"vendor/some-model-name","name":"Vendor: Some Model","created":1700000000,"description":"`+
		strings.Repeat("words and more words ", 40)+`","architecture":{"input_modalities":["text","image"]},"pricing":{"prompt":"0.1"}},`, 500), ",")
	body := `{"data":[` + list + `]}`
	ms, allocated, err := listing(t, "openrouter", func() io.Reader { return strings.NewReader(body) })
	require.NoError(t, err)
	assert.Len(t, ms, 500)
	assert.Less(t, allocated, uint64(len(body)))
}

// Together documents a bare array; every API's list may come as one.
func TestBareArrayIsAList(t *testing.T) {
	for kind, body := range map[string]string{
		"openai":     `[{"id":"m1"},{"id":"m2"}]`,
		"vllm":       "\ufeff \n[{\"id\":\"m1\"},{\"id\":\"m2\"}]\n",
		"openrouter": `[{"id":"m1"},{"id":"m2","type":"chat","pricing":{"hourly":0}}]`,
		"anthropic":  `[{"id":"m1"},{"id":"m2"}]`,
		"gemini":     `[{"name":"models/m1"},{"name":"models/m2"}]`,
		"ollama":     `[{"name":"m1"},{"model":"m2"}]`,
		"cohere":     `[{"name":"m1"},{"name":"m2"}]`,
	} {
		ms, _, err := listing(t, kind, func() io.Reader { return strings.NewReader(body) })
		require.NoError(t, err, kind)
		assert.Equal(t, []string{"m1", "m2"}, ids(ms), kind)
	}
	ms, _, err := listing(t, "openai", func() io.Reader { return strings.NewReader(`[]`) })
	require.NoError(t, err)
	assert.Empty(t, ms)
}

func TestMembersOfAPage(t *testing.T) {
	for name, tc := range map[string]struct{ kind, body, want string }{
		"the list's last appearance counts": {"openai", `{"data":[{"id":"a"}],"data":[{"id":"b"}]}`, "b"},
		"the better key wins if first":      {"gemini", `{"models":[{"name":"a"}],"data":[{"id":"b"}]}`, "a"},
		"the better key wins if last":       {"gemini", `{"data":[{"id":"b"}],"models":[{"name":"a"}]}`, "a"},
		"other members pass":                {"openai", `{"object":{"a":[1,{}]},"n":1e999,"data":[{"id":"a","x":{"id":"b"}}],"z":null}`, "a"},
		"escaped names":                     {"openai", `{"d\u0061ta":[{"\u0069d":"\u0061"}]}`, "a"},
		"empty errors are none":             {"openai", `{"error":{},"data":[{"id":"a"}]}`, "a"},
		"a cursor of no use":                {"anthropic", `{"data":[{"id":"a"}],"has_more":"yes","last_id":"x"}`, "a"},
		"a cursor of another type":          {"gemini", `{"models":[{"name":"a"}],"nextPageToken":7}`, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, split := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
				ms, _, err := listing(t, tc.kind, func() io.Reader { return split(strings.NewReader(tc.body)) })
				require.NoError(t, err)
				assert.Equal(t, tc.want, strings.Join(ids(ms), " "))
			}
		})
	}
}

func TestPagesThatAreNoList(t *testing.T) {
	for name, tc := range map[string]struct{ kind, body, reason string }{
		"an error after the list":   {"openai", `{"data":[{"id":"a"}],"error":{"message":"secret"}}`, discovery.ReasonHidden},
		"cut after the list":        {"openai", `{"data":[{"id":"a"}]`, discovery.ReasonMalformed},
		"cut in a name":             {"openai", `{"data":[{"id":"a"}],"x`, discovery.ReasonMalformed},
		"a bare list cut":           {"openai", `[{"id":"a"},`, discovery.ReasonMalformed},
		"a bare list and more":      {"openai", `[{"id":"a"}]]`, discovery.ReasonMalformed},
		"values without a comma":    {"openai", `{"data":[{"id":"a"}{"id":"b"}]}`, discovery.ReasonMalformed},
		"numbers apart":             {"openai", `{"data":[1  2]}`, discovery.ReasonMalformed},
		"a control character first": {"openai", "\x00[]", discovery.ReasonMalformed},
		"a cursor without an end":   {"gemini", `{"models":[{"name":"a"}],"nextPageToken":"` + strings.Repeat("x", 10_000) + `"}`, discovery.ReasonTooLarge},
		"a long cursor":             {"gemini", `{"models":[{"name":"a"}],"nextPageToken":"` + strings.Repeat("x", 5000) + `"}`, discovery.ReasonTooLarge},
		"white space alone":         {"openai", " \n\t", discovery.ReasonNoList},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := listing(t, tc.kind, func() io.Reader { return strings.NewReader(tc.body) })
			var le *discovery.ListError
			require.ErrorAs(t, err, &le)
			assert.Equal(t, tc.reason, le.Reason)
			assert.NotContains(t, err.Error(), "secret")
		})
	}
}

// White space within strings is theirs, however the text is cut.
func TestWhiteSpaceIsCutOutsideOfStringsAlone(t *testing.T) {
	want := []string{`a  b`, `q"  "q`, `back\  slash`, `tab	tab`}
	type model struct {
		ID string `json:"id"`
	}
	var list []model
	for _, id := range want {
		list = append(list, model{id})
	}
	body, err := json.MarshalIndent(map[string]any{"data": list}, "   ", "      ")
	require.NoError(t, err)
	ms, _, err := listing(t, "openai", func() io.Reader { return iotest.OneByteReader(strings.NewReader(string(body))) })
	require.NoError(t, err)
	assert.Equal(t, want[:3], ids(ms), "a control character is no name")
}

func BenchmarkDecodeList(b *testing.B) {
	body := `{"data":[` + strings.TrimSuffix(strings.Repeat(`{"id":"vendor/some-model-name","object":"model","created":1700000000,"owned_by":"vendor"},`, 1000), ",") + `]}`
	client := &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		return answer(req, 200, "application/json", body), nil
	})}
	l, err := discovery.NewLister(discovery.ListerConfig{Type: "openai", Client: client, BaseURL: "http://h"})
	require.NoError(b, err)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.ListModels(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
