package failover_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// What runs no model has no prompt cache: it goes where it always goes, so that an
// uploaded file lies with the account that bound requests go to, and it moves no pin.
func TestWhatRunsNoModelHasNoKey(t *testing.T) {
	c, hosts := attached(t, byHeader(), func(ts []failover.Target) { ts[0].AffinityHeader = "x-session-id" })
	hosts.set("a", says(503, "{}"))
	askOf(t, c, keyed(t, "k"))
	hosts.set("a", nil)
	for _, ask := range []struct{ method, path string }{
		{http.MethodPost, "/v1/files"}, {http.MethodGet, "/v1/models"}, {http.MethodGet, "/v1/responses/resp_1"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), ask.method, "https://api.example"+ask.path, http.NoBody)
		require.NoError(t, err)
		req.Header.Set("X-Conversation", "k")
		askOf(t, c, req)
		assert.Equal(t, "a", hosts.order(), ask.path)
		assert.Empty(t, hosts.heads[len(hosts.heads)-1].Get("X-Session-Id"), ask.path)
	}
	askOf(t, c, keyed(t, "k"))
	assert.Equal(t, "b", hosts.order(), "the pin is where it was")
}

// A header is the same in any spelling that a map can hold: it is a key, and it is
// the caller's own session.
func TestHeadersOfAffinityInAnySpelling(t *testing.T) {
	c, hosts := attached(t, byHeader(), func(ts []failover.Target) { ts[0].AffinityHeader = "x-session-id" })
	req := keyed(t, "k")
	req.Header["x-session-id"] = []string{"mine"}
	askOf(t, c, req)
	var sent []string
	for name, values := range hosts.heads[0] {
		if http.CanonicalHeaderKey(name) == "X-Session-Id" {
			sent = append(sent, values...)
		}
	}
	assert.Equal(t, []string{"mine"}, sent)
	hosts.set("a", says(503, "{}"))
	odd := keyed(t, "")
	odd.Header.Del("X-Conversation")
	odd.Header["x-conversation"] = []string{"odd"}
	askOf(t, c, odd.Clone(t.Context()))
	hosts.set("a", nil)
	again := post(t, chatURL, chatBody("m"))
	again.Header["x-conversation"] = []string{"odd"}
	askOf(t, c, again)
	assert.Equal(t, "b", hosts.order())
}

// A request's own fault ends no pin, also where it shows behind another target: the
// chain below begins at b, which is not to blame.
func TestARequestErrorBehindAnotherTargetEndsNoPin(t *testing.T) {
	inner, hosts := attached(t, byHeader())
	hosts.set("a", says(503, "{}"))
	askOf(t, inner, keyed(t, "k"))
	hosts.set("a", nil)
	outer := chain(t, failover.DefaultPolicy(),
		failover.Target{Name: "first", Provider: "first", BaseURL: "https://first.example/v1", Transport: stack(t, "first", hosts, once())},
		failover.Target{Name: "inner", Transport: inner})
	hosts.set("first", says(503, "{}"))
	own := func(*http.Request) (*http.Response, error) { return nil, &ending.RequestError{Err: errors.New("no")} }
	for _, host := range []string{"a", "b", "c"} {
		hosts.set(host, own)
	}
	askOf(t, outer, keyed(t, "k"))
	for _, host := range []string{"a", "b", "c"} {
		hosts.set(host, nil)
	}
	askOf(t, inner, keyed(t, "k"))
	assert.Equal(t, "b", hosts.order())
}

// OnFailover hears of calls that another target than the first answered, or none
// although others could; not of an answer that goes straight back.
func TestWhatIsAFailover(t *testing.T) {
	bad := says(400, `{"error":{"message":"bad"}}`)
	for name, row := range map[string]struct {
		does   map[string]func(*http.Request) (*http.Response, error)
		change func([]failover.Target)
		path   string
		want   []string // the attempts, nil: no failover
	}{
		"the first answers":            {},
		"a validation error":           {does: map[string]func(*http.Request) (*http.Response, error){"a": bad}},
		"a request that is not right":  {does: map[string]func(*http.Request) (*http.Response, error){"a": func(*http.Request) (*http.Response, error) { return nil, &ending.RequestError{Err: errors.New("no")} }}},
		"a disabled target":            {change: func(ts []failover.Target) { ts[0].Disabled = true }},
		"a disabled target, and a 400": {change: func(ts []failover.Target) { ts[0].Disabled = true }, does: map[string]func(*http.Request) (*http.Response, error){"b": bad}},
		"one for other callers":        {change: func(ts []failover.Target) { ts[0].Allow = func(*http.Request) bool { return false } }},
		"a call that cannot fail over": {does: map[string]func(*http.Request) (*http.Response, error){"a": says(503, "{}")}, path: "/v1/files"},
		"a backup answers":             {does: map[string]func(*http.Request) (*http.Response, error){"a": says(503, "{}")}, want: []string{"503", ""}},
		"a backup answers a 400":       {does: map[string]func(*http.Request) (*http.Response, error){"a": says(503, "{}"), "b": bad, "c": bad}, want: []string{"503", "400", "400"}},
		"an unavailable one":           {change: func(ts []failover.Target) { ts[0].Available = func() bool { return false } }, want: []string{"unavailable", ""}},
		"nobody answers":               {does: map[string]func(*http.Request) (*http.Response, error){"a": says(503, "{}"), "b": says(503, "{}"), "c": says(503, "{}")}, want: []string{"503", "503", "503"}},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var got []string
			p := failover.DefaultPolicy()
			p.OnFailover = func(_ context.Context, all []failover.Attempt) {
				mu.Lock()
				defer mu.Unlock()
				for _, a := range all {
					got = append(got, a.Reason)
				}
			}
			c, hosts := attached(t, p, func(ts []failover.Target) {
				if row.change != nil {
					row.change(ts)
				}
			})
			for host, do := range row.does {
				hosts.set(host, do)
			}
			url := chatURL
			if row.path != "" {
				url = "https://api.example" + row.path
			}
			askOf(t, c, post(t, url, chatBody("m")))
			assert.Equal(t, row.want, got)
		})
	}
}

// A key that is asked for is used, whatever came of the call.
func TestAKeyIsUsedByEveryCall(t *testing.T) {
	p := byHeader()
	p.Affinity.Max = 2
	c, hosts := attached(t, p)
	pin := func(key string) {
		hosts.set("a", says(503, "{}"))
		askOf(t, c, keyed(t, key))
		hosts.set("a", nil)
		askOf(t, c, keyed(t, "")) // its breaker stays closed
		require.Equal(t, "a", hosts.order())
	}
	pin("1")
	pin("2")
	hosts.set("b", says(400, `{"error":{"message":"bad"}}`))
	askOf(t, c, keyed(t, "1"))
	hosts.set("b", nil)
	pin("3")
	askOf(t, c, keyed(t, "1"))
	assert.Equal(t, "b", hosts.order())
}

// Who answers while the pinned target is passed over has the pin from then on, and a
// stream of the one before that breaks off later does not end it.
func TestAPinMovesWithTheAnswer(t *testing.T) {
	for _, strategy := range []string{failover.StrategyFailover, failover.StrategyRoundRobin} {
		offline := ""
		p := byHeader()
		p.Strategy = strategy
		c, hosts := attached(t, p, func(ts []failover.Target) {
			for i := range ts {
				ts[i].Available = func() bool { return ts[i].Name != offline }
			}
		})
		r, w := io.Pipe()
		hosts.set("a", func(req *http.Request) (*http.Response, error) {
			resp, err := says(200, "")(req)
			resp.Header.Set("Content-Type", "text/event-stream")
			resp.ContentLength, resp.Body = -1, r
			return resp, err
		})
		go func() { _, _ = io.WriteString(w, evA) }()
		req := post(t, chatURL, `{"model":"m","stream":true,"messages":[]}`)
		req.Header.Set("X-Conversation", "k")
		resp, err := c.Do(req)
		require.NoError(t, err)
		offline = "a"
		hosts.set("a", nil)
		answer, err := c.Do(keyed(t, "k"))
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, strategy == failover.StrategyFailover, failover.FromBackup(answer), strategy)
		assert.Equal(t, "b", hosts.order(), strategy)
		offline = ""
		require.NoError(t, w.CloseWithError(errors.New("reset")))
		_, _ = io.Copy(io.Discard, resp.Body)
		require.NoError(t, resp.Body.Close())
		askOf(t, c, keyed(t, "k"))
		assert.Equal(t, "b", hosts.order(), strategy)
	}
}

// A fault ends the pin also of a call that must not move on from it.
func TestAFaultEndsThePinOfACallThatStays(t *testing.T) {
	c, hosts := attached(t, byHeader())
	hosts.set("a", says(503, "{}"))
	askOf(t, c, keyed(t, "k"))
	hosts.set("a", nil)
	hosts.set("b", says(503, "{}"))
	askOf(t, c, keyed(t, "k").WithContext(failover.WithoutFailover(t.Context())))
	assert.Equal(t, "b", hosts.order())
	hosts.set("b", nil)
	askOf(t, c, keyed(t, "k"))
	assert.Equal(t, "a", hosts.order())
}
