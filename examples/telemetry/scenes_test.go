package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	up "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// A scene is one thing that can happen to a call. Its name is the provider's,
// so that the golden file tells what each of them exports.
type scene struct {
	name    string
	path    string // "" is chat completions
	body    string // "" is plain
	kind    string // of the provider
	script  []up.Step
	rests   []up.Step // for who reads a kept answer again
	calls   int       // 0 is one
	policy  func(*resilience.Policy)
	context func(context.Context) (context.Context, context.CancelFunc)
	before  func(*resilience.Transport)
	leave   bool // closes the body after the first event
}

const (
	plain    = `{"model":"m1","messages":[{"role":"user","content":"hi"}]}`
	streamed = `{"model":"m1","stream":true,"messages":[{"role":"user","content":"hi"}]}`
)

// kept is for a stream that its vendor keeps.
const kept = `{"model":"m1","stream":true,"background":true,"input":"hi"}`

func resume(p *resilience.Policy) { p.Stream.Resume = "on" }

func after(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(d, cancel)
		return ctx, func() { timer.Stop(); cancel() }
	}
}

func within(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
}

func list(steps ...up.Step) []up.Step { return steps }

// scenes are every row of the manual's table of outcomes, what hides behind a
// 200, and what happens to streams.
func scenes() []scene {
	all := []scene{
		{name: "success", script: list(up.OK("hi"))},
		{name: "retry then success", script: list(up.Status(503), up.Drop(), up.OK("hi"))},
		{name: "reset", script: list(up.Drop().Reset())},
		{name: "429 quota", script: list(up.Status(429).Body("application/json", `{"error":{"code":"insufficient_quota","message":"x"}}`))},
		{name: "invented status", script: list(up.Status(599).Code(477))},
		{name: "local timeout", script: list(up.Silence()), policy: func(p *resilience.Policy) { p.Timeout = time.Second }},
		{name: "caller's deadline", script: list(up.Silence()), context: within(time.Second)},
		{name: "caller cancelled", script: list(up.Silence()), context: after(time.Second)},
		{name: "breaker open", script: list(up.OK("hi")), before: func(t *resilience.Transport) { t.ForceOpen("", time.Hour) }, calls: 2},
		{name: "breaker opens", script: list(up.Status(500)), calls: 7},
		{name: "breaker disabled", script: list(up.Status(500)), calls: 7, policy: func(p *resilience.Policy) { p.CircuitBreaker.Disabled = true }},
		{name: "breaker by model", script: list(up.Status(500)), calls: 5, policy: func(p *resilience.Policy) { p.CircuitBreaker.Scope = "model" }},

		{name: "hidden 429", script: list(up.Hidden(up.HiddenCode, 429))},
		{name: "hidden text", script: list(up.Hidden(up.HiddenText, 500))},
		{name: "html", script: list(up.HTML())},
		{name: "empty body", script: list(up.Empty())},
		{name: "no choices", script: list(up.Hidden(up.HiddenEmptyChoices, 200))},
		{name: "no usage", script: list(up.OK("hi").Usage(0, 0))},
		{name: "no output", path: "/v1/responses", body: `{"model":"m1","input":"hi"}`, script: list(up.OK("hi").Set("output", []any{}))},
		{name: "unknown shape", script: list(up.Body("application/json", `{"generated_text":"hi"}`))},
		{name: "accepted", script: list(up.Body("application/json", `{"id":"x","status":"queued"}`))},
		{name: "drift", script: list(up.OK("hi").Drift("choices.0.message.content"))},

		{name: "stream", body: streamed, script: list(up.OK("a", "b"))},
		{name: "stream empty", body: streamed, script: list(up.RawStream("data: [DONE]\n\n"))},
		{name: "stream error first", body: streamed, script: list(up.OK("a").FailAfter(0, 503))},
		{name: "stream cut", body: streamed, script: list(up.OK("a", "b").CutAfterText(1))},
		{name: "stream reset", body: streamed, script: list(up.OK("a", "b").CutAfterText(1).Reset())},
		{name: "stream stalls", body: streamed, script: list(up.OK("a", "b").CutAfterText(1).Stall())},
		{name: "stream pings on", body: streamed, script: list(up.OK("a", "b").CutAfterText(1).Stall().At(-1, up.Pings(time.Second, -1))),
			policy: func(p *resilience.Policy) { p.Stream.EventTimeout = 10 * time.Second }},
		{name: "stream malformed", body: streamed, script: list(up.OK("a", "b").At(2, up.Malformed()))},
		{name: "stream error later", body: streamed, script: list(up.OK("a", "b").FailAfter(2, 529))},
		{name: "stream closed by caller", body: streamed, script: list(up.OK("a", "b").CutAfterText(1).Stall()), leave: true},
		{name: "stream cancelled", body: streamed, script: list(up.OK("a", "b").CutAfterText(1).Stall()), context: after(time.Second)},
		{name: "stream past deadline", body: streamed, script: list(up.OK("a", "b").CutAfterText(1).Stall()), context: within(time.Second)},

		{name: "stream resumed", path: "/v1/responses", body: kept, script: list(up.OK("a", "b").CutAfterText(1).Reset().Keep()), policy: resume},
		{name: "stream expired", path: "/v1/responses", body: kept, script: list(up.OK("a", "b").CutAfterText(1).Reset().Keep()), policy: resume,
			rests: list(up.Status(404))},

		{name: "messages", path: "/v1/messages", script: list(up.OK("hi"))},
		{name: "azure", kind: "azure", script: list(up.OK("hi"))},
		{name: "completions", path: "/v1/completions", body: `{"model":"m1","prompt":"hi"}`, script: list(up.OK("hi"))},
		{name: "tokens", script: list(up.Body("application/json", `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":40,`+
			`"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":20},"completion_tokens_details":{"reasoning_tokens":30}}}`))},
		{name: "embeddings", path: "/v1/embeddings", body: `{"model":"m1","input":"hi"}`, script: list(up.OK("hi"))},
		{name: "embeddings fail", path: "/v1/embeddings", body: `{"model":"m1","input":"hi"}`, script: list(up.Status(400))},
		{name: "unknown format", path: "/v1/files", script: list(up.OK("hi"), up.Status(503)), calls: 2},
		{name: "no model", body: `{"messages":[]}`, script: list(up.OK("hi"))},
		{name: "passthrough", script: list(up.Empty()), context: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithCancel(resilience.WithPassthrough(ctx))
		}},
	}
	for _, status := range []int{400, 401, 403, 404, 422, 429, 500, 501, 502, 503, 504, 522, 524, 529} {
		all = append(all, scene{name: http.StatusText(status), script: list(up.Status(status))})
		if s := &all[len(all)-1]; s.name == "" {
			s.name = "Odd " + string(rune('0'+status/100)) + string(rune('0'+status/10%10)) + string(rune('0'+status%10))
		}
	}
	return all
}

func policy() resilience.Policy {
	p := resilience.DefaultPolicy()
	p.Retry.MaxRetries = 2
	return p
}

// play runs the scenes under mp. It returns what must stay reachable until
// the metrics are read. It belongs into a synctest bubble.
func play(t *testing.T, mp metric.MeterProvider, b resilience.Builder) []any {
	t.Helper()
	var alive []any
	for _, s := range scenes() {
		u := up.NewInMemory("")
		t.Cleanup(u.Close)
		u.Default(s.script...)
		if s.rests != nil {
			u.Rests(s.rests...)
		}
		p := policy()
		if s.policy != nil {
			s.policy(&p)
		}
		b := b
		b.Base, b.MeterProvider, b.ProviderType = late{u.RoundTripper()}, mp, s.kind
		tr, err := b.Build(s.name, p)
		require.NoError(t, err)
		alive = append(alive, tr)
		if s.before != nil {
			s.before(tr)
		}
		for range max(1, s.calls) {
			once(t, tr, s)
		}
	}
	alive = append(alive, refused(t, mp, b), chains(t, mp, b))
	return alive
}

// late lets a moment of the bubble's time pass: nothing takes none at all.
type late struct{ base http.RoundTripper }

func (l late) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(time.Millisecond)
	return l.base.RoundTrip(req)
}

func once(t *testing.T, tr http.RoundTripper, s scene) {
	t.Helper()
	ctx, cancel := t.Context(), context.CancelFunc(func() {})
	if s.context != nil {
		ctx, cancel = s.context(ctx)
	}
	defer cancel()
	path, body := s.path, s.body
	if path == "" {
		path = "/v1/chat/completions"
	}
	if body == "" {
		body = plain
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://upstream.test"+path, strings.NewReader(body))
	require.NoError(t, err)
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return
	}
	if s.leave {
		_, err = resp.Body.Read(make([]byte, 1))
		require.NoError(t, err)
	} else {
		_, _ = io.Copy(io.Discard, resp.Body) // some are cut
	}
	require.NoError(t, resp.Body.Close())
}

// refused are calls that find nobody: a stopped upstream and an unknown host.
func refused(t *testing.T, mp metric.MeterProvider, b resilience.Builder) any {
	t.Helper()
	u := up.NewInMemory("elsewhere.test")
	t.Cleanup(u.Close)
	u.Stop()
	var alive []any
	for name, base := range map[string]http.RoundTripper{"refused": u.RoundTripper(), "unknown host": up.Switch(u)} {
		b.Base, b.MeterProvider = base, mp
		tr, err := b.Build(name, policy())
		require.NoError(t, err)
		once(t, tr, scene{})
		alive = append(alive, tr)
	}
	return alive
}

// chains are calls through two targets: by who answered, and how each went.
func chains(t *testing.T, mp metric.MeterProvider, b resilience.Builder) any {
	t.Helper()
	var alive []any
	for _, c := range []struct {
		name          string
		first, second []up.Step
		calls         int
		context       func(context.Context) (context.Context, context.CancelFunc)
	}{
		{name: "first", first: list(up.OK("hi")), second: list(up.OK("hi"))},
		{name: "backup", first: list(up.Status(500)), second: list(up.OK("hi")), calls: 6}, // the last skips it
		{name: "failed", first: list(up.Drop()), second: list(up.Status(401))},
		{name: "late", first: list(up.Silence()), second: list(up.OK("hi"))},
		{name: "left", first: list(up.Silence()), second: list(up.OK("hi")), context: after(time.Second)},
	} {
		var targets []failover.Target
		for i, script := range [][]up.Step{c.first, c.second} {
			u := up.NewInMemory("")
			t.Cleanup(u.Close)
			u.Default(script...)
			name := "chain " + c.name + []string{" one", " two"}[i]
			b.Base, b.MeterProvider = u.RoundTripper(), mp
			tr, err := b.Build(name, policy())
			require.NoError(t, err)
			targets = append(targets, failover.Target{Name: name, Provider: name, Transport: tr})
			alive = append(alive, tr)
		}
		if c.name == "late" {
			targets[0].Timeout = time.Second
		}
		p := failover.DefaultPolicy()
		p.MeterProvider, p.Logger = mp, b.Logger
		chain, err := failover.NewChain(p, targets...)
		require.NoError(t, err)
		for range max(1, c.calls) {
			once(t, chain, scene{context: c.context})
		}
	}
	return alive
}
