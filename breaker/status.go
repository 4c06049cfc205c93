package breaker

import "github.com/surefoot-go/surefoot/internal/layer"

// defaultFailures is what a nil [Policy.FailureOnStatuses] stands for.
var defaultFailures = []string{"429", "5xx"}

// failures compiles the list of statuses; each error names its entry in the
// words of the configuration.
func (p *Policy) failures() (layer.StatusSet, []error) {
	list := p.FailureOnStatuses
	if list == nil {
		list = defaultFailures
	}
	return layer.ParseStatuses("circuit_breaker.failure_on_statuses", list, defaultFailures)
}
