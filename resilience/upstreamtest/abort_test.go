package upstreamtest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	ut "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// open starts a request whose context the test can cancel.
func open(t *testing.T, r reach) (*http.Response, context.CancelFunc, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.up.URL+chatPath, strings.NewReader(ask("m", true)))
	require.NoError(t, err)
	resp, err := r.client.Do(req)
	return resp, cancel, err
}

func waitFor(t *testing.T, up *ut.Upstream, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, up.Wait(ctx, cond))
}

func TestClientGoesAway(t *testing.T) {
	steps := map[string]ut.Step{
		"stall":    ut.RawStream(chatA).Stall(),
		"pause":    ut.RawStream(chatA, chatB).At(1, ut.Wait(time.Hour)),
		"pings":    ut.RawStream(chatA, chatB).At(1, ut.Pings(time.Millisecond, -1)),
		"gate":     ut.RawStream(chatA, chatB).At(1, ut.Gate(make(chan struct{}))),
		"flood":    ut.RawStream(chatA).At(1, ut.Pings(0, -1)),
		"verbatim": ut.RawConn("HTTP/1.1 200 OK\r\n\r\n", chatA).Stall(),
		"JSON":     ut.Body("application/json", okJSON).CutBytes(len(chatA)).Stall(),
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, r reach) {
				r.up.Default(step)
				for i, leave := range []func(*http.Response, context.CancelFunc){
					func(resp *http.Response, _ context.CancelFunc) { assert.NoError(t, resp.Body.Close()) },
					func(_ *http.Response, cancel context.CancelFunc) { cancel() },
				} {
					resp, cancel, err := open(t, r)
					require.NoError(t, err)
					defer resp.Body.Close()
					_, err = io.ReadFull(resp.Body, make([]byte, min(len(chatA), len(okJSON))))
					require.NoError(t, err)
					assert.Equal(t, 1, r.up.InFlight())
					leave(resp, cancel)
					waitFor(t, r.up, func() bool { return r.up.Aborted() == i+1 && r.up.InFlight() == 0 })
					assert.True(t, r.up.Last().Aborted)
					_, err = io.ReadAll(resp.Body)
					require.Error(t, err)
				}
			})
		})
	}
}

func TestSilenceEndsWithTheClient(t *testing.T) {
	for name, step := range map[string]ut.Step{"silence": ut.Silence(), "delay": ut.OK("hi").Delay(time.Hour), "hold": ut.OK("hi").Hold(make(chan struct{}))} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, r reach) {
				r.up.Default(step)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.up.URL+chatPath, strings.NewReader(ask("m", true)))
				require.NoError(t, err)
				errs := make(chan error, 1)
				go func() {
					resp, err := r.client.Do(req)
					if err == nil {
						resp.Body.Close()
					}
					errs <- err
				}()
				waitFor(t, r.up, func() bool { return r.up.InFlight() == 1 })
				assert.True(t, r.up.Last().Ended.IsZero())
				cancel()
				require.ErrorIs(t, <-errs, context.Canceled)
				waitFor(t, r.up, func() bool { return r.up.Aborted() == 1 })
				assert.False(t, r.up.Last().Ended.IsZero())
			})
		})
	}
}

func TestCloseEndsStalledExchanges(t *testing.T) {
	for name, step := range map[string]ut.Step{
		"silence": ut.Silence(), "stall": ut.RawStream(chatA).Stall(), "verbatim": ut.RawConn("HTTP/1.1 200 OK\r\n").Stall(),
		"flood": ut.RawStream(chatA).At(1, ut.Pings(0, -1)), "verbatim flood": ut.RawConn("HTTP/1.1 200 OK\r\n\r\n").At(1, ut.Pings(0, -1)),
		"raw": ut.Raw(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }),
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, r reach) {
				if name == "raw" && r.name == "memory" {
					return // a handler that waits for Close: sockets only
				}
				r.up.Default(step)
				ended := make(chan error, 1)
				go func() {
					resp, err := r.client.Post(r.up.URL+chatPath, "application/json", strings.NewReader(ask("m", true)))
					if err == nil {
						defer resp.Body.Close()
						_, err = io.Copy(io.Discard, resp.Body)
					}
					ended <- err
				}()
				waitFor(t, r.up, func() bool { return r.up.InFlight() == 1 })
				r.up.Close()
				r.up.Close()
				if err := <-ended; name != "verbatim flood" { // which is close-delimited: an EOF is its end
					require.Error(t, err)
				}
				waitFor(t, r.up, func() bool { return r.up.InFlight() == 0 })
				assert.Zero(t, r.up.Aborted(), "the client did not go first")
				assert.Equal(t, 1, r.up.Count(), "what was recorded stays")
				_, err := r.client.Get(r.up.URL + "/v1/models") //nolint:bodyclose // there is no response
				require.Error(t, err)
				settled(t)
			})
		})
	}
}

func TestPartialRequest(t *testing.T) {
	up := start(t)
	conn := dial(t, up)
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nshort", chatPath)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	waitFor(t, up, func() bool { return up.Partial() == 1 })
	assert.Zero(t, up.Count())
	assert.Zero(t, up.InFlight())
}

func TestWaitEndsWithItsContext(t *testing.T) {
	up := ut.NewInMemory("")
	defer up.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, up.Wait(ctx, func() bool { return false }), context.Canceled)
	require.NoError(t, up.Wait(ctx, func() bool { return true }))
}

func TestClosedAfterTheLastByteIsNoAbort(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		r.up.Default(ut.RawStream(chatA, done))
		resp, _, err := open(t, r)
		require.NoError(t, err)
		_, err = io.ReadFull(resp.Body, make([]byte, len(chatA+done)))
		require.NoError(t, err)
		waitFor(t, r.up, func() bool { return r.name == "memory" || r.up.InFlight() == 0 })
		require.NoError(t, resp.Body.Close())
		waitFor(t, r.up, func() bool { return r.up.InFlight() == 0 })
		assert.Zero(t, r.up.Aborted())
	})
}
