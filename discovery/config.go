package discovery

import (
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Defaults of [Config].
const (
	DefaultRefreshInterval = 3600 * time.Second
	DefaultRecheckInterval = 60 * time.Second
	DefaultTimeout         = 10 * time.Second
)

// Off switches an interval of [Config] off.
const Off time.Duration = -1

// Config says how a registry behaves. The zero Config works: in every field
// zero is the default. [Off] switches an interval off; any other negative
// duration is an error.
type Config struct {
	// RefreshInterval is how often every provider is asked. 0 is
	// [DefaultRefreshInterval].
	RefreshInterval time.Duration
	// RecheckInterval is how often providers whose last refresh failed are
	// asked. 0 is [DefaultRecheckInterval]. A configuration file writes 0 for
	// [Off].
	RecheckInterval time.Duration
	// Timeout bounds one provider's fetch, all its pages together. It has
	// nothing to do with the time limits of model calls. 0 is
	// [DefaultTimeout]; it cannot be off.
	Timeout time.Duration
	// CacheFile keeps the last lists over a restart. "" is none. It is
	// written whole or not at all; a damaged one is ignored.
	CacheFile string
	// Logger records refreshes that fail and recover. Nil is silent.
	Logger *slog.Logger
	// EnableActions puts buttons on the status page: recheck and, for
	// providers with Controls, open and reset. Whoever may see the page may
	// then press them: put authentication in front of the handler.
	EnableActions bool
	// AllowedHosts are the names under which operators reach the page, such
	// as "status.example.com", with a port where only that one will do.
	// Buttons work under these, and always under loopback names and IP
	// addresses. Under any other name they are refused: a name that is not
	// the operator's may have been pointed at this service by a page in the
	// operator's browser (DNS rebinding).
	AllowedHosts []string
}

// resolved returns a copy with defaults for what is zero.
func (c Config) resolved() (Config, error) {
	for _, d := range []struct {
		name   string
		value  *time.Duration
		preset time.Duration
		off    bool
	}{
		{"refresh interval", &c.RefreshInterval, DefaultRefreshInterval, true},
		{"recheck interval", &c.RecheckInterval, DefaultRecheckInterval, true},
		{"timeout", &c.Timeout, DefaultTimeout, false},
	} {
		switch {
		case *d.value == 0:
			*d.value = d.preset
		case *d.value == Off && d.off, *d.value > 0:
		case d.off:
			return c, fmt.Errorf("discovery: %s: %v, want a positive duration, 0 (the default) or discovery.Off", d.name, *d.value)
		default:
			return c, fmt.Errorf("discovery: %s: %v, want a positive duration or 0 (the default)", d.name, *d.value)
		}
	}
	hosts := make([]string, len(c.AllowedHosts))
	for i, h := range c.AllowedHosts {
		name, port := splitHost(h)
		if name == "" || strings.ContainsAny(h, "/@?#* ") {
			return c, fmt.Errorf("discovery: allowed host %q, want a host name, with or without a port", clip(h, 64))
		}
		hosts[i] = name + port
	}
	c.AllowedHosts = hosts
	return c, nil
}

// splitHost takes a Host header apart into a name, in one spelling, and ":" and
// the port where there is one.
func splitHost(host string) (name, port string) {
	u := url.URL{Host: strings.ToLower(host)}
	if port = u.Port(); port != "" {
		port = ":" + port
	}
	return strings.TrimSuffix(u.Hostname(), "."), port
}

// hostAllowed reports whether an action may come in under a request's Host. An
// IP address needs no permission: nobody can point one elsewhere.
func (c Config) hostAllowed(host string) bool {
	name, port := splitHost(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") { // RFC 6761 section 6.3
		return true
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return slices.Contains(c.AllowedHosts, name) || slices.Contains(c.AllowedHosts, name+port)
}
