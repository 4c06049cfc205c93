package failover_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
)

var hosts = []string{"https://a.example", "https://b.example", "https://c.example:8443", "http://a.example"}

// network is a world of random upstreams, seen through each target's own
// transport. It checks every request against what its target may know.
type network struct {
	t       *testing.T
	rnd     *rand.Rand
	targets []failover.Target
	origins []string // of each target
	hops    int
	seen    int
}

func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// through is the transport of target i.
func (n *network) through(i int) http.RoundTripper {
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		n.seen++
		if req.Body != nil {
			_, _ = io.Copy(io.Discard, req.Body)
			_ = req.Body.Close()
		}
		n.check(i, req)
		h := http.Header{"Set-Cookie": {"c" + fmt.Sprint(i) + "=jar-" + req.URL.Host}, "Content-Type": {"application/json"}}
		resp := &http.Response{StatusCode: 503, Header: h, Body: io.NopCloser(strings.NewReader(okJSON)), ContentLength: -1, Request: req}
		switch n.rnd.IntN(4) {
		case 0:
			resp.StatusCode = 200
		case 1:
			if n.hops++; n.hops < 6 {
				resp.StatusCode = []int{302, 307, 308}[n.rnd.IntN(3)]
				to := []string{"/v1/chat/completions", "", "next", hosts[n.rnd.IntN(len(hosts))] + "/v1/chat/completions"}[n.rnd.IntN(4)]
				h.Set("Location", to+"?"+req.URL.RawQuery+"&key=signed")
			}
		}
		return resp, nil
	})
}

func (n *network) check(i int, req *http.Request) {
	here, t := origin(req.URL), n.targets[i]
	text := req.URL.String() + "\n"
	for k, v := range req.Header {
		text += k + ": " + strings.Join(v, ",") + "\n"
	}
	for j := range n.targets {
		secret := fmt.Sprintf("secret-%d-", j)
		if j != i || here != n.origins[i] {
			assert.NotContains(n.t, text, secret, "target %d at %s (its own is %s)", i, here, n.origins[i])
		}
	}
	own := len(t.Header) > 0 || strings.Contains(t.BaseURL, "@")
	if own || here != hosts[0] || n.origins[i] != hosts[0] {
		assert.NotContains(n.t, text, "secret-P", "the caller's, at target %d, %s", i, here)
	}
	for _, c := range req.Cookies() {
		if strings.HasPrefix(c.Value, "jar-") && req.Response == nil {
			assert.Equal(n.t, "jar-"+req.URL.Host, c.Value)
		}
	}
	if req.Response == nil && len(t.Header) > 0 {
		assert.Equal(n.t, t.Header.Get("Authorization"), req.Header.Get("Authorization"))
	}
}

func (n *network) build() {
	for i := range 1 + n.rnd.IntN(4) {
		tg := failover.Target{Name: fmt.Sprint(i), Transport: n.through(i)}
		at := hosts[0]
		if n.rnd.IntN(4) > 0 {
			at = hosts[n.rnd.IntN(len(hosts))]
			tg.BaseURL = at + "/v1"
			if n.rnd.IntN(4) == 0 {
				tg.BaseURL = strings.Replace(tg.BaseURL, "://", fmt.Sprintf("://user:secret-%d-user@", i), 1)
			}
		}
		if n.rnd.IntN(2) == 0 {
			tg.Header = http.Header{
				"Authorization": {fmt.Sprintf("Bearer secret-%d-auth", i)},
				"X-Tenant":      {fmt.Sprintf("secret-%d-tenant", i)},
			}
		}
		if n.rnd.IntN(2) == 0 {
			tg.Query = url.Values{"key": {fmt.Sprintf("secret-%d-query", i)}}
		}
		if n.rnd.IntN(2) == 0 {
			tg.Model = fmt.Sprint("model-", i)
		}
		n.targets, n.origins = append(n.targets, tg), append(n.origins, at)
	}
}

// No credential, cookie, query key or header of one target reaches another,
// nor does a target's leave its own origin along a redirect.
func TestCredentialsNeverCross(t *testing.T) {
	requests := 0
	for seed := range uint64(1500) {
		n := &network{t: t, rnd: rand.New(rand.NewPCG(seed, 7))}
		n.build()
		c := chain(t, failover.Policy{}, n.targets...)
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		client := &http.Client{Transport: c, Jar: jar}
		if n.rnd.IntN(2) == 0 { // one level more
			client.Transport = chain(t, failover.Policy{}, failover.Target{Name: "outer", Transport: c})
		}
		for range 2 {
			n.hops = 0
			at := hosts[0]
			if n.rnd.IntN(4) == 0 {
				at = strings.Replace(at, "://", "://user:secret-P-user@", 1)
			}
			req := post(t, at+"/v1/chat/completions?key=secret-P-query&x=1", chatBody("m"))
			for _, k := range []string{"Authorization", "x-api-key", "Api-Key", "X-Goog-Api-Key", "Cookie", "Openai-Organization"} {
				if n.rnd.IntN(2) == 0 {
					req.Header[k] = []string{"secret-P-header"}
				}
			}
			resp, err := client.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		requests += n.seen
		if t.Failed() {
			t.Fatalf("seed %d: %+v", seed, n.targets)
		}
	}
	assert.Greater(t, requests, 3000)
}

func TestCookiesOfAnotherHost(t *testing.T) {
	cookie := reply{status: 200, body: okJSON, header: http.Header{"Set-Cookie": {"s=1"}}}
	for base, want := range map[string]string{
		"":                         "s=1",
		"https://a.example/v1":     "s=1",
		"https://A.example:443/v1": "s=1",
		"https://b.example/v1":     "",
		"http://a.example/v1":      "",
	} {
		c := chain(t, failover.Policy{}, failover.Target{Name: "t", BaseURL: base, Transport: newUpstream(cookie)})
		assert.Equal(t, want, ask(t, c, "m").Header.Get("Set-Cookie"), base)
	}
}

func TestRewriteToAnotherHost(t *testing.T) {
	u := healthy()
	c := chain(t, failover.Policy{}, failover.Target{Name: "t", Transport: u, Rewrite: func(r *http.Request) error {
		r.URL.Host = "b.example"
		r.Header.Set("X-Api-Key", "its own")
		return nil
	}})
	req := post(t, chatURL+"?key=P&x=1", chatBody("m"))
	req.Header.Set("Authorization", "P")
	req.Header.Set("X-Api-Key", "P")
	req.Header.Set("Referer", "https://a.example/?key=P")
	_, err := do(t, c, req)
	require.NoError(t, err)
	s := u.requests()[0]
	assert.Empty(t, s.header.Get("Referer"))
	assert.Equal(t, "https://b.example/v1/chat/completions?x=1", s.url)
	assert.Empty(t, s.header.Get("Authorization"))
	assert.Equal(t, "its own", s.header.Get("X-Api-Key"))
	assert.Equal(t, "P", req.Header.Get("Authorization"))
}

func TestRedirects(t *testing.T) {
	t.Run("relative to the target", func(t *testing.T) {
		u := newUpstream(reply{status: 307, header: http.Header{"Location": {"../moved?x=1"}}}, reply{status: 503, body: "{}"})
		b := healthy()
		c := chain(t, failover.Policy{},
			failover.Target{Name: "t", Model: "t-1", BaseURL: "https://t.example/v1", Header: http.Header{"Authorization": {"F"}}, Query: url.Values{"v": {"2"}}, Transport: u},
			failover.Target{Name: "b", Transport: b})
		req := post(t, chatURL, chatBody("m"))
		req.Header.Set("Authorization", "P")
		req.Header.Set("X-Api-Key", "P")
		req.Header.Set("Idempotency-Key", "k")
		resp, err := c.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 503, resp.StatusCode, "starts no failover")
		assert.Zero(t, b.count())
		require.Equal(t, 2, u.count())
		hop := u.requests()[1]
		assert.Equal(t, "https://t.example/v1/moved?x=1&v=2", hop.url)
		assert.Equal(t, "F", hop.header.Get("Authorization"))
		assert.Empty(t, hop.header.Get("X-Api-Key"))
		assert.Equal(t, "k", hop.header.Get("Idempotency-Key"))
		assert.Equal(t, u.requests()[0].body, hop.body, "a 307 repeats the content")
		assert.Equal(t, "t:ok", trail(failover.AttemptsOf(resp)))
	})
	t.Run("the caller's own host", func(t *testing.T) {
		u := newUpstream(reply{status: 302, header: http.Header{"Location": {"/moved"}}}, reply{status: 200, body: "{}"})
		c := chain(t, failover.Policy{}, failover.Target{Name: "t", Transport: u})
		req := post(t, chatURL, chatBody("m"))
		req.Header.Set("Authorization", "P")
		resp, err := c.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, "https://a.example/moved", u.requests()[1].url)
		assert.Equal(t, "P", u.requests()[1].header.Get("Authorization"))
		assert.Equal(t, "GET", u.requests()[1].method)
	})
	t.Run("of a router", func(t *testing.T) {
		u := newUpstream(reply{status: 307, header: http.Header{"Location": {"https://o.example/x"}}}, reply{status: 200, body: "{}"})
		next := newUpstream(reply{status: 307, header: http.Header{"Location": {"/y"}}}, reply{status: 200, body: "{}"})
		r, err := failover.NewRouter(map[string]*failover.Chain{"fast": chain(t, failover.Policy{}, failover.Target{Name: "t", Model: "m", Transport: u})}, next)
		require.NoError(t, err)
		for model, up := range map[string]*upstream{"fast": u, "other": next} {
			req := post(t, chatURL, chatBody(model))
			req.Header.Set("X-Api-Key", "P")
			resp, err := r.Client().Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, 2, up.count(), model)
		}
		assert.Empty(t, u.requests()[1].header.Get("X-Api-Key"))
	})
}

func TestURLs(t *testing.T) {
	for _, tc := range []struct{ method, url, base, want string }{
		{"POST", "/v1/chat/completions", "https://h.example/v1", "https://h.example/v1/chat/completions"},
		{"POST", "/v1/chat/completions", "https://h.example/v1/", "https://h.example/v1/chat/completions"},
		{"POST", "/chat/completions", "https://h.example/openai/v1", "https://h.example/openai/v1/chat/completions"},
		{"POST", "/api/v1/chat/completions", "https://h.example", "https://h.example/chat/completions"},
		{"POST", "/v1/completions", "https://h.example/v1", "https://h.example/v1/completions"},
		{"POST", "/v1/responses", "https://h.example/v1", "https://h.example/v1/responses"},
		{"POST", "/v1/embeddings", "https://h.example/v1", "https://h.example/v1/embeddings"},
		{"POST", "/v1/messages", "https://h.example", "https://h.example/v1/messages"},
		{"POST", "/v1/messages", "https://h.example/v1", "https://h.example/v1/messages"},
		{"POST", "/v1/messages?beta=true", "https://h.example/anthropic", "https://h.example/anthropic/v1/messages?beta=true"},
		{"POST", "/v1/chat/completions?a=b%20c&&d", "https://h.example/x%2Fy/v1?api-version=1", "https://h.example/x%2Fy/v1/chat/completions?a=b%20c&&d&api-version=1"},
		{"GET", "/v1/models", "https://h.example/v1", "https://h.example/v1/models"},
		{"GET", "/v1/models", "https://h.example", "https://h.example/v1/models"},
		{"GET", "/v1/files/a%2Fb", "https://h.example/openai/v1", "https://h.example/openai/v1/files/a%2Fb"},
		{"GET", "/healthz", "https://h.example/v1", "https://h.example/v1/healthz"},
		{"POST", "/v1/chat/completions", "", "https://a.example/v1/chat/completions"},
		// What the base URL names is the target's own.
		{"POST", "/v1/chat/completions?key=P&a=b", "https://h.example/v1?key=F", "https://h.example/v1/chat/completions?a=b&key=F"},
		{"POST", "/v1/chat/completions", "https://h.example/openai/deployments/prod?api-version=1", "https://h.example/openai/deployments/prod/chat/completions?api-version=1"},
	} {
		u := healthy()
		c := chain(t, failover.Policy{}, failover.Target{Name: "t", Model: "gpt", BaseURL: tc.base, Transport: u})
		req, err := http.NewRequestWithContext(t.Context(), tc.method, "https://a.example"+tc.url, nil)
		require.NoError(t, err)
		_, err = do(t, c, req)
		require.NoError(t, err)
		assert.Equal(t, tc.want, u.requests()[0].url, "%s under %s", tc.url, tc.base)
	}
}

func TestHostHeader(t *testing.T) {
	for want, h := range map[string]http.Header{"h.example": nil, "front.example": {"Host": {"front.example"}}} {
		u := healthy()
		c := chain(t, failover.Policy{}, failover.Target{Name: "t", BaseURL: "https://h.example/v1", Header: h, Transport: u})
		req := post(t, chatURL, chatBody("m"))
		req.Host = "gateway.example"
		_, err := do(t, c, req)
		require.NoError(t, err)
		assert.Equal(t, want, u.requests()[0].host)
		assert.Empty(t, u.requests()[0].header["Host"])
	}
}

func TestRewriteHasTheLastWord(t *testing.T) {
	a, b := healthy(), healthy()
	c := chain(t, failover.Policy{},
		failover.Target{Name: "broken", Transport: a, Rewrite: func(*http.Request) error { return io.ErrUnexpectedEOF }},
		failover.Target{Name: "b", Model: "b-1", Transport: b, Header: http.Header{"X-A": {"1"}}, Rewrite: func(r *http.Request) error {
			r.URL.Path = "/deployments/x"
			r.Header.Set("X-A", "2")
			return nil
		}})
	got := ask(t, c, "m")
	assert.Equal(t, "broken:not_sent b:ok", trail(failover.AttemptsOf(got.Response)))
	assert.Zero(t, a.count())
	assert.Equal(t, "2", b.requests()[0].header.Get("X-A"))
	assert.Equal(t, "https://a.example/deployments/x", b.requests()[0].url)
}

// http.NewRequest copies the URL's host into Host, where a Rewrite forgets it.
func TestRewriteOfTheHost(t *testing.T) {
	for want, host := range map[string]string{"b.example": "a.example", "front.example": "front.example"} {
		u := healthy()
		c := chain(t, failover.Policy{}, failover.Target{Name: "t", Transport: u, Rewrite: func(r *http.Request) error {
			r.URL.Host = "b.example"
			return nil
		}})
		req := post(t, chatURL, chatBody("m"))
		req.Host = host
		_, err := do(t, c, req)
		require.NoError(t, err)
		assert.Equal(t, want, u.requests()[0].host)
	}
}

// The chain keeps copies: neither what the caller does to its targets later
// nor what a Rewrite does to a request changes them.
func TestTargetsAreCopied(t *testing.T) {
	u := healthy()
	h := http.Header{"X-A": {"1"}}
	q := url.Values{"q": {"1"}}
	c := chain(t, failover.Policy{}, failover.Target{Name: "t", Header: h, Query: q, Transport: u, Rewrite: func(r *http.Request) error {
		r.Header["X-A"][0] = "changed"
		return nil
	}})
	h["X-A"][0], q["q"][0] = "2", "2"
	for range 2 {
		u.hook = func(r *http.Request) {}
		ask(t, c, "m")
	}
	assert.Equal(t, []string{"2"}, h["X-A"])
	assert.True(t, slices.ContainsFunc(u.requests(), func(s sent) bool { return strings.HasSuffix(s.url, "?q=1") }))
}

// A gateway's key must not travel to another company, whatever it calls it
// (contract 7.5).
func TestGatewayKeysStayWithTheirGateway(t *testing.T) {
	names := []string{"X-Litellm-Api-Key", "Cf-Aig-Authorization", "Helicone-Auth", "X-Portkey-Virtual-Key", "x_api_key", "X-Auth-Token", "Referer"}
	for name, header := range map[string]http.Header{
		"a backup without a header of its own": nil,
		"a backup with one":                    {"Authorization": {"B"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := failing(503), healthy()
			c := chain(t, failover.Policy{},
				failover.Target{Name: "a", Transport: a},
				failover.Target{Name: "b", BaseURL: "https://b.example/v1", Header: header, Transport: b})
			req := post(t, chatURL+"?subscription-key=secret&sig=secret&accessToken=secret&api-version=1", chatBody("m"))
			req.Header.Set("Anthropic-Version", "2023-06-01")
			for _, n := range names {
				req.Header[n] = []string{"secret"}
			}
			_, err := do(t, c, req)
			require.NoError(t, err)
			assert.Equal(t, 10, strings.Count(a.requests()[0].everything(), "secret"), "the caller's own upstream gets them all")
			got := b.requests()[0]
			assert.NotContains(t, got.everything(), "secret")
			assert.Equal(t, "2023-06-01", got.header.Get("Anthropic-Version"))
			assert.Equal(t, "https://b.example/v1/chat/completions?api-version=1", got.url)
		})
	}
}

// What only looks like a credential goes along: a list goes on where it
// stopped, and the call keeps its identity.
func TestWhatACallNeedsStays(t *testing.T) {
	a := healthy()
	c := chain(t, failover.Policy{}, failover.Target{Name: "a", Header: http.Header{"Authorization": {"A"}}, Transport: a})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example/v1beta/models?pageToken=2&key=secret", nil)
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "k")
	req.Header.Set("Sec-WebSocket-Key", "w")
	_, err = do(t, c, req)
	require.NoError(t, err)
	got := a.requests()[0]
	assert.Equal(t, "https://a.example/v1beta/models?pageToken=2", got.url)
	assert.Equal(t, "k", got.header.Get("Idempotency-Key"))
	assert.Equal(t, "w", got.header.Get("Sec-WebSocket-Key"))
}

// After a redirect to another host the cookies that the client's jar has for
// it go along; those of the host before stay behind.
func TestJarCookiesOfARedirect(t *testing.T) {
	for name, over := range map[string]func(http.RoundTripper) http.RoundTripper{
		"chain": func(u http.RoundTripper) http.RoundTripper {
			return chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: u})
		},
		"chain of keys": func(u http.RoundTripper) http.RoundTripper {
			return chain(t, failover.Policy{}, failover.Target{Name: "a", Header: http.Header{"X-Api-Key": {"A"}}, Transport: u})
		},
		"stack": func(u http.RoundTripper) http.RoundTripper { return stack(t, "a", u, once()) },
		"both":  func(u http.RoundTripper) http.RoundTripper { return two(t, once(), u, healthy()) },
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(
				reply{status: 307, header: http.Header{"Location": {"https://eu.a.example/v1/chat/completions"}}},
				reply{status: 307, header: http.Header{"Location": {"https://c.example/v1/chat/completions"}}},
				reply{status: 200, body: okJSON})
			jar, err := cookiejar.New(nil)
			require.NoError(t, err)
			for _, host := range []string{"a", "eu.a", "c"} {
				jar.SetCookies(&url.URL{Scheme: "https", Host: host + ".example", Path: "/"}, []*http.Cookie{{Name: "jar", Value: "of-" + host}})
			}
			client := &http.Client{Transport: over(u), Jar: jar}
			req := post(t, chatURL, chatBody("m"))
			req.Header.Set("Cookie", "mine=secret")
			resp, err := client.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			got := u.requests()
			require.Len(t, got, 3)
			assert.Equal(t, "jar=of-eu.a", got[1].header.Get("Cookie"), "net/http itself lets mine go to a subdomain")
			assert.Equal(t, "jar=of-c", got[2].header.Get("Cookie"))
		})
	}
}

// A configured word makes a header or a query key a credential (contract 7.5).
func TestConfiguredCredentialsStayApart(t *testing.T) {
	b := healthy()
	policy := failover.DefaultPolicy()
	policy.Words.Credentials = []string{"X-Wallet"}
	c := chain(t, policy,
		failover.Target{Name: "a", Transport: failing(503)},
		failover.Target{Name: "b", BaseURL: "https://elsewhere.invalid/v1", Transport: b})
	req := post(t, chatURL+"?x_wallet=secret&x=1", chatBody("m"))
	req.Header.Set("X-Wallet", "secret")
	_, err := do(t, c, req)
	require.NoError(t, err)
	require.Len(t, b.requests(), 1)
	sent := b.requests()[0]
	assert.Empty(t, sent.header.Get("X-Wallet"))
	assert.True(t, strings.HasSuffix(sent.url, "?x=1"), sent.url)
}
