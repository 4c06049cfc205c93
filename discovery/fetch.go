package discovery

import (
	"context"
	"slices"
	"time"
)

// hungGrace is how long after its time limit a lister may take to return.
const hungGrace = time.Second

// fetch is one fetch of one provider's list, waited for by any number of
// callers. It belongs to none of them: each may stop waiting. It ends early
// when Run ends or, where nobody keeps Run going, when the last of them left.
type fetch struct {
	seq    uint64          // they are numbered in the order in which they began
	ctx    context.Context // done: it ended early, which says nothing of the provider
	cancel context.CancelFunc

	// Guarded by Registry.mu.
	waiters int
	wanted  map[string]struct{} // models that it was begun or joined for
}

// run fetches a provider's list and records the result. It is what a
// singleflight group runs, so it must neither panic nor exit.
func (r *Registry) run(p *provider, f *fetch) error {
	defer f.cancel()
	ctx, cancel := context.WithTimeout(f.ctx, r.cfg.Timeout)
	defer cancel()
	models, err := p.fetch(ctx)
	return r.land(p, f, models, err)
}

// fetch calls the lister. One that panics fails; one that does not return
// after its time limit is left behind, and the provider is not asked again
// until it did.
func (p *provider) fetch(ctx context.Context) ([]Model, *ListError) {
	if p.hung.Load() > 0 {
		return nil, &ListError{Reason: ReasonHung}
	}
	type answer struct {
		models []Model
		err    *ListError
	}
	got := make(chan answer) // unbuffered: either it is taken or the lister came too late
	late := make(chan struct{})
	go func() {
		// Also what a runtime.Goexit in the lister leaves behind.
		a := answer{err: &ListError{Reason: ReasonPanic}}
		defer func() {
			_ = recover()
			select {
			case got <- a:
			case <-late:
				p.hung.Add(-1)
			}
		}()
		models, err := p.Lister.ListModels(ctx)
		if err != nil {
			// Here, since it calls methods of the lister's error.
			a = answer{err: asListError(err)}
			return
		}
		a = answer{models: models}
	}()
	var a answer
	select {
	case a = <-got:
	case <-ctx.Done():
		t := time.NewTimer(hungGrace)
		defer t.Stop()
		select {
		case a = <-got:
		case <-t.C:
			p.hung.Add(1)
			close(late)
			return nil, &ListError{Reason: ReasonTimeout, Err: ctx.Err()}
		}
	}
	if len(a.models) > maxModels {
		return nil, tooLarge("%d models", maxModels)
	}
	return tidy(p.Name, a.models), a.err
}

// land records how a fetch ended, unless one that began later has ended
// before it, or it was ended early.
func (r *Registry) land(p *provider, f *fetch, models []Model, failure *ListError) error {
	r.mu.Lock()
	r.forget(p, f)
	if f.ctx.Err() != nil {
		r.mu.Unlock()
		return errStopping
	}
	note := func() {}
	if f.seq > p.applied {
		p.applied = f.seq
		note, failure = r.apply(p, models, failure)
	} // else one that began later has said more
	p.rememberMisses(f)
	r.mu.Unlock()
	note()
	if failure != nil {
		return failure
	}
	return nil
}

// forget makes whoever asks from now on begin anew. The caller holds mu.
func (r *Registry) forget(p *provider, f *fetch) {
	if p.forced == f {
		p.forced = nil
		r.refreshes.Forget(p.Name)
	}
	if p.background == f {
		p.background = nil
		r.background.Forget(p.Name)
	}
}

// apply puts a result into the provider's state. It returns what to log, to be
// called without the lock, and the error of the refresh.
func (r *Registry) apply(p *provider, models []Model, failure *ListError) (func(), *ListError) {
	now := time.Now()
	p.answered, p.checked = true, now
	if failure == nil && len(models) == 0 && len(p.inventory) > 0 {
		failure = &ListError{Reason: ReasonEmpty}
	}
	was, wasErr := p.failed, p.err
	p.failed, p.err = failure != nil, failure
	if failure == nil {
		p.good, p.lastGood, p.inventoryFrom = true, now, SourceLive
	}
	changed := failure == nil && !slices.Equal(models, p.inventory)
	if changed {
		p.inventory = models
	}
	if changed || was != p.failed {
		r.version.Add(1)
	}
	r.judge()
	if failure == nil && r.cfg.CacheFile != "" && len(models) > 0 {
		r.dirty.Store(true)
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	switch summary := failure.summary(); {
	case failure != nil && was && wasErr.summary() == summary:
		return func() {}, failure // one line for each change, not for each recheck
	case failure != nil:
		return func() { r.log.Warn("model list failed", "provider", p.Name, "reason", summary) }, failure
	case was:
		return func() { r.log.Info("model list recovered", "provider", p.Name, "models", len(models)) }, nil
	}
	return func() {}, nil
}
