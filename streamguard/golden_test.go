package streamguard_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	sg "github.com/surefoot-go/surefoot/streamguard"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

var goldenFormats = map[string]*wire.Format{
	"chat": wire.Chat, "completions": wire.Completions, "messages": wire.Messages, "responses": wire.Responses,
	"quirks": wire.Chat, "gemini": wire.Gemini, "interactions": wire.Interactions, "ollama": wire.Ollama,
	"cohere": wire.Cohere, "bedrock": wire.Bedrock, "dashscope": wire.DashScope, "conversations": wire.Conversations,
}

// guarded relays what rd sends as a stream of format f.
func guarded(rd io.Reader, f *wire.Format, p sg.Policy) (*http.Response, sg.End, error) {
	var end sg.End
	g := &sg.Guard{
		Base: answer("text/event-stream", io.NopCloser(rd)), Policy: p,
		Call: above{wire.Request{Format: f, Stream: true}, func(e sg.End) { end = e }}.call,
	}
	req, err := http.NewRequest(http.MethodPost, "http://up/", http.NoBody) //nolint:noctx // never leaves the test
	if err != nil {
		return nil, end, err
	}
	resp, err := g.RoundTrip(req)
	if err != nil {
		return nil, end, err
	}
	got, err := readIn(resp.Body, 4096)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(strings.NewReader(got))
	return resp, end, err
}

func TestGoldens(t *testing.T) {
	files, err := filepath.Glob("wire/testdata/*/*.*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		f := goldenFormats[filepath.Base(filepath.Dir(file))]
		require.NotNil(t, f, file)
		t.Run(strings.TrimPrefix(file, "wire/testdata/"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			goldenWhole(t, f, data)
			step := 3 // package wire cuts them at every byte
			if strings.Contains(file, "/quirks/") {
				step = 13
			}
			goldenCut(t, f, data, step)
		})
	}
}

// goldenWhole feeds the stream in several ways and wants it back unchanged.
func goldenWhole(t *testing.T, f *wire.Format, data []byte) {
	for _, rd := range []io.Reader{
		bytes.NewReader(data), iotest.OneByteReader(bytes.NewReader(data)), iotest.DataErrReader(bytes.NewReader(data)),
	} {
		resp, end, err := guarded(rd, f, sg.Policy{})
		if end.Failure == nil {
			require.NoError(t, err)
		} else {
			failedInBand(t, err, end.Failure.Status)
		}
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		said, _, _ := prefix(f.NewStream(wire.StreamOptions{}), data)
		require.Equal(t, said, string(got))
		require.True(t, end.Failure != nil || said == string(data))
		assert.Equal(t, end.Failure == nil, end.Complete)
	}
}

// goldenCut cuts the stream at every step-th byte: what arrived whole is handed out,
// and what was not its end is not taken for one.
func goldenCut(t *testing.T, f *wire.Format, data []byte, step int) {
	for n := 0; n < len(data); n += step {
		for _, end := range []error{io.EOF, io.ErrUnexpectedEOF} {
			resp, how, err := guarded(io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(end)), f, sg.Policy{})
			s := f.NewStream(wire.StreamOptions{})
			said, seen, ended := prefix(s, data[:n])
			ended = ended || end == io.EOF && s.CompleteAtEOF()
			switch {
			case resp == nil: // nothing came
				require.Equal(t, io.ErrUnexpectedEOF, err, n)
				require.False(t, seen)
			case resp.StatusCode != 200:
				require.NoError(t, err)
				require.True(t, !seen || s.Failure() != nil, n)
			default:
				b, _ := io.ReadAll(resp.Body)
				got := string(b)
				require.True(t, strings.HasPrefix(got, said), n)
				if ended {
					if s.Failure() == nil {
						require.NoError(t, err, n)
					} else {
						failedInBand(t, err, s.Failure().Status, n)
					}
					require.Equal(t, said, got, n)
					require.Equal(t, s.Failure() == nil, how.Complete)
					continue
				}
				require.ErrorIs(t, err, sg.ErrIncomplete)
				require.True(t, errors.Is(err, io.ErrUnexpectedEOF))
				if f == wire.Bedrock {
					require.Empty(t, got[len(said):], "nothing can be added")
				} else {
					require.Contains(t, got[len(said):], "rror")
				}
				require.False(t, how.Complete)
			}
		}
	}
}

// prefix returns the whole events of b, but for those that say behind a failure
// that all is well, whether one commits a stream, and whether they end it.
func prefix(s *wire.Stream, b []byte) (said string, seen, ended bool) {
	out, failed := make([]byte, 0, len(b)), false
	take := func(ev []byte, m wire.Mark) {
		seen = seen || m&wire.MarkData != 0
		if !failed || m&(wire.MarkEnd|wire.MarkFinal) == 0 || m&wire.MarkFailed != 0 {
			out = append(out, ev...)
		}
		failed = s.Failure() != nil
	}
	for k := s.Next(b); k > 0; k = s.Next(b) {
		take(b[:k], s.Event(b[:k]))
		b = b[k:]
	}
	if m, whole := s.Rest(b); whole {
		take(b, m)
	}
	return string(out), seen, s.Complete()
}

// FuzzGuard feeds any bytes in any pieces: the caller gets a prefix of whole
// events, and at most one event more.
func FuzzGuard(f *testing.F) {
	for _, s := range []string{C("a") + F("stop") + DONE, C("a") + inBand503, ": x\r\n\r\n" + C("a"), MS + T("a"), "data: {\"x\n\n", "\xef\xbb\xbf" + C("a") + "\r\r\n"} {
		f.Add([]byte(s), uint8(3), uint8(0), true)
		f.Add([]byte(C("a")+s), uint8(200), uint8(1), false)
	}
	f.Add([]byte(`[{"candidates":[{"content":{"parts":[{"text":"a"}]}}]},`+"\n{}"), uint8(9), uint8(4), true)
	f.Add([]byte(`{"message":{"content":"a"},"done":false}`+"\n\n{"), uint8(9), uint8(5), false)
	// What an added event begins with, and what may stand before it.
	formats := []struct {
		format       *wire.Format
		mark, before string
	}{
		{wire.Chat, "data: ", "\r\n"}, {wire.Responses, "event: error", "\r\n"}, {wire.Messages, "event: error", "\r\n"},
		{wire.Completions, "data: ", "\r\n"}, {wire.Gemini, `{"error":{"code":503,"message":"the `, "data: \r\n,"},
		{wire.Ollama, `{"error":"the `, "data: \r\n"}, {wire.Cohere, "event: message-end", "\r\n"},
	}
	f.Fuzz(func(t *testing.T, data []byte, size, kind uint8, clean bool) {
		end := io.ErrUnexpectedEOF
		if clean {
			end = io.EOF
		}
		kindOf := formats[int(kind)%len(formats)]
		format := kindOf.format
		rd := &sized{data: data, n: int(size) + 1, end: end}
		resp, how, err := guarded(rd, format, sg.Policy{HoldUntil: []string{"", sg.HoldFirstContent}[kind/16%2]})
		if resp == nil {
			require.Error(t, err)
			return
		}
		b, rerr := io.ReadAll(resp.Body)
		require.NoError(t, rerr)
		if resp.StatusCode != 200 {
			require.NoError(t, err)
			return
		}
		if err == nil {
			require.True(t, bytes.HasPrefix(data, b), "%q", b)
			return
		}
		require.ErrorIs(t, err, sg.ErrIncomplete)
		require.Error(t, how.Err)
		if how.Failure != nil {
			failedInBand(t, err, how.Failure.Status)
			require.True(t, isWithin(data, b), "%q", b) // what follows the failure has gaps
			return
		}
		// The bytes before the added event are the stream's, and a line end or
		// two where it had to be closed.
		cut := bytes.LastIndex(b, []byte(kindOf.mark))
		require.GreaterOrEqual(t, cut, 0)
		before := bytes.TrimRight(b[:cut], kindOf.before)
		require.True(t, bytes.HasPrefix(data, before), "%q is no prefix of %q", before, data)
	})
}

// isWithin reports whether b is data with parts of it left out.
func isWithin(data, b []byte) bool {
	for _, c := range data {
		if len(b) > 0 && b[0] == c {
			b = b[1:]
		}
	}
	return len(b) == 0
}

type sized struct {
	data []byte
	n    int
	end  error
}

func (s *sized) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, s.end
	}
	n := copy(p, s.data[:min(s.n, len(s.data))])
	s.data = s.data[n:]
	return n, nil
}
