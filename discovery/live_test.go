package discovery_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/discovery"
)

// pipes is a listener of connections in memory, which have no buffer: what is
// not read blocks the write. They know deadlines.
type pipes struct {
	conns chan net.Conn
	close func()
}

func newPipes() *pipes {
	conns := make(chan net.Conn)
	return &pipes{conns, sync.OnceFunc(func() { close(conns) })}
}

func (p *pipes) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// ask opens a connection and asks for the live page on it.
func (p *pipes) ask(t *testing.T) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	p.conns <- server
	_, err := io.WriteString(client, "GET /?events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	return client
}

// Clients that block every write are dropped within the ten seconds that a
// write may take, and their places are free.
func TestLiveClientsThatNeverReadAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}})
		l := newPipes()
		srv := &http.Server{Handler: r.Handler(), ReadHeaderTimeout: time.Minute}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		var dead []net.Conn
		for range 64 {
			dead = append(dead, l.ask(t))
		}
		time.Sleep(11 * time.Second)
		var live []io.Closer
		for range 64 { // all places, at once
			c := l.ask(t)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err)
			assert.Equal(t, 200, resp.StatusCode)
			live = append(live, c, resp.Body)
		}
		for _, c := range dead {
			_ = c.Close()
		}
		for _, c := range live {
			_ = c.Close()
		}
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
}

// On a real socket the network takes what is sent, so a client that never reads
// cannot be told from one that does: it loses its place to the next one.
func TestLiveClientsGiveWayToNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}})
		ended := make([]chan struct{}, 0, 70)
		open := func() *syncRecorder {
			rec, done := &syncRecorder{header: http.Header{}}, make(chan struct{})
			ended = append(ended, done)
			go func() {
				defer close(done)
				r.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/?events", nil))
			}()
			synctest.Wait()
			return rec
		}
		gone := func(i int) bool {
			select {
			case <-ended[i]:
				return true
			default:
				return false
			}
		}
		for i := range 64 {
			open()
			time.Sleep(100 * time.Millisecond)
			require.False(t, gone(i))
		}
		assert.Equal(t, http.StatusServiceUnavailable, open().code, "the oldest is not ten seconds old")
		time.Sleep(4 * time.Second)
		assert.Contains(t, open().String(), "event: hello")
		assert.True(t, gone(0), "the one that was there longest")
		assert.False(t, gone(1))
		open()
		assert.True(t, gone(1))
		stop := run(t, r)
		synctest.Wait()
		stop() // ends all
		for _, done := range ended {
			<-done
		}
	})
}

// The same over real sockets, with the whole of what a dead one can do: ask and
// never read.
func TestLiveSocketsThatNeverRead(t *testing.T) {
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}})
	srv := httptest.NewServer(r.Handler())
	defer srv.Close()
	for i := range 64 {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		_, err = fmt.Fprintf(c, "GET /?events HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		require.Eventually(t, func() bool { return r.LivePages() == i+1 }, time.Minute, time.Millisecond)
	}
	r.AgeLivePages(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/?events", nil)
	require.NoError(t, err)
	resp, err := srv.Client().Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, 200, resp.StatusCode)
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "retry: 2000\n", line)
	assert.Equal(t, 64, r.LivePages())
}

// A page in the operator's browser that points its own name at this service
// (DNS rebinding) is of one origin with it: same-origin by every header, and
// able to read the token. The name is all that gives it away.
func TestActionsNeedAnAllowedHost(t *testing.T) {
	ctl := &controls{}
	r := registry(t, discovery.Config{EnableActions: true, AllowedHosts: []string{"Status.Example.com.", "ops.test:8443"}},
		discovery.Provider{Name: "p", Models: []string{"m"}, Controls: ctl})
	srv := httptest.NewServer(r.Handler())
	defer srv.Close()
	send := func(method, host, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+"/status", strings.NewReader(body))
		require.NoError(t, err)
		req.Host = host
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Accept", "text/html, application/json;q=0.1")
		req.Header.Set("Origin", "http://"+host)
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		resp, err := srv.Client().Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(b)
	}
	addr := srv.Listener.Addr().String()
	for host, allowed := range map[string]bool{
		addr: true, "localhost": true, "LOCALHOST:8090": true, "status.localhost": true, "127.0.0.1": true, "[::1]:8090": true,
		"10.1.2.3:8090": true, "status.example.com": true, "STATUS.example.com:443": true, "status.example.com.": true, "ops.test:8443": true,
		"evil.test": false, "evil.test:8090": false, "ops.test": false, "ops.test:80": false, "localhost.evil.test": false,
		"notlocalhost": false, "127.0.0.1.evil.test": false, "evil.status.example.com": false, "status.example.com.evil.test": false, "xstatus.example.com": false,
	} {
		_, page := send(http.MethodGet, host, "")
		token := tokenOf(page)
		require.NotEmpty(t, token, "the page itself is shown")
		before := len(ctl.did)
		code, text := send(http.MethodPost, host, url.Values{"token": {token}, "action": {"reset"}, "provider": {"p"}}.Encode())
		if allowed {
			assert.NotEqual(t, http.StatusForbidden, code, host)
			assert.Len(t, ctl.did, before+1, host)
			continue
		}
		assert.Equal(t, http.StatusForbidden, code, host)
		assert.Contains(t, text, "AllowedHosts", host)
		assert.Len(t, ctl.did, before, host)
	}
}

func TestAllowedHostsAreCopied(t *testing.T) {
	ctl, hosts := &controls{}, []string{"a.test"}
	r := registry(t, discovery.Config{EnableActions: true, AllowedHosts: hosts}, discovery.Provider{Name: "p", Models: []string{"m"}, Controls: ctl})
	hosts[0] = "evil.test"
	req := httptest.NewRequest(http.MethodPost, "http://evil.test/", nil)
	rec := httptest.NewRecorder()
	r.Handler().ServeHTTP(rec, req)
	assert.Equal(t, http.StatusForbidden, rec.Code)
	assert.Contains(t, rec.Body.String(), `"evil.test"`)
}

// The list is OpenAI's, so that clients of a router find what they may ask for.
func TestModelsHandler(t *testing.T) {
	created := time.Unix(1700000000, 0)
	f := newFake()
	r := registry(t, discovery.Config{},
		discovery.Provider{Name: "a", Lister: listFunc(func(context.Context) ([]discovery.Model, error) {
			return []discovery.Model{{ID: "m1", OwnedBy: "lab", Created: created}, {ID: "vendor/m2"}}, nil
		})},
		discovery.Provider{Name: "b", Lister: f})
	rec := get(r.ModelsHandler(), "/v1/models")
	assert.Equal(t, http.StatusServiceUnavailable, rec.Code)
	assert.JSONEq(t, `{"error":{"message":"no models to serve from","type":"server_error","param":null,"code":"no_models"}}`, rec.Body.String())

	f.set(nil, "m1")
	require.NoError(t, r.Refresh(t.Context()))
	h := r.ModelsHandler("smart")
	want := `{"object":"list","data":[
		{"id":"smart","object":"model","created":0,"owned_by":""},
		{"id":"a/m1","object":"model","created":1700000000,"owned_by":"lab"},
		{"id":"a/vendor/m2","object":"model","created":0,"owned_by":"a"},
		{"id":"b/m1","object":"model","created":0,"owned_by":"b"}]}`
	rec = get(h, "/v1/models")
	assert.Equal(t, 200, rec.Code)
	assert.Equal(t, "application/json", rec.Header().Get("Content-Type"))
	assert.JSONEq(t, want, rec.Body.String())

	f.set(errDown)
	require.Error(t, r.Refresh(t.Context()))
	assert.NotContains(t, get(h, "/").Body.String(), "b/m1", "what is offline is hidden")
	rec = httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodHead, "/", nil))
	assert.Equal(t, 200, rec.Code)
	assert.Empty(t, rec.Body.String())
	rec = httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/", nil))
	assert.Equal(t, http.StatusMethodNotAllowed, rec.Code)

	// What it serves, a lister reads.
	srv := httptest.NewServer(h)
	defer srv.Close()
	l, err := discovery.NewLister(discovery.ListerConfig{Type: "openai", Client: srv.Client(), BaseURL: srv.URL})
	require.NoError(t, err)
	ms, err := l.ListModels(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"smart", "a/m1", "a/vendor/m2"}, ids(ms))
	var doc struct{ Data []json.RawMessage }
	require.NoError(t, json.Unmarshal(get(h, "/").Body.Bytes(), &doc))
	assert.Len(t, doc.Data, 3)
}
