package resilience

import (
	"fmt"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// String says what kind of base the builder has, not what is in it: a
// transport of one's own often holds a key.
func (b Builder) String() string {
	base := ""
	if b.Base != nil {
		base = fmt.Sprintf("%T", b.Base)
	}
	return wire.Redact("resilience.Builder", "base", base, "provider_type", b.ProviderType)
}

// Format prints [Builder.String], whatever the verb.
func (b Builder) Format(f fmt.State, verb rune) { wire.Print(f, verb, b.String()) }

// MarshalText returns [Builder.String]: JSON and slog show that.
func (b Builder) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// String names the stack's provider.
func (t *Transport) String() string {
	return wire.Redact("resilience.Transport", "provider", t.provider)
}

// Format prints [Transport.String], whatever the verb.
func (t *Transport) Format(f fmt.State, verb rune) { wire.Print(f, verb, t.String()) }
