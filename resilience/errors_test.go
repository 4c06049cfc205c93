package resilience_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/streamguard"
)

// What net/http could not read it quotes in its errors: an upstream's bytes.
// A base that is itself a client quotes the URL, with a key in its query.
func TestErrorTextQuotesNobody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}, "dial tcp: connection refused"},
		{errors.New("net/http: HTTP/1.x transport connection broken: malformed HTTP response \"secret \\\"x\\\" secret\""),
			`net/http: HTTP/1.x transport connection broken: malformed HTTP response ""`},
		{fmt.Errorf("broken: %w", textproto.ProtocolError("malformed MIME header line: secret")), "malformed response header"},
		{&url.Error{Op: "Post", URL: "https://x.invalid/?key=secret", Err: syscall.ECONNRESET}, `Post "": connection reset by peer`},
		{errors.New("unsupported transfer encoding: \"secret"), `unsupported transfer encoding: "`},
	} {
		e := &resilience.Error{Provider: "eu", Status: 502, Err: c.err}
		assert.Equal(t, "provider eu: "+c.want, e.Error())
		assert.ErrorIs(t, e, c.err, "the whole is kept")
	}
}

// The error of a stream that was held back whole names the provider itself.
func TestErrorTextNamesTheProviderOnce(t *testing.T) {
	t.Parallel()
	p := quick()
	p.Retry.MaxRetries, p.Stream.HoldUntil = 0, "complete"
	tr, _ := build(t, play(reply{status: 200, body: evA}), p)
	req := chat(t, t.Context(), `{"model":"m1","stream":true}`)
	_, _, err := do(t, tr, req)
	require.ErrorIs(t, err, streamguard.ErrIncomplete)
	assert.Equal(t, 1, strings.Count(err.Error(), "openai-eu"), "%v", err)
	assert.True(t, strings.HasPrefix(err.Error(), "provider openai-eu: chat completions stream incomplete"), "%v", err)
}

// What came from the request's method, URL and names of headers and trailers is
// the caller's own, what stands in a value is not repeated.
func TestErrorTextKeepsTheRequestsOwnWords(t *testing.T) {
	t.Parallel()
	bare := (&http.Transport{}).RoundTrip
	tr, _ := build(t, roundTrip(bare), quick())
	for _, c := range []struct {
		spoil func(*http.Request)
		want  string
	}{
		{func(r *http.Request) { r.URL.Scheme = "localhost" }, `unsupported protocol scheme "localhost"`},
		{func(r *http.Request) { r.Header["X User"] = []string{"secret"} }, `invalid header field name "X User"`},
		{func(r *http.Request) { r.Header["\r\nX-User"] = []string{"secret"} }, `invalid header field name "\r\nX-User"`},
		{func(r *http.Request) { r.Header.Set("X-User", "sec\nret") }, `invalid header field value for "X-User"`},
		{func(r *http.Request) { r.Trailer = http.Header{"\r\nX-Sum": {"secret"}} }, `invalid trailer field name "\r\nX-Sum"`},
		{func(r *http.Request) { r.Trailer = http.Header{"X-Sum": {"sec\nret"}} }, `invalid trailer field value for "X-Sum"`},
		{func(r *http.Request) { r.Method = "PO ST" }, `invalid method "PO ST"`},
	} {
		req := chat(t, t.Context(), plainBody)
		c.spoil(req)
		_, _, err := do(t, tr, req)
		require.ErrorContains(t, err, c.want)
		assert.NotContains(t, err.Error(), "secret")
	}
}

func TestAPlainAnswerToAnHTTPSRequestIsRecognized(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	policy := quick()
	policy.Retry.MaxRetries = 0
	tr, _ := build(t, &http.Transport{}, policy)
	req := chat(t, t.Context(), plainBody)
	req.URL.Scheme, req.URL.Host = "https", srv.Listener.Addr().String()
	resp, err := tr.Client().Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	require.ErrorIs(t, err, http.ErrSchemeMismatch)
}

func TestABaseThatIsAStackIsRefused(t *testing.T) {
	t.Parallel()
	below, _ := build(t, play(reply{}), quick())
	_, err := resilience.Builder{Base: below}.Build("above", quick())
	require.ErrorContains(t, err, "is the stack of provider")
	_, err = resilience.Builder{Base: below, Nested: true}.Build("above", quick())
	require.NoError(t, err)
}

// A chain or a router, of which this package knows nothing, makes clients as a
// stack does.
func TestADefaultTransportAboveAStackIsRefused(t *testing.T) {
	given := http.DefaultTransport
	defer func() { http.DefaultTransport = given }()
	below, _ := build(t, play(reply{}), quick())
	http.DefaultTransport = struct{ *resilience.Transport }{below}
	_, err := resilience.Builder{}.Build("above", quick())
	require.ErrorContains(t, err, "would be http.DefaultTransport")
	_, err = resilience.Builder{Nested: true}.Build("above", quick())
	require.NoError(t, err)
	_, err = resilience.Builder{Base: &http.Transport{}}.Build("above", quick())
	require.NoError(t, err)
	http.DefaultTransport = play(reply{})
	_, err = resilience.Builder{}.Build("above", quick())
	require.NoError(t, err, "somebody else's transport")
}

// HTTP/2 answers while the request is still being sent, and says in the answer's
// body what became of the request's: that is nobody's failure (contract 4).
func TestARequestBodyThatFailsUnderAnAnswerIsNeutral(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		path, contentType, begins string
	}{
		"stream":       {"/v1/chat/completions", "text/event-stream", "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n"},
		"not judged":   {"/v1/files", "application/octet-stream", "x"},
		"other events": {"/v1/files", "text/event-stream", "data: x\n\n"},
	} {
		for _, streams := range []bool{true, false} {
			own := &ending.RequestError{Err: errors.New("the disk failed")}
			body := io.NopCloser(io.MultiReader(strings.NewReader(row.begins), iotest.ErrReader(own)))
			tr, rec := build(t, play(reply{status: 200, header: http.Header{"Content-Type": {row.contentType}}, rest: body}), quick())
			req := chat(t, t.Context(), plainBody)
			req.URL.Path = row.path
			if streams {
				req.Header.Set("Accept", "text/event-stream")
			}
			resp, err := tr.RoundTrip(req)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				require.NoError(t, resp.Body.Close())
			}
			require.ErrorIs(t, err, own.Err, name)
			assert.Equal(t, ending.ReasonRequestError, rec.last(t).Reason, name)
			for _, b := range tr.Breakers() {
				assert.Zero(t, b.Failures, name)
			}
		}
	}
}
