package browser_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

const loopback = "127.0.0.1:0"

// status is a JavaScript expression: the status that a card shows.
func status(provider string) string {
	return fmt.Sprintf(`document.querySelector('article[data-provider="%s"] header .pill').innerText`, provider)
}

func TestCardsAppear(t *testing.T) {
	t.Parallel()
	off := lists("old-a", "old-b")
	r := registry(t, discovery.Config{},
		discovery.Provider{Name: "good", Lister: lists("m1", "m2", "m3")},
		discovery.Provider{Name: "off", Lister: off},
		discovery.Provider{Name: "fixed", Models: []string{"x"}, Mode: discovery.ModeAllowlist},
		discovery.Provider{Name: "bare"})
	require.NoError(t, r.Refresh(t.Context()))
	off.set(errDown)
	require.Error(t, r.Refresh(t.Context(), "off"))

	b := open(t, serve(t, r.Handler(), loopback).url)
	assert.Equal(t, 4, eval[int](b, `document.querySelectorAll('article').length`))
	for provider, want := range map[string][]string{
		"good":  {"Healthy", "all is well", "3 models (live)"},
		"off":   {"Offline", "the last refresh failed", "2 stale models, hidden from lists", "Last good list"},
		"fixed": {"Healthy", "1 model (configured)", "Last checked not asked for its list"},
		"bare":  {"Configured", "no models exposed yet", "0 models"},
	} {
		card := strings.Join(strings.Fields(b.text(`article[data-provider="`+provider+`"]`)), " ")
		for _, w := range append(want, provider) {
			assert.Contains(t, card, w)
		}
	}
	// The models are folded away until somebody wants them.
	assert.NotContains(t, b.text("#p1"), "old-a")
	b.do(click("#p1 summary"))
	b.await("the list unfolds", `document.querySelector('#p1 details').open`)
	assert.Contains(t, strings.Join(strings.Fields(b.text("#p1 details ul")), " "), "old-a stale old-b stale")
	summary := b.text("#summary")
	for _, w := range []string{"1 Offline", "2 Healthy", "1 Configured", "4 models"} {
		assert.Contains(t, summary, w)
	}
	assert.Equal(t, "1 down · Provider status", eval[string](b, `document.title`))
	assert.Zero(t, eval[int](b, `document.querySelectorAll('button, form').length`), "no buttons unless they are enabled")
}

func TestStatusChangesLive(t *testing.T) {
	t.Parallel()
	flaky := lists("m1", "m2")
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "flaky", Lister: flaky}, discovery.Provider{Name: "other", Lister: lists("x")})
	b := open(t, serve(t, r.Handler(), loopback).url)
	eval[bool](b, `window.__loaded = true`)
	assert.Equal(t, "Starting", eval[string](b, status("flaky")))

	require.NoError(t, r.Refresh(t.Context()))
	b.await("the first list", status("flaky")+` === 'Healthy'`)
	b.do(click("#p0 summary"))
	b.await("the list unfolds", `document.querySelector('#p0 details').open`)

	flaky.set(errDown)
	require.Error(t, r.Refresh(t.Context()))
	b.await("the failure", status("flaky")+` === 'Offline'`)
	assert.True(t, eval[bool](b, `document.querySelector('#p0 details').open`), "what is unfolded stays so")
	assert.Equal(t, 2, eval[int](b, `document.querySelectorAll('#p0 li.stale').length`))
	b.await("the title", `document.title === '1 down · Provider status'`)

	flaky.set(nil, "m1", "m2", "m3")
	require.NoError(t, r.Refresh(t.Context()))
	b.await("the recovery", status("flaky")+` === 'Healthy'`)
	assert.Contains(t, b.text("#p0 summary"), "3 models")

	require.NoError(t, r.Add(discovery.Provider{Name: "late", Models: []string{"y"}}))
	b.await("a new provider's card", `document.querySelectorAll('article').length === 3`)
	assert.True(t, eval[bool](b, `window.__loaded === true`), "the page was loaded once")
}

func TestBreakerAndCallsShow(t *testing.T) {
	t.Parallel()
	r := registry(t, discovery.Config{})
	s := newStack(t, r, "alpha", 4*time.Second, "")
	s.up.Models("gpt-large", "gpt-small")
	s.call(6, "gpt-large")
	require.NoError(t, r.Refresh(t.Context()))
	b := open(t, serve(t, r.Handler(), loopback).url)
	assert.Equal(t, "breaker closed", b.text("#p0 .chips .pill"))
	assert.Equal(t, 1, eval[int](b, `document.querySelectorAll('#p0 svg .ok').length`))
	assert.Zero(t, eval[int](b, `document.querySelectorAll('#p0 svg .ko').length`))

	s.up.Default(upstreamtest.Status(503))
	s.call(8, "gpt-large") // the default policy opens after five
	b.await("the open breaker", status("alpha")+` === 'Circuit Open'`)
	chip := `document.querySelector('#p0 .chips .pill').innerText`
	assert.Regexp(t, `^breaker open · next probe in [1-5] s$`, eval[string](b, chip))
	b.await("the failures in the chart", `document.querySelector('#p0 svg .ko').getBoundingClientRect().height > 2`)
	assert.Contains(t, b.text("#p0 figcaption"), "8 failures")
	assert.Contains(t, b.text("#p0 dl"), "503", "what opened the breaker, not the rejections since")
	assert.Contains(t, b.text("#p0 .failing"), "gpt-large fails 8 of 14")

	first := eval[int](b, `parseInt(`+chip+`.match(/in (\d+) s/)[1])`)
	b.await("the count goes down", fmt.Sprintf(`(%s.match(/in (\d+) s/) || [0, %d])[1] < %d`, chip, first, first))
	b.await("the end of the wait", chip+` === 'breaker open · probe due'`)

	s.up.Default(upstreamtest.OK("hi"))
	s.call(4, "gpt-small")
	b.await("the recovery", chip+` === 'breaker closed'`)
}

// A provider with a breaker a model shows those that are not closed.
func TestBreakersOfModels(t *testing.T) {
	t.Parallel()
	r := registry(t, discovery.Config{})
	s := newStack(t, r, "alpha", time.Minute, "model")
	s.up.Models("good", "bad")
	s.up.Model("bad", upstreamtest.Status(500))
	require.NoError(t, r.Refresh(t.Context()))
	s.call(6, "bad")
	s.call(1, "good")
	b := open(t, serve(t, r.Handler(), loopback).url)
	chips := eval[[]string](b, `Array.from(document.querySelectorAll('#p0 .chips .pill'), function (e) { return e.innerText; })`)
	require.Len(t, chips, 2)
	assert.Equal(t, "good closed", chips[0], "that of the call that ended last")
	assert.Regexp(t, `^bad open · next probe in \d+ s$`, chips[1])
}
