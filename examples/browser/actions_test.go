package browser_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/discovery"
)

// nowhere is Controls that nothing comes of.
type nowhere struct{}

func (nowhere) ForceOpen(string, time.Duration) {}
func (nowhere) Reset(string)                    {}

func click(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.CSS(selector))
}

func TestButtons(t *testing.T) {
	t.Parallel()
	r := registry(t, discovery.Config{EnableActions: true})
	s := newStack(t, r, "alpha", time.Minute, "")
	s.up.Models("m")
	require.NoError(t, r.Refresh(t.Context()))
	s.call(1, "m")
	b := open(t, serve(t, r.Handler(), loopback).url)
	eval[bool](b, `window.__loaded = true`)

	b.do(click("#p0 button[value=open]"))
	b.await("the breaker is open", status("alpha")+` === 'Circuit Open'`)
	assert.Regexp(t, `next probe in \d+ s`, b.text("#p0 .chips"))
	before := s.up.CountModel("m")
	s.call(1, "m")
	assert.Equal(t, before, s.up.CountModel("m"), "calls are rejected")

	b.do(click("#p0 button[value=reset]"))
	b.await("the breaker is closed", `document.querySelector('#p0 .chips .pill').innerText === 'breaker closed'`)
	s.call(1, "m")
	assert.Equal(t, before+1, s.up.CountModel("m"), "calls go out")

	s.up.Models("m", "new")
	b.do(click("#p0 button[value=recheck]"))
	b.await("the new list", `document.querySelector('#p0 summary').innerText.startsWith('2 models')`)
	assert.True(t, eval[bool](b, `window.__loaded === true`), "the page was loaded once")

	// A refusal is said, and said in words.
	b.excuse("status of 422")
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('#p0 input[name=provider]').value = 'nobody'`), click("#p0 button[value=open]"))
	b.await("the refusal", `document.getElementById('note').innerText === 'Refused: no such provider'`)
}

// The keyboard's place outlives the change of a card that it caused.
func TestButtonsKeepTheFocus(t *testing.T) {
	t.Parallel()
	r := registry(t, discovery.Config{EnableActions: true})
	s := newStack(t, r, "alpha", time.Minute, "")
	s.up.Models("m")
	require.NoError(t, r.Refresh(t.Context()))
	b := open(t, serve(t, r.Handler(), loopback).url)
	s.up.Models("m", "new")
	b.do(chromedp.Focus(chromedp.CSS("#p0 button[value=recheck]")), chromedp.KeyEvent("\r"))
	b.await("the new list", `document.querySelector('#p0 summary').innerText.startsWith('2 models')`)
	b.await("the focus", `document.activeElement.value === 'recheck' && document.activeElement.isConnected`)
}

// What another site's page sends with the browser's help is refused, with the
// token of the page or without.
func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	r := registry(t, discovery.Config{EnableActions: true})
	s := newStack(t, r, "alpha", time.Minute, "")
	s.up.Models("m")
	require.NoError(t, r.Refresh(t.Context()))
	s.call(1, "m")
	target := serve(t, r.Handler(), loopback)

	own := open(t, target.url)
	token := eval[string](own, `document.querySelector('input[name=token]').value`)
	own.excuse("status of 403")
	fields := "action=open&provider=alpha&key="
	post := `fetch('/', {method: 'POST', body: new URLSearchParams('%s')}).then(function (r) { return r.status; })`
	assert.Equal(t, 403, eval[int](own, fmt.Sprintf(post, fields)), "from the page's own origin, without a token")

	evil := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<form method="post" action="`+target.url+`"><input name="token" value="`+token+`">
<input name="action" value="open"><input name="provider" value="alpha"><input name="key" value=""><button>Win a prize</button></form>`)
	}), loopback)
	ctx, cancel := chromedp.NewContext(chrome, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Do(ctx))
	b.do(chromedp.Navigate(evil.url))
	withToken := fields + "&token=" + token
	eval[bool](b, fmt.Sprintf(`fetch('%s', {method: 'POST', mode: 'no-cors', body: new URLSearchParams('%s')}).then(function () { return true; })`, target.url, withToken))
	assert.False(t, eval[bool](b, fmt.Sprintf(`fetch('%s', {method: 'POST', headers: {Accept: 'application/json'}, body: new URLSearchParams('%s')}).then(function () { return true; }, function () { return false; })`, target.url, withToken)), "the answer cannot be read")
	loaded := chromedp.Events(ctx, page.LoadEventFired)
	b.do(click("button"))
	for _, err := range loaded {
		require.NoError(t, err)
		break
	}
	assert.Equal(t, "request from another site", strings.TrimSpace(b.text("body")))
	assert.Equal(t, target.url, eval[string](b, `location.href`))
	assert.Nil(t, s.transport.Peek("m"), "nobody opened the breaker")

	// Nor can another site show the page to be clicked on.
	b.do(chromedp.Navigate(evil.url), chromedp.Evaluate[chromedp.Void](`document.body.appendChild(Object.assign(document.createElement('iframe'), {src: '`+target.url+`'}))`))
	b.await("the frame is refused", `document.querySelector('iframe').contentDocument === null`)
}
