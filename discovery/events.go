package discovery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	liveBeat  = 15 * time.Second // a comment when nothing changed, so that proxies keep the connection
	liveWrite = 10 * time.Second // longest write to a client that does not read
)

// serveEvents sends each fragment that changed, looked at once a second, until
// the client goes or Run ends. There is no queue to grow: a client that does
// not read is left after ten seconds.
func (r *Registry) serveEvents(w http.ResponseWriter, req *http.Request) {
	if r.page.subscribers.Add(1) > maxSubscribers {
		r.page.subscribers.Add(-1)
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many live pages", http.StatusServiceUnavailable)
		return
	}
	defer r.page.subscribers.Add(-1)
	r.mu.RLock()
	over := r.over
	r.mu.RUnlock()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	rc := http.NewResponseController(w)
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
			_ = rc.SetWriteDeadline(wrote.Add(liveWrite)) // a writer without deadlines still works
			if _, err := w.Write(msg); err != nil || rc.Flush() != nil {
				return
			}
		}
		select {
		case <-req.Context().Done():
			return
		case <-over:
			_, _ = io.WriteString(w, "event: over\ndata: {}\n\n")
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
