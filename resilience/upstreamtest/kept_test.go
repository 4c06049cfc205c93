package upstreamtest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// A kept answer is read again behind the event that the request names, whatever
// was sent of it.
func TestAKeptAnswerIsReadAgain(t *testing.T) {
	t.Parallel()
	up := New()
	defer up.Close()
	client := up.Client()
	defer client.CloseIdleConnections()
	ask := func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, up.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		defer func() { require.NoError(t, resp.Body.Close()) }()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	for _, c := range []struct{ path, query string }{
		{"/v1/responses", "&starting_after=2"},
		{"/v1beta/interactions", "&last_event_id=evt_2"},
	} {
		up.Rests()
		whole := events(t, up, c.path)
		up.Next(OK("a", "b").CutAfter(1).Keep())
		_, got := ask(http.MethodPost, c.path, `{"model":"m","stream":true}`)
		_, id, _ := strings.Cut(got, `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		id = c.path + "/" + id
		assert.Equal(t, whole[0], stripSeq(got))

		_, got = ask(http.MethodGet, id+"?stream=true", "")
		assert.Equal(t, strings.Join(whole, ""), stripSeq(got))
		_, got = ask(http.MethodGet, id+"?stream=true"+c.query, "")
		assert.Equal(t, strings.Join(whole[3:], ""), stripSeq(got))
		up.Rests(Rest().Repeat(1).CutAfter(2), Rest().Skip(2))
		_, got = ask(http.MethodGet, id+"?stream=true"+c.query, "")
		assert.Equal(t, whole[1]+whole[3], stripSeq(got))
		_, got = ask(http.MethodGet, id+"?stream=true"+c.query, "")
		assert.Equal(t, strings.Join(whole[5:], ""), stripSeq(got))

		up.Expire()
		status, _ := ask(http.MethodGet, id+"?stream=true"+c.query, "")
		assert.Equal(t, http.StatusNotFound, status)
	}
}

// stripSeq makes the names that count the requests the same.
func stripSeq(s string) string {
	for _, name := range []string{`resp_`, `msg_`, `v1_`} {
		parts := strings.Split(s, `"`+name)
		for i := range parts[1:] {
			parts[i+1] = strings.TrimLeft(parts[i+1], "0123456789")
		}
		s = strings.Join(parts, `"`+name)
	}
	return s
}

// events are those of OK("a", "b").
func events(t *testing.T, up *Upstream, path string) []string {
	t.Helper()
	up.Next(OK("a", "b"))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, up.URL+path, strings.NewReader(`{"model":"m","stream":true}`))
	require.NoError(t, err)
	resp, err := up.Client().Do(req)
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	list := strings.SplitAfter(stripSeq(string(b)), "\n\n")
	return list[:len(list)-1]
}
