package streamguard_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	sg "github.com/surefoot-go/surefoot/streamguard"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// withStatus is base with another status on its answers.
func withStatus(status int, base roundTripper) roundTripper {
	return func(req *http.Request) (*http.Response, error) {
		resp, err := base(req)
		resp.StatusCode = status
		return resp, err
	}
}

func TestTicketsAreDeliveredAsTheyCame(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		label  string // "": JSON
		body   string
		ask    string // "": an ordinary call
		url    string // "": chat completions
	}{
		"deferred by a member":                      {status: 200, body: " \n{\"request_id\":\"d0f5\"}", ask: `{"model":"m","deferred":true}`},
		"an asynchronous path":                      {status: 200, body: `{"id":"x","model":"m"}`, url: "http://up/v4/async/chat/completions"},
		"a status word":                             {status: 200, body: `{"id":"x","task_status":"PROCESSING"}`},
		"202 with a handle":                         {status: 202, body: `{"id":"x"}`},
		"202 with nothing":                          {status: 202, body: ``},
		"202 with text":                             {status: 202, label: "text/plain", body: `Accepted`},
		"202 for a stream":                          {status: 202, body: `{"id":"x"}`, ask: `{"model":"m","stream":true}`},
		"202, nothing streamed":                     {status: 202, body: ``, ask: `{"model":"m","stream":true}`},
		"202, labelled a stream with nothing in it": {status: 202, label: "text/event-stream", body: ``, ask: `{"model":"m","stream":true}`},
		"a ticket for a stream":                     {status: 200, body: `{"id":"x","status":"queued"}`, ask: `{"model":"m","stream":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			label, url, ask := c.label, c.url, c.ask
			if label == "" {
				label = "application/json"
			}
			if url == "" {
				url = chatPath
			}
			if ask == "" {
				ask = `{"model":"m"}`
			}
			sent := 0
			base := withStatus(c.status, answer(label, pieces(c.body)))
			r := stack(roundTripper(func(req *http.Request) (*http.Response, error) { sent++; return base(req) }), sg.Policy{})
			resp, got, err := r.readAll(t, request(t, t.Context(), url, ask))
			require.NoError(t, err)
			assert.Equal(t, c.status, resp.StatusCode)
			assert.Equal(t, c.body, got)
			assert.Equal(t, 1, sent)
			require.Len(t, r.reports, 1)
			assert.True(t, r.reports[0].Accepted)
			assert.Nil(t, r.reports[0].Failure)
			assert.Empty(t, r.reports[0].Empty)
			_, unmasked := sg.Unmasked(resp)
			assert.False(t, unmasked)
		})
	}
}

// A web firewall's challenge comes with 202, too.
func TestAPageIsNoTicket(t *testing.T) {
	const page = "<!DOCTYPE html><title>challenge</title>"
	for _, req := range []*http.Request{plainCall(t, chatPath), streamCall(t, chatPath)} {
		r := stack(withStatus(202, answer("text/html", pieces(page))), sg.Policy{})
		resp, _, err := r.readAll(t, req)
		require.NoError(t, err)
		assert.Equal(t, 502, resp.StatusCode)
		assert.Equal(t, wire.ReasonHTML, r.reports[0].Failure.Reason)
	}
}

func TestATicketThatIsCutShortIsNone(t *testing.T) {
	r := stack(withStatus(202, answer("application/json", script(part{data: `{"id":"x`, err: io.ErrUnexpectedEOF}))), sg.Policy{})
	resp, _, err := r.readAll(t, plainCall(t, chatPath))
	require.NoError(t, err)
	assert.Equal(t, 502, resp.StatusCode)
}

// What llama.cpp's server says for itself shares a path with OpenAI's.
func TestLlamaCppsOwnAnswerIsDelivered(t *testing.T) {
	const body = `{"content":" hello","stop":true,"tokens_predicted":2}`
	for _, url := range []string{"http://up/completions", "http://up/v1/completions", chatPath} {
		resp, got, r := masked(t, plainCall(t, url), "application/json", body)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, body, got)
		assert.Empty(t, r.reports[0].Empty)
	}
}

func TestAnAnswerInNoKnownFormIsDeliveredAndCounted(t *testing.T) {
	const body = `{"generated_text":"hi"}`
	resp, got, r := masked(t, plainCall(t, chatPath), "application/json", body)
	assert.Equal(t, 200, resp.StatusCode)
	assert.Equal(t, body, got)
	require.Len(t, r.reports, 1)
	assert.Equal(t, wire.EmptyShape, r.reports[0].Empty)
}

// AWS clients know an error by its header; bare and unmasked it is the same.
func TestAWSFailuresKeepTheirName(t *testing.T) {
	const url = "http://up/model/arn%3Aaws%3Abedrock%3Ax/converse"
	for body, want := range map[string]struct {
		status int
		name   string
	}{
		`{"Output":{"__type":"com.amazon.coral.service#UnknownOperationException"},"Version":"1.0"}`: {404, "UnknownOperationException"},
		`{"message":"slow","__type":"ThrottlingException"}`:                                          {429, "ThrottlingException"},
		`{"output":{"message":{"content":[]}},"stopReason":"malformed_model_output"}`:                {502, "ServiceUnavailableException"},
		`{"error":{"type":"rate_limit_error","message":"slow"}}`:                                     {429, "ThrottlingException"},
		``: {502, "ServiceUnavailableException"},
	} {
		resp, _, _ := masked(t, plainCall(t, url), "application/json", body)
		assert.Equal(t, want.status, resp.StatusCode, body)
		assert.Equal(t, want.name, resp.Header.Get("X-Amzn-Errortype"), body)
	}
}

// An exception that comes as the first frame is named as a real status names it:
// the clients look names up exactly.
func TestAnExceptionAsTheFirstFrameKeepsItsName(t *testing.T) {
	data, err := os.ReadFile("wire/testdata/bedrock/converse_throttled.bin")
	require.NoError(t, err)
	i := bytes.Index(data, []byte(":exception-type"))
	require.Positive(t, i)
	frame := data[i-13:] // before it 12 bytes of prelude and the length of the name
	r := stack(answer("application/vnd.amazon.eventstream", pieces(string(frame))), sg.Policy{})
	resp, got, err := r.readAll(t, plainCall(t, "http://up/model/m/converse-stream"))
	require.NoError(t, err)
	assert.Equal(t, 429, resp.StatusCode)
	assert.Equal(t, "ThrottlingException", resp.Header.Get("X-Amzn-Errortype"))
	assert.Contains(t, got, `"__type":"ThrottlingException"`)
}

// Words that a user adds hold for bodies and for streams, in both layers.
func TestAddedWordsHoldEverywhere(t *testing.T) {
	words := wire.Words{RateLimited: []string{"slow_lane"}}.Compile()
	const told = `{"error":{"type":"slow_lane"}}`
	for name, base := range map[string]func() roundTripper{
		"body":   func() roundTripper { return answer("application/json", pieces(told)) },
		"stream": func() roundTripper { return answer("text/event-stream", pieces("data: "+told+"\n\n")) },
	} {
		for _, ask := range []string{`{"model":"m"}`, `{"model":"m","stream":true}`} {
			r := stack(base(), sg.Policy{})
			r.guard.Words, r.unmasker.Words = words, words
			resp, _, err := r.readAll(t, request(t, t.Context(), chatPath, ask))
			require.NoError(t, err, name)
			assert.Equal(t, 429, resp.StatusCode, name)

			u := &sg.Unmasker{Base: base(), Words: words}
			resp, err = u.RoundTrip(request(t, t.Context(), chatPath, ask))
			require.NoError(t, err)
			assert.Equal(t, 429, resp.StatusCode, name)
			require.NoError(t, resp.Body.Close())
		}
	}
}
