package browser_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/discovery"
)

// The page outlives cut connections and the service itself: it follows the
// next process as it is, buttons included.
func TestReconnects(t *testing.T) {
	t.Parallel()
	first := registry(t, discovery.Config{EnableActions: true},
		discovery.Provider{Name: "alpha", Lister: lists("m")}, discovery.Provider{Name: "gone", Lister: lists("x")})
	require.NoError(t, first.Refresh(t.Context()))
	at := serve(t, first.Handler(), loopback)
	b := open(t, at.url)
	b.excuse("net::ERR_") // the browser's own lines on connections that break
	eval[bool](b, `window.__loaded = true`)

	at.stop()
	b.await("the loss is shown", `document.getElementById('live').textContent === 'reconnecting'`)

	models := lists("m", "n")
	second := registry(t, discovery.Config{EnableActions: true}, discovery.Provider{Name: "alpha", Lister: models})
	require.NoError(t, second.Refresh(t.Context()))
	serve(t, second.Handler(), at.addr)
	b.await("it is live again", `document.getElementById('live').textContent === 'live'`)
	b.await("what is there now", `document.querySelector('#p0 summary').innerText.startsWith('2 models')`)
	assert.Equal(t, 1, eval[int](b, `document.querySelectorAll('article').length`), "what is no more has gone")

	models.set(nil, "m", "n", "o")
	b.do(click("#p0 button[value=recheck]")) // with the token of the new process
	b.await("the new list", `document.querySelector('#p0 summary').innerText.startsWith('3 models')`)
	assert.True(t, eval[bool](b, `window.__loaded === true`), "the page was loaded once")
}

// The end of Run ends the live pages, and the next Run takes them up again.
func TestReconnectsAfterRunEnded(t *testing.T) {
	t.Parallel()
	l := lists("m")
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "alpha", Lister: l})
	run := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = r.Run(ctx)
		}()
		return func() { cancel(); <-done }
	}
	stop := run()
	b := open(t, serve(t, r.Handler(), loopback).url)
	b.await("the first list", status("alpha")+` === 'Healthy'`)
	stop()
	b.await("the end is shown", `document.getElementById('live').textContent === 'service stopped'`)
	l.set(nil, "m", "n")
	defer run()()
	b.await("it is live again", `document.getElementById('live').textContent === 'live'`)
	b.await("what is there now", `document.querySelector('#p0 summary').innerText.startsWith('2 models')`)
	_ = http.NoBody
	_ = time.Second
}
