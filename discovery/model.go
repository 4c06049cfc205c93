package discovery

import (
	"context"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
)

// Model is one model of one provider.
type Model struct {
	ID       string    `json:"id"`                 // as the upstream names it
	Provider string    `json:"provider"`           // configured name
	OwnedBy  string    `json:"owned_by,omitempty"` // as the upstream says; "" where it does not
	Created  time.Time `json:"created,omitzero"`   // zero where the upstream does not say
	Stale    bool      `json:"stale"`              // the provider's last refresh failed
}

// Name returns the qualified name, "provider/id".
func (m Model) Name() string { return m.Provider + "/" + m.ID }

// Lister fetches all models that an upstream offers. It must return when ctx
// is done and be safe for concurrent use. A partial list is an error: what was
// known before is better than half of the truth. Model.Provider and
// Model.Stale are filled in by the registry.
type Lister interface {
	ListModels(ctx context.Context) ([]Model, error)
}

// Modes of [Provider.Mode].
const (
	ModeFallback  = "fallback"  // configured models stand in until the upstream has answered
	ModeAllowlist = "allowlist" // configured models are all there is; the upstream is never asked
)

// Controls is what the status page's buttons need; *resilience.Transport has
// it.
type Controls interface {
	ForceOpen(key string, d time.Duration)
	Reset(key string)
}

// Provider is one upstream as the registry sees it.
type Provider struct {
	Name   string   // configured name, unique in a registry, without a slash
	Lister Lister   // nil: the upstream is never asked
	Models []string // configured models
	Mode   string   // [ModeFallback] (also "") or [ModeAllowlist]
	// Catalog lists what the provider's type is known to offer, the last
	// resort before nothing; see [Catalog].
	Catalog []string
	// Breakers reports the breakers of the provider's stack
	// (Transport.Breakers). Nil, or an empty answer, shows no state. It is
	// called without any lock held and must be safe for concurrent use.
	Breakers func() []breaker.Snapshot
	// Holds reports the keys that the provider's stack holds by a limit
	// (Transport.Holds). Nil shows none. It is called like Breakers.
	Holds func() []breaker.Hold
	// Places reports how many calls the provider's stack has let through now and
	// how many it lets through at once (Transport.InUse, max_concurrent). Nil, or
	// a limit of 0, shows none. It is called like Breakers.
	Places func() (used, most int)
	// Controls acts on those breakers when somebody presses a button of the
	// status page. Nil: no buttons for this provider.
	Controls Controls
}
