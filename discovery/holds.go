package discovery

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
)

// Bounds of the holds that are shown: by a status, and by a card of the page.
const (
	maxShownHolds = 32
	maxPageHolds  = 6
)

// HoldStatus is one key from which calls are kept by a limit of the provider. It
// is no failure and does not change the provider's status.
type HoldStatus struct {
	Key   string    `json:"key"`             // "" is the account, else a model
	Kind  string    `json:"kind"`            // rate, quota or billing
	Until time.Time `json:"until"`           // when calls may go again
	Guess bool      `json:"guess,omitempty"` // the upstream did not name that time: only chains pass over the key
}

// addHolds adds what the provider's stack holds now, the account first.
func (s *ProviderStatus) addHolds(all []breaker.Hold, now time.Time) {
	for _, h := range all {
		if h.RetryAfter > 0 {
			s.Holds = append(s.Holds, HoldStatus{
				Key: clip(h.Key, maxNameBytes), Kind: clip(h.Kind, 64),
				Until: now.Add(h.RetryAfter).UTC(), Guess: h.Guess,
			})
		}
	}
	slices.SortStableFunc(s.Holds, func(a, b HoldStatus) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), b.Until.Compare(a.Until))
	})
	s.HeldKeys = len(s.Holds)
	s.Holds = s.Holds[:min(len(s.Holds), maxShownHolds)]
}

// holds asks the provider's stack, which is not our code. A panic there shows
// no holds.
func (r *Registry) holds(p *provider) []breaker.Hold {
	if p.Holds == nil {
		return nil
	}
	var all []breaker.Hold
	r.hook(p, "Holds", func() { all = p.Holds() })
	return all
}
