package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/discovery"
)

// An answer that holds no models never replaces a list, and is no success.
func TestCaseF1_BadRefreshKeepsTheList(t *testing.T) {
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
		word    string
	}{
		{"empty", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"data":[]}`) }, "empty list"},
		{"error in 200", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"error":{"code":500}}`) }, "error in a 2xx"},
		{"html", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `<html>maintenance</html>`) }, "web page"},
		{"null", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"data":null}`) }, "without a list"},
		{"500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "status 500"},
		{"reset mid-body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			_, _ = io.WriteString(w, `{"data":[{"id":`)
			panic(http.ErrAbortHandler)
		}, "connection failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var n atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if n.Add(1) == 1 {
					_, _ = io.WriteString(w, `{"data":[{"id":"m1"}]}`)
					return
				}
				tc.handler(w, req)
			}))
			defer srv.Close()
			l, err := discovery.NewLister(discovery.ListerConfig{Type: "openai", Client: srv.Client(), BaseURL: srv.URL + "/v1"})
			require.NoError(t, err)
			r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: l}, discovery.Provider{Name: "q", Lister: newFake("x")})
			require.NoError(t, r.Refresh(t.Context()))
			good := statusOf(t, r, "p").LastGood
			require.False(t, good.IsZero())

			require.Error(t, r.Refresh(t.Context(), "p"))
			m, err := r.Resolve(t.Context(), "p/m1")
			require.NoError(t, err, "a direct call still goes out")
			assert.True(t, m.Stale)
			s := statusOf(t, r, "p")
			assert.Equal(t, discovery.StatusOffline, s.Status)
			assert.Contains(t, s.LastError, tc.word)
			assert.Equal(t, good, s.LastGood, "not stamped fresh")
			assert.False(t, s.LastChecked.Before(good))
			assert.Equal(t, 1, s.StaleModels)
			assert.Equal(t, []string{"q/x"}, names(r.Models()))
			assert.False(t, r.Available("p"))
		})
	}
}

func TestCaseF1_RetriedSoonerThanTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ok := newFake("m1"), newFake("x")
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: f}, discovery.Provider{Name: "q", Lister: ok})
		defer run(t, r)()
		synctest.Wait()
		assert.Equal(t, []string{"p/m1", "q/x"}, names(r.Models()))
		f.set(nil)
		time.Sleep(discovery.DefaultRefreshInterval)
		synctest.Wait()
		assert.Equal(t, discovery.StatusOffline, statusOf(t, r, "p").Status)
		before, others := f.count.Load(), ok.count.Load()
		f.set(nil, "m2")
		time.Sleep(discovery.DefaultRecheckInterval)
		synctest.Wait()
		assert.Equal(t, before+1, f.count.Load())
		assert.Equal(t, others, ok.count.Load(), "the recheck asks failed providers only")
		assert.Equal(t, []string{"p/m2", "q/x"}, names(r.Models()))
		s := statusOf(t, r, "p")
		assert.Equal(t, discovery.StatusHealthy, s.Status)
		assert.Empty(t, s.LastError)
	})
}

func TestLoopIntervals(t *testing.T) {
	for _, tc := range []struct {
		name             string
		refresh, recheck time.Duration
		ok, failing      int64 // fetches in three hours and a minute
	}{
		{"defaults", 0, 0, 4, 1 + 181},
		{"recheck off", 0, discovery.Off, 4, 4},
		{"both off", discovery.Off, discovery.Off, 1, 1},
		{"own", 10 * time.Minute, time.Hour, 19, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ok, bad := newFake("a"), newFake()
				bad.set(errDown)
				r := registry(t, discovery.Config{RefreshInterval: tc.refresh, RecheckInterval: tc.recheck},
					discovery.Provider{Name: "ok", Lister: ok}, discovery.Provider{Name: "bad", Lister: bad})
				defer run(t, r)()
				time.Sleep(3*time.Hour + time.Minute)
				synctest.Wait()
				assert.Equal(t, tc.ok, ok.count.Load())
				if tc.failing > 0 {
					assert.InDelta(t, tc.failing, bad.count.Load(), 3, "refresh and recheck may fall on one instant")
				}
			})
		})
	}
}

// Real sockets: one answers, one accepts and stays silent, one refuses.
func TestCaseF3_SilentProviderDelaysNobody(t *testing.T) {
	t.Parallel()
	p1 := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":[{"id":"m1"}]}`)
	}))
	defer p1.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, refused.Close())

	r := registry(t, discovery.Config{Timeout: 3 * time.Second}) // how soon it is kept is synctest's business
	for name, addr := range map[string]string{"p1": p1.Listener.Addr().String(), "p2": silent.Addr().String(), "p3": refused.Addr().String()} {
		tr := &http.Transport{}
		defer tr.CloseIdleConnections()
		l, err := discovery.NewLister(discovery.ListerConfig{Type: "openai", Client: &http.Client{Transport: tr}, BaseURL: "http://" + addr})
		require.NoError(t, err)
		require.NoError(t, r.Add(discovery.Provider{Name: name, Lister: l}))
	}
	done := make(chan error, 1)
	go func() { done <- r.Refresh(t.Context()) }()
	require.Eventually(t, func() bool { return len(r.Models()) == 1 }, time.Minute, time.Millisecond)
	_, err = r.Resolve(t.Context(), "p1/m1")
	require.NoError(t, err)
	err = <-done
	require.Error(t, err)
	assert.Equal(t, "no answer in time", statusOf(t, r, "p2").LastError)
	assert.Equal(t, "connection refused", statusOf(t, r, "p3").LastError)
	assert.Equal(t, discovery.StatusHealthy, statusOf(t, r, "p1").Status)
}

// slow is a list of a server that takes a while and counts.
func slow(d time.Duration, count *atomic.Int64) listFunc {
	return func(ctx context.Context) ([]discovery.Model, error) {
		n := count.Add(1)
		select {
		case <-time.After(d):
			return models(fmt.Sprintf("m%d", n)), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func TestCaseF4_HundredWaitersOneFetch(t *testing.T) {
	for name, look := range map[string]func(context.Context, *discovery.Registry) error{
		"resolve": func(ctx context.Context, r *discovery.Registry) error {
			_, err := r.Resolve(ctx, "p/m1")
			return err
		},
		"refresh": func(ctx context.Context, r *discovery.Registry) error { return r.Refresh(ctx, "p") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n atomic.Int64
				r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: slow(200*time.Millisecond, &n)})
				first, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				firstErr := make(chan error, 1)
				go func() { firstErr <- look(first, r) }()
				synctest.Wait()
				errs := make(chan error, 99)
				for range 99 {
					go func() { errs <- look(t.Context(), r) }()
				}
				require.ErrorIs(t, <-firstErr, context.DeadlineExceeded)
				for range 99 {
					require.NoError(t, <-errs)
				}
				assert.EqualValues(t, 1, n.Load())
			})
		})
	}
}

func TestCaseF4_LaterStartedRefreshStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: listFunc(func(context.Context) ([]discovery.Model, error) {
			if n.Add(1) == 1 {
				time.Sleep(time.Second)
				return models("old"), nil
			}
			return models("new"), nil
		})})
		looked := make(chan error, 1)
		go func() {
			_, err := r.Resolve(t.Context(), "p/old")
			looked <- err
		}()
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, r.Refresh(t.Context(), "p"))
		assert.Equal(t, []string{"p/new"}, names(r.Models()))
		require.ErrorIs(t, <-looked, discovery.ErrUnknownModel)
		assert.Equal(t, []string{"p/new"}, names(r.Models()), "the older answer is dropped")
		assert.Equal(t, discovery.StatusHealthy, statusOf(t, r, "p").Status)
	})
}

func TestRefreshErrors(t *testing.T) {
	f := newFake("m")
	f.set(errDown)
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: f},
		discovery.Provider{Name: "fixed", Lister: f, Models: []string{"x"}, Mode: discovery.ModeAllowlist})
	err := r.Refresh(t.Context())
	require.ErrorIs(t, err, errDown)
	require.ErrorContains(t, err, "provider p")
	require.ErrorContains(t, r.Refresh(t.Context(), "fixed", "nope"), `"nope"`)
	assert.EqualValues(t, 1, f.count.Load(), "an allowlist is never asked")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, r.Refresh(ctx), context.Canceled)
	assert.EqualValues(t, 1, f.count.Load())
}

func TestListerThatMisbehaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		var calls atomic.Int64
		r := registry(t, discovery.Config{},
			discovery.Provider{Name: "panics", Lister: listFunc(func(context.Context) ([]discovery.Model, error) { panic("boom") })},
			discovery.Provider{Name: "deaf", Lister: listFunc(func(context.Context) ([]discovery.Model, error) {
				calls.Add(1)
				<-block
				return models("late"), nil
			})})
		begin := time.Now()
		require.Error(t, r.Refresh(t.Context()))
		assert.Equal(t, discovery.DefaultTimeout+time.Second, time.Since(begin))
		assert.Equal(t, "the lister panicked", statusOf(t, r, "panics").LastError)
		assert.Equal(t, "no answer in time", statusOf(t, r, "deaf").LastError)
		for range 10 {
			require.Error(t, r.Refresh(t.Context()))
		}
		assert.EqualValues(t, 1, calls.Load(), "not asked again while it hangs")
		assert.Equal(t, "an earlier fetch has not returned", statusOf(t, r, "deaf").LastError)
		close(block)
		synctest.Wait()
		assert.Empty(t, r.Models(), "what comes too late is dropped")
		require.NoError(t, r.Refresh(t.Context(), "deaf"))
		assert.Equal(t, []string{"deaf/late"}, names(r.Models()))
	})
}

func TestRunEndsWithNothingLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: listFunc(func(ctx context.Context) ([]discovery.Model, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})})
		stop := run(t, r)
		synctest.Wait()
		require.ErrorContains(t, r.Run(t.Context()), "running already")
		waiting := make(chan error, 1)
		go func() { waiting <- r.Refresh(t.Context(), "p") }()
		synctest.Wait()
		begin := time.Now()
		stop()
		assert.Zero(t, time.Since(begin), "it does not wait for the time limit")
		require.ErrorIs(t, <-waiting, context.Canceled)
		assert.Equal(t, discovery.StatusStarting, statusOf(t, r, "p").Status, "our own end is nobody's failure")
		run(t, r)() // a second life
	})
}

func TestAddWhileRunningAsksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, discovery.Config{})
		defer run(t, r)()
		synctest.Wait()
		require.NoError(t, r.Add(discovery.Provider{Name: "p", Lister: newFake("m")}))
		synctest.Wait()
		assert.Equal(t, []string{"p/m"}, names(r.Models()))
	})
}

func TestAddRefuses(t *testing.T) {
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p"})
	for name, p := range map[string]discovery.Provider{
		"twice": {Name: "p"}, "no name": {}, "slash": {Name: "a/b"}, "control": {Name: "a\nb"}, "mode": {Name: "q", Mode: "maybe"},
	} {
		require.Error(t, r.Add(p), name)
	}
}

// Zero is the default in every field, Off is off, and nothing else is negative.
func TestConfigRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		config discovery.Config
		word   string
	}{
		"no timeout":         {discovery.Config{Timeout: discovery.Off}, "timeout"},
		"negative timeout":   {discovery.Config{Timeout: -time.Second}, "timeout"},
		"negative refresh":   {discovery.Config{RefreshInterval: -time.Second}, "refresh interval: -1s"},
		"negative recheck":   {discovery.Config{RecheckInterval: -time.Minute}, "recheck interval: -1m0s"},
		"no host":            {discovery.Config{AllowedHosts: []string{""}}, "allowed host"},
		"a host and a path":  {discovery.Config{AllowedHosts: []string{"a.test/x"}}, "allowed host"},
		"a URL":              {discovery.Config{AllowedHosts: []string{"https://a.test"}}, "allowed host"},
		"a host of any name": {discovery.Config{AllowedHosts: []string{"*.a.test"}}, "allowed host"},
	} {
		_, err := discovery.NewRegistry(tc.config)
		require.ErrorContains(t, err, tc.word, name)
	}
}

func TestAllDownKeepsEverything(t *testing.T) {
	a, b := newFake("a1"), newFake("b1")
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "a", Lister: a}, discovery.Provider{Name: "b", Lister: b},
		discovery.Provider{Name: "nothing", Mode: discovery.ModeAllowlist}) // serves nothing, so says nothing
	require.NoError(t, r.Refresh(t.Context()))
	a.set(errDown)
	require.Error(t, r.Refresh(t.Context()))
	assert.Equal(t, []string{"b/b1"}, names(r.Models()))
	assert.False(t, r.Available("a"))
	assert.True(t, r.Available("b"))

	b.set(errDown)
	require.Error(t, r.Refresh(t.Context()))
	assert.Equal(t, []string{"a/a1", "b/b1"}, names(r.Models()))
	for _, p := range []string{"a", "b"} {
		assert.True(t, r.Available(p))
		assert.Equal(t, discovery.StatusDegraded, statusOf(t, r, p).Status)
		m, err := r.Resolve(t.Context(), p+"/"+p+"1")
		require.NoError(t, err)
		assert.False(t, m.Stale)
	}
	b.set(nil, "b1")
	require.Error(t, r.Refresh(t.Context()))
	assert.Equal(t, discovery.StatusOffline, statusOf(t, r, "a").Status)
	assert.Equal(t, []string{"b/b1"}, names(r.Models()))
}

// Contract 8: a provider that serves from an allowlist has not failed, so the
// others are not all down at once, however many of them are.
func TestAllDownBesideAnAllowlistIsOffline(t *testing.T) {
	for name, sound := range map[string]discovery.Provider{
		"an allowlist": {Name: "fixed", Models: []string{"x"}, Mode: discovery.ModeAllowlist},
		"no lister":    {Name: "fixed", Models: []string{"x"}},
		"a catalogue":  {Name: "fixed", Catalog: []string{"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newFake("a1"), newFake("b1")
			r := registry(t, discovery.Config{}, discovery.Provider{Name: "a", Lister: a}, discovery.Provider{Name: "b", Lister: b}, sound)
			require.NoError(t, r.Refresh(t.Context()))
			a.set(errDown)
			b.set(errDown)
			require.Error(t, r.Refresh(t.Context()))
			for _, p := range []string{"a", "b"} {
				assert.Equal(t, discovery.StatusOffline, statusOf(t, r, p).Status)
				assert.False(t, r.Available(p))
				m, err := r.Resolve(t.Context(), p+"/"+p+"1")
				require.NoError(t, err, "a direct call goes out")
				assert.True(t, m.Stale)
			}
			assert.Equal(t, []string{"fixed/x"}, names(r.Models()))
		})
	}
	// Added later, it counts from then on.
	a := newFake("a1")
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "a", Lister: a})
	require.NoError(t, r.Refresh(t.Context()))
	a.set(errDown)
	require.Error(t, r.Refresh(t.Context()))
	assert.Equal(t, discovery.StatusDegraded, statusOf(t, r, "a").Status)
	require.NoError(t, r.Add(discovery.Provider{Name: "fixed", Models: []string{"x"}, Mode: discovery.ModeAllowlist}))
	assert.Equal(t, discovery.StatusOffline, statusOf(t, r, "a").Status)
}

func TestSources(t *testing.T) {
	f := newFake()
	f.set(errDown)
	other := newFake("o")
	r := registry(t, discovery.Config{},
		discovery.Provider{Name: "conf", Lister: f, Models: []string{" c2 ", "c1", "", "c1"}, Catalog: []string{"k"}},
		discovery.Provider{Name: "cat", Lister: f, Catalog: []string{"k"}},
		discovery.Provider{Name: "none", Lister: f},
		discovery.Provider{Name: "list", Lister: f, Models: []string{"w"}, Mode: discovery.ModeAllowlist},
		discovery.Provider{Name: "bare", Lister: f, Catalog: []string{"k"}, Mode: discovery.ModeAllowlist},
		discovery.Provider{Name: "other", Lister: other})
	source := func(p string) string { return statusOf(t, r, p).Source }
	assert.Equal(t, discovery.StatusStarting, statusOf(t, r, "conf").Status)
	assert.Equal(t, []string{"conf/c1", "conf/c2", "cat/k", "list/w"}, names(r.Models()), "served before the first answer")
	require.Error(t, r.Refresh(t.Context()))
	assert.Equal(t, []string{"conf/c1", "conf/c2", "cat/k", "list/w", "other/o"}, names(r.Models()), "and after a failure")
	assert.Equal(t, discovery.StatusUnhealthy, statusOf(t, r, "conf").Status)
	assert.Equal(t, discovery.SourceConfigured, source("conf"))
	assert.Equal(t, discovery.SourceCatalog, source("cat"))
	assert.Empty(t, source("none"))
	assert.True(t, r.Available("conf"))
	assert.True(t, r.Available("list"))
	assert.False(t, r.Available("none"))
	assert.False(t, r.Available("never added"))
	assert.Equal(t, discovery.StatusHealthy, statusOf(t, r, "list").Status)
	assert.Equal(t, discovery.StatusConfigured, statusOf(t, r, "bare").Status)

	f.set(nil, "live")
	require.NoError(t, r.Refresh(t.Context()))
	assert.Equal(t, []string{"conf/live", "cat/live", "none/live", "list/w", "other/o"}, names(r.Models()))
	assert.Equal(t, discovery.SourceLive, source("conf"))
	f.set(errDown)
	require.Error(t, r.Refresh(t.Context()))
	assert.Equal(t, []string{"list/w", "other/o"}, names(r.Models()), "the last inventory comes before a substitute")
}

func TestEmptyFirstListIsAnAnswer(t *testing.T) {
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: newFake()},
		discovery.Provider{Name: "q", Lister: newFake(), Models: []string{"c"}})
	require.NoError(t, r.Refresh(t.Context()))
	require.NoError(t, r.Refresh(t.Context()), "and so is the next one")
	assert.Equal(t, discovery.StatusConfigured, statusOf(t, r, "p").Status)
	assert.Equal(t, discovery.StatusHealthy, statusOf(t, r, "q").Status)
	assert.Equal(t, []string{"q/c"}, names(r.Models()))
}

func TestReady(t *testing.T) {
	f := newFake()
	f.set(errDown)
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: f})
	down := discovery.Readiness{Status: "degraded", Models: "down"}
	assert.Equal(t, down, r.Ready())
	_, err := r.Resolve(t.Context(), "p/m")
	var re *discovery.ResolveError
	require.ErrorAs(t, err, &re)
	assert.Equal(t, 503, re.StatusCode())
	_, err = r.Resolve(t.Context(), "m")
	require.ErrorAs(t, err, &re)
	assert.Equal(t, 503, re.StatusCode())
	rec := httptest.NewRecorder()
	r.ReadyHandler().ServeHTTP(rec, httptest.NewRequest("GET", "/ready", nil))
	assert.Equal(t, 200, rec.Code)
	assert.JSONEq(t, `{"status":"degraded","models":"down"}`, rec.Body.String())

	f.set(nil, "m")
	require.NoError(t, r.Refresh(t.Context()))
	assert.Equal(t, discovery.Readiness{Status: "ok", Models: "up"}, r.Ready())
}

func TestCustomListersSliceIsNotTouched(t *testing.T) {
	shared := models("b", "a", "a", " bad")
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: listFunc(func(context.Context) ([]discovery.Model, error) { return shared, nil })})
	require.NoError(t, r.Refresh(t.Context()))
	assert.Equal(t, []string{"p/a", "p/b"}, names(r.Models()))
	assert.Equal(t, models("b", "a", "a", " bad"), shared)
}

func TestConcurrentUse(t *testing.T) {
	var n atomic.Int64
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: listFunc(func(context.Context) ([]discovery.Model, error) {
		if k := n.Add(1); k%3 == 0 {
			return nil, errors.New("now and then")
		}
		return models("a", "b"), nil
	})})
	stop := run(t, r)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				_ = r.Refresh(t.Context())
				_, _ = r.Resolve(t.Context(), fmt.Sprintf("p/x%d", i))
				_, _ = r.Models(), r.Status()
				_, _ = r.Available("p"), r.Ready()
			}
		})
	}
	wg.Wait()
	stop()
}
