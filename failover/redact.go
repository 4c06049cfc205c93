package failover

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// String names the target and says how it is reached, with the names of its
// headers and query keys in place of what they hold.
func (t Target) String() string {
	return wire.Redact("failover.Target", "name", targetName(&t), "provider", t.Provider, "model", t.Model,
		"base_url", wire.RedactURL(t.BaseURL), "header", wire.RedactNames(t.Header), "query", wire.RedactNames(t.Query))
}

// Format prints [Target.String], whatever the verb.
func (t Target) Format(f fmt.State, verb rune) { wire.Print(f, verb, t.String()) }

// MarshalText returns [Target.String]: JSON and slog show that.
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// String names the chain's strategy and targets.
func (c Chain) String() string {
	names := make([]string, len(c.targets))
	for i, t := range c.targets {
		names[i] = t.Name
	}
	return wire.Redact("failover.Chain", "strategy", c.policy.Strategy, "targets", strings.Join(names, " "))
}

// Format prints [Chain.String], whatever the verb.
func (c Chain) Format(f fmt.State, verb rune) { wire.Print(f, verb, c.String()) }

// String names the router's virtual models.
func (r Router) String() string {
	return wire.Redact("failover.Router", "models", strings.Join(slices.Sorted(maps.Keys(r.chains)), " "))
}

// Format prints [Router.String], whatever the verb.
func (r Router) Format(f fmt.State, verb rune) { wire.Print(f, verb, r.String()) }
