package retry_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/retry"
)

// A user's func that panics or ends its goroutine between two attempts leaves
// neither the answer in hand open nor the body of the next attempt.
func TestNothingStaysOpenWhateverPanics(t *testing.T) {
	for kind, end := range map[string]func(){"a panic": func() { panic("boom") }, "the end of the goroutine": runtime.Goexit} {
		for name, spoil := range map[string]func(*retry.Transport, *http.Request){
			"Replayable": func(rt *retry.Transport, _ *http.Request) {
				rt.Replayable = func(*http.Request) retry.Replay { end(); return retry.ReplayAlways }
			},
			"Judge": func(rt *retry.Transport, _ *http.Request) {
				rt.Judge = func(*http.Request, *http.Response, []byte) retry.Advice { end(); return retry.Advice{} }
			},
			"Replayable of a call": func(rt *retry.Transport, _ *http.Request) {
				rt.Replayable = func(*http.Request) retry.Replay { end(); return retry.ReplayAlways }
				above{}.put(rt)
			},
			"Advise": func(rt *retry.Transport, _ *http.Request) {
				rt.Judge = func(*http.Request, *http.Response, []byte) retry.Advice { end(); return retry.Advice{} }
				above{}.put(rt)
			},
			"MayWait": func(rt *retry.Transport, _ *http.Request) {
				above{mayWait: func(*http.Response, time.Duration) (time.Duration, bool) { end(); return 0, true }}.put(rt)
			},
			"MayRetry": func(rt *retry.Transport, _ *http.Request) {
				above{mayRetry: func() bool { end(); return true }}.put(rt)
			},
			"MayRetry, after the wait": func(rt *retry.Transport, _ *http.Request) {
				asked := 0
				above{mayRetry: func() bool {
					if asked++; asked == 2 {
						end()
					}
					return true
				}}.put(rt)
			},
			"GetBody": func(_ *retry.Transport, req *http.Request) {
				req.GetBody = func() (io.ReadCloser, error) { end(); return nil, nil }
			},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					up := &script{t: t, replies: []reply{status(503)}}
					rt := &retry.Transport{Base: up, Policy: testPolicy()}
					sent := 0 // bodies of the request that nobody has closed
					body := func() io.ReadCloser {
						sent++
						return &closeOnce{ReadCloser: io.NopCloser(strings.NewReader("x")), closed: func() { sent-- }}
					}
					req := request(t, http.MethodPut, "https://upstream.example", body())
					req.GetBody = func() (io.ReadCloser, error) { return body(), nil }
					spoil(rt, req)
					done := make(chan struct{})
					go func() {
						defer close(done)
						defer func() { _ = recover() }()
						if resp, err := rt.RoundTrip(req); err == nil {
							_ = resp.Body.Close()
							t.Error("nothing panicked")
						}
					}()
					<-done
					assert.Zero(t, up.open.Load(), "answers")
					assert.Zero(t, sent, "request bodies")
				})
			})
		}
	}
}

// What HTTP/2 refuses of a request that HTTP/1 sends is the request's own fault,
// over any base: it is not retried. A proxy hands such fields on.
func TestARequestThatHTTP2Refuses(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	clone := func(base http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) { return base.RoundTrip(req.Clone(req.Context())) })
	}
	for name, spoil := range map[string]func(*http.Request){
		"an upgrade": func(r *http.Request) {
			r.Header.Set("Upgrade", "h2c")
			r.Header.Set("Connection", "Upgrade, HTTP2-Settings")
		},
		"a field of the connection": func(r *http.Request) { r.Header.Set("Connection", "X-Hop") },
		"two of them":               func(r *http.Request) { r.Header["Connection"] = []string{"close", "keep-alive"} },
		"a coding":                  func(r *http.Request) { r.Header.Set("Transfer-Encoding", "gzip") },
		"a host":                    func(r *http.Request) { r.Host = "a b" },
		"a trailer":                 func(r *http.Request) { r.Trailer = http.Header{"Content-Length": {"1"}} },
		"more than the peer takes":  func(r *http.Request) { r.Header.Set("X-User", strings.Repeat("x", 2*http.DefaultMaxHeaderBytes)) },
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewUnstartedServer(h)
			srv.EnableHTTP2 = true
			srv.StartTLS()
			defer srv.Close()
			resp, err := srv.Client().Do(request(t, http.MethodGet, srv.URL, nil)) // the peer's settings have come with it
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			for _, base := range []http.RoundTripper{srv.Client().Transport, clone(srv.Client().Transport)} {
				var attempts []retry.Attempt
				rt := &retry.Transport{Base: base, Policy: testPolicy(), OnAttempt: func(_ *http.Request, a retry.Attempt) { attempts = append(attempts, a) }}
				req := request(t, http.MethodPut, srv.URL, strings.NewReader("x"))
				spoil(req)
				resp, err := rt.RoundTrip(req)
				if err == nil {
					_ = resp.Body.Close()
				}
				var own *ending.RequestError
				require.ErrorAs(t, err, &own)
				assert.Equal(t, ending.Request, ending.Of(req, err).By)
				assert.Len(t, attempts, 1)
			}
		})
	}
}

// The same fields are no fault of a request that failed on another connection,
// or before it had one.
func TestWhatHTTP2RefusesIsNoFaultElsewhere(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	srv.StartTLS()
	defer srv.Close()
	down := srv.Client().Transport.(*http.Transport).Clone()
	down.DialTLSContext = (&tls.Dialer{Config: &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13}}).DialContext // an unknown authority
	for name, base := range map[string]http.RoundTripper{"HTTP/1": srv.Client().Transport, "no connection": down} {
		t.Run(name, func(t *testing.T) {
			req := request(t, http.MethodPut, srv.URL, strings.NewReader("x"))
			req.Header.Set("Connection", "Upgrade")
			rt := &retry.Transport{Base: base, Policy: testPolicy()}
			resp, err := rt.RoundTrip(req.WithContext(context.WithoutCancel(t.Context())))
			if err == nil {
				_ = resp.Body.Close()
			}
			require.Error(t, err)
			assert.Equal(t, ending.Upstream, ending.Of(req, err).By)
		})
	}
}
