package failover_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

func TestNewChainRefuses(t *testing.T) {
	one := failover.Target{Name: "a"}
	for want, tc := range map[string]struct {
		p       failover.Policy
		targets []failover.Target
	}{
		"targets: none":                      {},
		"has no name":                        {targets: []failover.Target{{}}},
		"strategy: unknown \"random\"":       {failover.Policy{Strategy: "random"}, []failover.Target{one}},
		"switched off with strategy":         {failover.Policy{Strategy: "failover", Disabled: true}, []failover.Target{one}},
		"(a).weight: has no meaning":         {targets: []failover.Target{{Name: "a", Weight: 1}}},
		"(a).weight: -1 is negative":         {failover.Policy{Strategy: "round_robin"}, []failover.Target{{Name: "a", Weight: -1}}},
		"(a%s).cost: -1":                     {targets: []failover.Target{{Name: "a%s", Cost: -1}}},
		"(a).timeout: -1s":                   {targets: []failover.Target{{Name: "a", Timeout: -time.Second}}},
		"(a).base_url: want an absolute":     {targets: []failover.Target{{Name: "a", BaseURL: "h.example/v1"}}},
		"(a).base_url: is no URL":            {targets: []failover.Target{{Name: "a", BaseURL: "http://h:secret"}}},
		"failover.max_attempts: -1":          {failover.Policy{MaxAttempts: -1}, []failover.Target{one}},
		"retry_on_statuses[0]: \"600\"":      {failover.Policy{RetryOnStatuses: []string{"600"}}, []failover.Target{one}},
		"retry_on_statuses[0]: \"6xx\"":      {failover.Policy{RetryOnStatuses: []string{"6xx"}}, []failover.Target{one}},
		"retry_on_statuses[0]: \"\"":         {failover.Policy{RetryOnStatuses: []string{""}}, []failover.Target{one}},
		"phrase \"404 5xx\" has no word":     {failover.Policy{RetryOnErrors: []string{"404 5xx"}}, []failover.Target{one}},
		"phrase \" \" has no word":           {failover.Policy{RetryOnErrors: []string{" "}}, []failover.Target{one}},
		"phrase \"999 gone\": \"999\" is ne": {failover.Policy{RetryOnErrors: []string{"999 gone"}}, []failover.Target{one}},
	} {
		t.Run(want, func(t *testing.T) {
			c, err := failover.NewChain(tc.p, tc.targets...)
			require.ErrorContains(t, err, want)
			assert.Nil(t, c)
			assert.NotContains(t, err.Error(), "secret")
		})
	}
	_, err := failover.NewChain(failover.Policy{Strategy: "x", MaxAttempts: -1}, failover.Target{Name: "a", Timeout: -1})
	for _, part := range []string{"strategy", "max_attempts", "timeout"} {
		require.ErrorContains(t, err, part, "all faults at once")
	}
}

func TestSwitchedOffGlobally(t *testing.T) {
	p := failover.DefaultPolicy()
	p.Disabled = true
	b := healthy()
	c := chain(t, p, failover.Target{Name: "a", Transport: failing(503)}, failover.Target{Name: "b", Transport: b})
	assert.Equal(t, 503, ask(t, c, "m").StatusCode)
	assert.Zero(t, b.count())
}

func TestRoundRobinIsSmooth(t *testing.T) {
	c := chain(t, failover.Policy{Strategy: failover.StrategyRoundRobin},
		failover.Target{Name: "a", Weight: 5, Transport: healthy()},
		failover.Target{Name: "b", Transport: healthy()},
		failover.Target{Name: "c", Weight: 1, Transport: healthy()},
		failover.Target{Name: "off", Weight: 9, Disabled: true, Transport: healthy()})
	var order strings.Builder
	for range 14 {
		got := ask(t, c, "m")
		a := failover.AttemptsOf(got.Response)
		order.WriteString(a[len(a)-1].Target)
		assert.False(t, failover.FromBackup(got.Response), "the strategy's own choice is no backup")
	}
	assert.Equal(t, "aabacaaaabacaa", order.String())
}

func TestRoundRobinRestFollowsAsListed(t *testing.T) {
	c := chain(t, failover.Policy{Strategy: failover.StrategyRoundRobin},
		failover.Target{Name: "a", Transport: failing(503)},
		failover.Target{Name: "b", Transport: failing(503)},
		failover.Target{Name: "c", Transport: failing(503)})
	var trails []string
	for range 3 {
		trails = append(trails, trail(failover.AttemptsOf(ask(t, c, "m").Response)))
	}
	assert.Equal(t, []string{"a:503 b:503 c:503", "b:503 a:503 c:503", "c:503 a:503 b:503"}, trails)
}

func TestRoundRobinSpreadsOnly(t *testing.T) {
	c := chain(t, failover.Policy{Strategy: failover.StrategyRoundRobin, Disabled: true},
		failover.Target{Name: "a", Transport: failing(503)}, failover.Target{Name: "b", Transport: failing(503)})
	assert.Equal(t, "a:503", trail(failover.AttemptsOf(ask(t, c, "m").Response)))
	assert.Equal(t, "b:503", trail(failover.AttemptsOf(ask(t, c, "m").Response)))
}

func TestCheapestFirst(t *testing.T) {
	c := chain(t, failover.Policy{Strategy: failover.StrategyCost},
		failover.Target{Name: "a", Cost: 3, Transport: failing(503)},
		failover.Target{Name: "b", Cost: 1, Transport: failing(503)},
		failover.Target{Name: "c", Cost: 2, Transport: failing(503)},
		failover.Target{Name: "free", Disabled: true})
	assert.Equal(t, "b:503 a:503 c:503 free:-disabled", trail(failover.AttemptsOf(ask(t, c, "m").Response)))
}

func TestSkipping(t *testing.T) {
	open := stack(t, "open", healthy(), knobs())
	open.ForceOpen("", time.Minute)
	c := chain(t, failover.Policy{MaxAttempts: 1},
		failover.Target{Name: "disabled", Disabled: true},
		failover.Target{Name: "vip", Transport: healthy(), Allow: func(r *http.Request) bool {
			assert.Equal(t, http.NoBody, r.Body, "the body is not for it")
			return r.Header.Get("Tier") == "vip"
		}},
		failover.Target{Name: "offline", Transport: healthy(), Available: func() bool { return false }},
		failover.Target{Name: "open", Transport: open},
		failover.Target{Name: "one", Transport: failing(503)},
		failover.Target{Name: "two", Transport: failing(503)},
		failover.Target{Name: "beyond the cap", Transport: healthy()})
	got := ask(t, c, "m")
	assert.Equal(t, 503, got.StatusCode)
	assert.Equal(t, "disabled:-disabled vip:-not_allowed offline:-unavailable open:-circuit_open one:503 two:503",
		trail(failover.AttemptsOf(got.Response)), "skipped ones do not count")
	req := post(t, chatURL, chatBody("m"))
	req.Header.Set("Tier", "vip")
	got, err := do(t, c, req)
	require.NoError(t, err)
	assert.Equal(t, "disabled:-disabled vip:ok", trail(failover.AttemptsOf(got.Response)))
}

func TestAllOpen(t *testing.T) {
	open := func(name string, d time.Duration) (failover.Target, *upstream) {
		u := healthy()
		s := stack(t, name, u, knobs())
		s.ForceOpen("", d)
		return failover.Target{Name: name, Provider: name, Model: "m", Transport: s}, u
	}
	a, ua := open("a", time.Hour)
	b, ub := open("b", time.Minute)
	d, ud := open("d", 2*time.Hour)
	got := ask(t, chain(t, failover.Policy{}, a, b, d), "m")
	assert.Equal(t, 503, got.StatusCode)
	assert.Equal(t, "60", got.Header.Get("Retry-After"), "the shortest wait")
	rej, ok := resilience.Rejection(got.Response, nil)
	require.True(t, ok)
	assert.Equal(t, "b", rej.Provider)
	assert.Zero(t, ua.count()+ub.count()+ud.count())
	assert.Equal(t, "a:-circuit_open b:-circuit_open d:-circuit_open", trail(failover.AttemptsOf(got.Response)), "each target once")

	off := failover.Target{Name: "off", Transport: healthy(), Available: func() bool { return false }}
	got = ask(t, chain(t, failover.Policy{}, a, off, b), "m")
	assert.Equal(t, 200, got.StatusCode, "the merely unavailable one is really tried")
}

func TestAllUnavailable(t *testing.T) {
	never := func() bool { return false }
	a, b := failing(401), healthy()
	c := chain(t, failover.Policy{},
		failover.Target{Name: "a", Transport: a, Available: never}, failover.Target{Name: "b", Transport: b, Available: never})
	got := ask(t, c, "m")
	assert.Equal(t, 401, got.StatusCode)
	assert.Zero(t, b.count())
	assert.Equal(t, "a:-unavailable b:-unavailable a:401", trail(failover.AttemptsOf(got.Response)))
}

func TestNobodyIsAllowed(t *testing.T) {
	closed := &closing{Reader: strings.NewReader(chatBody("m"))}
	req := post(t, chatURL, "")
	req.Body, req.GetBody, req.ContentLength = closed, nil, -1
	_, err := do(t, chain(t, failover.Policy{}, failover.Target{Name: "a", Disabled: true}), req)
	var e *failover.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "a:-disabled", trail(e.Attempts))
	assert.Equal(t, 502, resilience.StatusOf(err))
	assert.Equal(t, 1, closed.closed)
}

type closing struct {
	io.Reader
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

func TestRaceWithTheBreaker(t *testing.T) {
	rejecting := roundTripFunc(func(req *http.Request) (*http.Response, error) {
		return nil, &breaker.OpenError{Provider: "a", RetryAfter: time.Second}
	})
	c := chain(t, failover.Policy{MaxAttempts: 1, RetryOnStatuses: []string{"429"}},
		failover.Target{Name: "a", Transport: rejecting},
		failover.Target{Name: "b", Transport: failing(429)},
		failover.Target{Name: "c", Transport: healthy()})
	got := ask(t, c, "m")
	assert.Equal(t, "a:-circuit_open b:429 c:ok", trail(failover.AttemptsOf(got.Response)), "a rejection is no attempt")
}

func TestOnlyGenerativeCallsFailOver(t *testing.T) {
	for name, tc := range map[string]struct {
		url  string
		body func() io.Reader
	}{
		"embeddings": {"https://a.example/v1/embeddings", func() io.Reader { return strings.NewReader(`{"model":"m"}`) }},
		"unknown":    {"https://a.example/v1/files", func() io.Reader { return strings.NewReader(`{}`) }},
		"too large to replay": {chatURL, func() io.Reader {
			return io.MultiReader(strings.NewReader(`{"model":"m","x":"`), strings.NewReader(strings.Repeat("x", 5<<20)), strings.NewReader(`"}`))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := failing(503), healthy()
			c := chain(t, failover.Policy{MaxBody: 4 << 20},
				failover.Target{Name: "off", Transport: healthy(), Available: func() bool { return false }},
				failover.Target{Name: "a", Transport: a}, failover.Target{Name: "b", Transport: b})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tc.url, tc.body())
			require.NoError(t, err)
			got, err := do(t, c, req)
			require.NoError(t, err)
			assert.Equal(t, 503, got.StatusCode)
			require.Equal(t, 1, a.count())
			assert.Zero(t, b.count())
			want, err := io.ReadAll(tc.body())
			require.NoError(t, err)
			assert.True(t, string(want) == a.requests()[0].body, "whole and unchanged")
		})
	}
}

func TestEmbeddingsStayWithTheirModel(t *testing.T) {
	b := healthy()
	s := stack(t, "a", healthy(), knobs())
	s.ForceOpen("", time.Minute)
	c := chain(t, failover.Policy{}, failover.Target{Name: "a", Provider: "a", Transport: s}, failover.Target{Name: "b", Transport: b})
	got, err := do(t, c, post(t, "https://a.example/v1/embeddings", chatBody("m")))
	require.NoError(t, err)
	assert.Equal(t, 503, got.StatusCode, "vectors of two models must not mix")
	assert.Zero(t, b.count())
}

func TestWithoutFailover(t *testing.T) {
	b := healthy()
	c := chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: failing(503)}, failover.Target{Name: "b", Transport: b})
	req := post(t, chatURL, chatBody("m"))
	got, err := do(t, c, req.WithContext(failover.WithoutFailover(req.Context())))
	require.NoError(t, err)
	assert.Equal(t, 503, got.StatusCode)
	assert.Zero(t, b.count())
	assert.Equal(t, 200, ask(t, c, "m").StatusCode)
}

func TestTransportFailuresAlwaysMoveOn(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for mode, reason := range map[string]string{resilience.RenderRejections: "transport_error", resilience.RenderAll: "502"} {
		p := once()
		p.ErrorsAsResponses = mode
		c := chain(t, failover.Policy{RetryOnStatuses: []string{"429"}},
			failover.Target{Name: "a", Provider: "a", Transport: stack(t, "a", newUpstream(reply{err: refused}), p)},
			failover.Target{Name: "b", Transport: healthy()})
		got := ask(t, c, "m")
		assert.Equal(t, "a:"+reason+" b:ok", trail(failover.AttemptsOf(got.Response)))
	}
}

func TestTheLastErrorGoesBack(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	ctx, trace := failover.WithTrace(t.Context())
	c := chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: failing(503)},
		failover.Target{Name: "b", Transport: newUpstream(reply{err: refused})})
	_, err := c.Client().Do(post(t, chatURL, chatBody("m")).WithContext(ctx)) //nolint:bodyclose // an error
	var e *failover.Error
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	assert.Equal(t, "a:503 b:transport_error", trail(e.Attempts))
	assert.Equal(t, e.Attempts, trace.Attempts())
	assert.Equal(t, 502, resilience.StatusOf(err))
	assert.False(t, e.Timeout())
	assert.Contains(t, err.Error(), "2 tried, 0 skipped")
}

func TestCancelledCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("the user left")
		for name, base := range map[string]http.RoundTripper{
			"stack": stack(t, "a", newUpstream(reply{status: 200, delay: time.Hour}), knobs()),
			"bare":  newUpstream(reply{status: 200, delay: time.Hour}),
		} {
			b := healthy()
			c := chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: base}, failover.Target{Name: "b", Transport: b})
			ctx, trace := failover.WithTrace(t.Context())
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
			_, err := do(t, c, post(t, chatURL, chatBody("m")).WithContext(ctx))
			require.ErrorIs(t, err, context.Canceled, name)
			assert.Zero(t, resilience.StatusOf(err))
			assert.Zero(t, b.count())
			assert.Equal(t, "a:canceled", trail(trace.Attempts()))
		}
	})
}

func TestTargetLimitOfAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		go func() {
			_, _ = io.WriteString(pw, evA)
			time.Sleep(150 * time.Millisecond)
			_, _ = io.WriteString(pw, evStop+evDone)
			_ = pw.Close()
		}()
		a := newUpstream(reply{status: 200, rest: pr})
		c := chain(t, failover.Policy{}, failover.Target{Name: "a", Provider: "a", Timeout: 100 * time.Millisecond, Transport: stack(t, "a", a, knobs())})
		got, err := do(t, c, post(t, chatURL, `{"model":"m","stream":true}`))
		require.NoError(t, err)
		require.NoError(t, got.readErr)
		assert.Equal(t, evA+evStop+evDone, got.body)
		require.Error(t, got.Request.Context().Err(), "released at the end of the body")
	})
}

func TestNestedChain(t *testing.T) {
	inner := chain(t, failover.Policy{MaxAttempts: 1},
		failover.Target{Name: "i1", Model: "m1", Transport: failing(503)},
		failover.Target{Name: "i2", Model: "m2", Transport: failing(401)},
		failover.Target{Name: "i3", Model: "m3", Transport: healthy()})
	last := healthy()
	outer := chain(t, failover.Policy{},
		failover.Target{Name: "in", BaseURL: "https://in.example/v1", Header: http.Header{"Authorization": {"I"}}, Transport: inner},
		failover.Target{Name: "last", Transport: last})
	req := post(t, chatURL, chatBody("m"))
	req.Header.Set("Authorization", "P")
	got, err := do(t, outer, req)
	require.NoError(t, err)
	assert.Equal(t, "i1:503 i2:401 last:ok", trail(failover.AttemptsOf(got.Response)))
	assert.True(t, failover.FromBackup(got.Response))
	assert.Equal(t, "P", last.requests()[0].header.Get("Authorization"))
}

func TestNestedChainIsSkippedWhileOpen(t *testing.T) {
	s := stack(t, "p", healthy(), knobs())
	s.ForceOpen("", time.Minute)
	inner := chain(t, failover.Policy{}, failover.Target{Name: "p", Provider: "p", Model: "m", Transport: s})
	c := chain(t, failover.Policy{}, failover.Target{Name: "inner", Transport: inner}, failover.Target{Name: "b", Transport: healthy()})
	assert.Equal(t, "inner:-circuit_open b:ok", trail(failover.AttemptsOf(ask(t, c, "m").Response)))
}

func TestHooksAndLog(t *testing.T) {
	var (
		mu   sync.Mutex
		seen []failover.Attempt
		buf  bytes.Buffer
	)
	c := chain(t, failover.Policy{
		Logger: slog.New(slog.NewTextHandler(&buf, nil)),
		OnAttempt: func(_ context.Context, a failover.Attempt) {
			mu.Lock()
			seen = append(seen, a)
			mu.Unlock()
			panic("a fault of the hook")
		},
	},
		failover.Target{Name: "a/1", Provider: "a", Model: "1", Transport: newUpstream(reply{status: 503, body: `{"error":{"message":"SECRET text"}}`})},
		failover.Target{Name: "b/2", Provider: "b", Model: "2", Transport: healthy()})
	ctx, trace := failover.WithTrace(t.Context())
	got, err := do(t, c, post(t, chatURL, chatBody("m")).WithContext(ctx))
	require.NoError(t, err)
	assert.Equal(t, 200, got.StatusCode)
	assert.Equal(t, seen, trace.Attempts())
	assert.Equal(t, seen, failover.AttemptsOf(got.Response))
	assert.Equal(t, "a", seen[0].Provider)
	assert.Equal(t, "1", seen[0].Model)
	assert.Equal(t, 503, seen[0].Status)
	assert.Contains(t, buf.String(), "target=b/2")
	assert.Contains(t, buf.String(), "reason=503")
	assert.Contains(t, buf.String(), "panic in a hook")
	assert.NotContains(t, buf.String(), "SECRET")
	assert.NotContains(t, buf.String(), "hi\"")
}

func TestAnswersThatAreDroppedAreClosed(t *testing.T) {
	var bodies []*closing
	bad := roundTripFunc(func(req *http.Request) (*http.Response, error) {
		b := &closing{Reader: strings.NewReader("x")}
		bodies = append(bodies, b)
		return &http.Response{StatusCode: 503, Header: http.Header{"Set-Cookie": {"bad=1"}, "X-Bad": {"1"}}, Body: b, Request: req}, nil
	})
	c := chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: bad}, failover.Target{Name: "b", Transport: bad},
		failover.Target{Name: "c", Transport: healthy()})
	got := ask(t, c, "m")
	assert.Empty(t, got.Header.Get("X-Bad"))
	require.Len(t, bodies, 2)
	for _, b := range bodies {
		assert.NotZero(t, b.closed)
		n, _ := b.Read(make([]byte, 1))
		assert.Zero(t, n, "drained")
	}
}

func TestConformance(t *testing.T) {
	require.NoError(t, upstreamtest.CheckRoundTripper(func(base http.RoundTripper) http.RoundTripper {
		return chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: base})
	}))
	require.NoError(t, upstreamtest.CheckRoundTripper(func(base http.RoundTripper) http.RoundTripper {
		r, err := failover.NewRouter(nil, base)
		require.NoError(t, err)
		return r
	}))
}

func TestConcurrentUse(t *testing.T) {
	c := chain(t, failover.Policy{Strategy: failover.StrategyRoundRobin},
		failover.Target{Name: "a", Model: "a", BaseURL: "https://a.example/v1", Transport: failing(503)},
		failover.Target{Name: "b", Model: "b", BaseURL: "https://b.example/v1", Transport: healthy()})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { assert.Equal(t, 200, ask(t, c, "m").StatusCode) })
	}
	wg.Wait()
}
