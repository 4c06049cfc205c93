package breaker_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
)

func TestDefaultPolicy(t *testing.T) {
	p := breaker.DefaultPolicy()
	require.NoError(t, p.Validate())
	assert.Equal(t, breaker.Policy{
		Scope: "provider", FailureThreshold: 5, SuccessThreshold: 2, Timeout: 30 * time.Second,
		TimeoutFactor: 1, MaxTimeout: 5 * time.Minute,
	}, p)
	require.NoError(t, breaker.Policy{}.Validate(), "the zero Policy has no breaker")
}

func TestValidate(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*breaker.Policy)
		want   []string // fields at fault
	}{
		"scope model":               {func(p *breaker.Policy) { p.Scope = "model" }, nil},
		"no scope":                  {func(p *breaker.Policy) { p.Scope = "" }, nil},
		"unknown scope":             {func(p *breaker.Policy) { p.Scope = "Model" }, []string{"scope"}},
		"empty list":                {func(p *breaker.Policy) { p.FailureOnStatuses = []string{} }, nil},
		"codes and classes":         {func(p *breaker.Policy) { p.FailureOnStatuses = []string{"100", "599", "1xx", "5xx"} }, nil},
		"status too low":            {func(p *breaker.Policy) { p.FailureOnStatuses = []string{"429", "099"} }, []string{"failure_on_statuses[1]"}},
		"status too high":           {func(p *breaker.Policy) { p.FailureOnStatuses = []string{"600"} }, []string{"failure_on_statuses[0]"}},
		"class too high":            {func(p *breaker.Policy) { p.FailureOnStatuses = []string{"6xx"} }, []string{"failure_on_statuses[0]"}},
		"half a class":              {func(p *breaker.Policy) { p.FailureOnStatuses = []string{"50x"} }, []string{"failure_on_statuses[0]"}},
		"word, sign, space, empty":  {func(p *breaker.Policy) { p.FailureOnStatuses = []string{"bad", "+42", " 42", ""} }, []string{"failure_on_statuses[0]", "failure_on_statuses[1]", "failure_on_statuses[2]", "failure_on_statuses[3]"}},
		"no failures: off":          {func(p *breaker.Policy) { p.FailureThreshold, p.SuccessThreshold, p.Timeout = 0, 0, 0 }, nil},
		"disabled":                  {func(p *breaker.Policy) { p.Disabled, p.SuccessThreshold, p.Timeout = true, 0, 0 }, nil},
		"no successes":              {func(p *breaker.Policy) { p.SuccessThreshold = 0 }, []string{"success_threshold"}},
		"no timeout":                {func(p *breaker.Policy) { p.Timeout = 0 }, []string{"timeout"}},
		"open times that grow":      {func(p *breaker.Policy) { p.TimeoutFactor, p.MaxTimeout, p.Jitter = 2.5, time.Hour, 1 }, nil},
		"open times, all zero":      {func(p *breaker.Policy) { p.TimeoutFactor, p.MaxTimeout, p.Jitter = 0, 0, 0 }, nil},
		"a maximum under the first": {func(p *breaker.Policy) { p.MaxTimeout = time.Second }, nil},
		"a factor under 1":          {func(p *breaker.Policy) { p.TimeoutFactor = 0.5 }, []string{"timeout_factor"}},
		"no number":                 {func(p *breaker.Policy) { p.TimeoutFactor, p.Jitter = math.NaN(), math.NaN() }, []string{"timeout_factor", "jitter"}},
		"infinite":                  {func(p *breaker.Policy) { p.TimeoutFactor, p.Jitter = math.Inf(1), math.Inf(1) }, []string{"timeout_factor", "jitter"}},
		"jitter over 1":             {func(p *breaker.Policy) { p.Jitter = 1.01 }, []string{"jitter"}},
		"negative, disabled as well": {func(p *breaker.Policy) {
			p.Disabled = true
			p.FailureThreshold, p.SuccessThreshold, p.Timeout, p.SlowCallThreshold = -1, -1, -1, -1
			p.TimeoutFactor, p.MaxTimeout, p.Jitter = -1, -1, -1
		}, []string{"failure_threshold", "success_threshold", "timeout", "timeout_factor", "max_timeout", "jitter", "slow_call_threshold"}},
		"all faults together": {func(p *breaker.Policy) {
			*p = breaker.Policy{Scope: "x", FailureOnStatuses: []string{"y"}, FailureThreshold: -1, SlowCallThreshold: -1}
		}, []string{"scope", "failure_on_statuses[0]", "failure_threshold", "success_threshold", "timeout", "slow_call_threshold"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := breaker.DefaultPolicy()
			row.change(&p)
			err := p.Validate()
			_, mapErr := breaker.NewMap(breaker.Config{Policy: p})
			_, oneErr := breaker.New(breaker.Config{Policy: p})
			if row.want == nil {
				require.NoError(t, err)
				require.NoError(t, mapErr)
				require.NoError(t, oneErr)
				return
			}
			require.Error(t, err)
			require.ErrorContains(t, mapErr, err.Error())
			require.ErrorContains(t, oneErr, err.Error())
			lines := strings.Split(err.Error(), "\n")
			require.Len(t, lines, len(row.want), err.Error())
			for i, field := range row.want {
				assert.True(t, strings.HasPrefix(lines[i], "circuit_breaker."+field+": "), lines[i])
			}
		})
	}
}

func TestOpenError(t *testing.T) {
	open := &breaker.OpenError{Provider: "openai-eu", Key: "secret-model"}
	full := &breaker.OpenError{Provider: "openai-eu", Key: "secret-model", Full: true}
	assert.Equal(t, "circuit breaker is open - provider openai-eu temporarily unavailable", open.Error())
	assert.Equal(t, "model circuit breaker capacity exhausted for provider openai-eu", full.Error())
	for _, err := range []error{open, full} {
		require.ErrorIs(t, err, breaker.ErrOpen)
		assert.NotErrorIs(t, err, errors.ErrUnsupported)
	}
}

func TestNames(t *testing.T) {
	assert.Equal(t, []string{"closed", "half-open", "open", "State(3)"},
		[]string{breaker.Closed.String(), breaker.HalfOpen.String(), breaker.Open.String(), breaker.State(3).String()})
	assert.Equal(t, []int{0, 1, 2}, []int{int(breaker.Closed), int(breaker.HalfOpen), int(breaker.Open)}, "the gauge's numbers")
	assert.Equal(t, []string{"neutral", "success", "failure", "pending", "unknown"},
		[]string{breaker.Neutral.String(), breaker.Success.String(), breaker.Failure.String(), breaker.Pending.String(), breaker.Verdict(9).String()})
}
