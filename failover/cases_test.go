package failover_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/streamguard"
)

func TestCaseE1_FallbackGetsItsOwnModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := failing(503), healthy()
		c := two(t, knobs(), a, b)
		body := "{ \"x\":1.0, \"model\" : \"a\\u002d1\",\"messages\":[{\"content\":\"\\\"model\\\":\\\"a-1\\\"\"}],\"model\":\"a-1\",\"big\":12345678901234567890}"
		req := post(t, chatURL, body)
		before := req.Header.Clone()
		got, err := do(t, c, req)
		require.NoError(t, err)
		assert.Equal(t, 200, got.StatusCode)
		require.Len(t, a.requests(), 3, "one attempt and two retries")
		wantA := strings.Replace(body, `"a\u002d1"`, `"a-1"`, 1)
		for _, s := range a.requests() {
			assert.Equal(t, wantA, s.body)
		}
		require.Len(t, b.requests(), 1)
		s := b.requests()[0]
		want := "{ \"x\":1.0, \"model\" : \"b-1\",\"messages\":[{\"content\":\"\\\"model\\\":\\\"a-1\\\"\"}],\"model\":\"b-1\",\"big\":12345678901234567890}"
		assert.Equal(t, want, s.body)
		assert.EqualValues(t, len(want), s.length)
		assert.Equal(t, "https://b.example/v1/chat/completions", s.url)
		assert.Equal(t, "b.example", s.host)
		assert.Equal(t, chatURL, req.URL.String(), "the caller's request is unchanged")
		assert.Equal(t, before, req.Header)
	})
}

func TestCaseE1_ModelInThePath(t *testing.T) {
	for name, tc := range map[string]struct{ url, base, want string }{
		"gemini":       {"https://a.example/v1beta/models/a-1:generateContent", "https://b.example/v1beta", "https://b.example/v1beta/models/b-1:generateContent"},
		"azure":        {"https://a.example/openai/deployments/a-1/chat/completions?api-version=1", "", "https://a.example/openai/deployments/b-1/chat/completions?api-version=1"},
		"bedrock":      {"https://a.example/model/a-1/converse", "https://b.example", "https://b.example/model/b-1/converse"},
		"azure to oai": {"https://a.example/openai/deployments/a-1/chat/completions", "https://b.example/v1", "https://b.example/v1/chat/completions"},
	} {
		t.Run(name, func(t *testing.T) {
			u := healthy()
			c := chain(t, failover.Policy{}, failover.Target{Name: "b", Model: "b-1", BaseURL: tc.base, Transport: u})
			_, err := do(t, c, post(t, tc.url, `{"contents":[],"messages":[]}`))
			require.NoError(t, err)
			assert.Equal(t, tc.want, u.requests()[0].url)
			assert.Equal(t, `{"contents":[],"messages":[]}`, u.requests()[0].body)
		})
	}
}

func TestCaseE2_CredentialsStayApart(t *testing.T) {
	b := healthy()
	c := chain(t, failover.Policy{},
		failover.Target{Name: "a", Transport: failing(503)},
		failover.Target{Name: "b", Model: "b-1", BaseURL: "https://b.example/v1", Transport: b,
			Header: http.Header{"authorization": {"Bearer F"}}},
		failover.Target{Name: "c", Transport: failing(503)},
	)
	req := post(t, chatURL+"?key=P&q=1&Access_Token=P&api%5fkey=P&api-key=P", chatBody("a-1"))
	for _, k := range []string{"Authorization", "Proxy-Authorization", "x-api-key", "api-key", "x-goog-api-key", "Cookie", "OpenAI-Organization", "OpenAI-Project"} {
		req.Header[k] = []string{"P"} // in the case's own spelling: not canonical
	}
	req.Header.Set("User-Agent", "mine")
	_, err := do(t, c, req)
	require.NoError(t, err)
	s := b.requests()[0]
	assert.NotContains(t, s.everything(), "P\r")
	assert.NotContains(t, s.everything(), "=P")
	assert.Equal(t, "https://b.example/v1/chat/completions?q=1", s.url)
	assert.Equal(t, []string{"Bearer F"}, s.header["Authorization"])
	assert.Equal(t, "mine", s.header.Get("User-Agent"))
}

func TestCaseE2_CrossHostRedirect(t *testing.T) {
	var third []http.Header
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		third = append(third, r.Header.Clone())
		third[len(third)-1].Set("Query", r.URL.RawQuery)
		_, _ = io.WriteString(w, okJSON)
	}))
	defer other.Close()
	backup := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "F-auth", r.Header.Get("Authorization"))
		http.Redirect(w, r, other.URL+"/v1/chat/completions?"+r.URL.RawQuery+"&sig=own", http.StatusTemporaryRedirect)
	}))
	defer backup.Close()
	primary := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer primary.Close()
	c := chain(t, failover.Policy{},
		failover.Target{Name: "a", Provider: "a", Transport: stack(t, "a", http.DefaultTransport, once())},
		failover.Target{Name: "b", Provider: "b", BaseURL: backup.URL + "/v1", Transport: stack(t, "b", http.DefaultTransport, once()),
			Header: http.Header{"Authorization": {"F-auth"}}, Query: map[string][]string{"key": {"F-query"}}},
	)
	req := post(t, primary.URL+"/v1/chat/completions?key=P-query", chatBody("a-1"))
	req.Header.Set("X-Api-Key", "P-key")
	req.Header.Set("Authorization", "P-auth")
	resp, err := c.Client().Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	assert.Equal(t, 200, resp.StatusCode)
	assert.Equal(t, "a:503 b:ok", trail(failover.AttemptsOf(resp)))
	require.Len(t, third, 1)
	for k, v := range third[0] {
		assert.NotContains(t, strings.Join(v, " "), "P-", k)
		assert.NotContains(t, strings.Join(v, " "), "F-", k)
	}
	assert.Equal(t, "sig=own", third[0].Get("Query"))
}

func TestCaseE4_IdempotencyKeyStaysWithTheFirstTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newUpstream(reply{status: 503, body: `{}`})
		b := healthy()
		p := knobs()
		p.Retry.MaxRetries = 1
		c := two(t, p, a, b)
		req := post(t, chatURL, chatBody("a-1"))
		req.Header.Set("Idempotency-Key", "k")
		_, err := do(t, c, req)
		require.NoError(t, err)
		require.Len(t, a.requests(), 2)
		for _, s := range a.requests() {
			assert.Equal(t, "k", s.header.Get("Idempotency-Key"))
			assert.Equal(t, a.requests()[0].body, s.body)
		}
		require.Len(t, b.requests(), 1)
		assert.Empty(t, b.requests()[0].header.Get("Idempotency-Key"))
	})
}

func TestCaseE5_Streams(t *testing.T) {
	reset := failingReader{syscall.ECONNRESET}
	whole := reply{status: 200, body: evA + evStop + evDone}
	for name, tc := range map[string]struct {
		primary   reply
		hold      string
		backups   int
		body      string
		truncated bool
	}{
		"i: an event is out":           {reply{status: 200, body: evA, rest: reset}, streamguard.HoldFirstEvent, 0, evA, true},
		"ii: role only, by default":    {reply{status: 200, body: evRole, rest: reset}, streamguard.HoldFirstEvent, 0, evRole, true},
		"ii: role only, first_content": {reply{status: 200, body: evRole, rest: reset}, streamguard.HoldFirstContent, 1, whole.body, false},
		"iii: nothing":                 {reply{status: 200, body: ""}, streamguard.HoldFirstEvent, 1, whole.body, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newUpstream(whole)
				p := knobs()
				p.Stream.HoldUntil = tc.hold
				c := two(t, p, newUpstream(tc.primary), b)
				got, err := do(t, c, post(t, chatURL, `{"model":"a-1","stream":true,"messages":[]}`))
				require.NoError(t, err)
				assert.Equal(t, tc.backups, b.count())
				assert.True(t, strings.HasPrefix(got.body, tc.body), got.body)
				assert.Equal(t, tc.truncated, errors.Is(got.readErr, streamguard.ErrIncomplete), "%v", got.readErr)
				assert.Equal(t, tc.backups > 0, failover.FromBackup(got.Response))
			})
		})
	}
}

func TestCaseE7_MutualFallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := failing(503), failing(503)
		p := knobs()
		p.Retry.MaxRetries = 1
		sa, sb := stack(t, "a", a, p), stack(t, "b", b, p)
		ta := failover.Target{Name: "a/m-a", Provider: "a", Model: "m-a", Transport: sa}
		tb := failover.Target{Name: "b/m-b", Provider: "b", Model: "m-b", Transport: sb}
		r, err := failover.NewRouter(map[string]*failover.Chain{
			"m-a": chain(t, failover.DefaultPolicy(), ta, tb),
			"m-b": chain(t, failover.DefaultPolicy(), tb, ta),
		}, nil)
		require.NoError(t, err)
		got := ask(t, r, "m-a")
		assert.Equal(t, 503, got.StatusCode)
		assert.Equal(t, 2, a.count())
		assert.Equal(t, 2, b.count())
		assert.Equal(t, "a/m-a:503 b/m-b:503", trail(failover.AttemptsOf(got.Response)))
	})
}

func TestCaseE7_TheSameTargetTwice(t *testing.T) {
	u := failing(503)
	s := stack(t, "a", u, once())
	c := chain(t, failover.Policy{},
		failover.Target{Name: "one", Provider: "a", Model: "m", Transport: s},
		failover.Target{Name: "two", Provider: "a", Model: "m", Transport: s})
	got := ask(t, c, "m")
	assert.Equal(t, 1, u.count())
	assert.Equal(t, "one:503 two:-already_tried", trail(failover.AttemptsOf(got.Response)))
	_, err := failover.NewChain(failover.Policy{}, failover.Target{Name: "a"}, failover.Target{Name: "a"})
	require.ErrorContains(t, err, `"a" is taken`)
}

func TestCaseE8_SilentPrimary(t *testing.T) {
	silent := reply{status: 200, body: okJSON, delay: time.Hour}
	for name, tc := range map[string]struct {
		limit    time.Duration
		deadline time.Duration // of the caller; negative: already over
		want     int           // requests of the fallback
		total    time.Duration
		err      error
	}{
		"limit":          {300 * time.Millisecond, time.Second, 1, 350 * time.Millisecond, nil},
		"no limit":       {0, time.Second, 0, time.Second, context.DeadlineExceeded},
		"expired":        {300 * time.Millisecond, -1, 0, 0, context.DeadlineExceeded},
		"during primary": {300 * time.Millisecond, 200 * time.Millisecond, 0, 200 * time.Millisecond, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := newUpstream(silent), newUpstream(reply{status: 200, body: okJSON, delay: 50 * time.Millisecond})
				c := chain(t, failover.Policy{},
					failover.Target{Name: "a", Provider: "a", Model: "m", Timeout: tc.limit, Transport: stack(t, "a", a, knobs())},
					failover.Target{Name: "b", Provider: "b", Model: "m", Transport: stack(t, "b", b, knobs())})
				ctx, cancel := context.WithTimeout(t.Context(), tc.deadline)
				defer cancel()
				start := time.Now()
				got, err := do(t, c, post(t, chatURL, chatBody("m")).WithContext(ctx))
				assert.Equal(t, tc.total, time.Since(start))
				assert.Equal(t, tc.want, b.count())
				if tc.err != nil {
					require.ErrorIs(t, err, tc.err)
					assert.Equal(t, http.StatusGatewayTimeout, resilience.StatusOf(err))
					if tc.deadline < 0 {
						assert.Zero(t, a.count())
					}
					return
				}
				require.NoError(t, err)
				assert.Equal(t, okJSON, got.body, "the limit is lifted once the answer has begun")
				assert.Equal(t, "a:timeout b:ok", trail(failover.AttemptsOf(got.Response)))
			})
		})
	}
}

func TestCaseE10_WhatIsEligible(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
		policy failover.Policy
		moves  bool
	}{
		"i: invalid request":        {400, `{"error":{"type":"invalid_request_error"}}`, failover.Policy{}, false},
		"ii: model not found":       {404, `{"error":{"code":"model_not_found","message":"x"}}`, failover.Policy{}, true},
		"a plain 404":               {404, `{"error":{"message":"Not Found"}}`, failover.Policy{}, false},
		"anthropic's 404":           {404, `{"type":"error","error":{"type":"not_found_error","message":"model: x"}}`, failover.Policy{}, true},
		"iii: context length":       {400, `{"error":{"code":"context_length_exceeded"}}`, failover.Policy{}, false},
		"iii: by a phrase":          {400, `{"error":{"code":"context_length_exceeded"}}`, failover.Policy{RetryOnErrors: []string{"400 context LENGTH"}}, true},
		"another status's phrase":   {413, `{"error":{"code":"context_length_exceeded"}}`, failover.Policy{RetryOnErrors: []string{"400 context length"}}, false},
		"a class in a phrase":       {413, `{"error":{"code":"context_length_exceeded"}}`, failover.Policy{RetryOnErrors: []string{"4xx context"}}, true},
		"iv: unauthorized":          {401, `{"error":{"message":"bad key"}}`, failover.Policy{}, false},
		"iv: by status":             {401, `{"error":{"message":"bad key"}}`, failover.Policy{RetryOnStatuses: []string{"401"}}, true},
		"v: too large":              {413, `{"error":{"message":"too large"}}`, failover.Policy{}, false},
		"given statuses replace":    {500, `{"error":{"message":"x"}}`, failover.Policy{RetryOnStatuses: []string{"429"}}, false},
		"content filter":            {400, `{"error":{"code":"content_filter","message":"filtered"}}`, failover.Policy{}, false},
		"words in code and message": {400, `{"error":{"code":"upstream","message":"it Failed"}}`, failover.Policy{}, true},
		"phrase beyond the status":  {404, `{"error":{"message":"deployment is retired"}}`, failover.Policy{}, true},
		"not that status's phrase":  {400, `{"error":{"message":"deployment is retired"}}`, failover.Policy{}, false},
		"masked behind a 200":       {200, `{"error":{"code":"model_not_found","message":"x"}}`, failover.Policy{}, true},
		"masked, not eligible":      {200, `{"error":{"code":"invalid_api_key","message":"x"}}`, failover.Policy{}, false},
		"500, which is not retried": {500, `{}`, failover.Policy{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, c := newUpstream(reply{status: tc.status, body: tc.body}), failing(401), healthy()
			sa := stack(t, "a", a, knobs())
			ch := chain(t, tc.policy,
				failover.Target{Name: "a", Provider: "a", Model: "m", Transport: sa},
				failover.Target{Name: "b", Provider: "b", Model: "m", Transport: stack(t, "b", b, knobs())},
				failover.Target{Name: "c", Provider: "c", Model: "m", Transport: stack(t, "c", c, knobs())})
			got := ask(t, ch, "m")
			assert.Equal(t, 1, a.count(), "same-target retry never")
			if tc.moves {
				assert.Equal(t, 200, got.StatusCode, "the sweep goes on through a backup's 401")
				assert.Equal(t, 1, b.count())
				return
			}
			assert.Zero(t, b.count())
			if tc.status != 200 {
				assert.Equal(t, tc.status, got.StatusCode)
				assert.Equal(t, tc.body, got.body, "put back whole")
			}
			if tc.status < 500 && tc.status != 429 {
				assert.Zero(t, sa.Breakers()[0].Failures, "neutral")
			}
		})
	}
}

func TestCaseC10_QuotaFailsOver(t *testing.T) {
	quota := `{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"x"}}`
	a, b := newUpstream(reply{status: 429, body: quota}), healthy()
	got := ask(t, two(t, knobs(), a, b), "a-1")
	assert.Equal(t, 200, got.StatusCode)
	assert.Equal(t, 1, a.count())

	a, b = newUpstream(reply{status: 429, body: quota}), newUpstream(reply{status: 429, body: quota})
	got = ask(t, two(t, knobs(), a, b), "a-1")
	assert.Equal(t, 429, got.StatusCode)
	assert.Equal(t, quota, got.body)
	assert.Equal(t, 1, b.count())
}

func TestCaseD6_ABrokenModelBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{replies: []reply{{status: 200, body: okJSON}}}
		byModel := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			b, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			u.mu.Lock()
			u.replies = []reply{{status: 200, body: okJSON}}
			if strings.Contains(string(b), `"m1"`) {
				u.replies = []reply{{status: 500, body: `{}`}}
			}
			u.mu.Unlock()
			req = req.Clone(req.Context())
			req.Body = io.NopCloser(strings.NewReader(string(b)))
			return u.RoundTrip(req)
		})
		for scope, want := range map[string]string{
			"model":    "p/m1:-circuit_open p/m2:ok",
			"provider": "p/m1:-circuit_open p/m2:-circuit_open q/m1:ok",
		} {
			p := once()
			p.CircuitBreaker.Scope = scope
			s := stack(t, "p", byModel, p)
			c := chain(t, failover.Policy{},
				failover.Target{Name: "p/m1", Provider: "p", Model: "m1", Transport: s},
				failover.Target{Name: "p/m2", Provider: "p", Model: "m2", Transport: s},
				failover.Target{Name: "q/m1", Provider: "q", Model: "m1", Transport: stack(t, "q", healthy(), once())})
			if scope == "model" {
				for range 3 {
					ask(t, c, "m1")
				}
			} else {
				for range 3 {
					_, err := do(t, s, post(t, chatURL, chatBody("m1")))
					require.NoError(t, err)
				}
			}
			got := ask(t, c, "m1")
			assert.Equal(t, want, trail(failover.AttemptsOf(got.Response)), scope)
		}
	})
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// The first worked example of the guide: each model of one provider has its
// own retry budget; the scope says whether its breaker blocks the other.
func TestGuide_TwoModelsOfOneProvider(t *testing.T) {
	for scope, backup := range map[string]bool{"model": true, "provider": false} {
		t.Run(scope, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cf := newUpstream(reply{status: 522, body: "x"}, reply{status: 524, body: "x"}, reply{status: 522, body: "x"},
					reply{status: 524, body: "x"}, reply{status: 200, body: okJSON})
				p := knobs()
				p.CircuitBreaker.Scope = scope
				s := stack(t, "cloudflare", cf, p)
				c := chain(t, failover.DefaultPolicy(),
					failover.Target{Name: "cloudflare/model1", Provider: "cloudflare", Model: "model1", Transport: s},
					failover.Target{Name: "cloudflare/model2", Provider: "cloudflare", Model: "model2", Transport: s})
				got := ask(t, c, "model1")
				assert.Equal(t, 200, got.StatusCode)
				assert.Equal(t, "cloudflare/model1:522 cloudflare/model2:ok", trail(failover.AttemptsOf(got.Response)))
				reqs := cf.requests()
				require.Len(t, reqs, 5, "three of model1, two of model2")
				for i, s := range reqs {
					assert.Contains(t, s.body, []string{"model1", "model1", "model1", "model2", "model2"}[i])
				}

				cf.set(reply{status: 200, body: okJSON})
				key := ""
				if scope == "model" {
					key = "model1"
				}
				s.ForceOpen(key, time.Minute)
				got = ask(t, c, "model1")
				if backup {
					assert.Equal(t, 200, got.StatusCode)
					assert.Equal(t, "cloudflare/model1:-circuit_open cloudflare/model2:ok", trail(failover.AttemptsOf(got.Response)))
					assert.True(t, failover.FromBackup(got.Response))
					return
				}
				assert.Equal(t, 503, got.StatusCode)
				assert.Zero(t, cf.count(), "a breaker is never bypassed")
				_, ok := resilience.Rejection(got.Response, nil)
				assert.True(t, ok)
			})
		})
	}
}

// The second one: slow calls open the circuit, traffic goes to the backup at
// once and returns when probes answer in time.
func TestGuide_SlowPrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newUpstream(reply{status: 200, body: okJSON, delay: 11 * time.Second}), healthy()
		p := knobs()
		p.CircuitBreaker.Scope = "model"
		p.CircuitBreaker.SlowCallThreshold = 10 * time.Second
		p.CircuitBreaker.Timeout = 30 * time.Second
		c := two(t, p, a, b)
		for range 3 {
			got := ask(t, c, "a-1")
			assert.Equal(t, "a/a-1:ok", trail(failover.AttemptsOf(got.Response)), "the slow answer is delivered")
		}
		start := time.Now()
		got := ask(t, c, "a-1")
		assert.Equal(t, "a/a-1:-circuit_open b/b-1:ok", trail(failover.AttemptsOf(got.Response)))
		assert.Zero(t, time.Since(start), "at once")
		time.Sleep(30 * time.Second)
		a.set(reply{status: 200, body: okJSON, delay: time.Second})
		for range 3 { // two probes close it
			got = ask(t, c, "a-1")
			assert.Equal(t, "a/a-1:ok", trail(failover.AttemptsOf(got.Response)))
		}
		assert.Equal(t, 1, b.count())
	})
}
