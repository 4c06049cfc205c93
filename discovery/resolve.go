package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of looking up what the registry lacks. A name that was not there is
// remembered; names that differ each time share a few fetches.
const (
	maxMisses     = 512
	missAfterGood = time.Minute      // how long a name that a fresh list lacked stays unknown
	missAfterFail = 10 * time.Second // and one that could not be looked up
	lookupBurst   = 5                // fetches for look-ups in a row
	lookupEvery   = 10 * time.Second // and one more each
)

// misses is a provider's memory of names that it lacked.
type misses struct {
	known  map[string]miss
	tokens int
	since  time.Time // of the last token given
}

type miss struct {
	until time.Time
	err   error
}

// take reports whether a fetch for a look-up is due.
func (m *misses) take(now time.Time) bool {
	if m.since.IsZero() {
		m.tokens, m.since = lookupBurst, now
	}
	if n := int(now.Sub(m.since) / lookupEvery); n > 0 {
		m.tokens = min(m.tokens+n, lookupBurst)
		m.since = m.since.Add(time.Duration(n) * lookupEvery)
	}
	if m.tokens == 0 {
		return false
	}
	m.tokens--
	return true
}

func (m *misses) recall(name string, now time.Time) (error, bool) {
	e, ok := m.known[name]
	if !ok || !now.Before(e.until) {
		return nil, false
	}
	return e.err, true
}

func (m *misses) remember(name string, now time.Time, err error) {
	if m.known == nil {
		m.known = map[string]miss{}
	}
	if len(m.known) >= maxMisses {
		for k, e := range m.known {
			if !now.Before(e.until) {
				delete(m.known, k)
			}
		}
		if len(m.known) >= maxMisses {
			return // take still bounds the fetches
		}
	}
	d := missAfterGood
	if !errors.Is(err, ErrUnknownModel) {
		d = missAfterFail
	}
	m.known[strings.Clone(name)] = miss{until: now.Add(d), err: err}
}

// Resolve finds a model by its qualified name, "provider/model", or by its
// bare one, where the first provider in the order of Add that is not offline
// wins. Models of a provider that is offline are found, too, marked stale:
// direct calls to them go out.
//
// A qualified name that the registry lacks is looked up: the provider is asked
// and ctx bounds the wait. Look-ups at the same time share one fetch, a name
// that was not there is remembered for a minute, and the number of fetches is
// bounded whatever is asked for. The error is a [*ResolveError].
func (r *Registry) Resolve(ctx context.Context, name string) (Model, error) {
	prefix, id, qualified := strings.Cut(name, "/")
	p := r.table.Load().byName[prefix]
	if !qualified || p == nil {
		m, err := r.resolveBare(name)
		if err != nil {
			return Model{}, &ResolveError{Name: clip(name, maxNameBytes), Err: err}
		}
		return m, nil
	}
	if m, ok := r.find(p, id, name); ok {
		return m, nil
	}
	err := r.lookUp(ctx, p, id, name)
	if err == nil {
		if m, ok := r.find(p, id, name); ok {
			return m, nil
		}
		err = ErrUnknownModel
	}
	return Model{}, &ResolveError{Name: clip(name, maxNameBytes), Err: err}
}

// resolveBare looks through all providers.
func (r *Registry) resolveBare(id string) (Model, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var offline Model
	found := false
	for _, p := range r.table.Load().order {
		ms, _ := p.serving()
		found = found || len(ms) > 0
		m, ok := search(ms, id)
		if !ok {
			continue
		}
		if !p.stale(r.allDown) {
			return m, nil
		}
		if offline.ID == "" {
			offline = m
			offline.Stale = true
		}
	}
	switch {
	case offline.ID != "":
		return offline, nil
	case !found:
		return Model{}, ErrUnavailable
	default:
		return Model{}, ErrUnknownModel
	}
}

// find looks into one provider for id, or for the whole name: OpenRouter, for
// one, has models that begin with its own name.
func (r *Registry) find(p *provider, id, name string) (Model, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	ms, _ := p.serving()
	m, ok := search(ms, id)
	if !ok {
		m, ok = search(ms, name)
	}
	m.Stale = ok && p.stale(r.allDown)
	return m, ok
}

func search(ms []Model, id string) (Model, bool) {
	i, ok := slices.BinarySearchFunc(ms, id, func(m Model, id string) int { return strings.Compare(m.ID, id) })
	if !ok {
		return Model{}, false
	}
	return ms[i], true
}

// lookUp asks the provider for a list that may hold the model. Nil says that
// there is news.
func (r *Registry) lookUp(ctx context.Context, p *provider, id, name string) error {
	r.mu.Lock()
	f, err := r.lookUpLocked(p, id)
	if f != nil {
		f.waiters++
	}
	r.mu.Unlock()
	if f == nil {
		return err
	}
	err = r.wait(ctx, f)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case errors.Is(err, context.Canceled): // Run ended: that says nothing of the model
		return fmt.Errorf("%w: the registry is stopping", ErrUnavailable)
	}
	if _, ok := r.find(p, id, name); ok {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err = p.lack()
	p.misses.remember(id, time.Now(), err)
	return err
}

// lookUpLocked returns a fetch to wait for, or why there is none.
func (r *Registry) lookUpLocked(p *provider, id string) (*flight, error) {
	now := time.Now()
	if !p.asked || !validName(id) {
		return nil, p.lack()
	}
	if err, ok := p.misses.recall(id, now); ok {
		return nil, err
	}
	if !p.underWay() && (r.closing || !p.misses.take(now)) {
		return nil, p.lack()
	}
	return r.startLocked(p, false), nil
}

// underWay reports whether a look-up would join a fetch. The caller holds mu.
func (p *provider) underWay() bool {
	return p.forced != nil && !p.forced.dropped || p.background != nil && !p.background.dropped
}

// lack says why a model is not there: it is unknown if the list is current,
// else nobody can say.
func (p *provider) lack() error {
	switch ms, _ := p.serving(); {
	case p.failed:
		return fmt.Errorf("%w: %w", ErrUnavailable, p.err)
	case len(ms) == 0:
		return ErrUnavailable
	default:
		return ErrUnknownModel
	}
}
