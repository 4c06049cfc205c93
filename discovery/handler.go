package discovery

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
)

// Bounds of what a button may do.
const (
	maxFormBytes = 64 << 10
	openDefault  = 60 * time.Second
	openMax      = time.Hour
)

// Document is the JSON that the handler answers with. Its form is stable:
// fields may be added, none is renamed or removed.
type Document struct {
	Generated time.Time        `json:"generated"`
	Ready     Readiness        `json:"ready"`
	Providers []ProviderStatus `json:"providers"`
	Failovers []Failover       `json:"failovers,omitempty"` // the last ten, the latest first
}

// Handler serves the providers' status: as JSON (a [Document]) with
// ?format=json or an Accept header that prefers application/json, else as a
// page that follows changes by server-sent events (?events). It can be mounted
// at any path.
//
// The page needs nothing from elsewhere and shows no word of an upstream but
// the names of models. Put authentication in front of it; buttons are there
// only with Config.EnableActions, and are protected against requests from
// other sites and under names that are not in Config.AllowedHosts.
//
// At most 64 pages follow changes at once. When all places are taken a new page
// gets the place of the one that has been there longest, after its first ten
// seconds; a browser comes back by itself.
func (r *Registry) Handler() http.Handler { return http.HandlerFunc(r.serve) }

// ReadyHandler answers a readiness probe with [Registry.Ready] as JSON, always
// with HTTP 200.
func (r *Registry) ReadyHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		writeJSON(w, req, http.StatusOK, r.Ready())
	})
}

func (r *Registry) serve(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // POSTs from the page keep their Origin
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Vary", "Accept")
	switch req.Method {
	case http.MethodGet, http.MethodHead:
		switch q := req.URL.Query(); {
		case q.Has("events") && req.Method == http.MethodGet:
			r.serveEvents(w, req)
		case wantsJSON(req, q.Get("format")):
			writeJSON(w, req, http.StatusOK, Document{Generated: time.Now().UTC(), Ready: r.Ready(), Providers: r.Status(), Failovers: r.Failovers()})
		default:
			r.servePage(w, req)
		}
		return
	case http.MethodPost:
		if r.cfg.EnableActions {
			r.serveAction(w, req)
			return
		}
	}
	allow := "GET, HEAD"
	if r.cfg.EnableActions {
		allow += ", POST"
	}
	h.Set("Allow", allow)
	http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
}

func writeJSON(w http.ResponseWriter, req *http.Request, code int, v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, "the answer cannot be encoded", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(b)+1))
	w.WriteHeader(code)
	if req.Method != http.MethodHead {
		_, _ = w.Write(append(b, '\n'))
	}
}

// wantsJSON lets the query decide, else the Accept header: JSON has to be
// named, and HTML must not be liked better (RFC 9110 §12.5.1).
func wantsJSON(req *http.Request, format string) bool {
	switch format {
	case "json":
		return true
	case "html":
		return false
	}
	var jsonQ, htmlQ float64
	for part := range strings.SplitSeq(strings.Join(req.Header.Values("Accept"), ","), ",") {
		name, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q := 1.0
		if f, err := strconv.ParseFloat(params["q"], 64); err == nil {
			q = f
		}
		switch name {
		case "application/json":
			jsonQ = max(jsonQ, q)
		case "text/html":
			htmlQ = max(htmlQ, q)
		}
	}
	return jsonQ > 0 && jsonQ >= htmlQ
}

// serveAction does what a button asks for. A request from another site is
// refused by what the browser says of its origin, and, where a browser says
// nothing, by a token that only the page knows. Both are of no use against a
// site whose own name was made to lead here, so the name has to be a known one.
func (r *Registry) serveAction(w http.ResponseWriter, req *http.Request) {
	if !r.cfg.hostAllowed(req.Host) {
		http.Error(w, fmt.Sprintf("no actions under the host name %q: it is not among the allowed hosts (discovery.Config.AllowedHosts)",
			clip(req.Host, 128)), http.StatusForbidden)
		return
	}
	if http.NewCrossOriginProtection().Check(req) != nil {
		http.Error(w, "request from another site", http.StatusForbidden)
		return
	}
	req.Body = http.MaxBytesReader(w, req.Body, maxFormBytes)
	if err := req.ParseForm(); err != nil {
		http.Error(w, "form cannot be read", http.StatusBadRequest)
		return
	}
	if subtle.ConstantTimeCompare([]byte(req.PostForm.Get("token")), []byte(r.page.token)) != 1 {
		http.Error(w, "the page is from an earlier run, load it again", http.StatusForbidden)
		return
	}
	if err := r.act(req); err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	if wantsJSON(req, "") {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	// Relative to the address that the browser used, whatever prefix was cut.
	w.Header().Set("Location", "?")
	w.WriteHeader(http.StatusSeeOther)
}

func (r *Registry) act(req *http.Request) error {
	form := req.PostForm
	p := r.table.Load().byName[form.Get("provider")]
	if p == nil {
		return errors.New("no such provider")
	}
	action, key := form.Get("action"), form.Get("key")
	switch action {
	case "recheck":
		if !p.asked {
			return errors.New("this provider has no list to fetch")
		}
		r.mu.Lock()
		r.startLocked(p, true, "")
		r.mu.Unlock()
	case "open", "reset":
		if p.Controls == nil {
			return errors.New("this provider has no breaker to act on")
		}
		if !r.hasBreaker(p, key) {
			return errors.New("no such breaker")
		}
		d, err := openFor(form.Get("seconds"))
		if err != nil {
			return err
		}
		did := r.hook(p, "Controls", func() {
			if action == "reset" {
				p.Controls.Reset(key)
			} else {
				p.Controls.ForceOpen(key, d)
			}
		})
		if !did {
			return errors.New("the breaker could not be acted on: its Controls panicked")
		}
	default:
		return errors.New("no such action")
	}
	r.log.Info("status page action", "provider", p.Name, "action", action, "breaker", clip(key, maxNameBytes))
	return nil
}

// openFor reads for how long a breaker is to be opened; "" is a minute.
func openFor(seconds string) (time.Duration, error) {
	if seconds == "" {
		return openDefault, nil
	}
	n, err := strconv.Atoi(seconds)
	if err != nil || n < 1 || n > int(openMax/time.Second) {
		return 0, fmt.Errorf("seconds: want 1 to %d", int(openMax/time.Second))
	}
	return time.Duration(n) * time.Second, nil
}

// hasBreaker keeps made-up keys from becoming breakers.
func (r *Registry) hasBreaker(p *provider, key string) bool {
	return key == "" || slices.ContainsFunc(r.breakers(p), func(b breaker.Snapshot) bool { return b.Key == key })
}
