package discovery_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/resilience"
)

var update = flag.Bool("update", false, "write the golden files anew")

func get(h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
}

// The JSON form is an interface: this file changes only by additions.
func TestJSONGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("a", "b")
		r := registry(t, discovery.Config{},
			discovery.Provider{Name: "p", Lister: f, Breakers: func() []breaker.Snapshot {
				return []breaker.Snapshot{{State: breaker.Open, Failures: 5, RetryAfter: 20 * time.Second}}
			}},
			discovery.Provider{Name: "q", Lister: newFake("c")},
			discovery.Provider{Name: "new", Lister: newFake("d"), Models: []string{"d"}})
		require.NoError(t, r.Refresh(t.Context(), "p", "q"))
		time.Sleep(time.Minute)
		f.set(context.DeadlineExceeded)
		require.Error(t, r.Refresh(t.Context(), "p"))
		c := call("c", 503)
		c.Provider = "q"
		observe(r, 3, c)
		time.Sleep(time.Minute)
		rec := get(r.Handler(), "/any/where?format=json")
		assert.Equal(t, "application/json", rec.Header().Get("Content-Type"))
		const file = "testdata/status.json"
		if *update {
			require.NoError(t, os.WriteFile(file, rec.Body.Bytes(), 0o600))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, string(want), rec.Body.String())
		var doc discovery.Document
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &doc))
		assert.Len(t, doc.Providers, 3)
	})
}

func TestHandlerNegotiates(t *testing.T) {
	h := registry(t, discovery.Config{}, discovery.Provider{Name: "p"}).Handler()
	for _, tc := range []struct {
		target, accept string
		json           bool
	}{
		{"/", "", false},
		{"/", "*/*", false},
		{"/", "application/json", true},
		{"/", "application/json, */*;q=0.1", true},
		{"/", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false},
		{"/", "text/html, application/json;q=0.5", false},
		{"/", "application/json;q=0", false},
		{"/?format=json", "text/html", true},
		{"/?format=html", "application/json", false},
	} {
		rec := get(h, tc.target, "Accept", tc.accept)
		assert.Equal(t, 200, rec.Code)
		assert.Equal(t, tc.json, rec.Header().Get("Content-Type") == "application/json", "%+v", tc)
		assert.Equal(t, "nosniff", rec.Header().Get("X-Content-Type-Options"))
		assert.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
		assert.Contains(t, rec.Header().Get("Content-Security-Policy"), "frame-ancestors 'none'")
	}
	req := httptest.NewRequest(http.MethodHead, "/", nil)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	assert.Equal(t, 200, rec.Code)
	assert.Empty(t, rec.Body.String())
	for _, m := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(m, "/", nil))
		assert.Equal(t, http.StatusMethodNotAllowed, rec.Code, m)
		assert.Equal(t, "GET, HEAD", rec.Header().Get("Allow"))
	}
}

const hostile = `<img src=x onerror=alert(1)>"'` + "`{{.}}</script>"

// No name from anywhere becomes markup, in the page or in its live events.
func TestPageEscapesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, discovery.Config{EnableActions: true},
			discovery.Provider{Name: "p" + strings.ReplaceAll(hostile, "/", ""), Lister: newFake(hostile), Controls: &controls{}, Breakers: func() []breaker.Snapshot {
				return []breaker.Snapshot{{Key: hostile, State: breaker.Open}}
			}})
		require.NoError(t, r.Refresh(t.Context()))
		for range 3 {
			r.Observe(t.Context(), resilience.Call{Provider: r.Status()[0].Name, Model: hostile, Status: 500, Outcome: resilience.OutcomeError, Reason: hostile})
		}
		body := get(r.Handler(), "/").Body.String()
		for _, s := range []string{body, firstEvents(t, r)} {
			assert.NotContains(t, s, "<img")
			assert.NotContains(t, s, `\u003cimg`)
			assert.GreaterOrEqual(t, strings.Count(s, "onerror=alert(1)"), 4, "it is there, as text")
		}
		assert.Equal(t, 1, strings.Count(body, "</script>"))
	})
}

// firstEvents is what a live page is sent at once.
func firstEvents(t *testing.T, r *discovery.Registry) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	rec := &syncRecorder{header: http.Header{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/?events", nil).WithContext(ctx))
	}()
	synctest.Wait()
	cancel()
	<-done
	return rec.String()
}

// syncRecorder is a ResponseWriter that may be read while it is written to.
type syncRecorder struct {
	mu     sync.Mutex
	header http.Header
	code   int
	body   strings.Builder
}

func (s *syncRecorder) Header() http.Header { return s.header }
func (s *syncRecorder) Flush()              {}

func (s *syncRecorder) WriteHeader(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code = code
}

func (s *syncRecorder) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.body.Write(b)
}

func (s *syncRecorder) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.body.String()
}

func TestPagePolicyMatchesItsNonce(t *testing.T) {
	h := registry(t, discovery.Config{}, discovery.Provider{Name: "p"}).Handler()
	nonce := regexp.MustCompile(`script-src 'nonce-([A-Z0-9]+)'`)
	var seen []string
	for range 2 {
		rec := get(h, "/")
		m := nonce.FindStringSubmatch(rec.Header().Get("Content-Security-Policy"))
		require.Len(t, m, 2)
		body := rec.Body.String()
		assert.Contains(t, body, `<script nonce="`+m[1]+`">`)
		assert.Contains(t, body, `<style nonce="`+m[1]+`">`)
		assert.NotRegexp(t, `(src|href)="(https?:)?//`, body, "nothing from elsewhere")
		assert.NotRegexp(t, ` (style|on[a-z]+)=`, body, "nothing that the policy would stop")
		seen = append(seen, m[1])
	}
	assert.NotEqual(t, seen[0], seen[1])
}

func TestPageShowsStates(t *testing.T) {
	f := newFake("m1", "m2")
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: f}, discovery.Provider{Name: "q", Lister: newFake("x")})
	require.NoError(t, r.Refresh(t.Context()))
	f.set(errDown)
	require.Error(t, r.Refresh(t.Context()))
	observe(r, 3, call("m1", 500))
	body := get(r.Handler(), "/").Body.String()
	for _, want := range []string{`data-status="Offline"`, `data-status="Healthy"`, "2 stale models, hidden from lists", "<bdi>m1</bdi> fails 3 of 3", "3 failures", "Last failed call"} {
		assert.Contains(t, body, want)
	}
	assert.NotContains(t, body, "<button", "no buttons unless enabled")
	assert.NotContains(t, body, errDown.Error()+"<", "no text of an error")
}

func TestPageBoundsItsLists(t *testing.T) {
	var many []string
	for i := range 500 {
		many = append(many, "model-"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+strings.Repeat("y", i/26))
	}
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: many})
	assert.Contains(t, get(r.Handler(), "/").Body.String(), "and 440 more")
}

// controls notes what was pressed.
type controls struct {
	mu  sync.Mutex
	did []string
}

func (c *controls) ForceOpen(key string, d time.Duration) { c.note("open " + key + " " + d.String()) }
func (c *controls) Reset(key string)                      { c.note("reset " + key) }

func (c *controls) note(s string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did = append(c.did, s)
}

func TestActions(t *testing.T) {
	ctl, f := &controls{}, newFake("m")
	r := registry(t, discovery.Config{EnableActions: true, AllowedHosts: []string{"admin.test"}},
		discovery.Provider{Name: "p", Lister: f, Controls: ctl, Breakers: func() []breaker.Snapshot {
			return []breaker.Snapshot{{}, {Key: "m", State: breaker.Open}}
		}},
		discovery.Provider{Name: "fixed", Models: []string{"x"}})
	h := r.Handler()
	page := get(h, "http://admin.test/status").Body.String()
	token := regexp.MustCompile(`name="token" value="([^"]+)"`).FindStringSubmatch(page)
	require.Len(t, token, 2)
	post := func(form url.Values, header ...string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodPost, "http://admin.test/status", strings.NewReader(form.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		return rec
	}
	form := func(action, provider, key string, more ...string) url.Values {
		v := url.Values{"token": {token[1]}, "action": {action}, "provider": {provider}, "key": {key}}
		for i := 0; i+1 < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v
	}

	for name, tc := range map[string]struct {
		form   url.Values
		header []string
		code   int
	}{
		"cross-site by fetch metadata": {form("reset", "p", ""), []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"same-site is another site":    {form("reset", "p", ""), []string{"Sec-Fetch-Site", "same-site"}, 403},
		"cross-site by origin":         {form("reset", "p", ""), []string{"Origin", "https://evil.test"}, 403},
		"null origin":                  {form("reset", "p", ""), []string{"Origin", "null"}, 403},
		"no token":                     {form("reset", "p", "", "token", ""), nil, 403},
		"wrong token":                  {form("reset", "p", "", "token", token[1]+"x"), []string{"Sec-Fetch-Site", "same-origin"}, 403},
		"unknown provider":             {form("reset", "nope", ""), nil, 422},
		"unknown action":               {form("explode", "p", ""), nil, 422},
		"unknown breaker":              {form("open", "p", "made up"), nil, 422},
		"no breaker":                   {form("open", "fixed", ""), nil, 422},
		"no list":                      {form("recheck", "fixed", ""), nil, 422},
		"seconds":                      {form("open", "p", "", "seconds", "99999"), nil, 422},
		"too long":                     {form("open", "p", strings.Repeat("x", 1<<17)), nil, 400},
	} {
		rec := post(tc.form, tc.header...)
		assert.Equal(t, tc.code, rec.Code, name)
		assert.NotContains(t, rec.Body.String(), "nope")
	}
	assert.Empty(t, ctl.did)

	get(h, "http://admin.test/status?token="+token[1]+"&action=reset&provider=p")
	assert.Empty(t, ctl.did, "a GET does nothing")

	rec := post(form("open", "p", "", "seconds", "5"), "Origin", "http://admin.test")
	assert.Equal(t, http.StatusSeeOther, rec.Code)
	assert.Equal(t, "?", rec.Header().Get("Location"))
	rec = post(form("reset", "p", "m"), "Sec-Fetch-Site", "same-origin", "Accept", "application/json")
	assert.Equal(t, http.StatusNoContent, rec.Code)
	assert.Equal(t, http.StatusSeeOther, post(form("open", "p", "m")).Code)
	assert.Equal(t, []string{"open  5s", "reset m", "open m 1m0s"}, ctl.did)
	assert.Equal(t, http.StatusSeeOther, post(form("recheck", "p", "")).Code)
	require.Eventually(t, func() bool { return f.count.Load() == 1 }, time.Minute, time.Millisecond)
}

func TestEventsFollowChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("m")
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: f}, discovery.Provider{Name: "q", Models: []string{"x"}})
		rec := &syncRecorder{header: http.Header{}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/?events", nil).WithContext(ctx))
		}()
		synctest.Wait()
		assert.Equal(t, "text/event-stream", rec.header.Get("Content-Type"))
		all := rec.String()
		assert.Equal(t, 4, strings.Count(all, "event: part"), "the summary, two cards and the failovers")
		assert.Contains(t, all, fmt.Sprintf("event: hello\ndata: {\"now\":%d,\"ids\":[\"summary\",\"p0\",\"p1\",\"moves\"]}\n\n", time.Now().UnixMilli()))
		require.NoError(t, r.Refresh(t.Context()))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		news := strings.TrimPrefix(rec.String(), all)
		assert.Equal(t, 2, strings.Count(news, "event: part"), "the summary and the card that changed")
		assert.Contains(t, news, "Healthy")
		all = rec.String()
		time.Sleep(40 * time.Second)
		synctest.Wait()
		news = strings.TrimPrefix(rec.String(), all)
		assert.Zero(t, strings.Count(news, "event: part"))
		assert.NotZero(t, strings.Count(news, ": still here\n\n"))
		cancel()
		<-done
	})
}

func TestEventsAreBoundedAndEndWithRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}})
		stop := run(t, r)
		synctest.Wait()
		var wg sync.WaitGroup
		recs := make([]*syncRecorder, 65)
		for i := range recs {
			recs[i] = &syncRecorder{header: http.Header{}}
			wg.Go(func() {
				r.Handler().ServeHTTP(recs[i], httptest.NewRequest(http.MethodGet, "/?events", nil))
			})
			synctest.Wait()
		}
		assert.Equal(t, http.StatusServiceUnavailable, recs[64].code)
		stop()
		wg.Wait() // no client went
		assert.Contains(t, recs[0].String(), "event: over")
	})
}

// An open breaker whose probe is due waits for a call, maybe for hours: that is
// no news every second.
func TestEventsAreSilentWhileAProbeIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(3 * time.Second)
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}, Breakers: func() []breaker.Snapshot {
			return []breaker.Snapshot{{State: breaker.Open, RetryAfter: max(0, time.Until(until))}}
		}})
		rec := &syncRecorder{header: http.Header{}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/?events", nil).WithContext(ctx))
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		all := rec.String()
		assert.Equal(t, 4, strings.Count(all, "event: part"), "the summary, the failovers, the card, and the card when the wait ended")
		assert.Contains(t, all, "probe due")
		cancel()
		<-done
	})
}

// One pass over a real connection: the stream arrives as it is written.
func TestEventsOverTheNetwork(t *testing.T) {
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}})
	srv := httptest.NewServer(r.Handler())
	defer srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/?events", nil)
	require.NoError(t, err)
	resp, err := srv.Client().Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	br := bufio.NewReader(resp.Body)
	line, err := br.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "retry: 2000\n", line)
	cancel()
	_, _ = io.Copy(io.Discard, br)
}
