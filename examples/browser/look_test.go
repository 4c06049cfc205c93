package browser_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

var (
	phone   = chromedp.EmulateViewport(375, 700, chromedp.EmulateMobile, chromedp.EmulateScale(2))
	desktop = chromedp.EmulateViewport(1280, 760)
)

// troubled is a page with something of everything.
func troubled(t *testing.T) *discovery.Registry {
	t.Helper()
	r := registry(t, discovery.Config{EnableActions: true})
	broken := newStack(t, r, "broken-us", time.Minute, "")
	broken.up.Models("fast", "fast-mini")
	shaky := newStack(t, r, "shaky-eu", time.Minute, "")
	shaky.up.Models("large", "small", "preview")
	shaky.up.Model("preview", upstreamtest.Cycle(upstreamtest.Status(500), upstreamtest.OK("hi")))
	off := lists("vision-2026-05-preview-with-a-long-name", "voice")
	for _, p := range []discovery.Provider{
		{Name: "fading-lab", Lister: off},
		{Name: "steady", Lister: lists("m1", "m2")},
		{Name: "in-house", Models: []string{"llama"}, Mode: discovery.ModeAllowlist},
		{Name: "empty"},
	} {
		require.NoError(t, r.Add(p))
	}
	require.NoError(t, r.Refresh(t.Context()))
	require.NoError(t, r.Add(discovery.Provider{Name: "starting", Lister: lists("n")}))
	off.set(errDown)
	require.Error(t, r.Refresh(t.Context(), "fading-lab"))
	broken.call(7, "fast")
	broken.up.Default(upstreamtest.Status(503))
	broken.call(9, "fast")
	shaky.call(10, "large")
	shaky.call(8, "preview")
	busy(t, r, "steady", "m1")
	r.ObserveFailover(discovery.Failover{From: "broken-us/fast", To: "steady/m1", Reason: "circuit_open"})
	r.ObserveFailover(discovery.Failover{From: "broken-us/fast", To: "steady/m1", Reason: "circuit_open"})
	r.ObserveFailover(discovery.Failover{From: "fading-lab/vision-2026-05-preview-with-a-long-name", To: "in-house/llama", Reason: "rate_limited"})
	r.ObserveFailover(discovery.Failover{From: "shaky-eu/preview", Reason: "stream_incomplete"})
	return r
}

// busy lets a provider have had calls of every kind that its card tells of.
func busy(t *testing.T, r *discovery.Registry, provider, model string) {
	t.Helper()
	for i := range 40 {
		c := resilience.Call{
			Provider: provider, Model: model, Outcome: resilience.OutcomeSuccess,
			FirstEvent: time.Duration(200+30*i) * time.Millisecond, Usage: wire.Usage{Input: 3100, Output: 420},
		}
		switch i {
		case 7:
			c.Outcome = resilience.OutcomeStreamError
		case 9:
			c.Resumes = 1
		}
		r.Observe(t.Context(), c)
	}
}

// crowd is a page of forty providers, half of them busy.
func crowd(t *testing.T) *discovery.Registry {
	t.Helper()
	r := registry(t, discovery.Config{})
	for i := range 40 {
		name := fmt.Sprintf("provider-%02d", i)
		require.NoError(t, r.Add(discovery.Provider{Name: name, Lister: lists("m"), Places: func() (int, int) { return i % 5, 8 }}))
		if i%2 == 0 {
			busy(t, r, name, "m")
		}
	}
	require.NoError(t, r.Refresh(t.Context()))
	for i := range 12 {
		r.ObserveFailover(discovery.Failover{From: fmt.Sprintf("provider-%02d/m", i), To: "provider-20/m", Reason: "503"})
	}
	return r
}

func TestACrowdFits(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]chromedp.Action[chromedp.Void]{"crowd": desktop, "crowd, phone": phone} {
		b := open(t, serve(t, crowd(t).Handler(), loopback).url, size)
		assert.Equal(t, 40, eval[int](b, `document.querySelectorAll('article').length`))
		assert.Equal(t, 10, eval[int](b, `document.querySelectorAll('#moves li').length`))
		b.picture(name)
		if name != "crowd" {
			assertNoSidewaysScroll(b)
		}
	}
}

// contrasts measures every piece of text that is seen against what is behind
// it, after WCAG 2.2, 1.4.3, and returns those under 4.5.
const contrasts = `(function () {
  function rgba(c) { var m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? m.concat(1) : m; }
  function over(top, under) { return [0, 1, 2].map(function (i) { return top[i] * top[3] + under[i] * (1 - top[3]); }).concat(1); }
  function luminance(c) {
    var l = c.slice(0, 3).map(function (v) { v /= 255; return v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); });
    return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2];
  }
  function behind(e) {
    var layers = [];
    for (; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce(function (under, top) { return over(top, under); }, [255, 255, 255, 1]);
  }
  var low = [], seen = 0, walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    var e = walk.currentNode.parentElement, text = walk.currentNode.data.trim();
    if (!text || !e.checkVisibility() || /^(SCRIPT|STYLE|NOSCRIPT)$/.test(e.tagName)) continue;
    var back = behind(e), a = luminance(over(rgba(getComputedStyle(e).color), back)), b = luminance(back);
    var ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    seen++;
    if (ratio < 4.5) low.push(text + ': ' + ratio.toFixed(2));
  }
  if (seen < 50) low.push('only ' + seen + ' pieces of text');
  return low;
})()`

func TestReadableInLightAndDark(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t, troubled(t).Handler(), loopback).url, desktop)
	var backgrounds []string
	for _, scheme := range []string{"light", "dark"} {
		_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		require.NoError(t, err)
		b.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll('details').forEach(function (d) { d.open = true; })`))
		b.picture(scheme)
		assert.Empty(t, eval[[]string](b, contrasts), scheme)
		assert.Less(t, eval[float64](b, `Number(getComputedStyle(document.querySelector('.ko')).fill === getComputedStyle(document.querySelector('.ok')).fill)`), 1.0)
		backgrounds = append(backgrounds, eval[string](b, `getComputedStyle(document.body).backgroundColor`))
	}
	assert.NotEqual(t, backgrounds[0], backgrounds[1])
}

func assertNoSidewaysScroll(b *tab) {
	b.t.Helper()
	b.await("the phone's width", `innerWidth === 375`)
	assert.Equal(b.t, 375, eval[int](b, `document.documentElement.scrollWidth`))
	assert.Empty(b.t, eval[[]string](b, `Array.from(document.querySelectorAll('main *, #moves *')).filter(function (e) {
	  return e.checkVisibility() && e.getBoundingClientRect().right > 375; }).map(function (e) { return e.outerHTML.slice(0, 80); })`), "what sticks out")
}

func TestFitsAPhone(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t, troubled(t).Handler(), loopback).url, phone)
	assertNoSidewaysScroll(b)
	assert.Empty(t, eval[[]string](b, `Array.from(document.querySelectorAll('button')).filter(function (e) {
	  return e.getBoundingClientRect().height < 24; }).map(function (e) { return e.innerText; })`), "targets of 24 pixels, WCAG 2.2, 2.5.8")
	b.picture("phone")
}
