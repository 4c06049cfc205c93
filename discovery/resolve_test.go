package discovery_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/discovery"
)

func TestResolveNames(t *testing.T) {
	off := newFake("both", "only-off")
	r := registry(t, discovery.Config{},
		discovery.Provider{Name: "off", Lister: off},
		discovery.Provider{Name: "on", Lister: newFake("both", "meta/llama")},
		discovery.Provider{Name: "openrouter", Lister: newFake("openrouter/auto", "meta/llama")})
	require.NoError(t, r.Refresh(t.Context()))
	off.set(errDown)
	require.Error(t, r.Refresh(t.Context()))
	for name, want := range map[string]string{
		"off/both":        "off/both stale",
		"on/both":         "on/both",
		"both":            "on/both", // the first that is not offline
		"only-off":        "off/only-off stale",
		"meta/llama":      "on/meta/llama",
		"on/meta/llama":   "on/meta/llama",
		"openrouter/auto": "openrouter/openrouter/auto",
	} {
		m, err := r.Resolve(t.Context(), name)
		require.NoError(t, err, name)
		got := m.Name()
		if m.Stale {
			got += " stale"
		}
		assert.Equal(t, want, got)
	}
	for _, name := range []string{"", "/", "on/", "on/nope", "nope", "nobody/both", "on/" + strings.Repeat("x", 1<<20)} {
		_, err := r.Resolve(t.Context(), name)
		require.ErrorIs(t, err, discovery.ErrUnknownModel, clipped(name))
		var re *discovery.ResolveError
		require.ErrorAs(t, err, &re)
		assert.Equal(t, 404, re.StatusCode())
		assert.Less(t, len(err.Error()), 1000)
	}
	_, err := r.Resolve(t.Context(), "off/unheard-of")
	require.ErrorIs(t, err, discovery.ErrUnavailable, "nobody can say")
}

func clipped(s string) string { return s[:min(len(s), 20)] }

func TestResolveFindsANewModel(t *testing.T) {
	f := newFake("a")
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: f})
	require.NoError(t, r.Refresh(t.Context()))
	_, err := r.Resolve(t.Context(), "p/b")
	require.ErrorIs(t, err, discovery.ErrUnknownModel)
	f.set(nil, "a", "c")
	m, err := r.Resolve(t.Context(), "p/c")
	require.NoError(t, err)
	assert.Equal(t, "p/c", m.Name())
	f.set(nil, "a", "b")
	_, err = r.Resolve(t.Context(), "p/b")
	require.ErrorIs(t, err, discovery.ErrUnknownModel, "remembered for a minute")
}

// A call that names a model which a provider's list lacks goes out at once, and
// the list is fetched meanwhile (contract 8).
func TestLookForWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, other := newFake("a"), newFake("b")
		hold := make(chan struct{})
		var held atomic.Bool
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: listFunc(func(ctx context.Context) ([]discovery.Model, error) {
			if held.Load() {
				<-hold
			}
			return f.ListModels(ctx)
		})}, discovery.Provider{Name: "q", Lister: other})
		r.LookFor("p/new")
		synctest.Wait()
		assert.Zero(t, f.count.Load(), "nothing is sent without Run")

		defer run(t, r)()
		synctest.Wait()
		held.Store(true)
		f.set(nil, "a", "new")
		for range 1000 {
			r.LookFor("p/new")
			r.LookFor("p/a")
			r.LookFor("p/")
			r.LookFor("new")
			r.LookFor("nobody/new")
		}
		synctest.Wait()
		close(hold)
		synctest.Wait()
		assert.EqualValues(t, 2, f.count.Load(), "at start, and for all of them")
		assert.EqualValues(t, 1, other.count.Load())
		m, err := r.Resolve(t.Context(), "p/new")
		require.NoError(t, err)
		assert.Equal(t, "p/new", m.Name())
		for range 2 {
			before := f.count.Load()
			for i := range 1000 {
				r.LookFor(fmt.Sprint("p/made-up-", before, i))
				synctest.Wait()
			}
			assert.InDelta(t, 4, f.count.Load()-before, 1, "whatever is asked for, and after a long time of nothing, too")
			time.Sleep(50 * time.Minute)
		}
	})
}

func TestResolveIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("a")
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: f})
		require.NoError(t, r.Refresh(t.Context()))
		for range 1000 {
			_, err := r.Resolve(t.Context(), "p/same")
			require.ErrorIs(t, err, discovery.ErrUnknownModel)
		}
		assert.EqualValues(t, 2, f.count.Load())
		for i := range 1000 {
			_, err := r.Resolve(t.Context(), fmt.Sprintf("p/n%d", i))
			require.ErrorIs(t, err, discovery.ErrUnknownModel)
		}
		assert.LessOrEqual(t, f.count.Load(), int64(6))
		time.Sleep(time.Minute)
		f.set(nil, "a", "same")
		_, err := r.Resolve(t.Context(), "p/same")
		require.NoError(t, err, "not forgotten for ever")
	})
}

func TestResolveWaitsNoLongerThanItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: listFunc(func(ctx context.Context) ([]discovery.Model, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		_, err := r.Resolve(ctx, "p/a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 100*time.Millisecond, time.Since(begin))
		var re *discovery.ResolveError
		require.ErrorAs(t, err, &re)
		assert.Equal(t, 504, re.StatusCode())
		gone, leave := context.WithCancel(t.Context())
		leave()
		_, err = r.Resolve(gone, "p/a")
		require.ErrorAs(t, err, &re)
		assert.Equal(t, 0, re.StatusCode())
	})
}

// The lists' age does not depend on the wall clock: what is remembered ends
// by the monotonic one, which synctest moves together with timers.
func TestCaseD10_MemoryEndsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("a")
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: f})
		require.NoError(t, r.Refresh(t.Context()))
		_, err := r.Resolve(t.Context(), "p/b")
		require.Error(t, err)
		f.set(nil, "b")
		time.Sleep(time.Minute - time.Nanosecond)
		_, err = r.Resolve(t.Context(), "p/b")
		require.Error(t, err)
		time.Sleep(time.Nanosecond)
		_, err = r.Resolve(t.Context(), "p/b")
		require.NoError(t, err)
	})
}

// Look-ups that overlap are one fetch, however quick it is: nobody comes
// between its end and the memory of what it did not bring.
func TestResolveAtOnceIsOneFetch(t *testing.T) {
	for range 20 {
		f := newFake("a")
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: f})
		require.NoError(t, r.Refresh(t.Context()))
		f.set(nil, "a", "new")
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range 100 {
			wg.Go(func() {
				<-start
				name := "p/nope"
				if i%2 == 0 {
					name = "p/new"
				}
				m, err := r.Resolve(context.WithoutCancel(t.Context()), name)
				if i%2 == 0 {
					assert.NoError(t, err)
					assert.Equal(t, "new", m.ID)
				} else {
					assert.ErrorIs(t, err, discovery.ErrUnknownModel)
				}
			})
		}
		close(start)
		wg.Wait()
		// "new" finds the list of the fetch for "nope" or the other way round;
		// at most the first of each begins one.
		require.LessOrEqual(t, f.count.Load(), int64(3))
	}
}

// A caller that gave up does not make the next one fetch again.
func TestResolveRemembersForWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fetches := 0
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: listFunc(func(context.Context) ([]discovery.Model, error) {
			fetches++
			time.Sleep(time.Second)
			return models("a"), nil
		})})
		defer run(t, r)()
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := r.Resolve(ctx, "p/nope")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(2 * time.Second)
		_, err = r.Resolve(t.Context(), "p/nope")
		require.ErrorIs(t, err, discovery.ErrUnknownModel)
		assert.Equal(t, 2, fetches)
	})
}

// What a look-up could not tell is not repeated once the list is known.
func TestResolveAnswersByWhatIsKnownNow(t *testing.T) {
	f := newFake("a")
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: f})
	require.NoError(t, r.Refresh(t.Context()))
	f.set(errDown)
	_, err := r.Resolve(t.Context(), "p/nope")
	require.ErrorIs(t, err, discovery.ErrUnavailable)
	f.set(nil, "a")
	require.NoError(t, r.Refresh(t.Context()))
	_, err = r.Resolve(t.Context(), "p/nope")
	require.ErrorIs(t, err, discovery.ErrUnknownModel)
	assert.EqualValues(t, 3, f.count.Load(), "remembered all the same")
}

func TestResolveErrorIsWholeText(t *testing.T) {
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}})
	for i := range 4 {
		_, err := r.Resolve(t.Context(), strings.Repeat("x", i)+strings.Repeat("🂡", 1000))
		var re *discovery.ResolveError
		require.ErrorAs(t, err, &re)
		assert.True(t, utf8.ValidString(re.Name), "cut inside a character")
	}
}
