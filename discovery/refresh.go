package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"
)

// saveDelay gathers the lists of one round into one write of the cache file.
const saveDelay = time.Second

// errStopping is the error of a fetch that Run's end cut short.
var errStopping = fmt.Errorf("the registry is stopping: %w", context.Canceled)

// joined is a fetch and where its result comes.
type joined struct {
	p    *provider
	f    *fetch
	done <-chan singleflight.Result
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
	r.end()
	var under []<-chan singleflight.Result
	for _, p := range r.table.Load().order {
		if p.forced != nil {
			under = append(under, r.joinLocked(p, &r.refreshes, p.forced).done)
		}
		if p.background != nil {
			under = append(under, r.joinLocked(p, &r.background, p.background).done)
		}
	}
	r.mu.Unlock()
	for _, done := range under {
		<-done
	}
	r.save()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.life, r.end = context.WithCancel(context.Background())
	r.running, r.closing = false, false
	close(r.over)
}

// start asks the providers that want selects; it runs under the lock.
func (r *Registry) start(want func(*provider) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.table.Load().order {
		if p.asked && want(p) {
			r.startLocked(p, false, "")
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
	var fetches []joined
	r.mu.Lock()
	for _, p := range ps {
		if p.asked {
			j := r.startLocked(p, true, "")
			j.f.waiters++
			fetches = append(fetches, j)
		}
	}
	r.mu.Unlock()
	for _, j := range fetches {
		if err := r.wait(ctx, j); err != nil {
			errs = append(errs, fmt.Errorf("provider %s: %w", j.p.Name, err))
		}
	}
	if ctx.Err() == nil {
		r.save()
	}
	return errors.Join(errs...)
}

// wait returns how a fetch ended, or the reason of ctx if that is done before.
// The caller has counted itself among the waiters.
func (r *Registry) wait(ctx context.Context, j joined) error {
	defer r.leave(j)
	select {
	case res := <-j.done:
		return res.Err
	default:
	}
	select {
	case res := <-j.done:
		return res.Err
	case <-ctx.Done():
		return ended(ctx)
	}
}

func (r *Registry) leave(j joined) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j.f.waiters--; j.f.waiters == 0 && !r.running {
		r.forget(j.p, j.f)
		j.f.cancel()
	}
}

// ended is why ctx is done: its error and, where there is one, the caller's
// cause.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(contained(cause), err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, contained(cause))
}

// startLocked joins the fetch that is under way or begins one. A look-up joins
// a forced one, too, and says which model it wants. The caller holds mu.
func (r *Registry) startLocked(p *provider, forced bool, model string) joined {
	group, under := &r.background, &p.background
	if forced || p.forced != nil {
		group, under = &r.refreshes, &p.forced
	}
	if *under == nil {
		if r.closing {
			stopping := make(chan singleflight.Result, 1)
			stopping <- singleflight.Result{Err: errStopping}
			return joined{p, &fetch{cancel: func() {}}, stopping}
		}
		// The fetch belongs to all who wait, so no caller's context goes in.
		p.seq++
		f := &fetch{seq: p.seq}
		f.ctx, f.cancel = context.WithCancel(context.WithValue(r.life, probeKey{}, true))
		*under = f
	}
	if model != "" {
		(*under).want(model)
	}
	return r.joinLocked(p, group, *under)
}

// joinLocked begins f or, if it is under way, joins it. The caller holds mu.
func (r *Registry) joinLocked(p *provider, group *singleflight.Group, f *fetch) joined {
	return joined{p, f, group.DoChan(p.Name, func() (any, error) { return nil, r.run(p, f) })}
}
