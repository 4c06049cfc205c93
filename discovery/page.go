package discovery

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"hash/maphash"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxPageModels are listed in a card, with the number of the others.
const maxPageModels = 60

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"iso": func(t time.Time) string { return t.UTC().Round(time.Second).Format(time.RFC3339) },
	// Rounded up: no probe is called due that would still be rejected.
	"isoUp": func(t time.Time) string {
		return t.UTC().Add(time.Second - 1).Truncate(time.Second).Format(time.RFC3339)
	},
	"visible": visible,
	"n":       counted,
	"short":   short,
	"ms":      func(ms int64) string { return seconds(time.Duration(ms) * time.Millisecond) },
	"act": func(c card, action, key, label string) button {
		return button{Token: c.Token, Provider: c.Name, Action: action, Key: key, Label: label}
	},
}).Parse(pageHTML))

// short writes a number of tokens in at most three digits.
func short(n float64) string {
	for _, unit := range []string{"", "k", "M", "G"} {
		switch {
		case n < 9.95 && unit != "":
			return strconv.FormatFloat(n, 'f', 1, 64) + unit
		case n < 999.5 || unit == "G":
			return strconv.FormatFloat(n, 'f', 0, 64) + unit
		}
		n /= 1000
	}
	return ""
}

// seconds writes a time as people say it.
func seconds(d time.Duration) string {
	if d < time.Second {
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
}

// counted is a number and what is counted, in the singular for one.
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

// pageState is what the pages of one registry share: the token of their forms
// and, between live ones, what was rendered last.
type pageState struct {
	token string
	seed  maphash.Seed
	live  places

	mu   sync.Mutex // guards what follows
	at   time.Time
	last []fragment
	busy bool // somebody is rendering
}

func newPageState(token string) *pageState {
	return &pageState{token: token, seed: maphash.MakeSeed()}
}

// fragment is a piece of the page that is replaced as a whole.
type fragment struct {
	id   string
	html string
	hash uint64
}

// summary is the top of the page.
type summary struct {
	Ready  Readiness
	Counts []statusCount
	Models int
	Calls  int
}

type statusCount struct {
	Status, Class string
	N             int
}

// card is one provider on the page.
type card struct {
	ID string
	ProviderStatus
	Class    string
	Chips    []chip
	Held     []HoldStatus // the first of them
	MoreHeld int
	Bars     []bar
	List     []listed
	More     int
	Stale    bool
	Asked    bool // the upstream is asked for its list
	Token    string
	Recheck  bool // there is a button
	Control  bool // there are buttons for breakers
}

type chip struct {
	BreakerStatus
	Label string
	Class string
}

// button is a form with one button.
type button struct{ Token, Provider, Action, Key, Label string }

// bar is one part of the chart in its own units: 20 wide 10, 40 high.
type bar struct{ X, OKY, OKH, FailY, FailH int }

type listed struct {
	ID      string
	Failing bool
}

// render makes the page's fragments: the summary, one a provider, and the last
// failovers.
func (r *Registry) render() []fragment {
	ps := r.table.Load().order
	sum := summary{Ready: r.Ready()}
	counts := map[string]int{}
	out := make([]fragment, 1, len(ps)+2)
	for i, p := range ps {
		s := r.statusOf(p)
		counts[s.Status]++
		sum.Models += s.Models
		sum.Calls += s.Calls
		out = append(out, r.fragment("p"+strconv.Itoa(i), "card", r.card(p, i, s)))
	}
	for _, st := range statusOrder {
		if counts[st] > 0 {
			sum.Counts = append(sum.Counts, statusCount{st, class(st), counts[st]})
		}
	}
	out[0] = r.fragment("summary", "summary", sum)
	return append(out, r.fragment("moves", "moves", r.Failovers()))
}

func (r *Registry) fragment(id, name string, data any) fragment {
	var b strings.Builder
	if err := pageTemplate.ExecuteTemplate(&b, name, data); err != nil {
		r.log.Error("status page", "part", name, "error", err)
	}
	return fragment{id: id, html: b.String(), hash: maphash.String(r.page.seed, b.String())}
}

// fragments returns what was rendered not long ago. One live page renders for
// all; meanwhile the others get what there was before.
func (r *Registry) fragments() []fragment {
	ps := r.page
	ps.mu.Lock()
	if ps.last != nil && (ps.busy || time.Since(ps.at) < liveEvery*9/10) {
		defer ps.mu.Unlock()
		return ps.last
	}
	ps.busy = true
	ps.mu.Unlock()
	// Without the lock: render asks the providers' breakers, which is not our
	// code.
	var fs []fragment
	defer func() {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		if ps.busy = false; fs != nil { // nil after a panic
			ps.last, ps.at = fs, time.Now()
		}
	}()
	fs = r.render()
	return fs
}

func (r *Registry) card(p *provider, i int, s ProviderStatus) card {
	c := card{
		ID: "p" + strconv.Itoa(i), ProviderStatus: s, Class: class(s.Status),
		Bars: chart(s.Window), Stale: s.StaleModels > 0, Asked: p.asked, Token: r.page.token,
		Recheck: r.cfg.EnableActions && p.asked,
		Control: r.cfg.EnableActions && p.Controls != nil,
	}
	if s.Breaker != nil {
		c.Chips = append(c.Chips, newChip(*s.Breaker))
	}
	for _, b := range s.Breakers {
		if s.Breaker == nil || b.Key != s.Breaker.Key {
			c.Chips = append(c.Chips, newChip(b))
		}
	}
	c.Held = s.Holds[:min(len(s.Holds), maxPageHolds)]
	c.MoreHeld = s.HeldKeys - len(c.Held)
	failing := map[string]bool{}
	for _, m := range s.FailingModels {
		failing[m.Model] = true
	}
	r.mu.RLock()
	ms, _ := p.serving()
	r.mu.RUnlock()
	for _, m := range ms[:min(len(ms), maxPageModels)] {
		c.List = append(c.List, listed{ID: m.ID, Failing: failing[m.ID]})
	}
	c.More = len(ms) - len(c.List)
	return c
}

func newChip(b BreakerStatus) chip {
	c := chip{BreakerStatus: b, Label: "breaker", Class: "good"}
	if b.Key != "" {
		c.Label = b.Key
	}
	switch b.State {
	case "open":
		c.Class = "bad"
	case "half-open":
		c.Class = "warn"
	}
	return c
}

// class groups the statuses by how much they should worry.
func class(status string) string {
	switch status {
	case StatusUnhealthy, StatusOffline, StatusCircuitOpen:
		return "bad"
	case StatusRecovering, StatusDegraded:
		return "warn"
	case StatusHealthy:
		return "good"
	}
	return "idle"
}

// chart scales the window to a height of 40; a part with calls is seen however
// small it is.
func chart(window []Bucket) []bar {
	const height = 40
	top := 1
	for _, b := range window {
		top = max(top, b.Calls)
	}
	out := make([]bar, 0, len(window))
	for i, b := range window {
		if b.Calls == 0 {
			continue
		}
		h := max(2, b.Calls*height/top)
		f := b.Failures * h / b.Calls
		if b.Failures > 0 {
			f = max(2, f)
		}
		out = append(out, bar{X: i * 10, OKY: height - h, OKH: h - f, FailY: height - f, FailH: f})
	}
	return out
}

func (r *Registry) servePage(w http.ResponseWriter, req *http.Request) {
	nonce := rand.Text()
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'nonce-"+nonce+"'; style-src 'nonce-"+nonce+
		"'; img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	fs := r.render()
	data := struct {
		Nonce   string
		Now     int64
		Summary template.HTML
		Cards   []template.HTML
		Moves   template.HTML
	}{nonce, time.Now().UnixMilli(), template.HTML(fs[0].html), nil, template.HTML(fs[len(fs)-1].html)} // rendered by this template: escaped already
	for _, f := range fs[1 : len(fs)-1] {
		data.Cards = append(data.Cards, template.HTML(f.html))
	}
	var b bytes.Buffer
	if err := pageTemplate.ExecuteTemplate(&b, "page", data); err != nil {
		http.Error(w, "page cannot be rendered", http.StatusInternalServerError)
		return
	}
	if req.Method != http.MethodHead {
		_, _ = w.Write(b.Bytes())
	}
}
