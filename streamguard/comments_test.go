package streamguard_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
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

// withComments puts comment lines into every event, before it and behind it.
func withComments(events []string, comment string) (with, without string) {
	var b strings.Builder
	for _, ev := range events {
		b.WriteString(comment + "\n")
		for line := range strings.SplitAfterSeq(strings.TrimSuffix(ev, "\n"), "\n") {
			b.WriteString(comment + line)
		}
		b.WriteString(comment + "\n")
	}
	return b.String(), strings.Join(events, "")
}

// strip_comments takes comment lines out wherever they stand and however long
// they are, and nothing else.
func TestCommentsAreStrippedEverywhere(t *testing.T) {
	big := `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat(":x", 50<<10) + `"}}]}` + "\n\n"
	for _, eol := range []string{"\n", "\r\n", "\r"} {
		for _, comment := range []string{":\n", ": ping\n", ": " + strings.Repeat("c", 70<<10) + "\n", ": a\n: b\n"} {
			events := []string{C("a"), "event: x\n" + C("b:"), "id: 1\n" + C("c"), F("stop"), DONE}
			if len(comment) < 1000 {
				events = append([]string{C(": not one"), big}, events...)
			}
			in, want := withComments(events, comment)
			in, want = strings.ReplaceAll(in, "\n", eol), strings.ReplaceAll(want, "\n", eol)
			for _, mode := range []string{"", sg.HoldFirstContent, sg.HoldComplete} {
				readers := []io.Reader{strings.NewReader(in), &sized{data: []byte(in), n: 1777, end: io.EOF}}
				if len(in) < 10_000 {
					readers = append(readers, iotest.OneByteReader(strings.NewReader(in)))
				}
				for _, rd := range readers {
					r := stack(answer("text/event-stream", io.NopCloser(rd)), sg.Policy{HoldUntil: mode, StripComments: true})
					_, got, err := r.readAll(t, streamCall(t, chatPath))
					require.NoError(t, err, "%q %.10q %s", eol, comment, mode)
					require.True(t, want == got, "%q %.10q %s: %.300q", eol, comment, mode, got)
					require.True(t, r.end(t).Complete)
				}
			}
		}
	}
}

// Without it they are relayed, inside an event and behind the first one at any
// length.
func TestCommentsAreRelayed(t *testing.T) {
	in, _ := withComments([]string{C("b"), F("stop"), DONE}, ": "+strings.Repeat("c", 70<<10)+"\n")
	in = C("a") + in
	for _, rd := range []io.Reader{strings.NewReader(in), &sized{data: []byte(in), n: 1777, end: io.EOF}} {
		r := stack(answer("text/event-stream", io.NopCloser(rd)), sg.Policy{})
		_, got, err := r.readAll(t, streamCall(t, chatPath))
		require.NoError(t, err)
		require.True(t, in == got)
	}
	in, _ = withComments([]string{C("a"), F("stop"), DONE}, ": c\n")
	complete(t, chatPath, in)
}

// A comment that is too long to hold commits nothing; the rest of it is dropped.
func TestLongCommentsWhileHeldBack(t *testing.T) {
	long := ": " + strings.Repeat("c", 300<<10)
	for _, p := range []sg.Policy{{}, {HoldUntil: sg.HoldFirstContent}, {HoldUntil: sg.HoldComplete, HoldLimit: 200 << 10}} {
		for name, c := range map[string]struct {
			body, want string
			status     int
		}{
			"an error behind it":     {long + "\n\n" + inBand503, "", 503},
			"an error in the event":  {long + "\n" + inBand503, "", 503},
			"no blank line":          {strings.Repeat(": ping\n", 20_000) + inBand503, "", 503},
			"nothing behind it":      {long, "", 502},
			"nothing but its end":    {long + "\n\n", "", 502},
			"an answer behind it":    {long + "\n\n" + C("a") + DONE, C("a") + DONE, 200},
			"an answer in the event": {long + "\n" + C("a") + DONE, C("a") + DONE, 200},
			"CR LF":                  {long + "\r\n\r\n" + C("a") + DONE, C("a") + DONE, 200},
		} {
			for _, rd := range []io.Reader{strings.NewReader(c.body), &sized{data: []byte(c.body), n: 999, end: io.EOF}} {
				r := stack(answer("text/event-stream", io.NopCloser(rd)), p)
				resp, got, err := r.readAll(t, streamCall(t, chatPath))
				require.NoError(t, err, name)
				assert.Equal(t, c.status, resp.StatusCode, name)
				if c.status == 200 {
					assert.Equal(t, c.want, got, name)
				}
			}
		}
	}
}

// An event that is added behind a comment that was left out stands alone, and
// no blank line is added.
func TestAppendedBehindAStrippedComment(t *testing.T) {
	for _, tail := range []string{": " + strings.Repeat("c", 80<<10), "id: 1\n: " + strings.Repeat("c", 80<<10)} {
		r := stack(sse(part{data: C("a") + tail}), sg.Policy{StripComments: true})
		_, got, err := r.readAll(t, streamCall(t, chatPath))
		require.ErrorIs(t, err, sg.ErrIncomplete)
		assert.NotContains(t, got, ": c")
		assert.NotContains(t, got, "\n\n\n")
		before, _, ok := strings.Cut(got, `data: {"error":`)
		require.True(t, ok)
		assert.True(t, strings.HasSuffix(before, "\n\n"), "%q", before)
	}
}

// Wherever the pieces of a large event are cut, the same lines stay.
func TestCommentsInPieces(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 3))
	for range 200 {
		var in, want strings.Builder
		in.WriteString(`data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 66<<10) + `"}}]}`)
		want.WriteString(in.String())
		eol := []string{"\n", "\r\n", "\r"}[r.IntN(3)]
		in.WriteString(eol)
		want.WriteString(eol)
		for range r.IntN(6) {
			line := []string{": c", ":", "id: 4", "data:  ", "retry"}[r.IntN(5)] + eol
			in.WriteString(line)
			if line[0] != ':' {
				want.WriteString(line)
			}
		}
		end := strings.ReplaceAll("\n"+F("stop"), "\n", eol)
		in.WriteString(end)
		want.WriteString(end)
		g := stack(answer("text/event-stream", &chopped{r, in.String(), io.EOF}), sg.Policy{StripComments: true})
		_, got, err := g.readAll(t, streamCall(t, chatPath))
		require.NoError(t, err, "seed %d", seed)
		require.Equal(t, want.String()[66<<10:], got[66<<10:], "seed %d", seed)
	}
}

// upstreamBody fails in its first Read, or after its data, in a way that does
// not return.
type upstreamBody struct {
	data   string
	fail   func()
	closed bool
}

func (b *upstreamBody) Read(p []byte) (int, error) {
	if b.data == "" {
		b.fail()
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	return n, nil
}

func (b *upstreamBody) Close() error {
	b.closed = true
	panic("close") // must not hide what Read panicked with
}

// Whichever layer reads first, a Read that does not return leaves no body open.
func TestFirstReadThatDoesNotReturn(t *testing.T) {
	layers := map[string]func(http.RoundTripper) http.RoundTripper{
		"guard": func(base http.RoundTripper) http.RoundTripper {
			return &sg.Guard{Base: base, Policy: sg.Policy{FirstEventTimeout: time.Hour, IdleTimeout: time.Hour}}
		},
		"unmasker": func(base http.RoundTripper) http.RoundTripper { return &sg.Unmasker{Base: base} },
		"stack":    func(base http.RoundTripper) http.RoundTripper { return stack(base, sg.DefaultPolicy()).guard },
	}
	for name, layer := range layers {
		for _, label := range []string{"text/event-stream", "application/json", ""} {
			for _, data := range []string{"", ": x\n\n", `{"choices":`, "<html>"} {
				for _, call := range []func(testing.TB, string) *http.Request{streamCall, plainCall} {
					if name == "guard" && label != "text/event-stream" {
						call = streamCall // what is no stream is not its business
					}
					body := &upstreamBody{data: data, fail: func() { panic("read") }}
					rt := layer(answer(label, body))
					require.PanicsWithValue(t, "read", func() { _, _ = rt.RoundTrip(call(t, chatPath)) }, "%s %s %q", name, label, data) //nolint:bodyclose // none
					require.True(t, body.closed, "%s %s %q", name, label, data)

					body = &upstreamBody{data: data, fail: runtime.Goexit}
					rt = layer(answer(label, body))
					done := make(chan bool)
					go func() {
						defer close(done)
						_, _ = rt.RoundTrip(call(t, chatPath)) //nolint:bodyclose // none
						done <- true
					}()
					require.False(t, <-done, "returned")
					require.True(t, body.closed, "%s %s %q: Goexit", name, label, data)
				}
			}
		}
	}
}

// A base that says that a body is shorter than it is does not switch the idle
// timeout off.
func TestIdleBehindAWrongLength(t *testing.T) {
	for name, c := range map[string]struct {
		label, first string
		length       int64
	}{
		"a stream, less than its first event": {"text/event-stream", C("a"), 10},
		"a stream, its first event":           {"text/event-stream", C("a"), int64(len(C("a")))},
		"a body":                              {"application/json", `{"choices":[`, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			base := answer(c.label, script(part{data: c.first}, part{hang: true}))
			rt := &sg.Idle{Timeout: time.Second, Base: roundTripper(func(req *http.Request) (*http.Response, error) {
				resp, err := base(req)
				resp.ContentLength = c.length
				return resp, err
			})}
			resp, err := rt.RoundTrip(streamCall(t, chatPath))
			require.NoError(t, err)
			start := time.Now()
			_, err = io.ReadAll(resp.Body)
			require.NoError(t, resp.Body.Close())
			var timeout *ending.TimeoutError
			require.True(t, errors.As(err, &timeout), name)
			assert.Equal(t, time.Second, time.Since(start))
		})
	}
}
