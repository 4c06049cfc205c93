package breaker_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
)

func take(t *testing.T, m *breaker.Map, key string) *breaker.Permit {
	t.Helper()
	p := new(breaker.Permit)
	require.NoError(t, m.Admit(key, p))
	return p
}

func keys(m *breaker.Map) (out []string) {
	for _, s := range m.Snapshots() {
		out = append(out, s.Key)
	}
	return out
}

func state(t *testing.T, m *breaker.Map, key string) breaker.State {
	t.Helper()
	for _, s := range m.Snapshots() {
		if s.Key == key {
			return s.State
		}
	}
	t.Fatalf("no breaker %q", key)
	return 0
}

// smallModels is smallPolicy with a breaker a model.
func smallModels() breaker.Policy {
	p := smallPolicy()
	p.Scope = breaker.ScopeModel
	return p
}

// fill makes n breakers, m0 the longest idle.
func fill(t *testing.T, m *breaker.Map, n int) {
	t.Helper()
	for i := range n {
		take(t, m, fmt.Sprintf("m%d", i)).Settle(s)
	}
}

func TestMapScopes(t *testing.T) {
	t.Run("provider: one breaker", func(t *testing.T) {
		m := newMap(t, smallPolicy())
		take(t, m, "a").Settle(f)
		take(t, m, "b").Settle(f)
		take(t, m, "").Settle(f)
		assert.Equal(t, []string{""}, keys(m))
		err := m.Peek("c")
		require.NotNil(t, err)
		assert.Empty(t, err.Key)
		m.Reset("d")
		require.Nil(t, m.Peek("a"))
		m.ForceOpen("e", time.Hour)
		assert.Equal(t, breaker.Open, state(t, m, ""))
	})
	t.Run("model: one each, and the provider's own", func(t *testing.T) {
		m := newMap(t, smallModels())
		for range 3 {
			take(t, m, "a").Settle(f)
		}
		require.NotNil(t, m.Peek("a"))
		assert.Equal(t, "a", errorOf(m.Admit("a", new(breaker.Permit))).Key)
		require.Nil(t, m.Peek("b"))
		take(t, m, "b").Settle(s)
		take(t, m, "").Settle(s)
		assert.Equal(t, []string{"", "a", "b"}, keys(m))
		m.ForceOpen("", time.Hour)
		require.NotNil(t, m.Peek(""))
		require.Nil(t, m.Peek("b"))
		m.Reset("")
		m.Reset("unknown")
		require.Nil(t, m.Peek("unknown"))
		assert.Equal(t, []string{"", "a", "b"}, keys(m), "neither makes a breaker")
		m.ForceOpen("new", time.Hour)
		assert.Equal(t, breaker.Open, state(t, m, "new"))
	})
}

func TestMapExpiry(t *testing.T) {
	const idle = 10 * time.Minute
	for name, row := range map[string]struct {
		use  func(*testing.T, *breaker.Map)
		gone bool // at 10 minutes of sleep after use
	}{
		"closed": {func(t *testing.T, m *breaker.Map) { take(t, m, "x").Settle(f) }, true},
		"in use": {func(t *testing.T, m *breaker.Map) { take(t, m, "x") }, false},
		"used by two, one of them gone": {func(t *testing.T, m *breaker.Map) {
			take(t, m, "x")
			take(t, m, "x").Settle(s)
		}, false},
		"a long call, idle since its end": {func(t *testing.T, m *breaker.Map) {
			p := take(t, m, "x")
			time.Sleep(time.Hour)
			p.Settle(s)
		}, true},
		"open time over": {func(t *testing.T, m *breaker.Map) {
			take(t, m, "x")
			for range 3 {
				take(t, m, "x").Settle(f)
			}
		}, false}, // one call is still in flight
		"tripped, open time over": {func(t *testing.T, m *breaker.Map) {
			for range 3 {
				take(t, m, "x").Settle(f)
			}
		}, true},
		"forced open for longer":  {func(_ *testing.T, m *breaker.Map) { m.ForceOpen("x", idle+1) }, false},
		"forced open for as long": {func(_ *testing.T, m *breaker.Map) { m.ForceOpen("x", idle) }, true},
		"forced open for longer, then for less": {func(_ *testing.T, m *breaker.Map) {
			m.ForceOpen("x", time.Hour)
			m.ForceOpen("x", time.Second)
		}, true},
		"half-open, its probe given back": {func(t *testing.T, m *breaker.Map) {
			m.ForceOpen("x", 1)
			time.Sleep(1 * time.Nanosecond)
			take(t, m, "x").Settle(n)
		}, true},
		"half-open, its probe lost": {func(t *testing.T, m *breaker.Map) {
			m.ForceOpen("x", 1)
			time.Sleep(1 * time.Nanosecond)
			take(t, m, "x")
		}, false},
		"settled at the first event": {func(t *testing.T, m *breaker.Map) {
			m.ForceOpen("x", 1)
			time.Sleep(1 * time.Nanosecond)
			take(t, m, "x").FirstEvent()
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMap(t, smallModels())
				row.use(t, m)
				time.Sleep(idle - 1)
				take(t, m, "y").Settle(s)
				assert.Contains(t, keys(m), "x", "a moment before")
				time.Sleep(1 * time.Nanosecond)
				take(t, m, "y").Settle(s)
				require.Nil(t, m.Peek("unknown"))
				assert.Contains(t, keys(m), "x", "a known model or a peek expires nothing")
				take(t, m, "z").Settle(s)
				assert.Equal(t, row.gone, len(keys(m)) == 3, keys(m))
			})
		})
	}
	t.Run("a rejected call is a call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := newMap(t, smallModels())
			m.ForceOpen("x", idle)
			time.Sleep(idle - 1)
			require.Error(t, m.Admit("x", new(breaker.Permit)))
			time.Sleep(idle - 1)
			take(t, m, "y")
			assert.Contains(t, keys(m), "x")
			time.Sleep(1 * time.Nanosecond)
			take(t, m, "z")
			assert.NotContains(t, keys(m), "x")
		})
	})
}

func TestMapEvictsLeastRecentlyUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time stands still: order alone decides
		m := newMap(t, smallModels())
		fill(t, m, 1024)
		take(t, m, "m0").Settle(f)   // used again
		held := take(t, m, "m1")     // in use
		m.ForceOpen("m2", time.Hour) // open
		require.Nil(t, m.Peek("m3"), "a peek is no use")
		take(t, m, "new").Settle(s)
		assert.NotContains(t, keys(m), "m3")
		assert.Len(t, keys(m), 1+1024)
		held.Settle(s)
		take(t, m, "new2").Settle(s)
		assert.NotContains(t, keys(m), "m4")
		for i := range 1018 { // m5 to m1023, but one
			take(t, m, fmt.Sprintf("newer%d", i)).Settle(s)
		}
		assert.Contains(t, keys(m), "m1023")
		take(t, m, "last").Settle(s)
		assert.NotContains(t, keys(m), "m1023")
		for _, k := range []string{"m0", "m1", "m2", "new", "new2"} {
			assert.Contains(t, keys(m), k)
		}
		take(t, m, "one more").Settle(s)
		assert.NotContains(t, keys(m), "m0")
		assert.Contains(t, keys(m), "m1", "its use ended later")
	})
}

func TestMapCapacityExhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMap(t, smallModels())
		var held []*breaker.Permit
		for i := range 1024 {
			key := fmt.Sprintf("m%d", i)
			switch i % 3 {
			case 0:
				held = append(held, take(t, m, key))
			case 1:
				m.ForceOpen(key, time.Hour)
			case 2:
				m.ForceOpen(key, 1)
				time.Sleep(1 * time.Nanosecond)
				held = append(held, take(t, m, key)) // half-open, probing
			}
		}
		want := &breaker.OpenError{Provider: "acme", Key: "new", Full: true}
		assert.Equal(t, want, m.Peek("new"))
		err := m.Admit("new", new(breaker.Permit))
		require.ErrorIs(t, err, breaker.ErrOpen)
		assert.Equal(t, want, errorOf(err))
		require.EqualError(t, err, "model circuit breaker capacity exhausted for provider acme")
		m.ForceOpen("new", time.Hour)
		m.Reset("new")
		assert.Equal(t, want, m.Peek("new"), "no way around")
		assert.Len(t, keys(m), 1025)
		take(t, m, "").Settle(s) // the provider's own needs no place
		take(t, m, "m0").Settle(s)

		time.Sleep(time.Hour)
		assert.Nil(t, m.Peek("new"), "expired ones would go")
		assert.Nil(t, m.Peek("new"))
		assert.Len(t, keys(m), 1025, "but not for a peek")
		held[0].Settle(s)
		take(t, m, "new")
		assert.Len(t, keys(m), 1+1024-341+1, "the forced ones have expired; the rest is in use or was until now")
	})
}

// The first expiry that was in sight was put off by a call.
func TestMapPeekForeseesExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMap(t, smallModels())
		for i := range 1024 {
			m.ForceOpen(fmt.Sprintf("m%d", i), time.Hour)
		}
		m.ForceOpen("m7", time.Millisecond)
		time.Sleep(5 * time.Minute)
		take(t, m, "m7").Settle(n)
		time.Sleep(5 * time.Minute)
		require.NotNil(t, m.Peek("new"))
		time.Sleep(5*time.Minute - 1)
		require.NotNil(t, m.Peek("new"))
		require.Error(t, m.Admit("new", new(breaker.Permit)))
		time.Sleep(1 * time.Nanosecond)
		require.Nil(t, m.Peek("new"))
		take(t, m, "new")
		assert.NotContains(t, keys(m), "m7")
		assert.Contains(t, keys(m), "m6")
	})
}

func TestMapLongKeys(t *testing.T) {
	m := newMap(t, smallModels())
	short := strings.Repeat("k", 128)
	long := strings.Repeat("é", 600_000)
	other := long + "x"
	m.ForceOpen(short, time.Hour)
	assert.Equal(t, short, m.Peek(short).Key)
	m.ForceOpen(long, time.Hour)
	require.NotNil(t, m.Peek(long))
	kept := m.Peek(long).Key
	assert.LessOrEqual(t, len(kept), 128)
	assert.True(t, strings.HasPrefix(kept, "ééééé"))
	assert.Equal(t, strings.ToValidUTF8(kept, "?"), kept)
	assert.Contains(t, keys(m), kept)
	require.Nil(t, m.Peek(other), "told apart")
	require.NotNil(t, m.Peek(kept), "what a snapshot shows is a key as well")
	m.Reset(kept)
	require.Nil(t, m.Peek(long))
	m.ForceOpen(strings.Repeat("\x80", 1000), time.Hour)
	require.NotNil(t, m.Peek(strings.Repeat("\x80", 1000)))
}

// A key that is a piece of a large text does not keep it alive, nor do a
// thousand of a megabyte.
func TestMapKeysAreOwn(t *testing.T) {
	m := newMap(t, smallModels())
	var errs []error
	before := heap()
	for i := range 64 {
		text := strings.Repeat(string(rune('a'+i%26)), 1<<20) + fmt.Sprint(i)
		take(t, m, text[:10]+text[1<<20:]).Settle(s)
		take(t, m, text[1<<20-10:]).Settle(s)
		m.ForceOpen(text, time.Hour)
		errs = append(errs, m.Admit(text, new(breaker.Permit)))
	}
	assert.Less(t, int64(heap())-int64(before), int64(1<<20))
	require.ErrorIs(t, errors.Join(errs...), breaker.ErrOpen)
	runtime.KeepAlive(m)
}
