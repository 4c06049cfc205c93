package retry_test

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/surefoot-go/surefoot/retry"
)

func TestReplaySafety(t *testing.T) {
	for name, row := range map[string]struct {
		method string
		keys   []string
		count  int
		sent   []string // the key that the upstream sees
	}{
		"no method": {"", nil, 3, nil},
		"get":       {"GET", nil, 3, nil},
		"head":      {"HEAD", nil, 3, nil},
		"options":   {"OPTIONS", nil, 3, nil},
		"put":       {"PUT", nil, 3, nil},
		"post":      {"POST", nil, 1, nil},
		"delete":    {"DELETE", nil, 1, nil},
		"patch":     {"PATCH", nil, 1, nil},
		"trace":     {"TRACE", nil, 1, nil},
		"lower":     {"get", nil, 1, nil},
		"key":       {"POST", []string{"a-key"}, 3, []string{"a-key"}},
		"255":       {"PATCH", []string{strings.Repeat("~", 255)}, 3, []string{strings.Repeat("~", 255)}},
		"256":       {"POST", []string{strings.Repeat("k", 256)}, 1, nil},
		"empty":     {"POST", []string{""}, 1, nil},
		"space":     {"POST", []string{"a key"}, 1, nil},
		"padded":    {"POST", []string{" key"}, 1, nil},
		"control":   {"POST", []string{"a\x7f"}, 1, nil},
		"tab":       {"POST", []string{"a\tb"}, 1, nil},
		"not ASCII": {"POST", []string{"schlüssel"}, 1, nil},
		"twice":     {"POST", []string{"a", "b"}, 1, nil},
		"same":      {"POST", []string{"a", "a"}, 1, nil},
		"no value":  {"POST", []string{}, 1, nil},
		"get, bad":  {"GET", []string{"a key"}, 3, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, spelling := range []string{"Idempotency-Key", "idempotency-key"} {
					s, rt := newScript(t, status(503))
					req := get(t.Context(), t)
					req.Method = row.method
					req.Header.Set("X-Other", "kept")
					if row.keys != nil {
						req.Header[spelling] = row.keys
					}
					before := req.Header.Clone()
					assert.Equal(t, 503, send(t, rt, req))
					assert.Equal(t, row.count, s.count())
					assert.Equal(t, before, req.Header, "the caller's request is not modified")
					for _, h := range s.heads {
						assert.Equal(t, row.sent, h[spelling])
						assert.Equal(t, "kept", h.Get("X-Other"))
					}
				}
			})
		})
	}
}

func TestKeyInTwoSpellings(t *testing.T) {
	s, rt := newScript(t, status(503))
	req := post(t.Context(), t, "x")
	req.Header["idempotency-key"] = []string{"b"}
	assert.Equal(t, 503, send(t, rt, req))
	assert.Equal(t, []http.Header{{}}, s.heads)
}

// trace plays the hooks that an http.Transport calls.
func trace(connected bool, next reply) reply {
	return func(req *http.Request) (*http.Response, error) {
		if tr := httptrace.ContextClientTrace(req.Context()); tr != nil {
			if tr.GetConn != nil {
				tr.GetConn("upstream.test:80")
			}
			if connected && tr.GotConn != nil {
				tr.GotConn(httptrace.GotConnInfo{})
			}
			if connected && tr.WroteRequest != nil {
				tr.WroteRequest(httptrace.WroteRequestInfo{})
			}
		}
		return next(req)
	}
}

func TestReplayable(t *testing.T) {
	dial, dropped, silent := trace(false, fails(errReset)), trace(true, fails(errReset)), fails(errReset)
	for name, row := range map[string]struct {
		replay retry.Replay
		reply  reply
		count  int
		sent   bool
	}{
		"never, dial":      {retry.ReplayNever, dial, 1, false},
		"never, dropped":   {retry.ReplayNever, dropped, 1, true},
		"unsent, dial":     {retry.ReplayUnsent, dial, 3, false},
		"unsent, dropped":  {retry.ReplayUnsent, dropped, 1, true},
		"unsent, silent":   {retry.ReplayUnsent, silent, 1, true},
		"unsent, answered": {retry.ReplayUnsent, status(503), 1, true},
		"always, dial":     {retry.ReplayAlways, dial, 3, false},
		"always, dropped":  {retry.ReplayAlways, dropped, 3, true},
		"always, silent":   {retry.ReplayAlways, silent, 3, true},
		"unknown value":    {retry.Replay(7), dial, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, rt := newScript(t, row.reply)
				rt.Replayable = func(*http.Request) retry.Replay { return row.replay }
				rt.OnAttempt = func(_ *http.Request, a retry.Attempt) { assert.Equal(t, row.sent, a.Sent) }
				req := post(t.Context(), t, "hello")
				resp, err := rt.RoundTrip(req)
				if resp != nil {
					finish(t, resp, err)
				}
				assert.Equal(t, row.count, s.count())
			})
		})
	}
}

// Used alone, the layer knows a streaming call by what it accepts and by the
// answer's type.
func TestStreamsAlone(t *testing.T) {
	for name, row := range map[string]struct {
		policy, accept string
		reply          reply
		count          int
	}{
		"sent":                          {"", "text/event-stream", fails(errReset), 1},
		"503":                           {"never", "Text/Event-Stream; q=0.9, */*", status(503), 1},
		"unsent":                        {"never", "text/event-stream", trace(false, fails(errReset)), 3},
		"held back":                     {"held_back", "text/event-stream", status(503), 3},
		"refused":                       {"never", "application/json, text/event-stream;q=0.0", status(503), 3},
		"other":                         {"never", "application/json, text/event-streams", status(503), 3},
		"failure with a stream's label": {"never", "", status(503, "Content-Type", "text/event-stream; charset=utf-8"), 3},
		"answer":                        {"never", "", status(299, "Content-Type", "text/event-stream; charset=utf-8"), 1},
		"held, answer":                  {"held_back", "", status(299, "Content-Type", "text/event-stream"), 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, rt := newScript(t, row.reply)
				rt.Policy.Streams = row.policy
				rt.Policy.RetryOnStatuses = []string{"default", "2xx"}
				req := post(t.Context(), t, "x")
				req.Header.Set("Accept", row.accept)
				resp, err := rt.RoundTrip(req)
				if resp != nil {
					finish(t, resp, err)
				}
				assert.Equal(t, row.count, s.count())
			})
		})
	}
}

// The caller's own trace is called for every attempt.
func TestCallersTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got, wrote, asked int
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GetConn:      func(string) { asked++ },
			GotConn:      func(httptrace.GotConnInfo) { got++ },
			WroteRequest: func(httptrace.WroteRequestInfo) { wrote++ },
		})
		s, rt := newScript(t, trace(true, status(503)))
		assert.Equal(t, 503, send(t, rt, post(ctx, t, "hello")))
		assert.Equal(t, 503, send(t, rt, get(ctx, t)))
		assert.Equal(t, 6, s.count())
		assert.Equal(t, []int{6, 6, 6}, []int{asked, got, wrote})
	})
}

// Without a GetBody the request is sent once, and its body is the caller's.
func TestNoGetBody(t *testing.T) {
	for _, r := range []reply{status(503), fails(errReset), trace(false, fails(errReset))} {
		body := io.NopCloser(strings.NewReader("hello"))
		s, rt := newScript(t, nil)
		s.replies = []reply{func(req *http.Request) (*http.Response, error) {
			assert.Equal(t, body, req.Body)
			return r(req)
		}}
		req := post(t.Context(), t, "")
		req.Body, req.GetBody, req.ContentLength = body, nil, -1
		resp, err := rt.RoundTrip(req)
		if resp != nil {
			finish(t, resp, err)
		}
		assert.Equal(t, []string{"hello"}, s.bodies)
	}
}

// Safe goes by the key's value, too: one that is none makes nothing safe.
func TestSafeWantsAValidKey(t *testing.T) {
	for value, want := range map[string]bool{
		"!": true, "~": true, "k-1": true, strings.Repeat("k", 255): true,
		"": false, " ": false, "a b": false, "a\x7f": false, "é": false, strings.Repeat("k", 256): false,
	} {
		for _, name := range []string{"Idempotency-Key", "idempotency-key"} {
			req := post(t.Context(), t, "x")
			req.Header = http.Header{name: {value}}
			assert.Equal(t, want, retry.Safe(req), "%q", value)
			assert.Equal(t, want, len(retry.DropInvalidKey(req.Header)) == 1, "%q", value)
		}
	}
	req := post(t.Context(), t, "x")
	req.Header = http.Header{"Idempotency-Key": {"k"}, "idempotency-key": {"k"}}
	assert.False(t, retry.Safe(req), "once")
	assert.Empty(t, retry.DropInvalidKey(req.Header))
}
