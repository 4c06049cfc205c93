package discovery

import (
	"context"
	"fmt"
	"maps"
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
	known  map[string]time.Time // and until when
	tokens int
	since  time.Time // of the last token given
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

func (m *misses) recall(name string, now time.Time) bool {
	until, ok := m.known[name]
	return ok && now.Before(until)
}

// remember keeps names until a time, as many as there is room for: take still
// bounds the fetches.
func (m *misses) remember(names map[string]struct{}, now, until time.Time) {
	if m.known == nil {
		m.known = make(map[string]time.Time, len(names))
	}
	if len(m.known)+len(names) > maxMisses {
		maps.DeleteFunc(m.known, func(_ string, until time.Time) bool { return !now.Before(until) })
	}
	for name := range names {
		if _, ok := m.known[name]; ok || len(m.known) < maxMisses {
			m.known[name] = until
		}
	}
}

// rememberMisses notes what a fetch was begun or waited for and did not bring.
// It runs with the fetch's result, under the same lock, so that nobody finds
// neither the fetch nor what came of it. The caller holds mu.
func (p *provider) rememberMisses(f *fetch) {
	for name := range f.wanted {
		if p.has(name) {
			delete(f.wanted, name)
		}
	}
	if len(f.wanted) == 0 {
		return
	}
	now, d := time.Now(), missAfterGood
	if p.failed {
		d = missAfterFail
	}
	p.misses.remember(f.wanted, now, now.Add(d))
}

// want notes a name for rememberMisses. The caller holds mu.
func (f *fetch) want(name string) {
	if f.wanted == nil {
		f.wanted = map[string]struct{}{}
	}
	if len(f.wanted) < maxMisses {
		f.wanted[strings.Clone(name)] = struct{}{} // the name may be a piece of a large body
	}
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
		m, ok := r.find(p, id, name)
		if ok {
			return m, nil
		}
		r.mu.RLock()
		err = p.lack()
		r.mu.RUnlock()
	}
	return Model{}, &ResolveError{Name: clip(name, maxNameBytes), Err: err}
}

// LookFor begins the look-up of [Registry.Resolve] for a model that a call names
// as "provider/model" and that the registry lacks, and waits for nothing: the
// call goes out anyway, and the lists know the model when they have come. It does
// nothing while Run is not going.
func (r *Registry) LookFor(name string) {
	prefix, id, _ := strings.Cut(name, "/")
	p := r.table.Load().byName[prefix]
	if p == nil {
		return
	}
	if _, ok := r.find(p, id, name); ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running {
		return
	}
	if j, ok := r.lookUpLocked(p, id, name); ok {
		j.f.waiters-- // Run keeps it going
	}
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

// lookUp asks the provider for a list that may hold the model and waits for it.
// Nil says that what is known now is all there is to know.
func (r *Registry) lookUp(ctx context.Context, p *provider, id, name string) error {
	r.mu.Lock()
	j, ok := r.lookUpLocked(p, id, name)
	r.mu.Unlock()
	if !ok {
		return nil
	}
	switch err := r.wait(ctx, j); {
	case err == errStopping: //nolint:errorlint // ours, never wrapped: it says nothing of the model
		return fmt.Errorf("%w: the registry is stopping", ErrUnavailable)
	case err != nil && ctx.Err() != nil:
		return err
	}
	return nil
}

// lookUpLocked returns a fetch to wait for, if there is one to be had, with the
// caller among those who wait. It looks again: a fetch may have landed since
// the caller looked.
func (r *Registry) lookUpLocked(p *provider, id, name string) (joined, bool) {
	now := time.Now()
	if !p.asked || !validName(id) || p.has(id) || p.has(name) || p.misses.recall(id, now) {
		return joined{}, false
	}
	underWay := p.forced != nil || p.background != nil
	if !underWay && (r.closing || !p.misses.take(now)) {
		return joined{}, false
	}
	j := r.startLocked(p, false, id)
	j.f.waiters++
	return j, true
}

// has reports whether the provider serves the model. The caller holds mu.
func (p *provider) has(id string) bool {
	ms, _ := p.serving()
	_, ok := search(ms, id)
	return ok
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
