package streamguard_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
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

// stubborn sends its data and then nothing, and never an error.
type stubborn struct{ io.Reader }

func (s stubborn) Read(p []byte) (int, error) {
	n, _ := s.Reader.Read(p)
	return n, nil
}

func TestBodiesThatMakeNoProgress(t *testing.T) {
	for _, data := range []string{C("a"), ": x\n\n", "", `{"choices":`} {
		r := stack(answer("text/event-stream", io.NopCloser(stubborn{strings.NewReader(data)})), sg.Policy{})
		_, _, err := r.readAll(t, streamCall(t, chatPath))
		require.ErrorIs(t, err, io.ErrNoProgress, data)
	}
}

func TestOlderCancelChannel(t *testing.T) {
	cancel := make(chan struct{})
	req := streamCall(t, chatPath)
	req.Cancel = cancel //nolint:staticcheck // net/http still honors it
	r := stack(sse(part{data: C("a")}), sg.Policy{})
	resp, err := r.guard.RoundTrip(req)
	require.NoError(t, err)
	close(cancel)
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, resp.Body.Close())
	assert.True(t, r.end(t).Closed)
}

func TestErrorTexts(t *testing.T) {
	_, ok := sg.Unmasked(nil)
	assert.False(t, ok)
	_, ok = sg.Unmasked(&http.Response{})
	assert.False(t, ok)
}

func TestCallersReasonIsTold(t *testing.T) {
	why := errors.New("user left")
	ctx, cancel := context.WithCancelCause(t.Context())
	r := stack(sse(part{data: C("a")}), sg.Policy{})
	resp, err := r.guard.RoundTrip(request(t, ctx, chatPath, `{"stream":true}`))
	require.NoError(t, err)
	cancel(why)
	_, err = io.ReadAll(resp.Body)
	require.EqualError(t, err, "context canceled: user left")
	require.NoError(t, resp.Body.Close())
	// A cause that is a timeout is one, and no cancellation.
	ctx, cancel = context.WithCancelCause(t.Context())
	r = stack(sse(part{data: C("a")}), sg.Policy{})
	resp, err = r.guard.RoundTrip(request(t, ctx, chatPath, `{"stream":true}`))
	require.NoError(t, err)
	cancel(&ending.TimeoutError{What: "call"})
	_, err = io.ReadAll(resp.Body)
	require.NotErrorIs(t, err, context.Canceled)
	require.NoError(t, resp.Body.Close())
	assert.False(t, r.end(t).Closed)
	require.Error(t, r.end(t).Err)
}

func TestHookPanicsAreLogged(t *testing.T) {
	var log bytes.Buffer
	u := &sg.Unmasker{
		Base: answer("", pieces(OKJSON)), OnVerdict: func(*http.Request, *http.Response, sg.Report) { panic("oops") },
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	resp, err := u.RoundTrip(plainCall(t, chatPath))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Contains(t, log.String(), "hook=OnVerdict panic=string")
}

func TestStreamThatWasNotAskedFor(t *testing.T) {
	// The unmasker has read its start; the idle timeout below it still holds.
	synctest.Test(t, func(t *testing.T) {
		r := stack(sse(part{data: C("a")}, part{hang: true}), idle200)
		start := time.Now()
		_, got, err := r.readAll(t, plainCall(t, chatPath))
		aborted(t, got, C("a"))
		var timeout *ending.TimeoutError
		require.ErrorAs(t, err, &timeout)
		assert.Equal(t, 200*time.Millisecond, time.Since(start))
	})
	// An error is one at its start, too.
	r := stack(sse(part{data: inBand503}), sg.Policy{})
	resp, _, err := r.readAll(t, plainCall(t, chatPath))
	require.NoError(t, err)
	assert.Equal(t, 503, resp.StatusCode)
	// And one that fails before anything came is the transport's.
	u := &sg.Unmasker{Base: sse(part{data: ": x\n\n", err: errReset})}
	_, err = u.RoundTrip(plainCall(t, chatPath)) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, errReset)
}

func TestGoodAnswersKeepTheirFraming(t *testing.T) {
	body := "\n " + OKJSON + "\n"
	base := answer("application/json", pieces(body[:5], body[5:]))
	u := &sg.Unmasker{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := base(req)
		resp.TransferEncoding = []string{"chunked"}
		resp.Trailer = http.Header{"X-Sum": nil}
		return resp, err
	})}
	resp, err := u.RoundTrip(plainCall(t, chatPath))
	require.NoError(t, err)
	var got bytes.Buffer
	_, err = io.Copy(&got, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, body, got.String())
	assert.EqualValues(t, -1, resp.ContentLength)
	assert.Equal(t, []string{"chunked"}, resp.TransferEncoding)
	assert.Contains(t, resp.Trailer, "X-Sum")
}

func TestRequestBodiesThatCannotBeRead(t *testing.T) {
	boom := errors.New("boom")
	sent := roundTripper(func(*http.Request) (*http.Response, error) { t.Error("sent"); return nil, boom })
	for _, rt := range []http.RoundTripper{&sg.Guard{Base: sent}, &sg.Unmasker{Base: sent}} {
		closes := 0
		req := streamCall(t, chatPath)
		req.Body = &countCloser{iotest.ErrReader(boom), &closes}
		_, err := rt.RoundTrip(req) //nolint:bodyclose // there is none
		require.ErrorIs(t, err, boom)
		assert.Equal(t, 1, closes)

		req.Body = &countCloser{strings.NewReader("{}"), &closes}
		req.ContentLength = 3
		_, err = rt.RoundTrip(req) //nolint:bodyclose // there is none
		require.ErrorContains(t, err, "with Body length 2")
		assert.NotEqual(t, 1, closes)
	}
}

// Code above replaces Body and leaves GetBody: what Body holds is looked at and
// sent, of any size.
func TestAReplacedBodyIsLookedAtAndSent(t *testing.T) {
	const was = `{"model":"m","card":"4111"}`
	for name, is := range map[string]string{
		"same length":  `{"model":"m","card":"XXXX"}`,
		"other length": `{"model":"m","card":"X","stream":true}`,
		"5 MiB":        `{"stream":true,"card":"` + strings.Repeat("X", 5<<20) + `"}`,
	} {
		for kind, body := range map[string]func() io.ReadCloser{
			"memory": func() io.ReadCloser { return io.NopCloser(strings.NewReader(is)) },
			"pipe":   func() io.ReadCloser { return &countCloser{strings.NewReader(is), new(int)} },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				got := ""
				base := roundTripper(func(out *http.Request) (*http.Response, error) {
					b, err := io.ReadAll(out.Body)
					require.NoError(t, err)
					require.NoError(t, out.Body.Close())
					got = string(b)
					return answer("text/event-stream", pieces(C("a")+DONE))(out)
				})
				for _, rt := range []http.RoundTripper{&sg.Guard{Base: base}, &sg.Unmasker{Base: base}, &sg.Guard{Base: &sg.Unmasker{Base: base}}} {
					req, err := http.NewRequestWithContext(t.Context(), "POST", "https://api.example.com"+chatPath, strings.NewReader(was))
					require.NoError(t, err)
					req.Body, req.ContentLength = body(), -1
					resp, err := rt.RoundTrip(req)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					assert.True(t, is == got)
				}
			})
		}
	}
}

func TestCloseTellsOnce(t *testing.T) {
	// The stream broke; the caller closes before it has read so far.
	r := stack(sse(whole(C("a")+C("b")+"data: {\n\n", DONE)...), sg.Policy{})
	resp, err := r.guard.RoundTrip(streamCall(t, chatPath))
	require.NoError(t, err)
	p := make([]byte, 10)
	for range len(C("a"))/10 + 2 {
		_, err = resp.Body.Read(p)
		require.NoError(t, err)
	}
	require.NoError(t, resp.Body.Close())
	require.NoError(t, resp.Body.Close())
	require.ErrorIs(t, r.end(t).Err, sg.ErrIncomplete)
	assert.False(t, r.end(t).Closed)
	n, err := resp.Body.Read(nil)
	require.NoError(t, err)
	require.Zero(t, n)
}

// A base that breaks the rules of http.RoundTripper costs neither a panic nor a
// connection.
func TestBasesThatBreakTheRules(t *testing.T) {
	t.Parallel()
	for name, layer := range map[string]func(http.RoundTripper) http.RoundTripper{
		"idle":     func(b http.RoundTripper) http.RoundTripper { return &sg.Idle{Base: b, Timeout: time.Second} },
		"unmasker": func(b http.RoundTripper) http.RoundTripper { return &sg.Unmasker{Base: b} },
		"guard":    func(b http.RoundTripper) http.RoundTripper { return &sg.Guard{Base: b} },
	} {
		resp, err := layer(roundTripper(func(*http.Request) (*http.Response, error) {
			return nil, nil //nolint:nilnil // what is tested
		})).RoundTrip(request(t, t.Context(), chatPath, "{}"))
		require.Error(t, err, name)
		require.Nil(t, resp, name)

		body := &closing{closed: make(chan struct{})}
		failed := errors.New("failed")
		resp, err = layer(roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: body}, failed
		})).RoundTrip(request(t, t.Context(), chatPath, "{}"))
		require.ErrorIs(t, err, failed, name)
		require.Nil(t, resp, name)
		<-body.closed

		resp, err = layer(roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200}, nil
		})).RoundTrip(request(t, t.Context(), chatPath, "{}"))
		require.NoError(t, err, name)
		require.NotNil(t, resp.Body, name)
		if name == "unmasker" {
			require.Equal(t, 502, resp.StatusCode, "an empty answer")
		}
		require.NoError(t, resp.Body.Close())
	}
}
