package failover_test

import (
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// wrapped hides a stack behind another layer, as a tracing transport does.
func wrapped(rt http.RoundTripper) http.RoundTripper {
	return roundTripFunc(rt.RoundTrip)
}

func TestStacksBehindAnotherLayer(t *testing.T) {
	open := func(name string, d time.Duration) failover.Target {
		s := stack(t, name, healthy(), knobs())
		s.ForceOpen("", d)
		return failover.Target{Name: name, Provider: name, Transport: wrapped(s)}
	}
	got := ask(t, chain(t, failover.Policy{}, open("a", time.Hour), open("b", time.Minute), open("c", time.Hour)), "m")
	assert.Equal(t, "60", got.Header.Get("Retry-After"), "the shortest wait, although nobody could look ahead")
	assert.Equal(t, "a:-circuit_open b:-circuit_open c:-circuit_open", trail(failover.AttemptsOf(got.Response)))

	big := strings.Repeat("x", 200<<10)
	for _, body := range []string{`{"error":{"message":"why"}}`, big} {
		c := chain(t, failover.Policy{}, open("a", time.Hour), failover.Target{Name: "b", Transport: newUpstream(reply{status: 500, body: body})}, open("c", time.Hour))
		got = ask(t, c, "m")
		assert.Equal(t, 500, got.StatusCode, "the last tried target's answer")
		assert.True(t, got.body == body, "whole")
	}
}

func TestAnswerThatHangsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		a := newUpstream(reply{status: 500, body: "x", rest: pr})
		c := chain(t, failover.Policy{},
			failover.Target{Name: "a", Provider: "a", Transport: stack(t, "a", a, knobs())}, failover.Target{Name: "b", Transport: healthy()})
		start := time.Now()
		assert.Equal(t, 200, ask(t, c, "m").StatusCode)
		assert.LessOrEqual(t, time.Since(start), time.Second)
		_ = pw.Close()
	})
}

// A stack sees the target's limit as its deadline: it gives the answer in hand
// back instead of waiting for a retry that cannot be.
func TestNoWaitBeyondTheTargetsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newUpstream(reply{status: 503, body: "{}", header: http.Header{"Retry-After": {"1"}}})
		p := knobs()
		p.Retry.MaxBackoff = 10 * time.Second
		c := chain(t, failover.Policy{}, failover.Target{Name: "a", Provider: "a", Timeout: 300 * time.Millisecond, Transport: stack(t, "a", a, p)},
			failover.Target{Name: "b", Transport: healthy()})
		start := time.Now()
		got := ask(t, c, "m")
		assert.Zero(t, time.Since(start))
		assert.Equal(t, "a:503 b:ok", trail(failover.AttemptsOf(got.Response)))
	})
}

func TestErrorBodiesArePutBack(t *testing.T) {
	for _, n := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 300 << 10} {
		body := strings.Repeat("y", n)
		c := chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: newUpstream(reply{status: 400, body: body})},
			failover.Target{Name: "b", Transport: healthy()})
		got := ask(t, c, "m")
		assert.Equal(t, 400, got.StatusCode)
		require.NoError(t, got.readErr)
		assert.True(t, body == got.body, n)
	}
	broken := newUpstream(reply{status: 400, body: "yy", rest: failingReader{io.ErrUnexpectedEOF}})
	got := ask(t, chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: broken}), "m")
	assert.Equal(t, "yy", got.body)
	require.ErrorIs(t, got.readErr, io.ErrUnexpectedEOF)
}

func TestRouterMutualWithoutProviders(t *testing.T) {
	m := failover.Target{Name: "m", Model: "m", Transport: failing(503)}
	n := failover.Target{Name: "n", Model: "n", Transport: failing(503)}
	r, err := failover.NewRouter(map[string]*failover.Chain{
		"m": chain(t, failover.Policy{}, m, n), "n": chain(t, failover.Policy{}, n, m),
		"fast": chain(t, failover.Policy{}, failover.Target{Name: "x", Model: "n"}),
	}, nil)
	require.NoError(t, err)
	assert.Equal(t, "m:503 n:503", trail(failover.AttemptsOf(ask(t, r, "m").Response)))
	assert.Equal(t, "n:503 m:503", trail(failover.AttemptsOf(ask(t, r, "fast").Response)))
}

// A redirect whose earlier response carries no trace of the call is still not
// taken for a call of its own.
func TestRedirectWithoutATrace(t *testing.T) {
	u, b := failing(503), healthy()
	c := chain(t, failover.Policy{},
		failover.Target{Name: "u", BaseURL: "https://u.example/v1", Model: "u-1", Transport: u, Header: http.Header{"Authorization": {"F"}}},
		failover.Target{Name: "b", Transport: b})
	for at, auth := range map[string]string{"https://u.example/moved": "F", "https://x.example/moved": ""} {
		u.set(reply{status: 503, body: "{}"})
		req := post(t, at, chatBody("m"))
		req.Header.Set("X-Api-Key", "P")
		req.Response = &http.Response{StatusCode: 307}
		got, err := do(t, c, req)
		require.NoError(t, err)
		assert.Equal(t, 503, got.StatusCode)
		assert.Zero(t, b.count())
		s := u.requests()[0]
		assert.Equal(t, at, s.url)
		assert.Equal(t, auth, s.header.Get("Authorization"))
		assert.Empty(t, s.header.Get("X-Api-Key"))
	}
}

// meters counts what a chain adds to its counters.
type meters struct {
	noop.MeterProvider
	mu   sync.Mutex
	sums map[string]int64
}

type meter struct {
	noop.Meter
	m *meters
}

type counter struct {
	noop.Int64Counter
	m    *meters
	name string
}

func (m *meters) Meter(string, ...metric.MeterOption) metric.Meter { return meter{m: m} }

func (m meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{m: m.m, name: name}, nil
}

func (c counter) Add(_ context.Context, n int64, opts ...metric.AddOption) {
	set := metric.NewAddConfig(opts).Attributes()
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.sums[c.name+" "+set.Encoded(attribute.DefaultEncoder())] += n
}

func TestMetrics(t *testing.T) {
	m := &meters{sums: make(map[string]int64)}
	open := stack(t, "open", healthy(), knobs())
	open.ForceOpen("", time.Minute)
	policy := failover.Policy{MeterProvider: m}
	c := chain(t, policy,
		failover.Target{Name: "0", Provider: "open", Transport: open},
		failover.Target{Name: "1", Provider: "bare", Transport: wrapped(open)},
		failover.Target{Name: "2", Provider: "down", Transport: newUpstream(reply{err: io.ErrUnexpectedEOF})},
		failover.Target{Name: "3", Provider: "bad", Transport: failing(500)},
		failover.Target{Name: "4", Provider: "good", Transport: healthy()})
	for i := range 20 {
		ask(t, c, fmt.Sprint("invented-", i))
	}
	ask(t, chain(t, policy, failover.Target{Name: "x", Provider: "good", Transport: healthy()}), "m")
	ask(t, chain(t, policy, failover.Target{Name: "x", Provider: "bad", Transport: failing(400)}), "m")
	_, err := failover.Call(t.Context(), chain(t, policy, failover.Target{Name: "x", Provider: "sdk"}), func(context.Context, failover.Target) (int, error) {
		return 0, &openAIError{StatusCode: 400}
	})
	require.Error(t, err)
	assert.Equal(t, map[string]int64{
		"surefoot.failover.attempts surefoot.failover.outcome=skipped,surefoot.provider.name=open":         20,
		"surefoot.failover.attempts surefoot.failover.outcome=rejected,surefoot.provider.name=bare":        20,
		"surefoot.failover.attempts surefoot.failover.outcome=transport_error,surefoot.provider.name=down": 20,
		"surefoot.failover.attempts surefoot.failover.outcome=error,surefoot.provider.name=bad":            21,
		"surefoot.failover.attempts surefoot.failover.outcome=success,surefoot.provider.name=good":         21,
		"surefoot.failover.attempts surefoot.failover.outcome=error,surefoot.provider.name=sdk":            1,
		"surefoot.failover.calls surefoot.failover.outcome=backup":                                         20,
		"surefoot.failover.calls surefoot.failover.outcome=first":                                          1,
		"surefoot.failover.calls surefoot.failover.outcome=failed":                                         2,
	}, m.sums)
}

// Targets without a transport get one stack a provider, whose breaker then counts
// the failures of all of them.
func TestDefaultStackIsSharedByProvider(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer srv.Close()
	c := chain(t, failover.Policy{RetryOnStatuses: []string{"500"}},
		failover.Target{Name: "1", Provider: "p", Model: "a", BaseURL: srv.URL},
		failover.Target{Name: "2", Provider: "p", Model: "b", BaseURL: srv.URL})
	defer c.CloseIdleConnections()
	for range 5 {
		resp, err := c.Do(post(t, chatURL, chatBody("m")))
		if resp != nil {
			require.NoError(t, resp.Body.Close())
		}
		if open, rejected := resilience.Rejection(resp, err); rejected {
			assert.Equal(t, "p", open.Provider)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, http.StatusInternalServerError, resp.StatusCode)
	}
	assert.EqualValues(t, 5, asked.Load(), "the failures of both count as one provider's")
}

func TestTraceIsBounded(t *testing.T) {
	ctx, trace := failover.WithTrace(t.Context())
	c := chain(t, failover.Policy{}, failover.Target{Name: "a"})
	for range 1100 {
		_, err := failover.Call(ctx, c, func(context.Context, failover.Target) (int, error) { return 1, nil })
		require.NoError(t, err)
	}
	assert.Len(t, trace.Attempts(), 1024)
}

// FuzzFormModel: the form stays one that mime/multipart reads, with the value
// of the field "model" changed and nothing else.
func FuzzFormModel(f *testing.F) {
	f.Add("model", "whisper", "file", "bytes\r\n--B", "B")
	f.Add("model", "", "model", "\r\n", "B-B")
	f.Add("x", "\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n", "model", "y", "----1")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2, boundary string) {
		var b strings.Builder
		w := multipart.NewWriter(&b)
		if w.SetBoundary(boundary) != nil || strings.Contains(v1+v2, boundary) {
			return
		}
		for _, kv := range [][2]string{{k1, v1}, {k2, v2}} {
			if w.WriteField(kv[0], kv[1]) != nil {
				return
			}
		}
		require.NoError(t, w.Close())
		sent, err := multipart.NewReader(strings.NewReader(b.String()), boundary).ReadForm(1 << 20)
		if err != nil {
			return
		}
		u := healthy()
		c := chain(t, failover.Policy{}, failover.Target{Name: "t", Model: "the-new-model", Transport: u})
		req := post(t, "https://a.example/v1/audio/transcriptions", b.String())
		req.Header.Set("Content-Type", w.FormDataContentType())
		_, err = do(t, c, req)
		require.NoError(t, err)
		got := u.requests()[0].body
		if k1 != "model" && k2 != "model" {
			assert.Equal(t, b.String(), got)
			return
		}
		form, err := multipart.NewReader(strings.NewReader(got), boundary).ReadForm(1 << 20)
		require.NoError(t, err)
		want := sent.Value // names as the writer escaped them
		for i := range want["model"] {
			want["model"][i] = "the-new-model"
		}
		assert.Equal(t, want, form.Value)
	})
}
