package failover_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// What an error's body says is its code and message, however it is written.
func TestPhrasesInEveryShapeOfError(t *testing.T) {
	for body, moves := range map[string]bool{
		`{"error":{"message":"x","code":"model_not_found"}}`:                            true,
		`{"type":"error","error":{"type":"not_found_error","message":"model: m"}}`:      true,
		`{"error":{"code":404,"message":"models/m is not found","status":"NOT_FOUND"}}`: true,
		`[{"error":{"code":404,"message":"models/m is not found"}}]`:                    true,
		`{"error":"model 'm' not found, try pulling it first"}`:                         true,
		`{"detail":"model not found"}`:                                                  true,
		`{"object":"error","message":"The model m does not exist.","code":404}`:         true,
		`{"error":{"message":"x","type":"upstream_error","code":404}}`:                  true,
		"\xef\xbb\xbf" + `{"error":{"message":"MODEL m NOT FOUND"}}`:                    true,
		"model m not found\n":                           true,
		"404 page not found\n":                          false,
		"<!DOCTYPE html><title>model not found</title>": false,
		strings.Repeat("model not found ", 1000):        false,
		`{"error":{"message":"Not Found"}}`:             false,
	} {
		a, b := newUpstream(reply{status: 404, body: body, header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}}), healthy()
		got := ask(t, two(t, once(), a, b), "a-1")
		if moves {
			assert.Equal(t, 200, got.StatusCode, "%.80s", body)
			continue
		}
		assert.Equal(t, 404, got.StatusCode, "%.80s", body)
		assert.Equal(t, body, got.body)
		assert.Zero(t, b.count())
	}
	html := newUpstream(reply{status: 404, body: "model not found", header: http.Header{"Content-Type": {"text/html"}}})
	assert.Equal(t, 404, ask(t, two(t, once(), html, healthy()), "a-1").StatusCode)
}

func TestModelAfterAByteOrderMark(t *testing.T) {
	const bom = "\xef\xbb\xbf"
	u := healthy()
	c := chain(t, failover.Policy{}, failover.Target{Name: "a", Model: "a-1", Transport: u})
	r, err := failover.NewRouter(map[string]*failover.Chain{"fast": c}, nil)
	require.NoError(t, err)
	got := ask(t, r, "fast")
	assert.Equal(t, 200, got.StatusCode)
	got, err = do(t, r, post(t, chatURL, bom+` {"model" : "fast"}`+"\n"))
	require.NoError(t, err)
	assert.Equal(t, 200, got.StatusCode)
	assert.Equal(t, bom+` {"model" : "a-1"}`+"\n", u.requests()[1].body)
	assert.EqualValues(t, len(u.requests()[1].body), u.requests()[1].length)
}

// bodyOf counts how often it was closed.
type bodyOf struct {
	io.Reader
	closed int
}

func (b *bodyOf) Close() error { b.closed++; return nil }

// A panic in what the user configured passes on, and closes what was open.
func TestPanicsLeaveNothingOpen(t *testing.T) {
	boom := func() bool { panic("boom") }
	for name, target := range map[string]failover.Target{
		"available": {Available: boom},
		"allow":     {Allow: func(*http.Request) bool { return boom() }},
		"rewrite":   {Rewrite: func(*http.Request) error { boom(); return nil }},
	} {
		for _, url := range []string{chatURL, "https://a.example/v1/files"} {
			held := &bodyOf{Reader: strings.NewReader(strings.Repeat("x", 1<<20))}
			first := newUpstream(reply{status: 503, rest: held})
			target.Name, target.Transport = "b", healthy()
			c := chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: first, Disabled: url != chatURL}, target)
			body := &bodyOf{Reader: strings.NewReader(chatBody("m"))}
			req := post(t, url, "")
			req.Body, req.GetBody, req.ContentLength = body, nil, -1
			assert.PanicsWithValue(t, "boom", func() {
				resp, err := c.RoundTrip(req)
				if err == nil {
					_ = resp.Body.Close()
				}
			}, name)
			assert.NotZero(t, body.closed, "%s: the request's body", name)
			if url == chatURL {
				assert.NotZero(t, held.closed, "%s: the answer in hand", name)
			}
		}
	}
}

// Request.Cancel is deprecated, but net/http still obeys it.
func TestNoTargetAfterCancel(t *testing.T) {
	b := healthy()
	cancel := make(chan struct{})
	a := failing(503)
	a.hook = func(*http.Request) { close(cancel) }
	c := chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: a}, failover.Target{Name: "b", Transport: b})
	for range 2 { // the second one is cancelled before it starts
		req := post(t, chatURL, chatBody("m"))
		req.Cancel = cancel //nolint:staticcheck // deprecated
		_, err := do(t, c, req)
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			assert.Zero(t, resilience.StatusOf(err))
		}
	}
	assert.Equal(t, 1, a.count())
	assert.Zero(t, b.count())
}
