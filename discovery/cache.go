package discovery

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The cache file is one JSON object: a version, the SHA-256 of the exact bytes
// of the last value, and that value. A file cut at any byte, or with any byte
// of the lists changed, is told from a whole one.
const (
	cacheVersion  = 1
	maxCacheBytes = 256 << 20
	staleTemp     = time.Hour // temporary files of a crash are this old
)

type cacheFile struct {
	Version   int             `json:"version"`
	SHA256    string          `json:"sha256"`
	Providers json.RawMessage `json:"providers"`
}

// cacheEntry is one provider's last list.
type cacheEntry struct {
	Origin  string       `json:"origin,omitempty"` // where it came from: another upstream's list is of no use
	Fetched time.Time    `json:"fetched"`
	Models  []cacheModel `json:"models"`
}

type cacheModel struct {
	ID      string    `json:"id"`
	OwnedBy string    `json:"owned_by,omitempty"`
	Created time.Time `json:"created,omitzero"`
}

func (e cacheEntry) models(provider string) []Model {
	ms := make([]Model, len(e.Models))
	for i, m := range e.Models {
		ms[i] = Model{ID: m.ID, OwnedBy: m.OwnedBy, Created: m.Created}
	}
	return tidy(provider, ms)
}

func originOf(l Lister) string {
	if o, ok := l.(interface{ origin() string }); ok {
		sum := sha256.Sum256([]byte(o.origin()))
		return hex.EncodeToString(sum[:8])
	}
	return ""
}

// loadCache returns what the file holds, nothing if there is none or it is
// damaged.
func (r *Registry) loadCache() map[string]cacheEntry {
	sweepTemps(r.cfg.CacheFile)
	entries, err := readCache(r.cfg.CacheFile)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return entries
	}
	r.log.Warn("model cache ignored", "file", r.cfg.CacheFile, "error", err)
	return nil
}

func readCache(path string) (map[string]cacheEntry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxCacheBytes+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxCacheBytes {
		return nil, errors.New("too large")
	}
	var c cacheFile
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, errors.New("not whole: no valid JSON")
	}
	if c.Version != cacheVersion {
		return nil, fmt.Errorf("version %d, want %d", c.Version, cacheVersion)
	}
	if sum := sha256.Sum256(c.Providers); c.SHA256 != hex.EncodeToString(sum[:]) {
		return nil, errors.New("damaged: the checksum does not match")
	}
	var entries map[string]cacheEntry
	if err := json.Unmarshal(c.Providers, &entries); err != nil {
		return nil, errors.New("damaged: not a list of providers")
	}
	for name, e := range entries {
		if len(e.Models) == 0 || len(e.Models) > maxModels {
			delete(entries, name)
		}
	}
	return entries, nil
}

// save writes the cache file if it is behind. A failure is logged and tried
// again with the next list: the file is a help, not a need.
func (r *Registry) save() {
	if err := r.saveIfDirty(); err != nil {
		r.log.Warn("model cache not written", "file", r.cfg.CacheFile, "error", err)
	}
}

func (r *Registry) saveIfDirty() error {
	r.saving.Lock()
	defer r.saving.Unlock()
	if !r.dirty.Swap(false) {
		return nil
	}
	return r.writeCache()
}

func (r *Registry) writeCache() error {
	providers, err := json.Marshal(r.cacheEntries())
	if err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"version":%d,"sha256":"%x","providers":%s}`+"\n", cacheVersion, sha256.Sum256(providers), providers)
	return writeFile(r.cfg.CacheFile, b.Bytes())
}

func (r *Registry) cacheEntries() map[string]cacheEntry {
	entries := map[string]cacheEntry{}
	r.mu.RLock()
	type list struct {
		p      *provider
		models []Model
		good   time.Time
	}
	var lists []list
	for _, p := range r.table.Load().order {
		if len(p.inventory) > 0 {
			lists = append(lists, list{p, p.inventory, p.lastGood})
		}
	}
	r.mu.RUnlock()
	for _, l := range lists {
		e := cacheEntry{Origin: originOf(l.p.Lister), Fetched: l.good.UTC(), Models: make([]cacheModel, len(l.models))}
		for i, m := range l.models {
			e.Models[i] = cacheModel{ID: m.ID, OwnedBy: m.OwnedBy, Created: m.Created}
		}
		entries[l.p.Name] = e
	}
	return entries
}

// writeFile puts data in place of path so that a crash at any moment leaves
// the old file or the new one: a temporary file (0600) beside it, written and
// synced, renamed over it, and the directory synced.
func writeFile(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, tempPattern(path))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(data); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync() // some file systems cannot; the data is safe either way
		_ = d.Close()
	}
	return nil
}

func tempPattern(path string) string { return "." + filepath.Base(path) + ".tmp-*" }

// sweepTemps removes what crashes in the middle of a write left behind.
func sweepTemps(path string) {
	names, _ := filepath.Glob(filepath.Join(filepath.Dir(path), tempPattern(path)))
	for _, n := range names {
		if st, err := os.Lstat(n); err == nil && st.Mode().IsRegular() && time.Since(st.ModTime()) > staleTemp {
			_ = os.Remove(n)
		}
	}
}
