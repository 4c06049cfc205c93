package upstreamtest_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	ut "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// statuses asks n times and returns what came back.
func statuses(t *testing.T, r reach, model string, n int) []int {
	t.Helper()
	out := make([]int, n)
	for i := range out {
		g := r.post(t, chatPath, ask(model, false))
		require.NoError(t, g.err)
		out[i] = g.status
	}
	return out
}

func TestScripts(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		up := r.up
		assert.Equal(t, []int{200}, statuses(t, r, "m", 1), "an unscripted model answers")
		assert.Equal(t, 404, r.post(t, "/nowhere", "").status)
		assert.Equal(t, 404, r.do(t, http.MethodGet, "/v1/models", "", nil).status)

		up.Model("m", ut.Status(503), ut.Status(500).Times(2), ut.OK("hi"))
		assert.Equal(t, []int{503, 500, 500, 200, 200}, statuses(t, r, "m", 5))
		assert.Equal(t, []int{200}, statuses(t, r, "other", 1))

		up.Default(ut.Status(529))
		assert.Equal(t, []int{529, 529}, statuses(t, r, "other", 2))
		assert.Equal(t, []int{200}, statuses(t, r, "m", 1))

		up.Next(ut.Status(401), ut.Status(402).Times(2))
		up.Next(ut.Status(403))
		assert.Equal(t, []int{401, 402}, statuses(t, r, "m", 2))
		assert.Equal(t, []int{402, 403, 529}, statuses(t, r, "other", 3))

		up.When(func(q *ut.Request) bool { return q.Header.Get("X-Key") == "bad" }, ut.Status(401))
		assert.Equal(t, 401, r.do(t, http.MethodPost, chatPath, ask("m", false), http.Header{"X-Key": {"bad"}}).status)
		up.When(func(q *ut.Request) bool { return strings.HasSuffix(q.Path, "/completions") }, ut.Status(418))
		assert.Equal(t, 418, r.do(t, http.MethodPost, chatPath, ask("m", false), http.Header{"X-Key": {"bad"}}).status, "the latest rule decides")
	})
}

func TestScriptRemoved(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		r.up.Model("m", ut.Status(503))
		r.up.Model("m")
		assert.Equal(t, []int{200}, statuses(t, r, "m", 1))
		r.up.Default(ut.Status(503))
		r.up.Default()
		assert.Equal(t, []int{200}, statuses(t, r, "m", 1))
	})
}

func TestCycle(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		r.up.Default(ut.Status(429), ut.Cycle(ut.Status(503).Times(2), ut.OK("hi"), ut.Cycle(ut.Status(500), ut.Status(502)).Times(3)))
		assert.Equal(t, []int{429, 503, 503, 200, 500, 502, 500, 503, 503, 200}, statuses(t, r, "m", 10))
		r.up.Default(ut.Cycle())
		assert.Equal(t, []int{200}, statuses(t, r, "m", 1), "a cycle of nothing says nothing")
	})
}

func TestScriptByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := ut.NewInMemory("")
		defer up.Close()
		r := reach{"memory", up, up.Client()}
		at := func(d time.Duration, want int) {
			t.Helper()
			time.Sleep(d)
			assert.Equal(t, []int{want}, statuses(t, r, "m", 1))
		}
		up.Default(ut.Status(503).For(2*time.Second), ut.OK("back"))
		time.Sleep(time.Hour) // the time runs from the first request on
		at(0, 503)
		at(1999*time.Millisecond, 503)
		at(time.Millisecond, 200)

		up.Default(ut.Flap(time.Second, ut.Status(503), ut.OK("up")))
		at(0, 503)
		at(999*time.Millisecond, 503)
		at(time.Millisecond, 200)
		at(time.Second, 503)
		at(time.Second, 200)

		up.Default(ut.Flap(time.Second, ut.Status(503), ut.Cycle(ut.OK("a"), ut.Status(429))).For(3*time.Second), ut.Status(404))
		at(0, 503)
		at(time.Second, 200)
		at(0, 429)
		at(0, 200)
		at(time.Second, 503)
		at(time.Second, 404)
	})
}

func TestScriptOrderIsRecordOrder(t *testing.T) {
	up := ut.NewInMemory("")
	defer up.Close()
	const n = 50
	steps := make([]ut.Step, n)
	for i := range steps {
		steps[i] = ut.Status(400 + i)
	}
	up.Next(steps...)
	seen := make([]bool, n)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			resp, err := up.Client().Post(up.URL+chatPath, "application/json", strings.NewReader(ask("m", false)))
			if !assert.NoError(t, err) {
				return
			}
			defer resp.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			seen[resp.StatusCode-400] = true
		})
	}
	wg.Wait()
	assert.NotContains(t, seen, false)
	assert.Equal(t, n, up.CountModel("m"))
}

func TestStepsAreValues(t *testing.T) {
	base := ut.RawStream(chatA).Header("X-A", "1").At(0, ut.Bytes("x")).Set("a", 1)
	one := base.Header("X-B", "1").At(0, ut.Bytes("1")).Set("b", 1)
	two := base.Header("X-C", "1").At(0, ut.Bytes("2")).Set("c", 1)
	both(t, func(t *testing.T, r reach) {
		r.up.Next(one, two, base)
		g := r.post(t, chatPath, "")
		assert.Equal(t, "x1"+chatA, g.body)
		assert.Empty(t, g.header.Get("X-C"))
		g = r.post(t, chatPath, "")
		assert.Equal(t, "x2"+chatA, g.body)
		assert.Empty(t, g.header.Get("X-B"))
		assert.Equal(t, "x"+chatA, r.post(t, chatPath, "").body)
	})
}
