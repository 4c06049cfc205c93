package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover/config"
	up "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// rig is a gateway on loopback over two providers, and how to end it.
type rig struct {
	primary, backup *up.Upstream
	url, admin      string
	end             context.CancelFunc // asks the gateway to end
	ended           chan error
}

// text is a configuration over the providers of a rig, with the two settings
// of config.yaml.
const text = `
resilience:
  profile: live
  errors_as_responses: all
  stream: {incomplete_read: eof, idle_timeout: 1m}
  retry: {initial_backoff: 1ms, max_backoff: 10ms}
providers:
  a: {type: openai, base_url: "PRIMARY/v1", api_key: key-of-a}
  b: {type: openai, base_url: "BACKUP/v1", api_key: key-of-b}
  open: {type: openai, base_url: "PRIMARY/v1"}
virtual_models:
  - source: smart
    targets: [{model: a/one}, {model: b/two}]
  - source: single
    targets: [{model: a/one}]
  - source: hidden
    target: a/one
    enabled: false
`

// usual are limits that no test meets by accident.
var usual = limits{body: 1 << 20, upload: time.Minute, call: time.Minute}

func newRig(t *testing.T, l limits, grace time.Duration, replace ...string) *rig {
	t.Helper()
	r := &rig{primary: up.New(), backup: up.New(), ended: make(chan error, 1)}
	r.primary.Models("one") // else a list is answered by what the test wants for calls
	r.backup.Models("two", "three")
	t.Cleanup(r.primary.Close)
	t.Cleanup(r.backup.Close)
	file := filepath.Join(t.TempDir(), "config.yaml")
	replace = append(replace, "PRIMARY", r.primary.URL, "BACKUP", r.backup.URL)
	require.NoError(t, os.WriteFile(file, []byte(strings.NewReplacer(replace...).Replace(text)), 0o600))
	ctx, end := context.WithCancel(context.Background())
	r.end = end
	g, err := open(ctx, settings{config: file, addr: "127.0.0.1:0", admin: "127.0.0.1:0", limits: l}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	r.url, r.admin = "http://"+g.callers.Addr().String(), "http://"+g.operators.Addr().String()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.ended <- g.serve(ctx, grace)
	}()
	t.Cleanup(func() { end(); <-done })
	require.Eventually(t, func() bool { // else a provider whose list came last may have been passed over
		status, body := r.get(t, r.admin+"/?format=json")
		return status == http.StatusOK && strings.Count(body, `"Healthy"`) == 3
	}, time.Minute, time.Millisecond)
	return r
}

// within is a context that ends with the test at the latest.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func (r *rig) get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), http.MethodGet, url, nil)
	require.NoError(t, err)
	return send(t, req)
}

func (r *rig) post(t *testing.T, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), http.MethodPost, r.url+path, strings.NewReader(body))
	require.NoError(t, err)
	return send(t, req)
}

func send(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer func() { assert.NoError(t, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// calls counts the calls that a provider has read, without requests for its list.
func calls(u *up.Upstream) int { return len(read(u)) }

func read(u *up.Upstream) (calls []up.Request) {
	for _, req := range u.Requests() {
		if req.Method == http.MethodPost {
			calls = append(calls, req)
		}
	}
	return calls
}

func last(u *up.Upstream) up.Request {
	all := read(u)
	return all[len(all)-1]
}

func TestAnswersPass(t *testing.T) {
	each(t, func(t *testing.T, s sdk) {
		r := newRig(t, usual, time.Minute)
		r.primary.Default(up.OK("hello", " you"))
		for _, stream := range []bool{false, true} {
			said, err := s.ask(within(t), r.url, "smart", stream, 0)
			require.NoError(t, err)
			assert.Equal(t, "hello you", said)
			assert.Equal(t, "one", last(r.primary).Model)
		}
		_, err := s.ask(within(t), r.url, "b/three", false, 0)
		require.NoError(t, err)
		assert.Equal(t, "three", last(r.backup).Model)
		_, err = s.ask(within(t), r.url, "unheard-of", false, 0)
		assert.Equal(t, http.StatusNotFound, s.status(err), "%v", err)
	})
}

// A stream reaches the caller event by event, not when the provider has ended.
func TestAStreamIsNotHeldUp(t *testing.T) {
	each(t, func(t *testing.T, s sdk) {
		r := newRig(t, usual, time.Minute)
		more := make(chan struct{})
		r.primary.Default(up.OK("hello", " you").At(s.second, up.Gate(more)))
		heard := make(chan string, 100)
		ctx := within(t)
		done := make(chan error, 1)
		go func() { done <- s.read(ctx, r.url, "smart", heard) }()
		assert.Equal(t, "hello", <-heard)
		close(more)
		require.NoError(t, <-done)
		assert.Equal(t, " you", <-heard)
	})
}

func TestOneProviderIsDown(t *testing.T) {
	each(t, func(t *testing.T, s sdk) {
		r := newRig(t, usual, time.Minute)
		r.primary.Stop()
		r.backup.Default(up.OK("hello"))
		for _, stream := range []bool{false, true} {
			said, err := s.ask(within(t), r.url, "smart", stream, 0)
			require.NoError(t, err)
			assert.Equal(t, "hello", said)
		}
	})
}

// What no provider answers is a response in the SDK's own format, which the SDK
// does not send again, whatever its retries are: errors_as_responses: all.
func TestEveryProviderFails(t *testing.T) {
	for name, row := range map[string]struct {
		step   up.Step
		limit  string
		status int
	}{
		"resets":  {up.Drop().Reset(), "1m", http.StatusBadGateway},
		"a 503":   {up.Status(503), "1m", http.StatusServiceUnavailable},
		"silence": {up.Silence(), "400ms", http.StatusGatewayTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, s sdk) {
				for _, stream := range []bool{false, true} {
					r := newRig(t, usual, time.Minute, "profile: live", "profile: live\n  timeout: "+row.limit)
					r.primary.Default(row.step)
					_, err := s.ask(within(t), r.url, "single", stream, 5)
					require.Error(t, err)
					assert.Equal(t, row.status, s.status(err), "%v", err)
					assert.LessOrEqual(t, calls(r.primary), 3, "one attempt and two retries of the gateway's own")
				}
			})
		})
	}
}

// Without the setting a failure is an error for tell, which knows no provider; the
// ErrorHandler that ReverseProxy has by itself writes an empty 502, which SDKs send again.
func TestWhyErrorsAsResponses(t *testing.T) {
	r := newRig(t, usual, time.Minute, "errors_as_responses: all", "errors_as_responses: rejections")
	r.primary.Stop()
	status, body := r.post(t, "/v1/chat/completions", `{"model":"single","messages":[]}`)
	assert.Equal(t, http.StatusBadGateway, status)
	assert.Contains(t, body, `"upstream_error"`, "what is left for tell to say")

	r = newRig(t, usual, time.Minute)
	r.primary.Stop()
	status, body = r.post(t, "/v1/chat/completions", `{"model":"single","messages":[]}`)
	assert.Equal(t, http.StatusBadGateway, status)
	assert.Contains(t, body, `provider a could not be reached`)
}

// A provider that dies in the middle of a stream: the caller sees what came, and
// then an error, of the stream and not of the connection: incomplete_read: eof.
func TestTheProviderDies(t *testing.T) {
	answer := up.OK("hello", " you", " there")
	for name, row := range map[string]struct {
		end  func(up.Step) up.Step
		idle string
	}{
		"ends cleanly":    {func(s up.Step) up.Step { return s }, "1m"},
		"resets":          {up.Step.Reset, "1m"},
		"falls silent":    {up.Step.Stall, "500ms"},
		"breaks off":      {up.Step.BadChunk, "1m"},
		"inside an event": {up.Step.InsideLine, "1m"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, s sdk) {
				r := newRig(t, usual, time.Minute, "idle_timeout: 1m", "idle_timeout: "+row.idle)
				r.primary.Default(row.end(answer.CutAfter(s.second)))
				said, err := s.ask(within(t), r.url, "smart", true, 0)
				require.Error(t, err)
				assert.Equal(t, "hello", said)
				assert.Contains(t, err.Error(), "upstream", "the event's own words")
				assert.NotErrorIs(t, err, io.ErrUnexpectedEOF)
				assert.Zero(t, calls(r.backup), "what was handed out is not begun again")
			})
		})
	}
}

// Without the setting the reverse proxy cuts the caller's connection.
func TestWhyIncompleteReadEOF(t *testing.T) {
	for _, row := range []struct {
		setting string
		cut     bool
	}{{"eof", false}, {"error", true}} {
		r := newRig(t, usual, time.Minute, "incomplete_read: eof", "incomplete_read: "+row.setting)
		r.primary.Default(up.OK("hello", " you").CutAfter(1))
		req, err := http.NewRequestWithContext(within(t), http.MethodPost, r.url+"/v1/chat/completions",
			strings.NewReader(`{"model":"smart","stream":true,"messages":[]}`))
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, resp.Body.Close())
		assert.Contains(t, string(body), "stream_incomplete")
		assert.Equal(t, row.cut, err != nil, "%s: %v", row.setting, err)
	}
}

// A caller who leaves takes the provider's connection along, before the answer
// and in the middle of it.
func TestTheCallerLeaves(t *testing.T) {
	each(t, func(t *testing.T, s sdk) {
		for name, step := range map[string]up.Step{
			"waiting":         up.Silence(),
			"during a stream": up.OK("hello", " you").CutAfter(s.second).Stall(),
		} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, usual, time.Minute)
				r.primary.Default(step)
				ctx, leave := context.WithCancel(within(t))
				heard, done := make(chan string, 100), make(chan error, 1)
				go func() { done <- s.read(ctx, r.url, "smart", heard) }()
				require.NoError(t, r.primary.Wait(within(t), func() bool { return calls(r.primary) == 1 }))
				if name != "waiting" {
					assert.Equal(t, "hello", <-heard)
				}
				leave()
				require.ErrorIs(t, <-done, context.Canceled)
				require.NoError(t, r.primary.Wait(within(t), func() bool { return r.primary.Aborted() == 1 }))
				assert.Zero(t, calls(r.backup))
			})
		}
	})
}

func TestLimits(t *testing.T) {
	each(t, func(t *testing.T, s sdk) {
		t.Run("a body that is too large", func(t *testing.T) {
			r := newRig(t, limits{body: 10, upload: time.Minute, call: time.Minute}, time.Minute)
			_, err := s.ask(within(t), r.url, "smart", false, 5)
			assert.Equal(t, http.StatusRequestEntityTooLarge, s.status(err), "%v", err)
			assert.Zero(t, calls(r.primary))
		})
		t.Run("a call that takes too long to begin", func(t *testing.T) {
			r := newRig(t, limits{body: 1 << 20, upload: time.Minute, call: 300 * time.Millisecond}, time.Minute)
			r.primary.Default(up.Silence())
			_, err := s.ask(within(t), r.url, "smart", false, 5)
			assert.Equal(t, http.StatusGatewayTimeout, s.status(err), "%v", err)
			assert.LessOrEqual(t, calls(r.primary)+calls(r.backup), 1)
		})
		t.Run("a stream that takes too long", func(t *testing.T) {
			r := newRig(t, limits{body: 1 << 20, upload: time.Minute, call: 2 * time.Second}, time.Minute)
			r.primary.Default(up.OK("hello", " you").CutAfter(s.second).Stall())
			said, err := s.ask(within(t), r.url, "smart", true, 0)
			require.Error(t, err)
			assert.Equal(t, "hello", said)
			require.NoError(t, r.primary.Wait(within(t), func() bool { return r.primary.Aborted() == 1 }))
		})
	})
}

// A request body that does not arrive is given up.
func TestABodyThatDoesNotArrive(t *testing.T) {
	r := newRig(t, limits{body: 1 << 20, upload: 200 * time.Millisecond, call: time.Minute}, time.Minute)
	body, more := io.Pipe()
	defer func() { _ = more.Close() }()
	go func() { _, _ = io.WriteString(more, `{"model":"smart",`) }()
	req, err := http.NewRequestWithContext(within(t), http.MethodPost, r.url+"/v1/chat/completions", body)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err == nil { // or the connection was closed already
		assert.GreaterOrEqual(t, resp.StatusCode, 400)
		require.NoError(t, resp.Body.Close())
	}
	assert.Zero(t, calls(r.primary))
}

// The deadline for the body does not cut the answer.
func TestTheDeadlineOfTheBodyEndsWithIt(t *testing.T) {
	r := newRig(t, limits{body: 1 << 20, upload: 300 * time.Millisecond, call: time.Minute}, time.Minute)
	r.primary.Default(up.OK("hello").Delay(time.Second))
	status, _ := r.post(t, "/v1/chat/completions", `{"model":"smart","messages":[]}`)
	assert.Equal(t, http.StatusOK, status)
}

// No credential of a caller goes to a provider, not even to one that needs none.
func TestCallersCredentialsStayHere(t *testing.T) {
	each(t, func(t *testing.T, s sdk) {
		r := newRig(t, usual, time.Minute)
		for _, model := range []string{"smart", "open/any"} {
			_, err := s.ask(within(t), r.url, model, false, 0)
			require.NoError(t, err)
			for _, req := range append(read(r.primary), read(r.backup)...) {
				assert.NotContains(t, req.Dump(), callersKey)
			}
		}
	})
}

func TestGracefulEnd(t *testing.T) {
	each(t, func(t *testing.T, s sdk) {
		t.Run("a stream that runs ends whole", func(t *testing.T) {
			r := newRig(t, usual, time.Minute)
			more := make(chan struct{})
			r.primary.Default(up.OK("hello", " you").At(s.second, up.Gate(more)))
			heard, done := make(chan string, 100), make(chan error, 1)
			ctx := within(t)
			go func() { done <- s.read(ctx, r.url, "smart", heard) }()
			assert.Equal(t, "hello", <-heard)
			r.end()
			require.Eventually(t, func() bool { // no new caller is let in
				_, err := s.ask(ctx, r.url, "smart", false, 0)
				return err != nil
			}, time.Minute, time.Millisecond)
			status, _ := r.get(t, r.admin+"/readyz")
			assert.Equal(t, http.StatusServiceUnavailable, status)
			close(more)
			require.NoError(t, <-done)
			assert.Equal(t, " you", <-heard)
			require.NoError(t, <-r.ended)
		})
		t.Run("one that goes on is cut off, and its caller hears of it", func(t *testing.T) {
			r := newRig(t, usual, 50*time.Millisecond)
			r.primary.Default(up.OK("hello", " you").CutAfter(s.second).Stall())
			heard, done := make(chan string, 100), make(chan error, 1)
			ctx := within(t)
			go func() { done <- s.read(ctx, r.url, "smart", heard) }()
			assert.Equal(t, "hello", <-heard)
			r.end()
			require.Error(t, <-done)
			require.NoError(t, <-r.ended)
			require.NoError(t, r.primary.Wait(ctx, func() bool { return r.primary.Aborted() == 1 }))
		})
	})
}

func TestOperators(t *testing.T) {
	r := newRig(t, usual, time.Minute)
	status, _ := r.post(t, "/v1/chat/completions", `{"model":"smart","messages":[]}`)
	require.Equal(t, http.StatusOK, status)
	require.Eventually(t, func() bool { // the call is counted when its body has ended
		status, body := r.get(t, r.admin+"/metrics")
		return status == http.StatusOK && strings.Contains(body, "gen_ai_client_operation_duration_seconds_count{") &&
			strings.Contains(body, `surefoot_failover_calls_total{surefoot_failover_outcome="first"} 1`)
	}, time.Minute, 10*time.Millisecond)
	status, _ = r.get(t, r.admin+"/readyz")
	assert.Equal(t, http.StatusOK, status)

	status, body := r.get(t, r.url+"/v1/models")
	assert.Equal(t, http.StatusOK, status)
	for _, id := range []string{`"smart"`, `"single"`, `"a/one"`, `"b/three"`} {
		assert.Contains(t, body, id)
	}
	assert.NotContains(t, body, "hidden")
	for _, path := range []string{"/", "/metrics", "/readyz"} {
		status, _ = r.get(t, r.url+path)
		assert.Equal(t, http.StatusNotFound, status, "callers see no page of the operators: %s", path)
	}
}

// The file beside this test is one that loads.
func TestTheConfigurationLoads(t *testing.T) {
	data, err := os.ReadFile("config.yaml")
	require.NoError(t, err)
	cfg, err := config.Parse(data, func(name string) (string, bool) { return "key", strings.HasSuffix(name, "_API_KEY") })
	require.NoError(t, err)
	assert.Equal(t, []string{"smart", "careful"}, cfg.VirtualModels())
	for _, p := range cfg.Providers() {
		policy := cfg.Policy(p.Name)
		assert.Equal(t, "all", policy.ErrorsAsResponses)
		assert.Equal(t, "eof", policy.Stream.IncompleteRead)
	}
}
