package breaker_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
)

func modelPolicy() breaker.Policy {
	p := breaker.DefaultPolicy()
	p.Scope = breaker.ScopeModel
	return p
}

func newMap(tb testing.TB, p breaker.Policy) *breaker.Map {
	tb.Helper()
	m, err := breaker.NewMap(breaker.Config{Policy: p, Provider: "acme"})
	require.NoError(tb, err)
	return m
}

// use makes one good call.
func use(tb testing.TB, m *breaker.Map, key string) {
	var p breaker.Permit // no tb.Helper: it costs more than the call
	if err := m.Admit(key, &p); err != nil {
		tb.Fatal(err)
	}
	p.Settle(breaker.Success)
}

func BenchmarkBreaker(b *testing.B) {
	for _, slow := range []time.Duration{0, time.Minute} {
		policy := breaker.DefaultPolicy()
		policy.SlowCallThreshold = slow
		name := "closed"
		if slow > 0 {
			name = "closed with slow calls"
		}
		br, err := breaker.New(breaker.Config{Policy: policy})
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var p breaker.Permit
			for b.Loop() {
				if br.Admit(&p) != nil {
					b.Fatal("rejected")
				}
				p.Settle(breaker.Success)
			}
		})
		b.Run(name+" parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				var p breaker.Permit
				for pb.Next() {
					if br.Admit(&p) != nil {
						b.Error("rejected")
						return
					}
					p.Settle(breaker.Success)
				}
			})
		})
	}
}

func BenchmarkMapHit(b *testing.B) {
	for _, n := range []int{10, 1024} {
		m := newMap(b, modelPolicy())
		keys := make([]string, n)
		for i := range keys {
			keys[i] = fmt.Sprintf("vendor/model-%d", i)
			use(b, m, keys[i])
		}
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if i++; i == n {
					i = 0
				}
				use(b, m, keys[i])
			}
		})
		b.Run(strconv.Itoa(n)+" parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				i := 0
				for pb.Next() {
					if i++; i == n {
						i = 0
					}
					use(b, m, keys[i])
				}
			})
		})
	}
}

// BenchmarkMapNew looks up models that are all new: at 1,024 each puts one out.
func BenchmarkMapNew(b *testing.B) {
	keys := make([]string, 4096)
	for i := range keys {
		keys[i] = fmt.Sprintf("vendor/model-%d", i)
	}
	b.Run("evicting at 1024", func(b *testing.B) {
		m := newMap(b, modelPolicy())
		for _, k := range keys {
			use(b, m, k)
		}
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			use(b, m, keys[i%len(keys)])
			i++
		}
	})
	b.Run("growing to 1024", func(b *testing.B) {
		b.ReportAllocs()
		var m *breaker.Map
		i := 0
		for b.Loop() {
			if i%1024 == 0 {
				b.StopTimer()
				m = newMap(b, modelPolicy())
				b.StartTimer()
			}
			use(b, m, keys[i%1024])
			i++
		}
	})
}

func BenchmarkPeek(b *testing.B) {
	for _, n := range []int{10, 1024} {
		m := newMap(b, modelPolicy())
		for i := range n {
			use(b, m, fmt.Sprintf("vendor/model-%d", i))
		}
		for _, key := range []string{"", "vendor/model-7", "unknown"} {
			b.Run(fmt.Sprintf("%d/%q", n, key), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if m.Peek(key) != nil {
						b.Fatal("rejected")
					}
				}
			})
		}
	}
}

type answer struct{ resp http.Response }

func (a *answer) RoundTrip(*http.Request) (*http.Response, error) { return &a.resp, nil }

func BenchmarkTransport(b *testing.B) {
	for _, open := range []bool{false, true} {
		t := &breaker.Transport{
			Base:     &answer{http.Response{StatusCode: 200, Body: http.NoBody}},
			Policy:   modelPolicy(),
			Provider: "acme",
			Key:      func(*http.Request) string { return "vendor/model" },
		}
		name := "closed"
		if open {
			name = "rejection"
			t.ForceOpen("vendor/model", time.Hour)
		}
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://acme.test/v1/chat/completions", http.NoBody)
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				resp, err := t.RoundTrip(req)
				if (err != nil) != open {
					b.Fatal(err)
				}
				if resp != nil {
					_ = resp.Body.Close()
				}
			}
		})
	}
}

// heap returns the bytes that are live.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// The figure of at most 256 bytes a breaker beside its key, with its place in
// the map.
func TestBytesPerBreaker(t *testing.T) {
	for _, n := range []int{10, 100, 300, 1000, 1024} {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = fmt.Sprintf("vendor/model-%018d", i) // 31 bytes, kept in 32
		}
		const maps = 20
		all := make([]*breaker.Map, maps)
		for i := range all {
			all[i] = newMap(t, modelPolicy())
		}
		before := heap()
		for _, m := range all {
			for _, k := range keys {
				use(t, m, k)
			}
		}
		each := (float64(heap()) - float64(before)) / maps / float64(n)
		t.Logf("%d breakers: %.0f bytes each, key included", n, each)
		require.LessOrEqual(t, each, 256.0+32)
		runtime.KeepAlive(all)
		runtime.KeepAlive(keys)
	}
}
