package browser_test

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var screenshots = flag.String("screenshots", "", "directory for pictures of the page")

// patience bounds every wait for the page.
const patience = 15 * time.Second

// chrome is the one browser of all tests; each test has a tab of its own.
var chrome context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(withChrome(m.Run))
}

// withChrome starts the browser, runs the tests, and fails them if any of its
// processes is still there afterwards.
func withChrome(run func() int) int {
	path, err := exec.LookPath("chromium")
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: these tests need Chromium on the PATH as \"chromium\"; install it with: apt-get install -y chromium")
		return 1
	}
	dir, err := os.MkdirTemp("", "surefoot-chromium-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	opts := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path),
		chromedp.UserDataDir(dir),
		chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck,
		chromedp.DisableGPU,
		chromedp.Flag("headless", "new"),
		chromedp.Flag("hide-scrollbars", true),
		// Nothing but loopback, in case anything should try.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.Flag("disable-dev-shm-usage", true), // small in containers
	}
	for _, off := range []string{"quic", "background-networking", "component-update", "sync", "extensions", "default-apps",
		"background-timer-throttling", "renderer-backgrounding", "backgrounding-occluded-windows"} {
		opts = append(opts, chromedp.Flag("disable-"+off, true))
	}
	if os.Getuid() == 0 {
		opts = append(opts, chromedp.NoSandbox) // Chromium refuses to run as root with it
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	var closeBrowser context.CancelFunc
	chrome, closeBrowser = chromedp.NewContext(alloc)
	if err := chromedp.Do(chrome); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: Chromium does not start:", err)
		closeBrowser()
		stop()
		return 1
	}
	code := run()
	pids := descendants()
	closeBrowser()
	stop()
	if left := leftovers(pids); len(left) > 0 {
		fmt.Fprintln(os.Stderr, "FAIL: processes of the browser are still there:", left)
		code = max(code, 1)
	}
	return code
}

// tab is one page in a browser context of its own, and what it did that a
// status page must not do.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	asked    []string // URLs
	offences []string // dialogs, exceptions, lines in the console
	excused  []string // parts of those that the test provokes
}

// watch runs before any script of the page does.
const watch = `window.__violations = [];
document.addEventListener('securitypolicyviolation', function (e) {
  window.__violations.push(e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sample);
});`

// open loads a page and sees to it that at the end of the test it has kept to
// itself: requests to its own origin alone, no dialog, no exception, no breach
// of its policy, nothing run that came in as data.
func open(t *testing.T, address string, before ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	b := &tab{t: t}
	ctx, cancel := chromedp.NewContext(chrome, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.hear))
	t.Cleanup(cancel)
	b.ctx = ctx
	require.NoError(t, chromedp.Do(ctx))
	go b.dismissDialogs(chromedp.Events(ctx, page.JavascriptDialogOpening))
	_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch})
	require.NoError(t, err)
	b.do(append(before, chromedp.Navigate(address))...)
	b.await("the page is live", `document.getElementById('live').textContent === 'live'`)
	t.Cleanup(func() { b.assertQuiet(address) })
	return b
}

func (b *tab) dismissDialogs(dialogs func(yield func(page.EventJavascriptDialogOpening, error) bool)) {
	for _, err := range dialogs {
		if err != nil {
			return
		}
		_, _ = chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: false})
	}
}

// hear notes what happens; it runs on the driver's reading goroutine.
func (b *tab) hear(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, ev.Request.URL)
	case *page.EventJavascriptDialogOpening:
		b.offences = append(b.offences, "dialog: "+ev.Message)
	case *runtime.EventExceptionThrown:
		b.offences = append(b.offences, "exception: "+ev.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		b.offences = append(b.offences, fmt.Sprintf("console: %s: %s", ev.Entry.Source, ev.Entry.Text))
	}
}

// excuse lets entries of the console pass that hold the text.
func (b *tab) excuse(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.excused = append(b.excused, text)
}

func (b *tab) assertQuiet(address string) {
	b.t.Helper()
	assert.Empty(b.t, eval[[]string](b, `window.__violations`), "breaches of the content security policy")
	assert.Equal(b.t, "undefined", eval[string](b, `typeof window.__pwned`), "data was run")
	own, err := url.Parse(address)
	require.NoError(b.t, err)
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.NotEmpty(b.t, b.asked)
	for _, a := range b.asked {
		u, err := url.Parse(a)
		require.NoError(b.t, err)
		assert.True(b.t, u.Scheme == "data" || u.Scheme == own.Scheme && u.Host == own.Host, "a request elsewhere: %s", a)
	}
	for _, o := range b.offences {
		ok := false
		for _, e := range b.excused {
			ok = ok || strings.Contains(o, e)
		}
		assert.True(b.t, ok, o)
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, steps...))
}

// eval returns what a JavaScript expression is; promises are awaited.
func eval[T any](b *tab, expr string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expr, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expr)
	return v
}

// await waits until a JavaScript expression is true. It asks from outside: the
// driver's own polling would need what the page's policy forbids.
func (b *tab) await(what, expr string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return eval[bool](b, "Boolean("+expr+")") }, patience, 50*time.Millisecond, "%s: %s", what, expr)
}

// text returns the text of the first element that matches, as it is seen.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf(`(document.querySelector(%q) || {innerText: ''}).innerText`, selector))
}

// picture writes a screenshot of the whole page if they are asked for.
func (b *tab) picture(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o600))
}
