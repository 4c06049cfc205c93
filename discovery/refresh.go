package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// saveDelay gathers the lists of one round into one write of the cache file.
const saveDelay = time.Second

// flight is one fetch of one provider's list, waited for by any number of
// callers. It belongs to none of them: each may stop waiting. It ends early
// when Run ends or, where nobody keeps Run going, when the last of them left.
type flight struct {
	seq    uint64
	cancel context.CancelFunc
	done   chan struct{}

	// Valid once done is closed.
	err     error
	stopped bool // ended early: err says nothing of the provider

	// Guarded by Registry.mu.
	waiters int
	dropped bool                // to end early: nothing is recorded
	wanted  map[string]struct{} // models that it was begun or joined for
}

// Run asks every provider, then again every refresh interval, and those that
// failed every recheck interval, until ctx is done. It waits for no slow
// provider, and keeps the cache file up to date. When ctx is done it ends the
// fetches that are under way and the live streams of the status page, and
// returns nil with no goroutine left. A second Run at the same time is an
// error.
func (r *Registry) Run(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	r.mu.Lock()
	if r.running || r.closing {
		r.mu.Unlock()
		return errors.New("discovery: the registry is running already")
	}
	r.running = true
	select {
	case <-r.over: // a second life
		r.over = make(chan struct{})
	default:
	}
	r.mu.Unlock()
	defer r.stop()

	r.start(func(*provider) bool { return true })
	refresh, stopRefresh := every(r.cfg.RefreshInterval)
	defer stopRefresh()
	recheck, stopRecheck := every(r.cfg.RecheckInterval)
	defer stopRecheck()
	var save <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-refresh:
			r.start(func(*provider) bool { return true })
		case <-recheck:
			r.start(func(p *provider) bool { return p.failed })
		case <-r.wake:
			if save == nil {
				save = time.After(saveDelay)
			}
		case <-save:
			save = nil
			r.save()
		}
	}
}

func every(d time.Duration) (<-chan time.Time, func()) {
	if d < 0 {
		return nil, func() {}
	}
	t := time.NewTicker(d)
	return t.C, t.Stop
}

// stop ends what is under way and waits for it.
func (r *Registry) stop() {
	r.mu.Lock()
	r.closing = true
	var under []*flight
	for _, p := range r.table.Load().order {
		for _, f := range []*flight{p.background, p.forced} {
			if f != nil {
				f.drop()
				under = append(under, f)
			}
		}
	}
	r.mu.Unlock()
	for _, f := range under {
		<-f.done
	}
	r.save()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running, r.closing = false, false
	close(r.over)
}

// start asks the providers that want tells, which runs under the lock.
func (r *Registry) start(want func(*provider) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.table.Load().order {
		if p.asked && want(p) {
			r.startLocked(p, false)
		}
	}
}

// Refresh asks the named providers now, all of them if none is named, and
// waits until they have answered or ctx is done; while Run is going, a fetch
// that outlives its callers goes on up to the time limit. Refreshes at the
// same time share one fetch a provider. A Refresh does not join a fetch of
// the loops or of a look-up, which may have begun before whatever made the
// caller ask; the result of the fetch that began last stays. The error joins
// those of the providers that failed or that nobody added.
func (r *Registry) Refresh(ctx context.Context, providers ...string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("discovery: refresh: %w", ended(ctx))
	}
	t := r.table.Load()
	ps := t.order
	var errs []error
	if len(providers) > 0 {
		ps = nil
		for _, name := range providers {
			if p := t.byName[name]; p == nil {
				errs = append(errs, fmt.Errorf("discovery: refresh: no provider %q", clip(name, 64)))
			} else if !slices.Contains(ps, p) {
				ps = append(ps, p)
			}
		}
	}
	flights := make([]*flight, len(ps))
	r.mu.Lock()
	for i, p := range ps {
		if p.asked {
			flights[i] = r.startLocked(p, true)
			flights[i].waiters++
		}
	}
	r.mu.Unlock()
	for i, f := range flights {
		if f == nil {
			continue
		}
		if err := r.wait(ctx, f); err != nil {
			errs = append(errs, fmt.Errorf("provider %s: %w", ps[i].Name, err))
		}
	}
	if ctx.Err() == nil {
		r.save()
	}
	return errors.Join(errs...)
}

// wait returns how a fetch ended, or the reason of ctx if that is done before.
// The caller has counted itself among the waiters.
func (r *Registry) wait(ctx context.Context, f *flight) error {
	defer r.leave(f)
	select {
	case <-f.done:
		return f.err
	default:
	}
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ended(ctx)
	}
}

// ended is why ctx is done: its error and, where there is one, the caller's
// cause.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

func (r *Registry) leave(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.waiters--; f.waiters == 0 && !r.running {
		f.drop()
	}
}

func (f *flight) drop() {
	f.dropped = true
	f.cancel()
}

// startLocked joins the fetch that is under way or begins one. The caller
// holds mu.
func (r *Registry) startLocked(p *provider, forced bool) *flight {
	switch {
	case p.forced != nil && !p.forced.dropped:
		return p.forced
	case p.background != nil && !p.background.dropped && !forced:
		return p.background
	}
	f := &flight{done: make(chan struct{}), cancel: func() {}}
	if r.closing {
		f.err, f.stopped = context.Canceled, true
		close(f.done)
		return f
	}
	// The fetch belongs to all who wait, so no caller's context goes in.
	ctx := context.WithValue(context.Background(), probeKey{}, true)
	ctx, f.cancel = context.WithTimeout(ctx, r.cfg.Timeout)
	p.seq++
	f.seq = p.seq
	if forced {
		p.forced = f
	} else {
		p.background = f
	}
	go func() {
		defer f.cancel()
		models, err := p.fetch(ctx)
		r.land(p, f, models, err)
	}()
	return f
}
