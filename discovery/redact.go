package discovery

import (
	"fmt"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// String names the provider, without its Lister: that holds credentials.
func (p Provider) String() string {
	return wire.Redact("discovery.Provider", "name", p.Name, "mode", p.Mode,
		"models", howMany(p.Models), "catalog", howMany(p.Catalog))
}

// Format prints [Provider.String], whatever the verb.
func (p Provider) Format(f fmt.State, verb rune) { wire.Print(f, verb, p.String()) }

// MarshalText returns [Provider.String]: JSON and slog show that.
func (p Provider) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// String shows the type, the base URL and the names of the headers.
func (c ListerConfig) String() string {
	return wire.Redact("discovery.ListerConfig", "type", c.Type, "base_url", wire.RedactURL(c.BaseURL), "header", wire.RedactNames(c.Header))
}

// Format prints [ListerConfig.String], whatever the verb.
func (c ListerConfig) Format(f fmt.State, verb rune) { wire.Print(f, verb, c.String()) }

// MarshalText returns [ListerConfig.String]: JSON and slog show that.
func (c ListerConfig) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

func howMany(models []string) string {
	if len(models) == 0 {
		return ""
	}
	return fmt.Sprint(len(models))
}

// String says where the list comes from, without credentials. fmt calls no
// method of what an unexported field holds, and follows one pointer: the
// credentials are behind a second one.
func (l httpLister) String() string {
	return wire.Redact("discovery.Lister", "url", wire.RedactURL(l.origin()), "header", wire.RedactNames(*l.header))
}

// Format prints String, whatever the verb.
func (l httpLister) Format(f fmt.State, verb rune) { wire.Print(f, verb, l.String()) }
