package discovery

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// Registry holds the models of each provider and how the providers are. Make
// it with [NewRegistry]; all methods are safe for concurrent use.
type Registry struct {
	cfg   Config
	log   *slog.Logger
	cache map[string]cacheEntry // what the file held at start; read-only
	page  *pageState

	table   atomic.Pointer[table]   // copied on Add, so that look-ups take no lock
	listing atomic.Pointer[listing] // what Models returned last
	version atomic.Uint64           // changes with what Models returns; written under mu

	refreshes, background singleflight.Group // fetches of Refresh, and of the loops and look-ups

	mu      sync.RWMutex // guards what follows and the fields of each provider that say so
	allDown bool
	running bool
	closing bool               // Run is ending: no new fetch
	life    context.Context    // of all fetches: ends with Run
	end     context.CancelFunc // ends life
	over    chan struct{}      // closed when Run ends

	moves failovers

	dirty  atomic.Bool   // the cache file is behind
	wake   chan struct{} // tells Run so
	saving sync.Mutex
}

// table is the providers in the order of Add.
type table struct {
	order  []*provider
	byName map[string]*provider
}

// provider is one provider and what is known of it.
type provider struct {
	Provider
	asked          bool    // it has a lister that may be asked
	substitute     []Model // configured models or the catalogue
	substituteFrom string
	window         window
	available      atomic.Bool
	hung           atomic.Int32 // fetches that outlived their time limit
	faulty         sync.Map     // names of the hooks that panicked when they were called last

	// Guarded by Registry.mu.
	inventory     []Model // the last list, sorted by ID; never written to once here
	inventoryFrom string
	answered      bool // a refresh ended since start
	good          bool // a refresh ever succeeded, in an earlier life too
	failed        bool // the last one did not
	err           *ListError
	checked       time.Time
	lastGood      time.Time
	background    *fetch // under way for the loops or for a look-up
	forced        *fetch // under way for Refresh
	seq, applied  uint64 // number of the last fetch begun, and of the last one whose result stands
	misses        misses
}

type listing struct {
	version uint64
	models  []Model
}

// NewRegistry returns an empty registry. It reads the cache file, if there is
// one; one that cannot be read or is damaged is logged and ignored. It fails
// on a Config that is not valid.
func NewRegistry(c Config) (*Registry, error) {
	c, err := c.resolved()
	if err != nil {
		return nil, err
	}
	r := &Registry{
		cfg:  c,
		log:  slog.New(slog.DiscardHandler),
		page: newPageState(rand.Text()),
		over: make(chan struct{}),
		wake: make(chan struct{}, 1),
	}
	if c.Logger != nil {
		r.log = slog.New(quietHandler{c.Logger.Handler()})
	}
	r.life, r.end = context.WithCancel(context.Background())
	r.table.Store(&table{byName: map[string]*provider{}})
	if c.CacheFile != "" {
		r.cache = r.loadCache()
	}
	return r, nil
}

// Add registers a provider. While Run is going the provider is asked at once.
// It fails where the name is empty, has a slash or is taken, and where the
// mode is unknown.
func (r *Registry) Add(p Provider) error {
	if err := checkProvider(p); err != nil {
		return err
	}
	np := newProvider(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.table.Load()
	if old.byName[p.Name] != nil {
		return fmt.Errorf("discovery: provider %s is there already", p.Name)
	}
	if e, ok := r.cache[p.Name]; ok && np.asked && e.Origin == originOf(p.Lister) {
		np.inventory, np.inventoryFrom = e.models(p.Name), SourceCache
		np.good, np.lastGood = true, e.Fetched
	}
	next := &table{order: append(slices.Clone(old.order), np), byName: make(map[string]*provider, len(old.byName)+1)}
	for _, q := range next.order {
		next.byName[q.Name] = q
	}
	r.table.Store(next)
	r.version.Add(1)
	r.judge()
	if r.running && np.asked {
		r.startLocked(np, false, "")
	}
	return nil
}

func checkProvider(p Provider) error {
	switch {
	case p.Name == "":
		return errors.New("discovery: a provider needs a name")
	case strings.Contains(p.Name, "/"):
		return fmt.Errorf("discovery: provider name %q holds a slash, which separates provider and model", p.Name)
	case !validName(p.Name):
		return fmt.Errorf("discovery: provider name %q is too long or holds white space at its ends or control characters", clip(p.Name, 64))
	}
	switch p.Mode {
	case "", ModeFallback, ModeAllowlist:
		return nil
	}
	return fmt.Errorf("discovery: provider %s: unknown models mode %q, want fallback or allowlist", p.Name, p.Mode)
}

func newProvider(p Provider) *provider {
	np := &provider{Provider: p, asked: p.Lister != nil && p.Mode != ModeAllowlist}
	np.substitute, np.substituteFrom = named(p.Name, p.Models), SourceConfigured
	if len(np.substitute) == 0 && p.Mode != ModeAllowlist {
		np.substitute, np.substituteFrom = named(p.Name, p.Catalog), SourceCatalog
	}
	if len(np.substitute) == 0 {
		np.substituteFrom = ""
	}
	np.Models, np.Catalog = nil, nil // the caller's slices
	return np
}

// named makes models of configured names; blanks go.
func named(provider string, ids []string) []Model {
	var ms []Model
	for _, id := range ids {
		ms = append(ms, Model{ID: strings.TrimSpace(id)})
	}
	return tidy(provider, ms)
}

// tidy returns a copy that is sorted, without duplicates and without names
// that no request could carry. It bounds what a custom lister may say.
func tidy(provider string, ms []Model) []Model {
	out := make([]Model, 0, len(ms))
	for _, m := range ms {
		if validName(m.ID) {
			m.Provider, m.Stale, m.OwnedBy = provider, false, clip(m.OwnedBy, maxOwnerBytes)
			out = append(out, m)
		}
	}
	slices.SortStableFunc(out, func(a, b Model) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(out, func(a, b Model) bool { return a.ID == b.ID })
}

// serving returns what the provider's models are now, and where from.
func (p *provider) serving() ([]Model, string) {
	if len(p.inventory) > 0 {
		return p.inventory, p.inventoryFrom
	}
	return p.substitute, p.substituteFrom
}

// stale reports whether the models are those of a provider that is offline.
// Substitutes are not: they serve exactly when there is no list.
func (p *provider) stale(allDown bool) bool {
	return p.failed && !allDown && len(p.inventory) > 0
}

// judge applies the rule for all providers failing at once and renews what
// Available answers. A provider that is never asked and serves configured
// models has not failed. The caller holds mu and has changed the state of a
// provider.
func (r *Registry) judge() {
	ps := r.table.Load().order
	failed, sound := false, false
	for _, p := range ps {
		failed = failed || p.failed
		sound = sound || !p.failed && (p.asked || len(p.substitute) > 0)
	}
	all := failed && !sound
	if all != r.allDown {
		r.allDown = all
		r.version.Add(1)
	}
	for _, p := range ps {
		p.available.Store(!p.failed || all || len(p.inventory) == 0 && len(p.substitute) > 0)
	}
}

// Models returns what may be offered now: all models of providers that are not
// offline, in the order of Add and then by name. The slice is shared between
// callers until something changes and must not be written to.
func (r *Registry) Models() []Model {
	if l := r.listing.Load(); l != nil && l.version == r.version.Load() {
		return l.models
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	ps := r.table.Load().order
	n := 0
	for _, p := range ps {
		if ms, _ := p.serving(); !p.stale(r.allDown) {
			n += len(ms)
		}
	}
	models := make([]Model, 0, n)
	for _, p := range ps {
		if ms, _ := p.serving(); !p.stale(r.allDown) {
			models = append(models, ms...)
		}
	}
	r.listing.Store(&listing{version: r.version.Load(), models: models})
	return models
}

// Available reports whether calls to the provider have a chance as far as
// discovery knows: false for one that is offline, or whose list was never had
// and that has no configured models, unless all providers fail at once, and
// for one that was never added. Breakers do not enter: whoever sends asks them
// anyway. It takes no lock. A failover.Target asks it by a closure over the
// provider's name: func() bool { return reg.Available("openai") }.
func (r *Registry) Available(provider string) bool {
	p := r.table.Load().byName[provider]
	return p != nil && p.available.Load()
}

// probeKey marks the context of the registry's own requests.
type probeKey struct{}

// isProbe asks a context that may be of somebody else's type.
func isProbe(ctx context.Context) bool {
	defer func() { _ = recover() }()
	return ctx != nil && ctx.Value(probeKey{}) != nil
}
