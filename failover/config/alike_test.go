package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// What the file, the environment and the struct say of patience, limits and open
// times is the same: the policies that come of them are equal (contract 1).
func TestFileEnvironmentAndStructAreAlike(t *testing.T) {
	for key, row := range map[string]struct {
		value    string
		stack    func(*resilience.Policy)
		failover func(*failover.Policy)
	}{
		"profile": {"whole", func(p *resilience.Policy) { *p, _ = resilience.Profile("whole") },
			func(p *failover.Policy) { p.RetryOnErrors = []string{"default", failover.TooLong} }},
		"circuit_breaker.timeout_factor": {"1.5", func(p *resilience.Policy) { p.CircuitBreaker.TimeoutFactor = 1.5 }, nil},
		"circuit_breaker.max_timeout":    {"90s", func(p *resilience.Policy) { p.CircuitBreaker.MaxTimeout = 90 * time.Second }, nil},
		"circuit_breaker.jitter":         {"0.25", func(p *resilience.Policy) { p.CircuitBreaker.Jitter = 0.25 }, nil},
		"limits.hold":                    {"false", func(p *resilience.Policy) { p.Limits.Hold = false }, nil},
		"limits.max_hold":                {"5m", func(p *resilience.Policy) { p.Limits.MaxHold = 5 * time.Minute }, nil},
		"limits.preempt":                 {"true", func(p *resilience.Policy) { p.Limits.Preempt = true }, nil},
		"limits.max_concurrent":          {"7", func(p *resilience.Policy) { p.Limits.MaxConcurrent = 7 }, nil},
		"failover.patience":              {"off", nil, func(p *failover.Policy) { p.Patience = failover.PatienceOff }},
		"failover.wait_for":              {"20s", nil, func(p *failover.Policy) { p.WaitFor = 20 * time.Second }},
		"failover.bound":                 {"ignore", nil, func(p *failover.Policy) { p.Bound = failover.BoundIgnore }},
	} {
		t.Run(key, func(t *testing.T) {
			variable := strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
			if key == "profile" {
				variable = "RESILIENCE_PROFILE"
			}
			file, env := parse(t, global(key, row.value), nil), parse(t, "", map[string]string{variable: row.value})
			stack, chain := resilience.DefaultPolicy(), failover.DefaultPolicy()
			base := parse(t, "", nil)
			assert.Equal(t, stack, base.Policy("p"))
			if row.stack != nil {
				row.stack(&stack)
			}
			assert.Equal(t, stack, file.Policy("p"))
			assert.Equal(t, stack, env.Policy("p"))
			if row.failover != nil {
				row.failover(&chain)
				assert.NotEqual(t, base.Failover(), file.Failover())
			}
			assert.Equal(t, chain, file.Failover())
			assert.Equal(t, chain, env.Failover())
		})
	}
}
