package failover_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	up "github.com/surefoot-go/surefoot/resilience/upstreamtest"
	"github.com/surefoot-go/surefoot/streamguard"
)

// What the profiles make of a stream of a primary in trouble, beside a backup of
// another model that is well: who answered, when the stream was handed out, and
// how often the primary was asked. The times are those that the numbers of the
// profiles were chosen for.
func TestProfilesOnAStream(t *testing.T) {
	const (
		primary = "primary"
		backup  = "backup"
		broken  = "broken" // some of it, then a typed error
	)
	good := up.OK("one", " two", " three")
	half := good.CutAfterText(2)
	refused := up.Status(http.StatusBadRequest).Body("application/json", `{"error":{"message":"too many tokens","type":"invalid_request_error","code":"context_length_exceeded"}}`)
	type outcome struct {
		who   string
		asked int
		from  time.Duration // the answer was whole, or its error there, no earlier
		to    time.Duration // and no later
	}
	for name, tc := range map[string]struct {
		steps       []up.Step
		live, whole outcome
	}{
		"a 503 once":                         {[]up.Step{up.Status(503), good}, outcome{primary, 2, 450 * time.Millisecond, 550 * time.Millisecond}, outcome{primary, 2, 450 * time.Millisecond, 550 * time.Millisecond}},
		"a 500 once":                         {[]up.Step{up.Status(500), good}, outcome{primary, 2, 450 * time.Millisecond, 550 * time.Millisecond}, outcome{primary, 2, 450 * time.Millisecond, 550 * time.Millisecond}},
		"a 429 that asks for 2 s":            {[]up.Step{up.Status(429).RetryAfter(2 * time.Second), good}, outcome{primary, 2, 2 * time.Second, 2200 * time.Millisecond}, outcome{primary, 2, 2 * time.Second, 2200 * time.Millisecond}},
		"a 503 for ever":                     {[]up.Step{up.Status(503)}, outcome{backup, 3, 1350 * time.Millisecond, 1650 * time.Millisecond}, outcome{backup, 3, 1350 * time.Millisecond, 1650 * time.Millisecond}},
		"no answer at all":                   {[]up.Step{up.Silence()}, outcome{backup, 1, 10 * time.Second, 10 * time.Second}, outcome{backup, 1, 10 * time.Second, 10 * time.Second}},
		"a first token after 20 s":           {[]up.Step{good.FirstToken(20 * time.Second)}, outcome{backup, 1, 10 * time.Second, 10 * time.Second}, outcome{backup, 1, 10 * time.Second, 10 * time.Second}},
		"a first token after 8 s":            {[]up.Step{good.FirstToken(8 * time.Second)}, outcome{primary, 1, 8 * time.Second, 8 * time.Second}, outcome{primary, 1, 8 * time.Second, 8 * time.Second}},
		"cut once":                           {[]up.Step{half, good}, outcome{broken, 1, 0, 0}, outcome{primary, 2, 450 * time.Millisecond, 550 * time.Millisecond}},
		"silent for 30 s in the middle":      {[]up.Step{half.Stall()}, outcome{broken, 1, 20 * time.Second, 20 * time.Second}, outcome{backup, 1, 20 * time.Second, 20 * time.Second}},
		"thinks for a minute, with comments": {[]up.Step{good.At(2, up.Bytes(": keep-alive\n\n"), up.Pings(15*time.Second, 4))}, outcome{primary, 1, time.Minute, time.Minute}, outcome{primary, 1, time.Minute, time.Minute}},
		"too long for the model":             {[]up.Step{refused}, outcome{backup, 1, 0, 0}, outcome{backup, 1, 0, 0}},
	} {
		for profile, want := range map[string]outcome{resilience.ProfileLive: tc.live, resilience.ProfileWhole: tc.whole} {
			t.Run(name+", "+profile, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, err := resilience.Profile(profile)
					require.NoError(t, err)
					ups := []*up.Upstream{up.NewInMemory(primary), up.NewInMemory(backup)}
					defer ups[0].Close()
					defer ups[1].Close()
					ups[0].Default(tc.steps...)
					ups[1].Default(good)
					policy := failover.DefaultPolicy()
					policy.RetryOnErrors = append(policy.RetryOnErrors, failover.TooLong)
					var targets []failover.Target
					for i, name := range []string{primary, backup} {
						targets = append(targets, failover.Target{Name: name, Provider: name, Model: "m-" + name, Transport: stack(t, name, ups[i].RoundTripper(), p)})
					}
					start := time.Now()
					got, err := do(t, chain(t, policy, targets...), post(t, chatURL, `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
					took := time.Since(start)
					require.NoError(t, err)
					assert.Equal(t, want.asked, ups[0].Count(), "requests to the primary")
					assert.GreaterOrEqual(t, took, want.from)
					assert.LessOrEqual(t, took, want.to)
					if want.who == broken {
						require.ErrorIs(t, got.readErr, streamguard.ErrIncomplete)
						assert.Contains(t, got.body, `" two"`)
						assert.Zero(t, ups[1].Count())
						return
					}
					require.NoError(t, got.readErr)
					assert.True(t, strings.HasSuffix(strings.TrimSpace(got.body), "data: [DONE]"))
					assert.Equal(t, want.who == backup, failover.FromBackup(got.Response), trail(failover.AttemptsOf(got.Response)))
				})
			})
		}
	}
}

// Without a chain a silent upstream is a local timeout of the profile's, and no
// answer that is not a stream is cut by it.
func TestProfilesWithoutAChain(t *testing.T) {
	for _, profile := range []string{resilience.ProfileLive, resilience.ProfileWhole} {
		synctest.Test(t, func(t *testing.T) {
			p, err := resilience.Profile(profile)
			require.NoError(t, err)
			u := up.NewInMemory("a")
			defer u.Close()
			u.Default(up.Silence())
			s := stack(t, "a", u.RoundTripper(), p)
			start := time.Now()
			_, err = do(t, s, post(t, chatURL, `{"model":"m","stream":true,"messages":[]}`))
			require.Error(t, err)
			assert.Equal(t, http.StatusGatewayTimeout, resilience.StatusOf(err))
			assert.Equal(t, 10*time.Second, time.Since(start))
			assert.Equal(t, 1, u.Count())

			u.Default(up.OK("late").Delay(5 * time.Minute))
			got, err := do(t, s, post(t, chatURL, chatBody("m")))
			require.NoError(t, errors.Join(err, got.readErr))
			assert.Contains(t, got.body, "late")
		})
	}
}
