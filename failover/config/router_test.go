package config_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/failover/config"
	"github.com/surefoot-go/surefoot/resilience"
)

// upstreams is a stub of every provider's stack: it answers with the status
// that is set for "provider/model", 200 otherwise, and keeps what was asked.
type upstreams struct {
	status map[string]int
	asked  []string
	auth   []string
	urls   []string
	built  []string
}

type stub struct {
	name string
	u    *upstreams
}

func (s stub) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if err := req.Body.Close(); err != nil {
		return nil, err
	}
	var asked struct{ Model string }
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	name := s.name + "/" + asked.Model
	s.u.asked = append(s.u.asked, name)
	s.u.auth = append(s.u.auth, req.Header.Get("Authorization")+req.Header.Get("X-Api-Key"))
	s.u.urls = append(s.u.urls, req.URL.String())
	status := s.u.status[name]
	if status == 0 {
		status = 200
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(strings.NewReader(`{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`)), Request: req,
	}, nil
}

func (u *upstreams) stack(p config.Provider) (http.RoundTripper, error) {
	u.built = append(u.built, p.Name)
	return stub{p.Name, u}, nil
}

// ask sends one chat call and returns the status.
func ask(t *testing.T, r http.RoundTripper, model string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://caller.example.com/v1/chat/completions", strings.NewReader(`{"model":"`+model+`","messages":[]}`))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.RoundTrip(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

const routed = `
providers:
  openai: {api_key: ko}
  anthropic: {api_key: ka, base_url: "https://a.example.com/v1"}
  cloudflare: {type: openai, base_url: "https://cf.example.com/ai/v1?gateway=g", models: [m1, m2], api_key: kc}
  groq: {api_key: "${NONE}", models: [m2]}
virtual_models:
  - {source: fast, target: m1}
  - source: smart
    targets:
      - {model: groq/llama}
      - {model: fast}
      - {model: anthropic/claude}
      - {model: openai/gpt}
  - {source: capped, targets: [{model: fast}, {model: openai/a}, {model: openai/b}], failover: {max_attempts: 1}}
  - {source: spread, strategy: round_robin, failover: false, targets: [{model: openai/a, weight: 2}, {model: anthropic/b}]}
  - {source: cheap, strategy: cost, targets: [{model: openai/a, cost: 2}, {model: anthropic/b, cost: 1}]}
  - {source: off, target: openai/x, enabled: false}
  - {source: through, targets: [{model: off}, {model: openai/y, disabled: true}, {model: openai/z}]}
  - {source: openai/real, targets: [{model: openai/real}, {model: anthropic/mirror}]}
  - {source: anthropic/mirror, targets: [{model: anthropic/mirror}, {model: openai/real}]}
`

// What a list of models may show: what a request can name.
func TestVirtualModels(t *testing.T) {
	c := parse(t, routed, map[string]string{"VIRTUAL_MODELS": `[{"source":"fast","target":"m2"},{"source":"added","target":"m1"}]`})
	want := []string{"fast", "smart", "capped", "spread", "cheap", "through", "openai/real", "anthropic/mirror", "added"}
	assert.Equal(t, want, c.VirtualModels())
	c.VirtualModels()[0] = "changed"
	assert.Equal(t, want, c.VirtualModels(), "a slice that was handed out is the caller's own")
	assert.Empty(t, parse(t, "", nil).VirtualModels())
}

func TestRouter(t *testing.T) {
	for _, row := range []struct {
		name, model string
		down        []string
		status      int
		asked       []string
	}{
		{"virtual model", "fast", nil, 200, []string{"cloudflare/m1"}},
		{"nested, an unavailable provider is passed over", "smart", nil, 200, []string{"cloudflare/m1"}},
		{"nested fails over", "smart", []string{"cloudflare/m1", "anthropic/claude"}, 200, []string{"cloudflare/m1", "anthropic/claude", "openai/gpt"}},
		{"own cap", "capped", []string{"cloudflare/m1", "openai/a"}, 503, []string{"cloudflare/m1", "openai/a"}},
		{"spread only", "spread", []string{"openai/a", "anthropic/b"}, 503, []string{"openai/a"}},
		{"cheapest first", "cheap", nil, 200, []string{"anthropic/b"}},
		{"disabled ones are passed over", "through", nil, 200, []string{"openai/z"}},
		{"mutual backups", "openai/real", []string{"openai/real", "anthropic/mirror"}, 503, []string{"openai/real", "anthropic/mirror"}},
		{"provider named", "openai/gpt-4o", nil, 200, []string{"openai/gpt-4o"}},
		{"provider named, model with a slash", "openai/org/model", nil, 200, []string{"openai/org/model"}},
		{"configured model", "m2", nil, 200, []string{"cloudflare/m2"}},
		{"nobody's model", "gpt-9", nil, 404, nil},
		{"not enabled", "off", nil, 404, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			u := &upstreams{status: map[string]int{}}
			for _, d := range row.down {
				u.status[d] = 503
			}
			r, err := parse(t, routed, nil).Router(u.stack)
			require.NoError(t, err)
			assert.Equal(t, []string{"openai", "anthropic", "cloudflare", "groq"}, u.built, "one stack a provider")
			assert.Equal(t, row.status, ask(t, r, row.model))
			assert.Equal(t, row.asked, u.asked)
			r.CloseIdleConnections()
		})
	}
}

// Nothing is sent for a virtual model that is not enabled, nor for a target that
// is disabled.
func TestWhatIsOffIsNotTried(t *testing.T) {
	u := &upstreams{}
	r, err := parse(t, routed, nil).Router(u.stack)
	require.NoError(t, err)
	ctx, trace := failover.WithTrace(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://caller.example.com/v1/chat/completions", strings.NewReader(`{"model":"through","messages":[]}`))
	require.NoError(t, err)
	resp, err := r.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	var skipped []bool
	for _, at := range trace.Attempts() {
		skipped = append(skipped, at.Skipped)
	}
	assert.Equal(t, []bool{true, true, false}, skipped)
}

// failover.max_body holds for every body that is re-written, also where no
// virtual model is asked for (contract 1).
func TestMaxBodyHoldsForRequestsThatNameAProvider(t *testing.T) {
	const virtual = "virtual_models: [{source: fast, target: openai/x, failover: {max_body: 1KiB}}]\n"
	body := `{"messages":[],"x":"` + strings.Repeat("x", 4<<10) + `","model":"openai/gpt"}`
	for name, row := range map[string]struct {
		text   string
		status int
	}{
		"larger":                               {"failover: {max_body: 1KiB}\n", 413},
		"larger, beside a virtual model":       {"failover: {max_body: 1KiB}\n" + virtual, 413},
		"smaller":                              {"failover: {max_body: 8KiB}\n", 200},
		"larger than a virtual model's own":    {"failover: {max_body: 8KiB}\n" + virtual, 200},
		"default":                              {"", 200},
		"default, above a virtual model's own": {virtual, 200},
	} {
		for _, inMemory := range []bool{true, false} {
			u := &upstreams{}
			r, err := parse(t, row.text+"providers: {openai: {}, groq: {}}\n", nil).Router(u.stack)
			require.NoError(t, err)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://caller.example.com/v1/chat/completions", strings.NewReader(body))
			require.NoError(t, err)
			if !inMemory { // as in an http.Handler
				req.Body, req.GetBody = io.NopCloser(iotest.OneByteReader(strings.NewReader(body))), nil
			}
			resp, err := r.RoundTrip(req)
			if row.status != 200 {
				assert.Equal(t, row.status, resilience.StatusOf(err), name)
				assert.Empty(t, u.asked, name)
				continue
			}
			require.NoError(t, err, name)
			assert.Equal(t, 200, resp.StatusCode, name)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, []string{"openai/gpt"}, u.asked, name)
		}
	}
}

func TestRouterReachesEveryProviderItsOwnWay(t *testing.T) {
	u := &upstreams{}
	r, err := parse(t, routed, nil).Router(u.stack)
	require.NoError(t, err)
	for range 2 { // the second time from what was kept
		ask(t, r, "openai/gpt")
		ask(t, r, "m1")
		ask(t, r, "anthropic/c")
	}
	assert.Equal(t, []string{"Bearer ko", "Bearer kc", "ka"}, u.auth[3:])
	assert.Equal(t, []string{
		"https://api.openai.com/v1/chat/completions",
		"https://cf.example.com/ai/v1/chat/completions?gateway=g",
		"https://a.example.com/v1/chat/completions",
	}, u.urls[3:])
}

func TestRouterOfOneProviderNeedsNoNames(t *testing.T) {
	u := &upstreams{}
	r, err := parse(t, "providers: {openai: }\nvirtual_models: [{source: a, target: gpt}]", nil).Router(u.stack)
	require.NoError(t, err)
	assert.Equal(t, 200, ask(t, r, "anything"))
	assert.Equal(t, 200, ask(t, r, "a"))
	assert.Equal(t, []string{"openai/anything", "openai/gpt"}, u.asked)
}

func TestVirtualModelsVariableWins(t *testing.T) {
	u := &upstreams{}
	c := parse(t, routed, map[string]string{"VIRTUAL_MODELS": `[{"source":"fast","targets":[{"model":"openai/from-env","lenient":true}]},{"source":"new","target":"fast","description":"d"}]`})
	r, err := c.Router(u.stack)
	require.NoError(t, err)
	ask(t, r, "fast")
	ask(t, r, "new")
	ask(t, r, "cheap")
	assert.Equal(t, []string{"openai/from-env", "openai/from-env", "anthropic/b"}, u.asked)
}

func TestRouterWithFailoverOff(t *testing.T) {
	u := &upstreams{status: map[string]int{"openai/a": 503}}
	text := "providers: {openai: , anthropic: }\nvirtual_models:\n  - {source: v, targets: [{model: openai/a}, {model: anthropic/b}]}\n  - {source: w, failover: true, targets: [{model: openai/a}, {model: anthropic/b}]}\n"
	c := parse(t, text, map[string]string{"FAILOVER_ENABLED": "false"})
	assert.True(t, c.Failover().Disabled)
	r, err := c.Router(u.stack)
	require.NoError(t, err)
	assert.Equal(t, 503, ask(t, r, "v"))
	assert.Equal(t, 200, ask(t, r, "w"), "its own switch is the stronger layer")
	assert.Equal(t, []string{"openai/a", "openai/a", "anthropic/b"}, u.asked)
}

func TestRouterTellsWhichStackFailed(t *testing.T) {
	c := parse(t, routed, nil)
	boom := errors.New("boom")
	_, err := c.Router(func(p config.Provider) (http.RoundTripper, error) {
		if p.Name == "anthropic" {
			return nil, boom
		}
		return http.DefaultTransport, nil
	})
	require.ErrorIs(t, err, boom)
	require.ErrorContains(t, err, "anthropic")
	_, err = c.Router(func(config.Provider) (http.RoundTripper, error) { return nil, nil }) //nolint:nilnil // what is tested
	require.ErrorContains(t, err, "openai")
	r, err := c.Router(nil)
	require.NoError(t, err)
	r.CloseIdleConnections()
}

// The program of the README.
func TestChainOverProviders(t *testing.T) {
	c := parse(t, routed, nil)
	u := &upstreams{status: map[string]int{"openai/gpt": 503}}
	var targets []failover.Target
	for _, p := range c.Providers() {
		rt, err := u.stack(p)
		require.NoError(t, err)
		targets = append(targets, failover.Target{Name: p.Name, Provider: p.Name, BaseURL: p.BaseURL, Header: p.Header(), Transport: rt, Available: p.Available})
	}
	chain, err := failover.NewChain(c.Failover(), targets...)
	require.NoError(t, err)
	assert.Equal(t, 200, ask(t, chain, "gpt"))
	assert.Equal(t, []string{"openai/gpt", "anthropic/gpt"}, u.asked)
}

func TestWarnsOfAVirtualModelThatNobodyReaches(t *testing.T) {
	c := parse(t, "providers: {openai: , anthropic: }\nvirtual_models:\n  - {source: openai/a, target: anthropic/b}\n", nil)
	require.Len(t, c.Warnings(), 1)
	assert.Contains(t, c.Warnings()[0], "line 3: virtual_models[0].source: ")
	u := &upstreams{}
	r, err := c.Router(u.stack)
	require.NoError(t, err)
	assert.Equal(t, 200, ask(t, r, "openai/a"))
	assert.Equal(t, []string{"openai/a"}, u.asked)
}

func TestModels(t *testing.T) {
	c := parse(t, "providers:\n  openai-eu: {type: openai, models: [a, b, a]}\n  groq: {models: []}\n  mistral: {models: [c], models_mode: allowlist}\n",
		map[string]string{"OPENAI_EU_MODELS": "x, y,x", "GROQ_MODELS": " ", "CONFIGURED_PROVIDER_MODELS_MODE": "fallback"})
	p := c.Providers()
	assert.Equal(t, []string{"x", "y"}, p[0].Models)
	assert.Empty(t, p[1].Models)
	assert.Equal(t, []string{"c"}, p[2].Models)
	assert.Equal(t, []string{"fallback", "fallback", "allowlist"}, []string{p[0].ModelsMode, p[1].ModelsMode, p[2].ModelsMode})
	p[0].Models[0] = "changed"
	assert.Equal(t, "x", c.Providers()[0].Models[0])

	c = parse(t, "providers: {virtual: {type: openai, models: [m]}}", map[string]string{"VIRTUAL_MODELS": `[{"source":"v","target":"virtual/x"}]`})
	assert.Equal(t, []string{"m"}, c.Providers()[0].Models, "that variable is not about a provider")

	c = parse(t, "providers:\n  a-b: {type: openai}\n  a.b: {type: openai}\n", map[string]string{"A_B_MODELS": "m"})
	require.Len(t, c.Warnings(), 1)
	assert.Contains(t, c.Warnings()[0], "A_B_MODELS")
}
