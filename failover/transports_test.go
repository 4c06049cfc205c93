package failover_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// A transport that breaks the rules of http.RoundTripper is a failure like any
// other, and what it returns beside an error is closed.
func TestTransportsThatBreakTheRules(t *testing.T) {
	for name, tc := range map[string]struct {
		resp func(body io.ReadCloser) *http.Response
		err  error
		want string
	}{
		"neither":   {resp: func(io.ReadCloser) *http.Response { return nil }, want: "a:transport_error b:ok"},
		"both":      {resp: func(b io.ReadCloser) *http.Response { return &http.Response{StatusCode: 200, Body: b} }, err: errors.New("x"), want: "a:transport_error b:ok"},
		"no body":   {resp: func(io.ReadCloser) *http.Response { return &http.Response{StatusCode: 200} }, want: "a:ok"},
		"no header": {resp: func(b io.ReadCloser) *http.Response { return &http.Response{StatusCode: 503, Body: b} }, want: "a:503 b:ok"},
	} {
		t.Run(name, func(t *testing.T) {
			body := &bodyOf{Reader: strings.NewReader("x")}
			c := chain(t, failover.Policy{},
				failover.Target{Name: "a", Transport: roundTripFunc(func(*http.Request) (*http.Response, error) { return tc.resp(body), tc.err })},
				failover.Target{Name: "b", Transport: healthy()})
			got := ask(t, c, "m")
			assert.Equal(t, tc.want, trail(failover.AttemptsOf(got.Response)))
			if r := tc.resp(body); r != nil && r.Body != nil {
				assert.NotZero(t, body.closed)
			}
		})
	}
}

// A redirect that a chain gives behind a layer goes on where it leads, however
// the layer changed the request, and is not sent round from chain to chain.
func TestARedirectBehindALayer(t *testing.T) {
	for name, change := range map[string]func(*http.Request, *http.Response){
		"as it is":                func(*http.Request, *http.Response) {},
		"another query":           func(req *http.Request, _ *http.Response) { req.URL.RawQuery = "api-version=1" },
		"another call altogether": func(req *http.Request, _ *http.Response) { *req = *req.WithContext(context.Background()) },
		"the trail is lost": func(req *http.Request, resp *http.Response) {
			if req.URL.RawQuery = "x=1"; resp != nil {
				resp.Request = nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(
				reply{status: 307, header: http.Header{"Location": {"/v2/chat/completions"}}},
				reply{status: 307, header: http.Header{"Location": {"https://inner.example/v3/chat/completions"}}},
				reply{status: 200, body: okJSON})
			inner := chain(t, failover.Policy{}, failover.Target{
				Name: "i", Provider: "i", Model: "i-1", BaseURL: "https://inner.example/v1", Transport: up, Header: http.Header{"Authorization": {"inner"}}})
			sends := 0
			outer := chain(t, failover.Policy{}, failover.Target{
				Name: "o", BaseURL: "https://outer.example/v1",
				Transport: roundTripFunc(func(req *http.Request) (*http.Response, error) {
					if sends++; sends > 20 {
						return nil, errors.New("sent round")
					}
					req = req.Clone(req.Context())
					change(req, nil)
					resp, err := inner.RoundTrip(req)
					if err == nil {
						change(req, resp)
					}
					return resp, err
				})})
			resp, err := outer.Client().Do(post(t, chatURL, chatBody("m")))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			got := up.requests()
			require.Len(t, got, 3)
			for i, s := range got {
				want := fmt.Sprintf("https://inner.example/v%d/chat/completions", i+1)
				assert.True(t, strings.HasPrefix(s.url, want), "%s, want %s", s.url, want)
				assert.Equal(t, "inner", s.header.Get("Authorization"))
				assert.Contains(t, s.body, `"i-1"`)
			}
		})
	}
}

// late is a body's rest that fails after a while.
type late struct {
	after time.Duration
	err   error
}

func (l late) Read([]byte) (int, error) {
	time.Sleep(l.after)
	return 0, l.err
}

// What an answer ends with after it was handed out in time is not the fault of
// the target's limit, whose moment has passed by then.
func TestALimitThatWasLiftedIsNotToBlame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := newUpstream(reply{status: 200, body: evRole + evA, rest: late{5 * time.Second, io.ErrUnexpectedEOF}})
		p := once()
		p.Stream.IdleTimeout = time.Minute
		c := chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: stack(t, "a", base, p), Timeout: time.Second})
		ctx, trace := failover.WithTrace(t.Context())
		got, err := do(t, c, post(t, chatURL, chatBody("m")).WithContext(ctx))
		require.NoError(t, err)
		assert.Equal(t, "a:transport_error", trail(trace.Attempts()))
		require.Error(t, got.readErr)
		assert.False(t, ending.SaysTimeout(got.readErr), "%v", got.readErr)
	})
}
