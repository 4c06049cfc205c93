package failover_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// scripted says what each host does next, and remembers who was asked.
type scriptedHosts struct {
	mu    sync.Mutex
	does  map[string]func(*http.Request) (*http.Response, error) // nil: answers well
	asked []string
	heads []http.Header
}

func (s *scriptedHosts) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	host, _, _ := strings.Cut(req.URL.Host, ".")
	s.mu.Lock()
	s.asked, s.heads = append(s.asked, host), append(s.heads, req.Header)
	do := s.does[host]
	s.mu.Unlock()
	if do == nil {
		do = says(200, okJSON)
	}
	return do(req)
}

// set makes a host do something, nil to answer well, and forgets who was asked.
func (s *scriptedHosts) set(host string, do func(*http.Request) (*http.Response, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.does[host], s.asked, s.heads = do, nil, nil
}

func (s *scriptedHosts) order() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.asked, " ")
	s.asked = nil
	return out
}

func says(status int, body string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
			Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		}, nil
	}
}

// attached is a chain of a, b and c with the affinity, over scripted hosts.
func attached(t testing.TB, p failover.Policy, change ...func([]failover.Target)) (*failover.Chain, *scriptedHosts) {
	hosts := &scriptedHosts{does: map[string]func(*http.Request) (*http.Response, error){}}
	var targets []failover.Target
	for _, name := range []string{"a", "b", "c"} {
		targets = append(targets, failover.Target{Name: name, Provider: name, BaseURL: "https://" + name + ".example/v1", Transport: stack(t, name, hosts, once())})
	}
	for _, f := range change {
		f(targets)
	}
	return chain(t, p, targets...), hosts
}

func byHeader() failover.Policy {
	p := failover.DefaultPolicy()
	p.Affinity.Key = failover.AffinityByHeader("X-Conversation")
	return p
}

func keyed(t testing.TB, key string) *http.Request {
	req := post(t, chatURL, chatBody("m"))
	req.Header.Set("X-Conversation", key)
	return req
}

func askOf(t testing.TB, rt http.RoundTripper, req *http.Request) {
	t.Helper()
	resp, err := rt.RoundTrip(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		require.NoError(t, resp.Body.Close())
	}
}

// A backup's success pins the backup: the next call of the same key begins there,
// others begin where they always do.
func TestWhoAnsweredAKeyLastIsAskedFirst(t *testing.T) {
	c, hosts := attached(t, byHeader())
	hosts.set("a", says(503, "{}"))
	askOf(t, c, keyed(t, "one"))
	assert.Equal(t, "a b", hosts.order())
	hosts.set("a", nil)
	resp, err := c.Do(keyed(t, "one"))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, "b", hosts.order())
	assert.True(t, failover.FromBackup(resp), "it is still not the target that the strategy puts first")
	askOf(t, c, keyed(t, "two"))
	askOf(t, c, keyed(t, ""))
	assert.Equal(t, "a a", hosts.order())
	hosts.set("b", says(503, "{}"))
	askOf(t, c, keyed(t, "one"))
	assert.Equal(t, "b a", hosts.order(), "the others follow as listed")
	hosts.set("b", nil)
	askOf(t, c, keyed(t, "one"))
	assert.Equal(t, "a", hosts.order())
}

// What ends a pin and what does not: b has answered last and then does this,
// while c answers well, or nobody does.
func TestWhatEndsAPin(t *testing.T) {
	breaks := func(req *http.Request) (*http.Response, error) {
		resp, err := says(200, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n")(req)
		resp.Header.Set("Content-Type", "text/event-stream")
		resp.ContentLength = -1
		return resp, err
	}
	for name, row := range map[string]struct {
		does func(*http.Request) (*http.Response, error)
		kept bool
	}{
		"answers well":                {nil, true},
		"503":                         {says(503, "{}"), false},
		"500":                         {says(500, "{}"), false},
		"429":                         {says(429, "{}"), false},
		"a connection that breaks":    {func(*http.Request) (*http.Response, error) { return nil, errors.New("reset") }, false},
		"an error inside a 200":       {says(200, `{"error":{"code":503,"message":"x"}}`), false},
		"a stream that breaks off":    {breaks, false},
		"400":                         {says(400, `{"error":{"message":"bad"}}`), true},
		"401":                         {says(401, `{"error":{"message":"key"}}`), true},
		"a model that is gone":        {says(404, `{"error":{"message":"model not found"}}`), false},
		"a request that is not right": {func(*http.Request) (*http.Response, error) { return nil, &ending.RequestError{Err: errors.New("no")} }, true},
		"a caller that leaves": {func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, hosts := attached(t, byHeader())
				hosts.set("a", says(503, "{}"))
				askOf(t, c, keyed(t, "k"))
				hosts.set("a", nil)
				require.Equal(t, "", hosts.order())
				hosts.set("b", row.does)
				for _, host := range []string{"a", "c"} {
					hosts.set(host, says(400, `{"error":{"message":"bad"}}`)) // nobody else takes the pin over
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				req := keyed(t, "k").WithContext(ctx)
				if name == "a stream that breaks off" {
					req.Body = io.NopCloser(strings.NewReader(`{"model":"m","stream":true,"messages":[]}`))
					req.ContentLength, req.GetBody = -1, nil
				}
				time.AfterFunc(time.Millisecond, cancel)
				askOf(t, c, req)
				for _, host := range []string{"a", "b", "c"} {
					hosts.set(host, nil)
				}
				time.Sleep(time.Minute) // whatever breaker has opened is ready
				askOf(t, c, keyed(t, "k"))
				want := "a"
				if row.kept {
					want = "b"
				}
				assert.Equal(t, want, hosts.order())
			})
		})
	}
}

// A pin never beats what passes a target over, and survives it.
func TestAPinBeatsNothing(t *testing.T) {
	for name, change := range map[string]func(*failover.Target, *resilience.Transport) (back func()){
		"an open breaker": func(_ *failover.Target, s *resilience.Transport) func() {
			s.ForceOpen("", time.Hour)
			return func() { s.Reset("") }
		},
		"a provider that is offline": func(b *failover.Target, _ *resilience.Transport) func() { return func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			online := true
			var b *failover.Target
			var s *resilience.Transport
			c, hosts := attached(t, byHeader(), func(ts []failover.Target) {
				ts[1].Available = func() bool { return online }
				b, s = &ts[1], ts[1].Transport.(*resilience.Transport)
			})
			hosts.set("a", says(503, "{}"))
			askOf(t, c, keyed(t, "k"))
			hosts.set("a", says(400, `{"error":{"message":"bad"}}`))
			back := change(b, s)
			online = name != "a provider that is offline"
			askOf(t, c, keyed(t, "k"))
			assert.Equal(t, "a", hosts.order())
			back()
			online = true
			askOf(t, c, keyed(t, "k"))
			assert.Equal(t, "b", hosts.order(), "nobody else has answered since")
		})
	}
}

// A request that is bound to an account goes there, wherever its key is pinned.
func TestAPinDoesNotUnbind(t *testing.T) {
	c, hosts := attached(t, byHeader())
	hosts.set("a", says(503, "{}"))
	askOf(t, c, keyed(t, "k"))
	hosts.set("a", nil)
	req := post(t, "https://api.example/v1/responses", `{"model":"m","previous_response_id":"resp_1","input":"x"}`)
	req.Header.Set("X-Conversation", "k")
	askOf(t, c, req)
	assert.Equal(t, "a", hosts.order())
}

// With weights a key stays where its first call went, and keys spread.
func TestAffinityWithWeights(t *testing.T) {
	p := byHeader()
	p.Strategy = failover.StrategyRoundRobin
	c, hosts := attached(t, p)
	spread := map[string]int{}
	for key := range 30 {
		askOf(t, c, keyed(t, fmt.Sprint("k", key)))
		first := hosts.order()
		spread[first]++
		for range 3 {
			resp, err := c.Do(keyed(t, fmt.Sprint("k", key)))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.False(t, failover.FromBackup(resp), "any target may be first")
		}
		assert.Equal(t, strings.TrimSpace(strings.Repeat(first+" ", 3)), hosts.order())
	}
	assert.Equal(t, map[string]int{"a": 10, "b": 10, "c": 10}, spread)
}

func TestPinsEndAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := byHeader()
		p.Affinity.TTL, p.Affinity.Max = time.Minute, 2
		c, hosts := attached(t, p)
		pin := func(keys ...string) {
			hosts.set("a", says(503, "{}"))
			for _, key := range keys {
				askOf(t, c, keyed(t, key))
				time.Sleep(time.Second)
			}
			hosts.set("a", nil)
			time.Sleep(time.Second) // an open breaker is ready
		}
		goes := func(key string) string {
			askOf(t, c, keyed(t, key))
			return hosts.order()
		}
		pin("1", "2")
		assert.Equal(t, "b", goes("1"))
		pin("3")
		assert.Equal(t, "b b", goes("1")+" "+goes("3"), "the one that was used least recently has made room")
		assert.Equal(t, "a", goes("2"), "and was forgotten")
		assert.Equal(t, "b", goes("3"))
		time.Sleep(50 * time.Second)
		assert.Equal(t, "b", goes("3"))
		time.Sleep(50 * time.Second)
		assert.Equal(t, "b", goes("3"), "since the last answer")
		time.Sleep(61 * time.Second)
		assert.Equal(t, "a", goes("3"))
	})
}

// For a vendor's own affinity the target gets a hash of the key, the caller's own
// header wins, and no target gets it that has not asked.
func TestTheKeyIsPassedOnHashed(t *testing.T) {
	c, hosts := attached(t, byHeader(), func(ts []failover.Target) { ts[0].AffinityHeader = "x-session-id" })
	hosts.set("a", says(503, "{}"))
	askOf(t, c, keyed(t, "user@example.com"))
	require.Len(t, hosts.heads, 2)
	sent := hosts.heads[0].Get("X-Session-Id")
	assert.Len(t, sent, 32)
	assert.Empty(t, hosts.heads[1].Get("X-Session-Id"))
	hosts.set("a", nil)
	req := keyed(t, "another")
	req.Header.Set("X-Session-Id", "mine")
	askOf(t, c, req)
	askOf(t, c, keyed(t, ""))
	assert.Equal(t, "mine", hosts.heads[0].Get("X-Session-Id"))
	assert.Empty(t, hosts.heads[1].Get("X-Session-Id"))
	again, hosts2 := attached(t, byHeader(), func(ts []failover.Target) { ts[0].AffinityHeader = "x-session-id" })
	askOf(t, again, keyed(t, "user@example.com"))
	assert.Equal(t, sent, hosts2.heads[0].Get("X-Session-Id"), "it is the same in every replica")
}

// The key of a call of functions is in its context; it wins over what a request
// says as well.
func TestAffinityOfFunctions(t *testing.T) {
	c, hosts := attached(t, byHeader())
	ctx := failover.WithAffinity(t.Context(), "k")
	bad := "a"
	var went []string
	call := func(ctx context.Context) {
		_, _ = failover.Call(ctx, c, func(_ context.Context, target failover.Target) (int, error) {
			went = append(went, target.Name)
			if target.Name == bad {
				return 0, errors.New("down")
			}
			return 1, nil
		})
	}
	call(ctx)
	bad = ""
	call(ctx)
	call(t.Context())
	assert.Equal(t, []string{"a", "b", "b", "a"}, went)
	askOf(t, c, keyed(t, "other").WithContext(ctx))
	assert.Equal(t, "b", hosts.order())
}

// Virtual models keep their pins, and a nested one keeps its own.
func TestAffinityOfVirtualModels(t *testing.T) {
	inner, hosts := attached(t, byHeader())
	outer := chain(t, byHeader(), failover.Target{Model: "inner"}, failover.Target{Name: "last", Provider: "last", BaseURL: "https://last.example/v1", Transport: stack(t, "last", hosts, once())})
	r, err := failover.NewRouter(map[string]*failover.Chain{"inner": inner, "outer": outer}, nil)
	require.NoError(t, err)
	outerCall := func() *http.Request {
		req := post(t, chatURL, chatBody("outer"))
		req.Header.Set("X-Conversation", "k")
		return req
	}
	hosts.set("a", says(503, "{}"))
	askOf(t, r, outerCall())
	hosts.set("a", nil)
	askOf(t, r, outerCall())
	assert.Equal(t, "b", hosts.order())
	for _, host := range []string{"a", "b", "c"} {
		hosts.set(host, says(503, "{}"))
	}
	askOf(t, r, outerCall())
	assert.Equal(t, "b a c last", hosts.order())
	for _, host := range []string{"a", "b", "c"} {
		hosts.set(host, nil)
	}
	askOf(t, r, outerCall())
	assert.Equal(t, "last", hosts.order())
}

func TestAKeyFunctionThatPanics(t *testing.T) {
	p := failover.DefaultPolicy()
	p.Affinity.Key = func(context.Context, http.Header, []byte) string { panic("boom") }
	c, hosts := attached(t, p)
	askOf(t, c, keyed(t, "k"))
	assert.Equal(t, "a", hosts.order())
}

func TestAffinityIsChecked(t *testing.T) {
	_, err := failover.NewChain(failover.Policy{Affinity: failover.Affinity{TTL: -1, Max: -1}}, failover.Target{Name: "a", AffinityHeader: "x y"})
	for _, want := range []string{"failover.affinity.ttl: -1ns", "failover.affinity.max: -1", `targets[0] (a).affinity_header: "x y"`} {
		assert.ErrorContains(t, err, want)
	}
	for _, bad := range []string{"", "user", "header:", "header:a b", "header:a:b"} {
		_, err := failover.ParseAffinityKey(bad)
		assert.Error(t, err, bad)
	}
	key, err := failover.ParseAffinityKey("off")
	require.NoError(t, err)
	assert.Nil(t, key)
	for name, req := range map[string]string{"prompt_cache_key": `{"prompt_cache_key":"k"}`, "user_id": `{"user":"k"}`, "header:x-k": ""} {
		key, err := failover.ParseAffinityKey(name)
		require.NoError(t, err)
		assert.Equal(t, "k", key(t.Context(), http.Header{"X-K": {"k"}}, []byte(req)), name)
	}
}

// Random calls of random keys meet hosts in random health, beside a map that says
// where each key has to begin.
func TestAffinityAgainstAModel(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			p := byHeader()
			p.Affinity.TTL = 10 * time.Minute
			p.RetryOnStatuses = []string{"503"}
			c, hosts := attached(t, p)
			type pinned struct {
				host string
				at   time.Time
			}
			model := map[string]pinned{}
			names := []string{"a", "b", "c"}
			for range 300 {
				time.Sleep(time.Duration(1+rnd.IntN(300)) * time.Second) // every breaker is ready again
				key := fmt.Sprint("k", rnd.IntN(4))
				health := map[string]int{}
				for _, n := range names {
					health[n] = []int{200, 200, 503, 400}[rnd.IntN(4)]
					hosts.set(n, map[int]func(*http.Request) (*http.Response, error){200: nil, 503: says(503, "{}"), 400: says(400, "{}")}[health[n]])
				}
				order := append([]string(nil), names...)
				if m, ok := model[key]; ok && time.Since(m.at) < p.Affinity.TTL {
					order = append([]string{m.host}, remove(names, m.host)...)
				} else {
					delete(model, key)
				}
				var want []string
				for i, n := range order {
					want = append(want, n)
					if health[n] == 200 {
						model[key] = pinned{n, time.Now()}
						break
					}
					if health[n] == 503 || i > 0 {
						if model[key].host == n {
							delete(model, key)
						}
						continue
					}
					break // a 400 of the first goes straight back
				}
				askOf(t, c, keyed(t, key))
				require.Equal(t, strings.Join(want, " "), hosts.order(), "seed %d", seed)
			}
		})
	}
}

func remove(names []string, name string) (rest []string) {
	for _, n := range names {
		if n != name {
			rest = append(rest, n)
		}
	}
	return rest
}

func TestAffinityIsSafeForConcurrentUse(t *testing.T) {
	p := byHeader()
	p.Affinity.Max = 8
	p.Strategy = failover.StrategyRoundRobin
	c, hosts := attached(t, p)
	hosts.set("b", says(503, "{}"))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for n := range 50 {
				askOf(t, c, keyed(t, fmt.Sprint((g+n)%16)))
			}
		})
	}
	wg.Wait()
}
