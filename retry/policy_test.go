package retry_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/retry"
)

func TestValidate(t *testing.T) {
	set := func(f func(*retry.Policy)) retry.Policy {
		p := retry.DefaultPolicy()
		f(&p)
		return p
	}
	statuses := func(s ...string) retry.Policy {
		return set(func(p *retry.Policy) { p.RetryOnStatuses = s })
	}
	for name, row := range map[string]struct {
		policy retry.Policy
		fault  string // "" is valid
	}{
		"zero":               {retry.Policy{}, ""},
		"default":            {retry.DefaultPolicy(), ""},
		"empty statuses":     {set(func(p *retry.Policy) { p.RetryOnStatuses = []string{} }), ""},
		"codes and classes":  {statuses("100", "599", "1xx", "5xx", "429"), ""},
		"status 99":          {statuses("99"), "retry.retry_on_statuses[0]"},
		"status 099":         {statuses("099"), "retry.retry_on_statuses[0]"},
		"status 600":         {statuses("429", "600"), "retry.retry_on_statuses[1]"},
		"class 6xx":          {statuses("6xx"), "retry.retry_on_statuses[0]"},
		"class 0xx":          {statuses("0xx"), "retry.retry_on_statuses[0]"},
		"class 50x":          {statuses("50x"), "retry.retry_on_statuses[0]"},
		"class 5x5":          {statuses("5x5"), "retry.retry_on_statuses[0]"},
		"empty status":       {statuses(""), "retry.retry_on_statuses[0]"},
		"padded status":      {statuses(" 429"), ""},
		"signed status":      {statuses("+42"), "retry.retry_on_statuses[0]"},
		"long status":        {statuses("4290"), "retry.retry_on_statuses[0]"},
		"other digits":       {statuses("4٢9"), "retry.retry_on_statuses[0]"},
		"negative retries":   {set(func(p *retry.Policy) { p.MaxRetries = -1 }), "retry.max_retries"},
		"negative backoff":   {set(func(p *retry.Policy) { p.InitialBackoff = -1 }), "retry.initial_backoff"},
		"no backoff":         {set(func(p *retry.Policy) { p.InitialBackoff = 0 }), "retry.initial_backoff"},
		"no max backoff":     {set(func(p *retry.Policy) { p.MaxBackoff = 0 }), "retry.max_backoff"},
		"negative max":       {set(func(p *retry.Policy) { p.MaxBackoff = -1 }), "retry.max_backoff"},
		"no retries, no max": {set(func(p *retry.Policy) { p.MaxRetries, p.InitialBackoff, p.MaxBackoff = 0, 0, 0 }), ""},
		"factor 0":           {set(func(p *retry.Policy) { p.BackoffFactor = 0 }), ""},
		"factor 1":           {set(func(p *retry.Policy) { p.BackoffFactor = 1 }), ""},
		"factor 0.99":        {set(func(p *retry.Policy) { p.BackoffFactor = 0.99 }), "retry.backoff_factor"},
		"factor NaN":         {set(func(p *retry.Policy) { p.BackoffFactor = math.NaN() }), "retry.backoff_factor"},
		"factor Inf":         {set(func(p *retry.Policy) { p.BackoffFactor = math.Inf(1) }), "retry.backoff_factor"},
		"factor negative":    {set(func(p *retry.Policy) { p.BackoffFactor = -2 }), "retry.backoff_factor"},
		"jitter 0":           {set(func(p *retry.Policy) { p.JitterFactor = 0 }), ""},
		"jitter 1":           {set(func(p *retry.Policy) { p.JitterFactor = 1 }), ""},
		"jitter 1.01":        {set(func(p *retry.Policy) { p.JitterFactor = 1.01 }), "retry.jitter_factor"},
		"jitter negative":    {set(func(p *retry.Policy) { p.JitterFactor = -0.1 }), "retry.jitter_factor"},
		"jitter NaN":         {set(func(p *retry.Policy) { p.JitterFactor = math.NaN() }), "retry.jitter_factor"},
		"streams held back":  {set(func(p *retry.Policy) { p.Streams = "held_back" }), ""},
		"streams unknown":    {set(func(p *retry.Policy) { p.Streams = "always" }), "retry.streams"},
		"replay safe only":   {set(func(p *retry.Policy) { p.Replay = "safe_only" }), ""},
		"replay unknown":     {set(func(p *retry.Policy) { p.Replay = "all" }), "retry.replay"},
		"attempt timeout":    {set(func(p *retry.Policy) { p.AttemptTimeout = -1 }), "retry.attempt_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			err := row.policy.Validate()
			if row.fault == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.fault+":")
		})
	}
}

func TestValidateReportsAllFaults(t *testing.T) {
	err := retry.Policy{MaxRetries: 1, JitterFactor: 2, Streams: "x", RetryOnStatuses: []string{"1", "2"}}.Validate()
	for _, field := range []string{"retry_on_statuses[0]", "retry_on_statuses[1]", "initial_backoff", "max_backoff", "jitter_factor", "streams"} {
		assert.ErrorContains(t, err, "retry."+field+":")
	}
}

func TestInvalidPolicyNeverReachesTheUpstream(t *testing.T) {
	s, rt := newScript(t, status(200))
	rt.Policy.MaxBackoff = -1
	closed := false
	for range 2 {
		req := get(t.Context(), t)
		req.Body = &closeOnce{ReadCloser: io.NopCloser(strings.NewReader("x")), closed: func() { closed = true }}
		require.ErrorContains(t, fail(t, rt, req), "retry.max_backoff")
	}
	assert.True(t, closed, "the body is closed on the early return too")
	assert.Zero(t, s.count())
	rt.CloseIdleConnections()
}

// The list replaces the default; an empty one leaves the transport failures.
func TestStatusLists(t *testing.T) {
	for name, row := range map[string]struct {
		list    []string
		retried []int
		not     []int
	}{
		"nil":     {nil, []int{429, 502, 503, 504, 522, 524}, []int{200, 204, 301, 400, 401, 404, 408, 413, 422, 425, 500, 501, 520, 521, 523, 529, 599}},
		"empty":   {[]string{}, nil, []int{429, 500, 502, 503, 504, 522, 524}},
		"code":    {[]string{"500"}, []int{500}, []int{429, 502, 503}},
		"class":   {[]string{"5xx", "408"}, []int{408, 500, 501, 502, 520, 529, 599}, []int{429, 499, 600, 999, 0, -1}},
		"success": {[]string{"202"}, []int{202}, []int{200, 503}},
		"no 101":  {[]string{"1xx"}, nil, []int{101}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				try := func(code, want int) {
					s, rt := newScript(t, status(code))
					rt.Policy.RetryOnStatuses = row.list
					assert.Equal(t, code, send(t, rt, get(t.Context(), t)))
					assert.Equal(t, want, s.count(), "attempts for %d", code)
				}
				for _, code := range row.retried {
					try(code, 3)
				}
				for _, code := range row.not {
					try(code, 1)
				}
				s, rt := newScript(t, fails(errReset))
				rt.Policy.RetryOnStatuses = row.list
				assert.Equal(t, errReset, fail(t, rt, get(t.Context(), t)), "the last error as it is")
				assert.Equal(t, 3, s.count())
			})
		})
	}
}

func TestBackoffRange(t *testing.T) {
	p := retry.DefaultPolicy()
	for n := 1; n <= 5000; n++ {
		b := min(30*time.Second, time.Duration(math.Min(float64(time.Second)*math.Pow(2, float64(n-1)), 1e18)))
		for range 5 {
			d := retry.Backoff(p, n)
			require.GreaterOrEqual(t, d, b-b/10-1, "retry %d", n)
			require.LessOrEqual(t, d, min(b+b/10, 30*time.Second), "retry %d", n)
		}
	}
	assert.LessOrEqual(t, retry.Backoff(p, math.MaxInt), 30*time.Second)

	// Drawn evenly: both halves of the range are hit about as often.
	low := 0
	for range 2000 {
		if retry.Backoff(p, 1) < time.Second {
			low++
		}
	}
	assert.InDelta(t, 1000, low, 150)
}

func TestBackoffEdges(t *testing.T) {
	for _, p := range []retry.Policy{
		{InitialBackoff: 1, MaxBackoff: 1, BackoffFactor: 1, JitterFactor: 1},
		{InitialBackoff: math.MaxInt64, MaxBackoff: math.MaxInt64, BackoffFactor: math.MaxFloat64, JitterFactor: 1},
		{InitialBackoff: math.MaxInt64 - 1, MaxBackoff: math.MaxInt64 - 1, BackoffFactor: 1, JitterFactor: 0.1},
		{InitialBackoff: time.Hour, MaxBackoff: time.Second, JitterFactor: 0.5},
		{InitialBackoff: 1, MaxBackoff: math.MaxInt64, BackoffFactor: 1e300},
	} {
		for _, n := range []int{1, 2, 3, 63, 64, 65, 1024, 1 << 40, math.MaxInt} {
			for range 50 {
				d := retry.Backoff(p, n)
				require.Positive(t, d, "%+v, retry %d", p, n)
				require.LessOrEqual(t, d, p.MaxBackoff, "%+v, retry %d", p, n)
			}
		}
	}
	// Without jitter the sequence is exact, and 0 means a factor of 2.
	p := retry.Policy{InitialBackoff: time.Second, MaxBackoff: 5 * time.Second}
	for n, want := range []time.Duration{1: 1, 2: 2, 3: 4, 4: 5, 5: 5} {
		if n > 0 {
			assert.Equal(t, want*time.Second, retry.Backoff(p, n))
		}
	}
}

func TestObeyOnlyAdds(t *testing.T) {
	for _, j := range []float64{0, 0.1, 1} {
		for _, wish := range []time.Duration{1, 43 * time.Millisecond, time.Second, math.MaxInt64 / 2, math.MaxInt64 - 1} {
			for _, room := range []time.Duration{wish + 1, math.MaxInt64} {
				p := retry.Policy{JitterFactor: j}
				for range 20 {
					d := retry.Obey(p, wish, room)
					require.GreaterOrEqual(t, d, wish)
					require.Less(t, d, room)
					if wish < math.MaxInt64/4 {
						require.LessOrEqual(t, d, 2*wish)
					}
				}
			}
		}
	}
}

func FuzzValidate(f *testing.F) {
	f.Add("429", 3, int64(1e9), int64(30e9), 2.0, 0.1, "never", "inference", int64(0))
	f.Add("5xx", 1, int64(1), int64(1), 1.0, 1.0, "held_back", "safe_only", int64(1))
	f.Add("x", -1, int64(-1), int64(math.MaxInt64), math.NaN(), math.Inf(1), "", "", int64(-1))
	f.Add("600", 1<<40, int64(math.MaxInt64), int64(math.MaxInt64), 1e308, 0.0, "", "", int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, word string, retries int, initial, maximum int64, factor, jitter float64, streams, replay string, attempt int64) {
		p := retry.Policy{
			RetryOnStatuses: []string{word}, MaxRetries: retries, InitialBackoff: time.Duration(initial), MaxBackoff: time.Duration(maximum),
			BackoffFactor: factor, JitterFactor: jitter, Streams: streams, Replay: replay, AttemptTimeout: time.Duration(attempt),
		}
		if invalid := p.Validate(); invalid != nil {
			for _, line := range strings.Split(invalid.Error(), "\n") {
				require.True(t, strings.HasPrefix(line, "retry."), line)
			}
			base := &benchBase{statuses: []int{200}}
			req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://upstream.test/", nil)
			require.NoError(t, err)
			resp, err := (&retry.Transport{Base: base, Policy: p}).RoundTrip(req) //nolint:bodyclose // there is none
			require.Nil(t, resp)
			require.EqualError(t, err, invalid.Error())
			require.Zero(t, base.n)
			return
		}
		var code int
		word = strings.ToLower(strings.TrimSpace(word)) // contract 1: case and white space do not matter
		class := len(word) == 3 && word[1:] == "xx" && word[0] >= '1' && word[0] <= '5'
		if !class && word != "default" {
			_, err := fmt.Sscanf(word, "%3d", &code)
			require.NoError(t, err)
			require.True(t, code >= 100 && code <= 599 && fmt.Sprint(code) == word)
		}
		if retries == 0 {
			return
		}
		for _, n := range []int{1, 2, 100, math.MaxInt} {
			d := retry.Backoff(p, n)
			require.Positive(t, d)
			require.LessOrEqual(t, d, p.MaxBackoff)
		}
	})
}
