package discovery

import (
	"context"
	"slices"
	"time"
)

// hungGrace is how long after its time limit a lister may take to return.
const hungGrace = time.Second

// fetch calls the lister. One that panics fails; one that does not return
// after its time limit is left behind, and the provider is not asked again
// until it did.
func (p *provider) fetch(ctx context.Context) ([]Model, error) {
	if p.hung.Load() > 0 {
		return nil, &ListError{Reason: ReasonHung}
	}
	type answer struct {
		models []Model
		err    error
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
		a = answer{models, err}
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
	if a.err == nil && len(a.models) > maxModels {
		a.err = &ListError{Reason: ReasonTooLarge}
	}
	return tidy(p.Name, a.models), a.err
}

// land records how a fetch ended, unless one that began later has ended
// before it.
func (r *Registry) land(p *provider, f *flight, models []Model, err error) {
	r.mu.Lock()
	if p.forced == f {
		p.forced = nil
	}
	if p.background == f {
		p.background = nil
	}
	var note func()
	switch {
	case f.dropped:
		err, f.stopped = context.Canceled, true
	case f.seq > p.applied:
		p.applied = f.seq
		note, err = r.apply(p, models, err)
		fallthrough
	default: // one that began later has told more
		p.rememberMisses(f)
	}
	f.err = err
	r.mu.Unlock()
	if note != nil {
		note()
	}
	close(f.done)
}

// apply puts a result into the provider's state. It returns what to log, to be
// called without the lock, and the error of the refresh.
func (r *Registry) apply(p *provider, models []Model, err error) (func(), error) {
	now := time.Now()
	p.answered, p.checked = true, now
	if err == nil && len(models) == 0 && len(p.inventory) > 0 {
		err = &ListError{Reason: ReasonEmpty}
	}
	was, wasErr := p.failed, p.err
	if err != nil {
		p.failed, p.err = true, asListError(err)
		if !was {
			r.version.Add(1)
		}
		r.judge()
		if was && wasErr.summary() == p.err.summary() {
			return nil, err // one line for each change, not for each recheck
		}
		summary := p.err.summary()
		return func() { r.log.Warn("model list failed", "provider", p.Name, "reason", summary) }, err
	}
	p.failed, p.err, p.good, p.lastGood = false, nil, true, now
	if was || !slices.Equal(models, p.inventory) {
		p.inventory = models
		r.version.Add(1)
	}
	p.inventoryFrom = SourceLive
	r.judge()
	if r.cfg.CacheFile != "" && len(models) > 0 {
		r.dirty.Store(true)
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	if was {
		return func() { r.log.Info("model list recovered", "provider", p.Name, "models", len(models)) }, nil
	}
	return nil, nil
}
