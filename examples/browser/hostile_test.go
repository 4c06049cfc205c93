package browser_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// Each would set a mark if it were taken for anything but text.
var hostile = []string{
	`<script>window.__pwned=1</script>`,
	`"><img src=x onerror="window.__pwned=2">`,
	`'><svg onload=window.__pwned=3>`,
	`</script><script>window.__pwned=4</script>`,
	`</title></style></textarea><iframe srcdoc="<script>parent.__pwned=5</script>">`,
	`{{.Token}}${window.__pwned=6}`,
	`javascript:window.__pwned=7`,
	`<template><img src=x onerror="window.__pwned=8"></template>`,
	`&lt;img src=x onerror="window.__pwned=9"&gt;`,
	`<base href="http://evil.test/"><form action="http://evil.test/"><meta http-equiv="refresh" content="0">`,
}

func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	const backwards = "\u202egnp.tpg" // would be read from the right
	names := append([]string{backwards, "שלום", "zero\u200bwidth"}, hostile...)
	bad := lists(append(names, strings.Repeat("x", 10<<10))...)
	r := registry(t, discovery.Config{EnableActions: true})
	for _, name := range hostile {
		name = strings.ReplaceAll(name, "/", "") // which a provider's name must not hold
		require.NoError(t, r.Add(discovery.Provider{
			Name: name, Lister: bad, Controls: nowhere{},
			Breakers: func() []breaker.Snapshot {
				return []breaker.Snapshot{{Key: hostile[1], State: breaker.Open, RetryAfter: time.Hour}, {Key: backwards, State: breaker.HalfOpen}}
			},
		}))
	}
	require.NoError(t, r.Refresh(t.Context()))
	for _, s := range r.Status() {
		for _, model := range append(names, strings.Repeat("x", 10<<10), "line\nbreak\x1b[31m\xff") {
			for range 3 {
				r.Observe(t.Context(), resilience.Call{Provider: s.Name, Model: model, Status: 500, Outcome: resilience.OutcomeError, Reason: hostile[0]})
			}
		}
	}
	b := open(t, serve(t, r.Handler(), loopback).url)
	check := func() {
		t.Helper()
		assert.Equal(t, len(hostile), eval[int](b, `document.querySelectorAll('article').length`))
		assert.Zero(t, eval[int](b, `document.querySelectorAll('main script, main img, main iframe, main template, main meta, main base, main style, svg[onload]').length`))
		models := eval[[]string](b, `Array.from(document.querySelectorAll('#p0 details li bdi'), function (e) { return e.textContent; })`)
		assert.Subset(t, models, hostile, "whole, as text")
		assert.Contains(t, models, `\u202egnp.tpg`, "what turns the text around is written out")
		assert.Contains(t, models, `zero\u200bwidth`)
		assert.Equal(t, strings.ReplaceAll(hostile[2], "/", ""), b.text("#p2 h2"))
		assert.Contains(t, b.text("#p0 .chips"), hostile[1])
		assert.NotContains(t, b.text("main"), "\u202e")
		assert.NotContains(t, b.text("main"), "\x1b")
		assert.NotContains(t, b.text("main"), strings.Repeat("x", 300))
		assert.Equal(t, "undefined", eval[string](b, `typeof window.__pwned`))
	}
	check()
	// The same by the live events, which replace every card.
	eval[bool](b, `document.querySelectorAll('article').forEach(function (e) { e.dataset.before = '1'; }), true`)
	bad.set(errDown)
	require.Error(t, r.Refresh(t.Context()))
	b.await("all cards are new", `document.querySelectorAll('[data-before]').length === 0`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll('details').forEach(function (d) { d.open = true; })`))
	check()
	b.do(phone)
	assertNoSidewaysScroll(b)
	b.picture("hostile-phone")
}

// An upstream's error text is no part of the page: not of a list that fails,
// not of a call.
func TestUpstreamErrorTextIsNotShown(t *testing.T) {
	t.Parallel()
	r := registry(t, discovery.Config{})
	s := newStack(t, r, "alpha", time.Minute, "")
	s.up.Models("m")
	require.NoError(t, r.Refresh(t.Context()))
	const page = `{"error":{"code":"<img src=x onerror=window.__pwned=1>","type":"<script>window.__pwned=2</script>","message":"secret\"><script>window.__pwned=3</script>"}}`
	evil := upstreamtest.Body("application/json", page).Code(500)
	s.up.Default(evil)
	s.up.List(evil)
	s.call(6, "m")
	require.Error(t, r.Refresh(t.Context()))
	b := open(t, serve(t, r.Handler(), loopback).url)
	assert.Contains(t, b.text("#p0"), "6 failures")
	assert.Contains(t, b.text("#p0 dl"), "status 500")
	html := eval[string](b, `document.querySelector('main').outerHTML`)
	assert.NotContains(t, html, "secret")
	assert.NotContains(t, html, "pwned")
}
