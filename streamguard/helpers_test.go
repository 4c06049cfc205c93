package streamguard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	sg "github.com/surefoot-go/surefoot/streamguard"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// Stream bytes, by the names of the cases.
const (
	U      = `data: {"choices":[],"usage":{"total_tokens":3}}` + "\n\n"
	DONE   = "data: [DONE]\n\n"
	OKJSON = `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"total_tokens":3}}`

	MS = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"role\":\"assistant\",\"content\":[]}}\n\n"
	BS = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
)

func C(x string) string {
	return `data: {"choices":[{"index":0,"delta":{"content":"` + x + `"},"finish_reason":null}]}` + "\n\n"
}

func F(reason string) string {
	return `data: {"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}` + "\n\n"
}

func T(x string) string {
	return "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"" + x + "\"}}\n\n"
}

func MD(reason string) string {
	return "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" + reason + "\"},\"usage\":{\"output_tokens\":1}}\n\n"
}

// chatAborted is the event that the guard appends to a chat stream.
func aborted(t *testing.T, got, want string) {
	t.Helper()
	require.True(t, strings.HasPrefix(got, want), "got %q", got)
	rest := got[len(want):]
	require.Contains(t, rest, `"code":"stream_incomplete"`)
	require.True(t, strings.HasSuffix(rest, "\n\n") || strings.HasSuffix(rest, "\r\n\r\n") || strings.HasSuffix(rest, "\r\r"), "%q", rest)
	require.Equal(t, 1, strings.Count(rest, "data: "))
}

// failedInBand checks the error that follows a stream's own error event.
func failedInBand(t testing.TB, err error, status int, info ...any) {
	t.Helper()
	var inc *sg.IncompleteError
	require.ErrorAs(t, err, &inc, info...)
	require.ErrorIs(t, err, sg.ErrIncomplete, info...)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, info...)
	require.Equal(t, sg.ReasonInBandError, inc.Reason, info...)
	require.Equal(t, status, inc.Status, info...)
	require.False(t, inc.Timeout(), info...)
}

// A part is one thing that a scripted body does: wait, then send data, fail, or
// hang until it is closed.
type part struct {
	wait time.Duration
	data string
	err  error
	hang bool
}

var errClosed = errors.New("body closed")

// scripted is an upstream's body. Like net/http's it may be closed beside a
// Read, and ends with the request's context.
type scripted struct {
	ctx    context.Context
	parts  []part
	once   sync.Once
	closed chan struct{}
}

func script(parts ...part) *scripted {
	return &scripted{parts: parts, closed: make(chan struct{}), ctx: context.Background()}
}

// bytesOf makes a script that sends each piece in a Read of its own.
func pieces(data ...string) *scripted {
	var ps []part
	for _, d := range data {
		ps = append(ps, part{data: d})
	}
	return script(ps...)
}

func (s *scripted) Read(p []byte) (int, error) {
	for {
		select {
		case <-s.closed:
			return 0, errClosed
		case <-s.ctx.Done():
			return 0, context.Cause(s.ctx)
		default:
		}
		if len(s.parts) == 0 {
			return 0, io.EOF
		}
		c := &s.parts[0]
		if c.wait > 0 || c.hang {
			var ready <-chan time.Time
			if !c.hang {
				ready = time.After(c.wait)
			}
			select {
			case <-ready:
				c.wait = 0
			case <-s.closed:
				return 0, errClosed
			case <-s.ctx.Done():
				return 0, context.Cause(s.ctx)
			}
		}
		if c.data != "" {
			n := copy(p, c.data)
			if c.data = c.data[n:]; c.data == "" && c.err == nil {
				s.parts = s.parts[1:]
			}
			return n, nil
		}
		if c.err != nil {
			return 0, c.err
		}
		s.parts = s.parts[1:]
	}
}

func (s *scripted) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (s *scripted) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is a base that answers 200 with body, labelled as contentType.
func answer(contentType string, body io.ReadCloser) roundTripper {
	return func(req *http.Request) (*http.Response, error) {
		if s, ok := body.(*scripted); ok {
			s.ctx = req.Context()
		}
		if req.Body != nil {
			_ = req.Body.Close()
		}
		h := http.Header{}
		if contentType != "" {
			h.Set("Content-Type", contentType)
		}
		return &http.Response{
			Status: "200 OK", StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: h, Body: body, ContentLength: -1, Request: req,
		}, nil
	}
}

func sse(parts ...part) roundTripper { return answer("text/event-stream", script(parts...)) }

const (
	chatPath      = "http://up/v1/chat/completions"
	responsesPath = "http://up/v1/responses"
	messagesPath  = "http://up/v1/messages"
)

func request(t testing.TB, ctx context.Context, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	return req
}

func streamCall(t testing.TB, url string) *http.Request {
	return request(t, t.Context(), url, `{"model":"m","stream":true}`)
}

func plainCall(t testing.TB, url string) *http.Request {
	return request(t, t.Context(), url, `{"model":"m"}`)
}

// A rig is the three layers of this package over a base, as the stack builds
// them, and what their hooks were told.
type rig struct {
	guard    *sg.Guard
	unmasker *sg.Unmasker
	mu       sync.Mutex
	ends     []sg.End
	firsts   int
	reports  []sg.Report
}

// above is what stands above a layer: it knows what the request is, and forgets
// what it is told but for the end.
type above struct {
	wire.Request

	onEnd func(sg.End)
}

func (a above) call(*http.Request) sg.Call { return a }

func (a above) Inspect() wire.Request { return a.Request }
func (above) Lenient() bool           { return false }
func (above) OnStream()               {}
func (above) Chunks() bool            { return false }
func (above) OnChunk()                {}
func (above) Resume(r *http.Request, base http.RoundTripper) (*http.Response, error) {
	return base.RoundTrip(r)
}
func (above) OnFirst()            {}
func (above) OnVerdict(sg.Report) {}
func (a above) OnEnd(e sg.End) {
	if a.onEnd != nil {
		a.onEnd(e)
	}
}

func stack(base http.RoundTripper, p sg.Policy) *rig {
	r := &rig{}
	verdict := func(_ *http.Request, _ *http.Response, rep sg.Report) { r.reports = append(r.reports, rep) }
	r.unmasker = &sg.Unmasker{
		Base: &sg.Idle{
			Base: base, Timeout: p.IdleTimeout,
		},
		Provider: "up-eu", KeepStreams: true, OnVerdict: verdict,
	}
	r.guard = &sg.Guard{
		Base: r.unmasker, Policy: p, Provider: "up-eu", OnVerdict: verdict,
		OnFirst: func(*http.Request) { r.firsts++ },
		OnEnd: func(_ *http.Request, e sg.End) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ends = append(r.ends, e)
		},
	}
	return r
}

func (r *rig) end(t *testing.T) sg.End {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Len(t, r.ends, 1)
	return r.ends[0]
}

// readAll sends req and reads the answer to its end.
func (r *rig) readAll(t *testing.T, req *http.Request) (*http.Response, string, error) {
	t.Helper()
	resp, err := r.guard.RoundTrip(req)
	if err != nil {
		require.Nil(t, resp)
		return nil, "", err
	}
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	return resp, string(b), err
}

var idle200 = sg.Policy{IdleTimeout: 200 * time.Millisecond}

// hangs is a base that answers nothing until its call is over.
func hangs(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}
