package resilience_test

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience"
)

// blackboard is a [breaker.Replicas] in memory: what one stack writes on it all read
// at once, which is how short a store can be.
type blackboard struct {
	mu     sync.Mutex
	stacks []breaker.Replica
	probes map[string]bool // keys that somebody probes
}

// desk is where one stack stands before the blackboard.
type desk struct {
	*blackboard
	provider string
}

func (b *blackboard) Join(provider string, r breaker.Replica) breaker.Peers {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stacks = append(b.stacks, r)
	return desk{b, provider}
}

func (b *blackboard) all() []breaker.Replica {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]breaker.Replica(nil), b.stacks...)
}

func (d desk) Changed(key string) {
	var said []breaker.Opinion
	for _, r := range d.all() {
		for _, s := range r.Breakers() {
			switch {
			case s.Key != key:
			case s.State == breaker.Open && s.Cause == breaker.CauseFailures:
				said = append(said, breaker.Opinion{Age: time.Since(s.Since), Rest: s.RetryAfter})
			case s.State == breaker.Closed && s.Cause == breaker.CauseProbes:
				for _, peer := range d.all() {
					peer.PeerClosed(key, time.Since(s.Since))
				}
			}
		}
	}
	for _, r := range d.all() {
		r.Opinions(key, 2, said)
	}
}

func (d desk) MayProbe(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.probes[key]
}

func (d desk) Probe(key string, _ time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.probes[key] {
		return false
	}
	if d.probes == nil {
		d.probes = make(map[string]bool)
	}
	d.probes[key] = true
	return true
}

func (d desk) Probed(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.probes, key)
}

func (d desk) Account(word string) string { return "hash of " + word }

func (d desk) Held(account string, h breaker.Hold) {
	for _, r := range d.all() {
		r.Hold(account, h)
	}
}

func (d desk) Released(key string) {
	for _, r := range d.all() {
		r.Release(key)
	}
}

func fleetOf(t *testing.T, n int, p resilience.Policy, base http.RoundTripper) []*resilience.Transport {
	t.Helper()
	board := new(blackboard)
	out := make([]*resilience.Transport, n)
	for i := range out {
		var err error
		out[i], err = resilience.Builder{Base: base, Replicas: board}.Build("openai-eu", p)
		require.NoError(t, err)
	}
	return out
}

func statusOf(t *testing.T, tr *resilience.Transport, ctx context.Context) int { //nolint:revive // t comes first in tests
	t.Helper()
	status, _, err := do(t, tr, chat(t, ctx, plainBody))
	return seen(status, err)
}

// A limit that one replica meets counts for all, by account, until it is over or
// released (contract 14.2).
func TestReplicasShareHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := play(reply{status: 429, header: http.Header{"Retry-After": {"60"}}}, reply{status: 200, body: okJSON})
		fleet := fleetOf(t, 3, holding(), up)
		assert.Equal(t, 429, statusOf(t, fleet[0], t.Context()))
		time.Sleep(10 * time.Second)
		for _, tr := range fleet {
			open := tr.Peek("m1")
			require.NotNil(t, open)
			assert.Equal(t, "rate", open.Limit)
			assert.Equal(t, 50*time.Second, open.RetryAfter)
			assert.Equal(t, 429, statusOf(t, tr, t.Context()))
			assert.Nil(t, tr.Peek("m2"))
		}
		assert.Equal(t, 1, up.count(), "nobody else asked")
		fleet[2].ReleaseHold("m1")
		assert.Equal(t, 200, statusOf(t, fleet[0], t.Context()))
	})
}

// Accounts that share a stack are held under the name that the replicas give them.
func TestReplicasShareHoldsOfAccounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := play(reply{status: 429, header: http.Header{"Retry-After": {"60"}}}, reply{status: 200, body: okJSON})
		fleet := fleetOf(t, 2, holding(), up)
		second := context.WithValue(t.Context(), resilience.AccountKey{}, "second")
		assert.Equal(t, 429, statusOf(t, fleet[0], second))
		for _, tr := range fleet {
			assert.NotNil(t, tr.PeekAccount("second", "m1"))
			assert.Nil(t, tr.PeekAccount("third", "m1"))
			assert.Nil(t, tr.PeekAccount("hash of second", "m1"))
			assert.Nil(t, tr.Peek("m1"))
		}
		assert.Equal(t, 429, statusOf(t, fleet[1], second))
		assert.Equal(t, 200, statusOf(t, fleet[1], t.Context()))
	})
}

// What another replica says is cut to what this one's policy allows, and its words
// are ours.
func TestAPeersHoldIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		board := new(blackboard)
		p := holding()
		p.Limits.MaxHold = time.Minute
		tr, err := resilience.Builder{Base: play(reply{status: 200, body: okJSON}), Replicas: board}.Build("p", p)
		require.NoError(t, err)
		board.stacks[0].Hold("", breaker.Hold{Key: "m1", Kind: "<script>", RetryAfter: 1 << 62})
		assert.Equal(t, []breaker.Hold{{Key: "m1", Kind: "rate", RetryAfter: time.Minute}}, tr.Holds())
		off, err := resilience.Builder{Base: play(reply{status: 200, body: okJSON}), Replicas: board}.Build("p", resilience.Policy{})
		require.NoError(t, err)
		board.stacks[1].Hold("", breaker.Hold{Key: "m1", RetryAfter: time.Minute})
		board.stacks[1].Release("m1")
		assert.Empty(t, off.Holds(), "it holds nothing by its policy")
	})
}

// Two replicas that see an outage open all, one alone opens nobody else, and one
// good probe closes all that saw no failure themselves (contract 14.3 to 14.5).
func TestReplicasShareOpenings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quick()
		p.Retry.MaxRetries = 0
		up := play(append(slicesOf(6, reply{status: 503}), reply{status: 200, body: okJSON, delay: time.Second})...)
		fleet := fleetOf(t, 4, p, up)
		for range 3 {
			statusOf(t, fleet[0], t.Context())
		}
		assert.NotNil(t, fleet[0].Peek("m1"))
		assert.Nil(t, fleet[1].Peek("m1"), "one opinion")
		for range 3 {
			statusOf(t, fleet[1], t.Context())
		}
		for i, tr := range fleet {
			assert.NotNil(t, tr.Peek("m1"), i)
		}
		require.Equal(t, 6, up.count())
		time.Sleep(time.Second)
		var wg sync.WaitGroup
		for _, tr := range fleet {
			wg.Go(func() { statusOf(t, tr, t.Context()) })
		}
		wg.Wait()
		assert.Equal(t, 7, up.count(), "one probe of four")
		closed := 0
		for _, tr := range fleet {
			if tr.Breakers()[0].State == breaker.Closed {
				closed++
			}
		}
		assert.GreaterOrEqual(t, closed, 2, "opinions had opened two, which are closed now")
		for _, tr := range fleet {
			assert.Equal(t, 200, statusOf(t, tr, t.Context()))
		}
		for _, tr := range fleet {
			assert.Equal(t, breaker.Closed, tr.Breakers()[0].State)
		}
	})
}

func slicesOf(n int, r reply) []reply {
	out := make([]reply, n)
	for i := range out {
		out[i] = r
	}
	return out
}

// A stack that nobody has any more is not kept alive by sharing.
func TestSharingKeepsNoStackAlive(t *testing.T) {
	board := new(blackboard)
	_, err := resilience.Builder{Base: play(reply{status: 200, body: okJSON}), Replicas: board}.Build("p", quick())
	require.NoError(t, err)
	for range 100 {
		runtime.GC()
		if board.stacks[0].Gone() {
			break
		}
	}
	assert.True(t, board.stacks[0].Gone())
	assert.Empty(t, board.stacks[0].Breakers())
	board.stacks[0].Hold("", breaker.Hold{RetryAfter: time.Second})
}

// Replicas that panic, or join nobody, cost no call.
func TestReplicasThatPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, all := range []breaker.Replicas{joins{nil}, joins{faulty{}}} {
			up := play(reply{status: 429, header: http.Header{"Retry-After": {"60"}}})
			tr, err := resilience.Builder{Base: up, Replicas: all}.Build("p", holding())
			require.NoError(t, err)
			second := context.WithValue(t.Context(), resilience.AccountKey{}, "second")
			assert.Equal(t, 429, statusOf(t, tr, second))
			assert.NotNil(t, tr.PeekAccount("second", "m1"))
			tr.ReleaseHold("m1")
			assert.Nil(t, tr.PeekAccount("second", "m1"))
		}
	})
}

type joins struct{ breaker.Peers }

func (j joins) Join(string, breaker.Replica) breaker.Peers { return j.Peers }

type faulty struct{ breaker.Peers }
