package discovery

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
)

// Values of [ProviderStatus.Status], the strongest first: when several hold,
// the first one is shown.
const (
	StatusUnhealthy   = "Unhealthy"    // no refresh ever succeeded, and the last one failed
	StatusOffline     = "Offline"      // the last refresh failed
	StatusCircuitOpen = "Circuit Open" // the breaker rejects
	StatusRecovering  = "Recovering"   // the breaker is half-open
	StatusDegraded    = "Degraded"     // a model is failing, or all providers are down at once
	StatusStarting    = "Starting"     // no answer yet
	StatusConfigured  = "Configured"   // no models exposed yet
	StatusHealthy     = "Healthy"
)

var statusOrder = []string{
	StatusUnhealthy, StatusOffline, StatusCircuitOpen, StatusRecovering,
	StatusDegraded, StatusStarting, StatusConfigured, StatusHealthy,
}

// Values of [ProviderStatus.Source]: where the models come from.
const (
	SourceLive       = "live"       // the upstream's list
	SourceCache      = "cache"      // the upstream's list of an earlier run
	SourceConfigured = "configured" // configured models
	SourceCatalog    = "catalog"    // what the provider's type is known to offer
)

// Bounds of what a status holds.
const (
	maxShownBreakers = 32
	maxShownFailing  = 32
)

// ProviderStatus is how one provider is. Its JSON form is stable: fields may
// be added, none is renamed or removed.
type ProviderStatus struct {
	Name        string    `json:"name"`
	Status      string    `json:"status"`                // one of the Status constants
	Reason      string    `json:"reason,omitempty"`      // why, in one line; "" when Healthy
	Available   bool      `json:"available"`             // as [Registry.Available]
	Source      string    `json:"source,omitempty"`      // one of the Source constants; "" without models
	Models      int       `json:"models"`                // that may be offered now
	StaleModels int       `json:"stale_models"`          // that are hidden from lists
	LastChecked time.Time `json:"last_checked,omitzero"` // end of the last refresh
	LastGood    time.Time `json:"last_good,omitzero"`    // end of the last one that succeeded, in an earlier run too
	LastError   string    `json:"last_error,omitempty"`  // of the last refresh, in our words; "" if it succeeded
	// Breaker is the breaker that decides the status: the provider's own or,
	// with a breaker a model, that of the call that ended last. Nil without.
	Breaker *BreakerStatus `json:"breaker,omitempty"`
	// Breakers are those that are not closed, at most 32.
	Breakers []BreakerStatus `json:"breakers,omitempty"`
	// Holds are the keys from which calls are kept by a limit of the provider,
	// the account first; at most 32 of HeldKeys are listed.
	Holds    []HoldStatus `json:"holds,omitempty"`
	HeldKeys int          `json:"held_keys,omitempty"`
	Calls    int          `json:"calls"`    // in the last ten minutes
	Failures int          `json:"failures"` // of those
	// Flow is what passed through it; nil where nothing is known of that.
	Flow *FlowStatus `json:"flow,omitempty"`
	// Places are those of its stack (max_concurrent); nil without a limit.
	Places *PlacesStatus `json:"places,omitempty"`
	// Window is the last ten minutes in twenty equal parts, the oldest first.
	Window []Bucket `json:"window"`
	// FailingModels have at least three failures that are at least half of
	// their calls in the last ten minutes; at most 32 are listed.
	FailingModels []ModelHealth `json:"failing_models,omitempty"`
	// LastFailure is the last call that failed in the window, a rejection by
	// the breaker or a limit only if nothing else did; nil: none did.
	LastFailure *CallFailure `json:"last_failure,omitempty"`
}

// BreakerStatus is one breaker of a provider.
type BreakerStatus struct {
	Key       string    `json:"key"`                 // "" is the provider's own, else a model
	State     string    `json:"state"`               // closed, half-open or open
	Failures  int       `json:"failures"`            // in a row
	NextProbe time.Time `json:"next_probe,omitzero"` // when an open one lets a call through; zero: the next one
}

// Status returns how each provider is, in the order of Add.
func (r *Registry) Status() []ProviderStatus {
	ps := r.table.Load().order
	out := make([]ProviderStatus, len(ps))
	for i, p := range ps {
		out[i] = r.statusOf(p)
	}
	return out
}

func (r *Registry) statusOf(p *provider) ProviderStatus {
	now := time.Now()
	s := r.discovered(p)
	v := p.window.view(now)
	s.Calls, s.Failures, s.Window = v.calls, v.failures, v.chart[:]
	if v.flow != (FlowStatus{}) {
		s.Flow = &v.flow
	}
	if f := v.failure; !f.Time.IsZero() {
		s.LastFailure = &f
	}
	if len(v.failing) > 0 {
		m := v.failing[0]
		s.worsen(StatusDegraded, fmt.Sprintf("%s fails: %d of %d calls", clip(visible(m.Model), 64), m.Failures, m.Calls))
		s.FailingModels = v.failing[:min(len(v.failing), maxShownFailing)]
	}
	s.addBreakers(r.breakers(p), v, now)
	s.addHolds(r.holds(p), now)
	if p.Places != nil {
		r.hook(p, "Places", func() {
			if used, most := p.Places(); most > 0 {
				s.Places = &PlacesStatus{used, most}
			}
		})
	}
	return s
}

// breakers asks the provider's stack, which is not our code. A panic there shows
// no state.
func (r *Registry) breakers(p *provider) []breaker.Snapshot {
	if p.Breakers == nil {
		return nil
	}
	var all []breaker.Snapshot
	r.hook(p, "Breakers", func() { all = p.Breakers() })
	return all
}

// discovered is the status by discovery alone.
func (r *Registry) discovered(p *provider) ProviderStatus {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := ProviderStatus{Name: p.Name, Available: p.available.Load(), LastChecked: p.checked.UTC(), LastGood: p.lastGood.UTC()}
	ms, from := p.serving()
	s.Source = from
	if len(ms) == 0 {
		s.Source = ""
	}
	if p.stale(r.allDown) {
		s.StaleModels = len(ms)
	} else {
		s.Models = len(ms)
	}
	if p.err != nil {
		s.LastError = p.err.summary()
	}
	switch {
	case p.failed && !p.good:
		s.Status, s.Reason = StatusUnhealthy, "no list of models ever: "+s.LastError
	case p.failed && r.allDown:
		s.Status, s.Reason = StatusDegraded, "all providers fail at once, models are kept: "+s.LastError
	case p.failed:
		s.Status, s.Reason = StatusOffline, "the last refresh failed: "+s.LastError
	case p.asked && !p.answered:
		s.Status, s.Reason = StatusStarting, "waiting for the first list of models"
	case len(ms) == 0:
		s.Status, s.Reason = StatusConfigured, "no models exposed yet"
	default:
		s.Status = StatusHealthy
	}
	return s
}

// worsen sets a status if it is stronger than the one there is.
func (s *ProviderStatus) worsen(status, reason string) {
	if slices.Index(statusOrder, status) < slices.Index(statusOrder, s.Status) {
		s.Status, s.Reason = status, reason
	}
}

// addBreakers adds the breakers and what the deciding one says.
func (s *ProviderStatus) addBreakers(all []breaker.Snapshot, v view, now time.Time) {
	for _, b := range all {
		if b.State != breaker.Closed {
			s.Breakers = append(s.Breakers, breakerStatus(b, now))
		}
	}
	slices.SortFunc(s.Breakers, func(a, b BreakerStatus) int { return strings.Compare(a.Key, b.Key) })
	s.Breakers = s.Breakers[:min(len(s.Breakers), maxShownBreakers)]
	own, ok := deciding(all, v)
	if !ok {
		return
	}
	b := breakerStatus(own, now)
	s.Breaker = &b
	whose := "the circuit breaker"
	if own.Key != "" {
		whose = "the circuit breaker of " + clip(visible(own.Key), 64)
	}
	switch own.State {
	case breaker.Open:
		s.worsen(StatusCircuitOpen, whose+" is open")
	case breaker.HalfOpen:
		s.worsen(StatusRecovering, whose+" is probing")
	}
}

// deciding picks the breaker whose state is the provider's: the only one with
// the empty key where there is one for all, else that of the call that ended
// last.
func deciding(all []breaker.Snapshot, v view) (breaker.Snapshot, bool) {
	perModel := slices.ContainsFunc(all, func(b breaker.Snapshot) bool { return b.Key != "" })
	key := ""
	if perModel {
		if !v.ended {
			return breaker.Snapshot{}, false
		}
		key = v.lastKey
	}
	i := slices.IndexFunc(all, func(b breaker.Snapshot) bool { return b.Key == key })
	if i < 0 {
		return breaker.Snapshot{}, false
	}
	return all[i], true
}

func breakerStatus(b breaker.Snapshot, now time.Time) BreakerStatus {
	s := BreakerStatus{Key: clip(b.Key, maxNameBytes), State: b.State.String(), Failures: b.Failures}
	if b.State == breaker.Open && b.RetryAfter > 0 {
		s.NextProbe = now.Add(b.RetryAfter).UTC()
	}
	return s
}

// Readiness is what a readiness probe is told. It is answered with HTTP 200
// whatever it says: an instance without models stays in rotation, since
// another one would have none either.
type Readiness struct {
	Status string `json:"status"` // "ok" or "degraded"
	Models string `json:"models"` // "up", or "down" with nothing to serve from
}

// Ready reports whether there is any model to serve, stale ones included.
func (r *Registry) Ready() Readiness {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, p := range r.table.Load().order {
		if ms, _ := p.serving(); len(ms) > 0 {
			return Readiness{Status: "ok", Models: "up"}
		}
	}
	return Readiness{Status: "degraded", Models: "down"}
}
