package failover

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// account is whose credentials a target sends: those of one provider that are
// equal. What a Rewrite or a transport adds is not seen.
type account struct{ provider, credentials string }

// accountOf returns the account of a resolved target. One without credentials of
// its own sends the caller's.
func accountOf(t *target) account {
	own := make(http.Header)
	for key, values := range t.Header {
		if wire.CredentialHeader(key, t.secrets...) {
			own[key] = values
		}
	}
	query := make(url.Values)
	for key, values := range t.Query {
		if wire.CredentialKey(key, t.secrets...) {
			query[key] = values
		}
	}
	var b strings.Builder
	_ = own.Write(&b) // a Builder takes everything
	b.WriteString(query.Encode())
	if t.base != nil && t.base.User != nil {
		b.WriteString("\n" + t.base.User.String())
	}
	a := account{provider: t.Provider, credentials: b.String()}
	if a.provider == "" {
		a.provider = t.Name // as for its stack
	}
	return a
}

// tellApart gives a word for its account to each target that shares its
// transport with one of other credentials. The words say nothing of the
// credentials, and are the same in every chain.
func tellApart(targets []*target) {
	first := make(map[http.RoundTripper]string, len(targets)) // the credentials at each transport
	shared := make(map[http.RoundTripper]bool)
	for _, t := range targets {
		if !mayBeKey(t.rt) {
			continue
		}
		if seen, ok := first[t.rt]; !ok {
			first[t.rt] = t.account.credentials
		} else if seen != t.account.credentials {
			shared[t.rt] = true
		}
	}
	for _, t := range targets {
		if !mayBeKey(t.rt) || !shared[t.rt] {
			continue
		}
		sum := sha256.Sum256([]byte(t.account.credentials))
		t.word = hex.EncodeToString(sum[:8])
	}
}

// mayBeKey reports whether a transport can be a map key: a func cannot.
func mayBeKey(rt http.RoundTripper) bool { return reflect.ValueOf(rt).Comparable() }

// bindTo returns the account that a bound request of w goes to, nil for any. The
// chain that the request meets first decides. It does not see into a layer that
// stands before another chain, which then looks at its own targets.
func (w *walk) bindTo(preferred *target) *account {
	if w.above == nil || w.above.walk == nil {
		if w.chain.policy.Bound == BoundIgnore {
			return nil
		}
	} else if owner := w.above.walk.owner; owner == nil || w.above.target.nested != nil {
		return owner
	}
	return w.accountOf(w.chain, preferred)
}

// accountOf returns the account of the target that the request names, or of a
// chain's first target that is this caller's; nil for none.
func (w *walk) accountOf(c *Chain, preferred *target) *account {
	for _, t := range c.targets {
		if preferred != nil && t != preferred || t.Disabled || t.Allow != nil && !t.Allow(w.ask) {
			continue
		}
		a := &t.account
		switch {
		case t.virtual != nil:
			a = w.accountOf(t.virtual.chain, t.virtual.preferred)
		case t.nested != nil:
			a = w.accountOf(t.nested, nil)
		}
		if a != nil {
			return a
		}
	}
	return nil
}

// foreign reports whether the request names what the target's account does not
// know (contract 11).
func (w *walk) foreign(t *target) bool {
	return w.owner != nil && t.chain() == nil && t.account != *w.owner
}
