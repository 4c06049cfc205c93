package streamguard_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	sg "github.com/surefoot-go/surefoot/streamguard"
)

func TestIdleAlone(t *testing.T) {
	const url = "http://up/anything"
	get := func(t *testing.T, body io.ReadCloser) *http.Response {
		resp, err := (&sg.Idle{Base: answer("x/y", body), Timeout: time.Second}).RoundTrip(plainCall(t, url))
		require.NoError(t, err)
		return resp
	}
	synctest.Test(t, func(t *testing.T) { // the first byte may take its time, any byte restarts
		parts := []part{{wait: time.Hour, data: "a"}}
		for range 10 {
			parts = append(parts, part{wait: 900 * time.Millisecond, data: "b"})
		}
		resp := get(t, script(parts...))
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "abbbbbbbbbb", string(got))
		require.NoError(t, resp.Body.Close())
	})
	synctest.Test(t, func(t *testing.T) { // silence
		body := script(part{data: "a"}, part{hang: true})
		resp := get(t, body)
		start := time.Now()
		got, err := io.ReadAll(resp.Body)
		var ne net.Error
		require.ErrorAs(t, err, &ne)
		assert.True(t, ne.Timeout())
		assert.Equal(t, "a", string(got))
		assert.Equal(t, time.Second, time.Since(start))
		assert.True(t, body.isClosed())
		_, again := resp.Body.Read(make([]byte, 1))
		assert.Equal(t, err, again)
		require.NoError(t, resp.Body.Close())
	})
	synctest.Test(t, func(t *testing.T) { // slow callers
		resp := get(t, pieces("a", "b", "c"))
		p := make([]byte, 10)
		for range 3 {
			time.Sleep(time.Hour)
			n, err := resp.Body.Read(p)
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		require.NoError(t, resp.Body.Close())
	})
	synctest.Test(t, func(t *testing.T) { // a close beside a Read, and no late timer
		body := script(part{data: "a"}, part{hang: true})
		resp := get(t, body)
		time.AfterFunc(time.Millisecond, func() { _ = resp.Body.Close() })
		_, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, errClosed)
	})
	t.Run("untouched", func(t *testing.T) {
		for _, c := range []struct {
			method string
			status int
			body   io.ReadCloser
		}{
			{"GET", 101, rwc{}}, {"HEAD", 200, pieces("x")}, {"POST", 204, pieces("x")},
			{"GET", 304, pieces("x")}, {"POST", 200, http.NoBody},
		} {
			idle := &sg.Idle{
				Timeout: time.Second,
				Base: roundTripper(func(req *http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: c.status, Body: c.body, Request: req}, nil
				}),
			}
			req, err := http.NewRequestWithContext(t.Context(), c.method, url, http.NoBody)
			require.NoError(t, err)
			for _, rt := range []http.RoundTripper{idle, &sg.Guard{Base: &sg.Unmasker{Base: idle}, Policy: sg.DefaultPolicy()}} {
				resp, err := rt.RoundTrip(req)
				require.NoError(t, err)
				require.Equal(t, c.body, resp.Body)
				_ = resp.Body.Close()
			}
		}
	})
}

// rwc is the body of an upgraded connection.
type rwc struct{ io.ReadWriteCloser }

func (rwc) Close() error { return nil }

func TestLayersForwardAndPassErrors(t *testing.T) {
	boom := errors.New("boom")
	b := &closer{err: boom}
	for _, rt := range []http.RoundTripper{&sg.Idle{Base: b}, &sg.Unmasker{Base: b}, &sg.Guard{Base: b}} {
		resp, err := rt.RoundTrip(streamCall(t, chatPath)) //nolint:bodyclose // there is none
		require.Nil(t, resp)
		require.Equal(t, boom, err)
		rt.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	}
	assert.Equal(t, 3, b.closed)
}

type closer struct {
	err    error
	closed int
}

func (c *closer) RoundTrip(*http.Request) (*http.Response, error) { return nil, c.err }
func (c *closer) CloseIdleConnections()                           { c.closed++ }

func TestPolicyValidate(t *testing.T) {
	require.NoError(t, sg.Policy{}.Validate())
	require.NoError(t, sg.DefaultPolicy().Validate())
	bad := sg.Policy{
		IdleTimeout: -1, EventTimeout: -1, FirstEventTimeout: -1, HoldUntil: "later", HoldLimit: -1, IncompleteRead: "maybe",
	}
	err := bad.Validate()
	for _, field := range []string{"idle_timeout", "event_timeout", "first_event_timeout", "hold_until", "hold_limit", "incomplete_read"} {
		require.ErrorContains(t, err, "stream."+field+": ")
	}
	require.Zero(t, testing.AllocsPerRun(10, func() { _ = sg.DefaultPolicy().Validate() }))
	body := script()
	req := streamCall(t, chatPath)
	req.Body = body
	_, err = (&sg.Guard{Policy: bad}).RoundTrip(req) //nolint:bodyclose // there is none
	require.Error(t, err)
	assert.True(t, body.isClosed())
}

func TestUnmaskerKeepsWhatItMay(t *testing.T) {
	u := &sg.Unmasker{Provider: "up", Base: roundTripper(func(req *http.Request) (*http.Response, error) {
		return &http.Response{
			Status: "200 OK", StatusCode: 200, Request: req, ContentLength: -1, TransferEncoding: []string{"chunked"},
			Header: shared, Body: pieces(`{"error":"busy"}`),
		}, nil
	})}
	resp, err := u.RoundTrip(plainCall(t, chatPath))
	require.NoError(t, err)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 502, resp.StatusCode)
	assert.Contains(t, string(got), `"error":{`)
	assert.Contains(t, string(got), "busy")
	assert.Equal(t, "7", resp.Header.Get("X-Request-Id"))
	assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
	assert.Empty(t, resp.TransferEncoding)
	assert.Equal(t, []string{"text/plain"}, shared["Content-Type"], "the base's own map is left alone")
}

var shared = http.Header{"X-Request-Id": {"7"}, "Content-Type": {"text/plain"}, "Content-Encoding": {"identity"}}

func TestUnmaskerLimit(t *testing.T) {
	fill := func(n int) string { // an error envelope of n bytes
		s := `{"error":{"code":429,"message":"`
		return s + strings.Repeat("x", n-len(s)-3) + `"}}`
	}
	for _, n := range []int{8 << 20, 8<<20 + 1, 9 << 20} {
		for _, length := range []int64{-1, int64(n)} {
			data := fill(n)
			base := answer("application/json", pieces(data))
			u := stack(roundTripper(func(req *http.Request) (*http.Response, error) {
				resp, err := base(req)
				resp.ContentLength = length
				return resp, err
			}), sg.Policy{})
			resp, got, err := u.readAll(t, plainCall(t, chatPath))
			require.NoError(t, err)
			assert.True(t, data == got, n)
			if n <= 8<<20 {
				assert.Equal(t, 429, resp.StatusCode)
				assert.Len(t, u.reports[0].Original, 64<<10)
				continue
			}
			assert.Equal(t, 200, resp.StatusCode)
			assert.Equal(t, length, resp.ContentLength)
			assert.Empty(t, u.reports)
		}
	}
}

func TestEncodedBodiesAreLeftAlone(t *testing.T) {
	for _, body := range []string{"\x1f\x8b garbage", `{"error":{"code":429}}`, C("a")} {
		base := answer("text/event-stream", pieces(body))
		r := stack(roundTripper(func(req *http.Request) (*http.Response, error) {
			resp, err := base(req)
			resp.Header.Set("Content-Encoding", "gzip")
			return resp, err
		}), sg.DefaultPolicy())
		resp, got, err := r.readAll(t, streamCall(t, chatPath))
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, body, got)
		assert.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
	}
}

// net/http decodes nothing of a body whose length is 0, so it leaves the
// header, which made an empty answer pass as a good one.
func TestAnEmptyBodyIsEmptyInAnyEncoding(t *testing.T) {
	for name, call := range map[string]func(testing.TB, string) *http.Request{"whole": plainCall, "stream": streamCall} {
		t.Run(name, func(t *testing.T) {
			r := stack(roundTripper(func(req *http.Request) (*http.Response, error) {
				resp, err := answer("application/json", http.NoBody)(req)
				resp.ContentLength = 0
				resp.Header.Set("Content-Encoding", "gzip")
				return resp, err
			}), sg.DefaultPolicy())
			resp, got, err := r.readAll(t, call(t, chatPath))
			require.NoError(t, err)
			assert.Equal(t, 502, resp.StatusCode)
			assert.Contains(t, got, "empty")
			assert.Empty(t, resp.Header.Get("Content-Encoding"), "header and body agree")
		})
	}
}

func TestOtherCallsAreLeftAlone(t *testing.T) {
	r := stack(answer("text/event-stream", pieces("data: {\"error\":1}\n\ndata: {bro")), sg.DefaultPolicy())
	_, got, err := r.readAll(t, streamCall(t, "http://up/v1/threads/t/runs"))
	require.NoError(t, err)
	assert.Equal(t, "data: {\"error\":1}\n\ndata: {bro", got)
	assert.Empty(t, r.ends)
	t.Run("error status", func(t *testing.T) {
		base := answer("text/event-stream", pieces("data: x"))
		r := stack(roundTripper(func(req *http.Request) (*http.Response, error) {
			resp, err := base(req)
			resp.StatusCode = 503
			return resp, err
		}), sg.DefaultPolicy())
		resp, got, err := r.readAll(t, streamCall(t, chatPath))
		require.NoError(t, err)
		assert.Equal(t, 503, resp.StatusCode)
		assert.Equal(t, "data: x", got)
	})
}

// sharedReader is a body whose copies share one reader, as some SDKs have it.
func TestBodiesThatShareOneReader(t *testing.T) {
	rd := bytes.NewReader([]byte(`{"model":"m","stream":true}`))
	req := streamCall(t, chatPath)
	closes := 0
	share := func() (io.ReadCloser, error) {
		_, err := rd.Seek(0, io.SeekStart)
		return &countCloser{rd, &closes}, err
	}
	req.Body, _ = share()
	req.GetBody = share
	original := req.Body
	g := &sg.Guard{Base: &sg.Unmasker{Base: roundTripper(func(out *http.Request) (*http.Response, error) {
		got, err := io.ReadAll(out.Body)
		require.NoError(t, err)
		assert.JSONEq(t, `{"model":"m","stream":true}`, string(got))
		return answer("text/event-stream", pieces(C("a")+DONE))(out)
	})}}
	resp, err := g.RoundTrip(req)
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, original, req.Body, "the request is not modified")
	assert.Equal(t, 1, closes, "GetBody is not asked")
	assert.Equal(t, req, resp.Request)
}

type countCloser struct {
	io.Reader
	n *int
}

func (c *countCloser) Close() error { *c.n++; return nil }
