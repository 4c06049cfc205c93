package discovery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	maxLive   = 64               // live pages
	liveEvery = time.Second      // how often they look for changes
	liveBeat  = 15 * time.Second // a comment when nothing changed, so that proxies keep the connection
	liveWrite = 10 * time.Second // longest write to a client that does not read
	liveHold  = 10 * time.Second // how long a live page keeps its place whoever else comes
)

// places are the live pages of one registry. A client that never reads looks
// like one that does for as long as the network's buffers take what is sent, so
// none may keep its place for ever where others want one: the one that has been
// there longest goes. A browser comes back by itself, a dead socket does not.
type places struct {
	mu    sync.Mutex
	taken []*place // in the order in which they came
}

type place struct {
	since time.Time
	gone  chan struct{} // closed when the place was given to another
}

// take returns a place, nil if all are taken by those who came just now.
func (ps *places) take() *place {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	now := time.Now()
	if len(ps.taken) >= maxLive {
		oldest := ps.taken[0]
		if now.Sub(oldest.since) < liveHold {
			return nil
		}
		close(oldest.gone)
		ps.taken = slices.Delete(ps.taken, 0, 1)
	}
	p := &place{since: now, gone: make(chan struct{})}
	ps.taken = append(ps.taken, p)
	return p
}

func (ps *places) leave(p *place) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if i := slices.Index(ps.taken, p); i >= 0 {
		ps.taken = slices.Delete(ps.taken, i, i+1)
	}
}

// serveEvents sends each fragment that changed, looked at once a second, until
// the client goes, its place is given away or Run ends. There is no queue to
// grow: a client that blocks a write is left after ten seconds.
func (r *Registry) serveEvents(w http.ResponseWriter, req *http.Request) {
	place := r.page.live.take()
	if place == nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many live pages", http.StatusServiceUnavailable)
		return
	}
	defer r.page.live.leave(place)
	r.mu.RLock()
	over := r.over
	r.mu.RUnlock()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	rc := http.NewResponseController(w)
	send := func(msg []byte) bool {
		_ = rc.SetWriteDeadline(time.Now().Add(liveWrite)) // a writer without deadlines still works
		_, err := w.Write(msg)
		return err == nil && rc.Flush() == nil
	}
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	sent := map[string]uint64{}
	var wrote time.Time
	for {
		fs := r.fragments()
		msg := changes(fs, sent)
		if wrote.IsZero() {
			msg = append(hello(fs), msg...)
		}
		if len(msg) == 0 && time.Since(wrote) >= liveBeat {
			msg = []byte(": still here\n\n")
		}
		if len(msg) > 0 {
			wrote = time.Now()
			if !send(msg) {
				return
			}
		}
		select {
		case <-req.Context().Done():
			return
		case <-place.gone:
			return
		case <-over:
			send([]byte("event: over\ndata: {}\n\n"))
			return
		case <-tick.C:
		}
	}
}

// hello opens a connection: what is there, so that a page which outlived an
// earlier process drops what is not, and our clock, which a page counts by: the
// browser's own may be minutes off. Reconnecting takes two seconds.
func hello(fs []fragment) []byte {
	ids := make([]string, len(fs))
	for i, f := range fs {
		ids[i] = f.id
	}
	b, err := json.Marshal(struct {
		Now int64    `json:"now"`
		IDs []string `json:"ids"`
	}{time.Now().UnixMilli(), ids})
	if err != nil {
		return nil
	}
	return fmt.Appendf(nil, "retry: 2000\nevent: hello\ndata: %s\n\n", b)
}

// changes returns the events of what differs from what was sent.
func changes(fs []fragment, sent map[string]uint64) []byte {
	var b bytes.Buffer
	for _, f := range fs {
		if h, ok := sent[f.id]; ok && h == f.hash {
			continue
		}
		sent[f.id] = f.hash
		data, err := json.Marshal(struct {
			ID   string `json:"id"`
			HTML string `json:"html"`
		}{f.id, f.html})
		if err != nil {
			continue
		}
		b.WriteString("event: part\ndata: ")
		b.Write(data)
		b.WriteString("\n\n")
	}
	return b.Bytes()
}
