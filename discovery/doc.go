// Package discovery knows which models can be served now and how the providers
// are.
//
// Most callers make one [Registry] with [NewRegistry], add each provider with
// a lister from [NewLister], keep [Registry.Run] going until shutdown, give
// [Registry.Observe] to the resilience Builder as OnCall, and mount
// [Registry.Handler]:
//
//	reg, err := discovery.NewRegistry(discovery.Config{CacheFile: "/var/lib/app/models.json"})
//	lister, err := discovery.NewLister(discovery.ListerConfig{Type: "openai", Header: header})
//	err = reg.Add(discovery.Provider{Name: "openai", Lister: lister, Breakers: stack.Breakers, Holds: stack.Holds})
//	go reg.Run(ctx)
//
// # Where models come from
//
// In this order: the last list that the upstream gave (from memory, at start
// from the cache file), the configured models, the catalogue. A live list
// replaces a substitute as soon as one fetch succeeds. In allowlist mode the
// configured models are all there is and the upstream is never asked.
//
// # When a list cannot be had
//
// A failed refresh replaces nothing: the provider is Offline, its models are
// stale, [Registry.Models] hides them and [Registry.Available] says no, while
// [Registry.Resolve] still finds them, so that direct calls go out. When all
// providers fail at once, the fault is probably on our side of the network:
// everything stays listed and routable, and shows Degraded. A provider that
// serves configured models and is never asked has not failed, so beside one the
// others are Offline.
// Substitutes are not made stale by a failure: they are what one serves from
// when there is no list.
//
// An empty list from an upstream that had models, an error object or a page of
// HTML in a 200, a page that fails halfway and a page cursor that repeats are
// failed refreshes.
//
// The page shows each provider's status with what passed through it in the last
// ten minutes, its holds, its places, and the last failovers, of which a chain
// tells by failover.Policy.OnFailover: give them to [Registry.ObserveFailover].
// config.Assemble does all of this.
//
// What a list may cost is bounded, see [NewLister]. A lister, a hook, a log
// handler or an error of theirs that panics or exits its goroutine fails that
// one refresh or hook, is reported, and harms nothing else; a lister that does
// not return is left behind.
//
// # Status
//
// A provider's status is the worst of what discovery says, of a ten-minute
// window of real calls (a model with at least 3 failures that are at least
// half of its calls is failing) and of its breaker. Keys that are held by a limit
// of the provider are shown beside it and do not change it.
package discovery
