package config_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/failover/config"
	"github.com/surefoot-go/surefoot/resilience"
)

// profiled has a profile for everyone and one of each kind of provider.
const profiled = `
resilience:
  profile: live
  stream: {idle_timeout: 7s}
providers:
  openai:
    api_key: k
  anthropic:
    api_key: k
    resilience: {profile: whole}
  ollama:
    resilience: {profile: default, retry: {max_retries: 9}}
  groq:
    api_key: k
    resilience: {profile: whole, stream: {hold_until: first_event}}
`

// With nothing above it, a profile is the policy of that name, however it was
// chosen (contract 12).
func TestAProfileIsThePolicyOfThatName(t *testing.T) {
	for _, name := range resilience.Profiles() {
		want, err := resilience.Profile(name)
		require.NoError(t, err)
		of := func(c *config.Config, provider string) resilience.Policy { return c.Policy(provider) }
		assert.Equal(t, want, of(parse(t, "resilience: {profile: "+name+"}", nil), ""), "%s in the file", name)
		assert.Equal(t, want, of(parse(t, "", map[string]string{"RESILIENCE_PROFILE": name}), ""), "%s in the environment", name)
		assert.Equal(t, want, of(parse(t, "providers: {ollama: {resilience: {profile: "+name+"}}}", nil), "ollama"), "%s of a provider", name)
	}
	assert.Equal(t, resilience.DefaultPolicy(), parse(t, "resilience: {profile: }", map[string]string{"RESILIENCE_PROFILE": ""}).Policy(""), "not given")
	assert.ErrorContains(t, faults(t, "resilience: {profile: fast}", nil), `resilience.profile: found "fast", want default, live or whole`)
	assert.ErrorContains(t, faults(t, "", map[string]string{"RESILIENCE_PROFILE": "wholes"}), `"whole"?`)
}

// A profile lies below the file's global blocks. A provider's own replaces it
// for that provider's stack, and the global blocks still lie over it.
func TestProfileInheritance(t *testing.T) {
	for _, row := range []struct {
		provider, key, value string
		origin               config.Origin
		source               string
	}{
		{"openai", "profile", "live", config.FromFile, "line 3"},
		{"openai", "stream.hold_until", "first_content", config.FromProfile, "live"},
		{"openai", "stream.idle_timeout", "7s", config.FromFile, "line 4"},
		{"openai", "retry.max_retries", "2", config.FromProfile, "live"},
		{"openai", "retry.max_backoff", "30s", config.FromDefault, ""},
		{"anthropic", "profile", "whole", config.FromProvider, "line 10"},
		{"anthropic", "stream.hold_until", "complete", config.FromProfile, "whole"},
		{"anthropic", "stream.idle_timeout", "7s", config.FromFile, "line 4"},
		{"ollama", "profile", "default", config.FromProvider, "line 12"},
		{"ollama", "stream.hold_until", "first_event", config.FromDefault, ""},
		{"ollama", "stream.idle_timeout", "7s", config.FromFile, "line 4"},
		{"ollama", "retry.initial_backoff", "1s", config.FromDefault, ""},
		{"ollama", "retry.max_retries", "9", config.FromProvider, "line 12"},
		{"ollama", "failover.retry_on_errors", "[default, too_long]", config.FromProfile, "live"},
		{"groq", "stream.hold_until", "first_event", config.FromProvider, "line 15"},
		{"groq", "circuit_breaker.timeout", "10s", config.FromProfile, "whole"},
	} {
		s := setting(t, parse(t, profiled, nil).Effective(row.provider), row.key)
		assert.Equal(t, config.Setting{Key: row.key, Value: row.value, Origin: row.origin, Source: row.source}, s, row.provider)
	}

	env := map[string]string{"RESILIENCE_PROFILE": "whole", "RETRY_MAX_RETRIES": "1"}
	c := parse(t, profiled, env)
	assert.Equal(t, "complete", c.Policy("openai").Stream.HoldUntil, "the environment is stronger than the file")
	assert.Equal(t, 1, c.Policy("openai").Retry.MaxRetries)
	assert.Equal(t, "first_event", c.Policy("ollama").Stream.HoldUntil, "a provider is stronger than the environment")
}

// "default" in a list adds to the profile's list, which is what would hold
// without the key.
func TestDefaultInAListAddsToTheProfiles(t *testing.T) {
	live, err := resilience.Profile("live")
	require.NoError(t, err)
	c := parse(t, "resilience: {profile: live, retry: {retry_on_statuses: [418, Default]}}\nfailover: {retry_on_errors: [default, gone away]}", nil)
	assert.Equal(t, append([]string{"418"}, live.Retry.RetryOnStatuses...), c.Policy("").Retry.RetryOnStatuses)
	assert.Equal(t, []string{"default", failover.TooLong, "gone away"}, c.Failover().RetryOnErrors)
	c = parse(t, "resilience: {profile: live}\nproviders: {ollama: {resilience: {profile: default}}}", map[string]string{"RETRY_ON_STATUSES": "default,418"})
	assert.Equal(t, []string{"default", "418"}, c.Policy("ollama").Retry.RetryOnStatuses)
	assert.Len(t, c.Policy("").Retry.RetryOnStatuses, len(live.Retry.RetryOnStatuses)+1)
	c = parse(t, "resilience: {profile: live, retry: {retry_on_statuses: [418]}, circuit_breaker: {failure_on_statuses: [default, 418]}}", nil)
	assert.Equal(t, []string{"418"}, c.Policy("").Retry.RetryOnStatuses, "a list without the word replaces the profile's")
	assert.Equal(t, []string{"default", "418"}, c.Policy("").CircuitBreaker.FailureOnStatuses)
	c.Policy("").Retry.RetryOnStatuses[0] = "changed"
	assert.Equal(t, []string{"418"}, c.Policy("").Retry.RetryOnStatuses)
}

// Chains follow the profile of everyone: it alone makes them go on where a
// request is too long for a model.
func TestChainsFollowTheProfileOfEveryone(t *testing.T) {
	for _, row := range []struct {
		text, variable string
		moves          bool
	}{
		{"", "", false},
		{"resilience: {profile: live}\n", "", true},
		{"", "whole", true},
		{"resilience: {profile: live}\n", "default", false},
		{"resilience: {profile: live}\nfailover: {retry_on_errors: [moved]}\n", "", false},
		{"failover: {retry_on_errors: [default, too_long]}\n", "", true},
	} {
		text := row.text + `
providers:
  openai: {api_key: k, resilience: {profile: whole}}
  groq: {api_key: k}
virtual_models:
  - {source: smart, targets: [{model: openai/small}, {model: groq/large}]}
`
		base := &failing{status: http.StatusBadRequest, code: "context_length_exceeded"}
		app, err := config.Assemble(parse(t, text, map[string]string{"RESILIENCE_PROFILE": row.variable}), config.Options{Builder: resilience.Builder{Base: base}})
		require.NoError(t, err)
		assert.Equal(t, http.StatusBadRequest, ask(t, app.Router(), "smart"))
		want := []string{"api.openai.com"}
		if row.moves {
			want = append(want, "api.groq.com")
		}
		assert.Equal(t, want, base.asked, "%q", row.text)
		assert.Zero(t, app.Stack("openai").Breakers()[0].Failures)
		app.Close()
	}
}

// What a struct takes is what a file says: every key of contract 11 reaches the
// policy that it is about.
func TestLimitsAndPatienceReachThePolicies(t *testing.T) {
	c := parse(t, `
resilience: {limits: {hold: false, max_hold: 5m, preempt: true, max_concurrent: 3}}
failover: {patience: off, wait_for: 20s, bound: ignore, max_body: 1KiB}
providers: {ollama: {resilience: {limits: {max_concurrent: 1}}}}
`, nil)
	assert.Equal(t, resilience.Limits{MaxHold: 5 * time.Minute, Preempt: true, MaxConcurrent: 3}, c.Policy("").Limits)
	assert.Equal(t, resilience.Limits{MaxHold: 5 * time.Minute, Preempt: true, MaxConcurrent: 1}, c.Policy("ollama").Limits)
	f := c.Failover()
	assert.Equal(t, failover.PatienceOff, f.Patience)
	assert.Equal(t, 20*time.Second, f.WaitFor)
	assert.Equal(t, failover.BoundIgnore, f.Bound)
	assert.EqualValues(t, 1024, f.MaxBody)

	assert.Equal(t, resilience.DefaultPolicy().Limits, parse(t, "", nil).Policy("").Limits)
	assert.Equal(t, failover.DefaultPolicy(), parse(t, "", nil).Failover())
	assert.Zero(t, parse(t, "failover: {patience: 0}", nil).Failover().Patience)
	for text, want := range map[string]string{
		"failover: {patience: never}":              "failover.patience: found a value that is not shown, want a duration such as 3.5s or 500ms, 0, or off",
		"failover: {patience: -1s}":                `found "-1s"`,
		"failover: {patience: 3}":                  "a number needs a unit",
		"failover: {wait_for: off}":                "failover.wait_for: found",
		"failover: {bound: accounts}":              `did you mean "account"?`,
		"resilience: {limits: {hold: 1h}}":         "resilience.limits.hold: found",
		"resilience: {limits: {max_concurent: 1}}": `did you mean "max_concurrent"?`,
		"resilience: {patience: 1s}":               `did you mean "failover.patience"?`,
		"providers: {ollama: {profile: live}}":     "providers.ollama.profile: found an unknown key",
	} {
		assert.ErrorContains(t, faults(t, text, nil), want, text)
	}
	table := parse(t, "failover: {patience: off}", nil).Effective("").String()
	assert.Regexp(t, `(?m)^failover\.patience +off +file +line 1$`, table)
	assert.True(t, slices.ContainsFunc(strings.Split(table, "\n"), func(l string) bool { return strings.HasPrefix(l, "limits.max_hold") }))
}

// What a file says of patience is what its virtual models do: for all of them,
// or for one.
func TestPatienceOfAFileIsInEffect(t *testing.T) {
	for name, row := range map[string]struct {
		all, one string // the failover block of all, and of the virtual model
		asked    int    // requests to the first target, which answers 503 every time
	}{
		"the default lets two retries happen":    {"", "", 3},
		"0 never waits":                          {"patience: 0", "", 1},
		"off waits as if there were no other":    {"patience: off", "", 4},
		"a virtual model's own":                  {"patience: off", "patience: 1.5s", 2},
		"a switch leaves it as it is for all":    {"patience: 0", "enabled: true", 1},
		"bound is another thing than patience":   {"bound: ignore", "", 3},
		"a single target keeps its whole budget": {"patience: 0", "enabled: false", 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &failing{host: "api.openai.com", status: http.StatusServiceUnavailable}
				app, err := config.Assemble(parse(t, `
failover: {`+row.all+`}
providers: {openai: {api_key: k}, groq: {api_key: k}}
virtual_models:
  - {source: smart, strategy: round_robin, failover: {`+row.one+`}, targets: [{model: openai/m}, {model: groq/n}]}
`, nil), config.Options{Builder: resilience.Builder{Base: base}})
				require.NoError(t, err)
				defer app.Close()
				ask(t, app.Router(), "smart")
				asked := 0
				for _, host := range base.asked {
					if host == base.host {
						asked++
					}
				}
				assert.Equal(t, row.asked, asked)
			})
		})
	}
}

// failing answers with status and an error's body, on one host if there is one,
// and elsewhere well.
type failing struct {
	host   string // "" for all
	status int
	code   string
	asked  []string // hosts
}

func (f *failing) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	f.asked = append(f.asked, req.URL.Host)
	status, body := f.status, `{"error":{"code":"`+f.code+`","message":"m"}}`
	if f.host != "" && f.host != req.URL.Host {
		status, body = http.StatusOK, `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(strings.NewReader(body)), Request: req,
	}, nil
}
