package upstreamtest_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

const (
	chatPath = "/v1/chat/completions"
	// patience ends a test that hangs; no machine is so slow that it is met.
	patience = 5 * time.Minute
)

// reach is one way to talk to an Upstream.
type reach struct {
	name   string
	up     *upstreamtest.Upstream
	client *http.Client
}

// both runs f over a socket and in memory.
func both(t *testing.T, f func(t *testing.T, r reach)) {
	t.Helper()
	t.Run("socket", func(t *testing.T) {
		up := upstreamtest.New()
		t.Cleanup(up.Close)
		client := up.Client()
		t.Cleanup(client.CloseIdleConnections)
		f(t, reach{"socket", up, client})
	})
	t.Run("memory", func(t *testing.T) {
		up := upstreamtest.NewInMemory("")
		t.Cleanup(up.Close)
		f(t, reach{"memory", up, up.Client()})
	})
}

// got is an answer read to its end.
type got struct {
	status int
	header http.Header
	length int64
	body   string
	err    error // of RoundTrip
	read   error // of the body
}

func (r reach) post(t *testing.T, path, body string) got {
	t.Helper()
	return r.do(t, http.MethodPost, path, body, nil)
}

func (r reach) do(t *testing.T, method, path, body string, header http.Header) got {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.up.URL+path, in)
	require.NoError(t, err)
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return got{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return got{status: resp.StatusCode, header: resp.Header, length: resp.ContentLength, body: string(b), read: err}
}

func ask(model string, stream bool) string {
	if stream {
		return `{"model":"` + model + `","stream":true,"messages":[]}`
	}
	return `{"model":"` + model + `","messages":[]}`
}

// settled waits until no goroutine of the package is left.
func settled(t *testing.T) {
	t.Helper()
	ours := func() []byte {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		for _, g := range bytes.Split(buf, []byte("\n\n")) {
			if bytes.Contains(g, []byte("upstreamtest.(*Upstream)")) && !bytes.Contains(g, []byte("testing.tRunner")) ||
				bytes.Contains(g, []byte("net/http.(*conn).serve")) || bytes.Contains(g, []byte("net/http.(*connReader).backgroundRead")) {
				return g
			}
		}
		return nil
	}
	require.Eventually(t, func() bool { return ours() == nil }, patience, time.Millisecond, "%s", ours())
}
