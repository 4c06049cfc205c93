package discovery_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/resilience"
)

// world is 200 providers of 500 models each.
func world(b *testing.B) *discovery.Registry {
	b.Helper()
	r, err := discovery.NewRegistry(discovery.Config{})
	require.NoError(b, err)
	for p := range 200 {
		ms := make([]discovery.Model, 500)
		for m := range ms {
			ms[m] = discovery.Model{ID: fmt.Sprintf("family/model-%d-%d", p, m), OwnedBy: "owner"}
		}
		l := listFunc(func(context.Context) ([]discovery.Model, error) { return ms, nil })
		require.NoError(b, r.Add(discovery.Provider{Name: fmt.Sprintf("provider-%d", p), Lister: l}))
	}
	require.NoError(b, r.Refresh(b.Context()))
	return r
}

func BenchmarkWorldRefresh(b *testing.B) {
	r := world(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWorldModels(b *testing.B) {
	r := world(b)
	b.ReportAllocs()
	for b.Loop() {
		if len(r.Models()) != 100_000 {
			b.Fatal("models are missing")
		}
	}
}

func BenchmarkWorldResolve(b *testing.B) {
	r := world(b)
	for _, name := range []string{"provider-150/family/model-150-250", "family/model-150-250"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Resolve(b.Context(), name); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkWorldStatus(b *testing.B) {
	r := world(b)
	b.ReportAllocs()
	for b.Loop() {
		r.Status()
	}
}

func BenchmarkAvailable(b *testing.B) {
	r := world(b)
	b.ReportAllocs()
	for b.Loop() {
		r.Available("provider-150")
	}
}

func BenchmarkObserve(b *testing.B) {
	r := world(b)
	c := resilience.Call{Provider: "provider-7", Model: "m", Status: 200, Outcome: resilience.OutcomeSuccess}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		r.Observe(ctx, c)
	}
}
