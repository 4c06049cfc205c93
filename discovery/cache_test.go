package discovery_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/discovery"
)

func TestCacheSurvivesARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "models.json")
	c := discovery.Config{CacheFile: path}
	r := registry(t, c, discovery.Provider{Name: "p", Lister: newFake("b", "a")}, discovery.Provider{Name: "q", Lister: newFake("c")})
	require.NoError(t, r.Refresh(t.Context()))
	st, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), st.Mode().Perm())
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, left, 1, "no temporary file is left")

	down := newFake()
	down.set(errDown)
	r = registry(t, c, discovery.Provider{Name: "p", Lister: down, Models: []string{"conf"}},
		discovery.Provider{Name: "q", Lister: newFake("d")},
		discovery.Provider{Name: "list", Lister: down, Models: []string{"x"}, Mode: discovery.ModeAllowlist})
	assert.Equal(t, []string{"p/a", "p/b", "q/c", "list/x"}, names(r.Models()), "the last inventory comes first")
	s := statusOf(t, r, "p")
	assert.Equal(t, discovery.SourceCache, s.Source)
	assert.Equal(t, discovery.StatusStarting, s.Status)
	assert.False(t, s.LastGood.IsZero())
	assert.Equal(t, "ok", r.Ready().Status)
	require.Error(t, r.Refresh(t.Context()))
	assert.Equal(t, []string{"q/d", "list/x"}, names(r.Models()))
	assert.Equal(t, discovery.StatusOffline, statusOf(t, r, "p").Status)
	assert.Equal(t, discovery.SourceLive, statusOf(t, r, "q").Source)

	r = registry(t, c, discovery.Provider{Name: "p", Lister: down}, discovery.Provider{Name: "q", Lister: down})
	assert.Equal(t, []string{"p/a", "p/b", "q/d"}, names(r.Models()), "a list that could not be renewed is kept")
}

// Whatever byte a crash cuts the file at, nothing wrong is served.
func TestCacheCutAtEveryByte(t *testing.T) {
	path := filepath.Join(t.TempDir(), "models.json")
	r := registry(t, discovery.Config{CacheFile: path}, discovery.Provider{Name: "p", Lister: newFake("a", "b")})
	require.NoError(t, r.Refresh(t.Context()))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	load := func(data []byte) ([]string, string) {
		require.NoError(t, os.WriteFile(path, data, 0o600))
		var log bytes.Buffer
		r := registry(t, discovery.Config{CacheFile: path, Logger: slog.New(slog.NewTextHandler(&log, nil))},
			discovery.Provider{Name: "p", Lister: newFake()})
		return names(r.Models()), log.String()
	}
	got, log := load(whole)
	require.Equal(t, []string{"p/a", "p/b"}, got)
	require.Empty(t, log)
	end := len(bytes.TrimRight(whole, "\n"))
	for n := range end {
		got, log := load(whole[:n])
		require.Empty(t, got, "cut at %d", n)
		require.Contains(t, log, "model cache ignored", "cut at %d", n)
		got, _ = load(append(bytes.Clone(whole[:n]), make([]byte, len(whole)-n)...)) // a hole in the file
		require.Empty(t, got, "zeros from %d", n)
	}
	for n := range end {
		flipped := bytes.Clone(whole)
		flipped[n] ^= 1
		got, _ := load(flipped)
		require.Subset(t, []string{"p/a", "p/b"}, got, "bit of byte %d", n)
	}
	for _, other := range []string{"null", "[]", "{}", `{"version":2,"sha256":"","providers":{}}`, string(whole) + "x"} {
		got, log := load([]byte(other))
		require.Empty(t, got)
		require.Contains(t, log, "model cache ignored")
	}
}

func TestCacheOfAnotherUpstreamIsNotUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "models.json")
	client := &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		return answer(req, 200, "application/json", `{"data":[{"id":"a"}]}`), nil
	})}
	provider := func(base string) discovery.Provider {
		l, err := discovery.NewLister(discovery.ListerConfig{Type: "openai", Client: client, BaseURL: base})
		require.NoError(t, err)
		return discovery.Provider{Name: "p", Lister: l}
	}
	c := discovery.Config{CacheFile: path}
	r := registry(t, c, provider("http://one/v1?key=s3cret"))
	require.NoError(t, r.Refresh(t.Context()))
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.NotContains(t, string(file), "s3cret")
	assert.Equal(t, []string{"p/a"}, names(registry(t, c, provider("http://one/v1")).Models()))
	assert.Empty(t, registry(t, c, provider("http://two/v1")).Models())
}

func TestCacheThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	c := discovery.Config{CacheFile: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))} // a directory in its place
	r := registry(t, c, discovery.Provider{Name: "p", Lister: newFake("a")})
	require.NoError(t, r.Refresh(t.Context()), "the cache is a help, not a need")
	assert.Contains(t, log.String(), "model cache not written")
}

func TestRunKeepsTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "models.json")
		r := registry(t, discovery.Config{CacheFile: path})
		for i := range 20 {
			require.NoError(t, r.Add(discovery.Provider{Name: fmt.Sprintf("p%d", i), Lister: newFake("a")}))
		}
		stop := run(t, r)
		synctest.Wait()
		assert.NoFileExists(t, path, "the lists of one round make one write")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.FileExists(t, path)
		require.NoError(t, os.Remove(path))
		require.NoError(t, r.Add(discovery.Provider{Name: "late", Lister: newFake("b")}))
		synctest.Wait()
		stop()
		r = registry(t, discovery.Config{CacheFile: path}, discovery.Provider{Name: "late", Lister: newFake()})
		assert.Equal(t, []string{"late/b"}, names(r.Models()), "written at the end of Run")
	})
}

func TestLeftoversOfACrashGo(t *testing.T) {
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, ".models.json.tmp-1"), filepath.Join(dir, ".models.json.tmp-2")
	for _, n := range []string{old, fresh} {
		require.NoError(t, os.WriteFile(n, nil, 0o600))
	}
	past := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(old, past, past))
	registry(t, discovery.Config{CacheFile: filepath.Join(dir, "models.json")})
	assert.NoFileExists(t, old)
	assert.FileExists(t, fresh, "another process may be writing it")
}
