package wire_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// Where the rest of a stream is asked for.
func TestResumption(t *testing.T) {
	t.Parallel()
	at := wire.Resume{ID: "resp_1", Sequence: 0}
	for _, c := range []struct{ method, url, want string }{
		{"POST", "https://h/v1/responses", "https://h/v1/responses/resp_1?stream=true&starting_after=0"},
		{"POST", "https://h/a%2Fb/responses?x=%20&api-version=1", "https://h/a%2Fb/responses/resp_1?x=%20&api-version=1&stream=true&starting_after=0"},
		{"GET", "https://h/v1/responses/resp_9?stream=true&starting_after=7&include%5B%5D=x", "https://h/v1/responses/resp_9?include%5B%5D=x&stream=true&starting_after=0"},
	} {
		u, err := url.Parse(c.url)
		require.NoError(t, err)
		req := &http.Request{Method: c.method, URL: u, Host: "other", Header: http.Header{"content-TYPE": {"x"}, "Api-Key": {"k"}, "idempotency-key": {"y"}}}
		r := wire.Responses.Resumption(t.Context(), req, at, "")
		assert.Equal(t, c.want, r.URL.String())
		assert.Equal(t, "other", r.Host)
		assert.Equal(t, http.Header{"Api-Key": {"k"}, "Accept": {"text/event-stream"}}, r.Header)
		assert.Equal(t, c.url, u.String(), "the request is not modified")
	}
	for _, f := range []*wire.Format{wire.Chat, wire.Messages, wire.Gemini, wire.Unknown} {
		assert.Nil(t, f.Resumption(t.Context(), &http.Request{Method: "POST", URL: &url.URL{}}, at, ""), f)
	}
	assert.Nil(t, wire.Responses.Resumption(t.Context(), &http.Request{Method: "POST", URL: &url.URL{Opaque: "x"}}, at, ""))
}

// Which requests are for a stream that is kept.
func TestResumable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path, body string
		want               bool
	}{
		{"POST", "/v1/responses", `{"background":true}`, true},
		{"POST", "/openai/v1/responses", `{"input":[{"background":false}],"background":true}`, true},
		{"POST", "/v1/responses", `{"background":false}`, false},
		{"POST", "/v1/responses", `{"background":"true"}`, false},
		{"POST", "/v1/responses", `{"input":{"background":true}}`, false},
		{"POST", "/v1/chat/completions", `{"background":true}`, false},
		{"POST", "/v1/messages", `{"background":true}`, false},
		{"POST", "/v1beta/interactions", `{}`, true},
		{"GET", "/v1/responses/resp_1?stream=true", ``, true},
		{"GET", "/v1/responses/resp_1", ``, false},
		{"POST", "/v1/files", `{"background":true}`, false},
	} {
		u, err := url.Parse("https://h" + c.path)
		require.NoError(t, err)
		r := wire.Inspect(c.method, u, nil)
		content := wire.ReadContent(nil, []byte(c.body))
		r.Add(&content)
		assert.Equal(t, c.want, r.Resumable, "%s %s %s", c.method, c.path, c.body)
	}
}

// feedEvents gives a stream events, each with its blank line.
func feedEvents(s *wire.Stream, events ...string) {
	for _, e := range events {
		for b := []byte("data: " + e + "\n\n"); len(b) > 0; {
			n := s.Next(b)
			s.Event(b[:n])
			b = b[n:]
		}
	}
}

const begun = `{"event_type":"interaction.created","interaction":{"id":"v1"},"event_id":"e0"}`

func delta(id string) string {
	return `{"event_type":"content.delta","delta":{"text":"a"},"event_id":` + id + `}`
}

// Where a stream is, also by events that differ from the one before in nothing
// but their text and their place.
func TestWhereAStreamIs(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	for name, c := range map[string]struct {
		events []string
		want   string // of the last event; "" is not known
	}{
		"created":             {[]string{begun}, "e0"},
		"many alike":          {[]string{begun, delta(`"e1"`), delta(`"e2"`), delta(`"e3"`)}, "e3"},
		"an escape":           {[]string{begun, delta(`"e1"`), delta(`"\u00652\/"`)}, "e2/"},
		"a long name":         {[]string{begun, delta(`"e1"`), delta(`"` + long + `"`)}, long},
		"short behind long":   {[]string{begun, delta(`"` + long + `"`), delta(`"e2"`)}, "e2"},
		"too long a name":     {[]string{begun, delta(`"` + strings.Repeat("x", 600) + `"`)}, ""},
		"no string":           {[]string{begun, delta(`7`)}, ""},
		"an empty name":       {[]string{begun, delta(`"e1"`), delta(`""`)}, ""},
		"no name":             {[]string{begun, delta(`"e1"`), `{"event_type":"content.stop"}`}, ""},
		"a name again":        {[]string{begun, delta(`"e1"`), `{"event_type":"content.stop"}`, delta(`"e2"`)}, "e2"},
		"a ping has none":     {[]string{begun, delta(`"e1"`), `{"type":"ping"}`}, "e1"},
		"a member without":    {[]string{begun, delta(`"e1"`), `{"event_type":"content.stop","":"x"}`}, ""},
		"malformed":           {[]string{begun, delta(`"e1"`), `{"event_type":"content.stop","event_id":"e2",}`}, "e1"},
		"a failure":           {[]string{begun, delta(`"e1"`), `{"event_type":"error","error":{"code":"x"},"event_id":"e2"}`}, ""},
		"not called anything": {[]string{delta(`"e1"`)}, ""},
	} {
		s := wire.Interactions.NewStream(wire.StreamOptions{Resumable: true})
		feedEvents(s, c.events...)
		at, ok := s.Resume()
		assert.Equal(t, c.want != "", ok, name)
		assert.Equal(t, c.want, at.EventID, name)
		if ok {
			assert.Equal(t, "v1", at.ID, name)
		}
		s = wire.Interactions.NewStream(wire.StreamOptions{})
		feedEvents(s, c.events...)
		_, ok = s.Resume()
		assert.False(t, ok, "%s: nobody keeps it", name)
	}
}

// What an answer may be called, to stand in a path.
func TestNamesOfAnswers(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{
		"resp_0123456789abcdef": true, "v1_ChdQ-Y.~": true, "resp_bGl0ZWxsbQ==": true, strings.Repeat("x", 256): true,
		"": false, ".": false, "..": false, "a/b": false, "a?b": false, "a#b": false, "a%2fb": false, "a b": false, "ä": false, strings.Repeat("x", 257): false,
	} {
		s := wire.Responses.NewStream(wire.StreamOptions{Resumable: true})
		feedEvents(s, fmt.Sprintf(`{"type":"response.created","sequence_number":0,"response":{"id":%q}}`, id))
		at, ok := s.Resume()
		assert.Equal(t, want, ok, id)
		if ok {
			assert.Equal(t, wire.Resume{ID: id}, at)
		}
	}
}
