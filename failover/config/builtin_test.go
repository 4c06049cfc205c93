package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/surefoot-go/surefoot/failover/config"
)

// In every list of statuses or phrases "default" stands for the built-in list
// (contract 1), wherever the list is given. The layers put it in its place.
func TestDefaultInAList(t *testing.T) {
	for _, row := range []struct {
		key, variable string
		list          func(c *config.Config) []string
	}{
		{"resilience.retry.retry_on_statuses", "RETRY_ON_STATUSES", func(c *config.Config) []string { return c.Policy("p").Retry.RetryOnStatuses }},
		{"resilience.circuit_breaker.failure_on_statuses", "CIRCUIT_BREAKER_FAILURE_ON_STATUSES", func(c *config.Config) []string { return c.Policy("p").CircuitBreaker.FailureOnStatuses }},
		{"failover.retry_on_statuses", "FAILOVER_RETRY_ON_STATUSES", func(c *config.Config) []string { return c.Failover().RetryOnStatuses }},
		{"failover.retry_on_errors", "FAILOVER_RETRY_ON_ERRORS", func(c *config.Config) []string { return c.Failover().RetryOnErrors }},
	} {
		for written, want := range map[string][]string{
			"[default, 529 x]": {"default", "529 x"}, "[529 x, Default]": {"529 x", "default"}, "[default]": {"default"},
		} {
			if !strings.HasSuffix(row.key, "errors") {
				written = strings.ReplaceAll(written, " x", "")
				for i := range want {
					want[i] = strings.ReplaceAll(want[i], " x", "")
				}
			}
			c := parse(t, block(row.key, written, 0), nil)
			assert.Equal(t, want, lower(row.list(c)), row.key)
			assert.Contains(t, strings.ToLower(fmt.Sprint(c.Effective(""))), "default")
			c = parse(t, "", map[string]string{row.variable: strings.Trim(written, "[]")})
			assert.Equal(t, want, lower(row.list(c)), row.variable)
			row.list(c)[0] = "changed"
			assert.Equal(t, want, lower(row.list(c)), "a list that was handed out is the caller's own")
		}
	}
	assert.Contains(t, faults(t, "resilience: {retry: {retry_on_statuses: [defaults]}}", nil).Error(), "want a status code")
}

func lower(all []string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = strings.ToLower(s)
	}
	return out
}
